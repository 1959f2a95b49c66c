// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* mem.c - STags, registered regions, and who may touch which octets */

#include <linux/overflow.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <rdma/ib_umem.h>
#include <rdma/iter.h>

#include "device.h"
#include "mem.h"

#define MEM_KEY_BITS	8	/* of an STag; the rest is the index */
#define MEM_INDEX_MAX	(U32_MAX >> MEM_KEY_BITS)

/* More rights do no harm, but those that we do not know may be meant to restrict. */
#define MEM_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
			 IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_MW_BIND | IB_ACCESS_HUGETLB | \
			 IB_ACCESS_OPTIONAL)

/*
 * Access
 */

/* Under RCU; the key octet is the caller's to compare. */
static struct xiw_mr *mem_find(struct xiw_device *dev, u32 stag)
{
	return xa_load(&dev->stags, stag >> MEM_KEY_BITS);
}

/* Returns a reference that the caller must put, or NULL. */
static struct xiw_mr *mem_lookup(struct xiw_device *dev, u32 stag)
{
	struct xiw_mr *mr;

	rcu_read_lock();
	mr = mem_find(dev, stag);
	if (mr && !refcount_inc_not_zero(&mr->ref))
		mr = NULL;
	rcu_read_unlock();
	return mr;
}

static enum xiw_mem_fault mem_judge_range(const struct xiw_mr *mr, u64 addr, u64 len)
{
	u64 last;

	if (check_add_overflow(addr, len - 1, &last))
		return XIW_MEM_BAD_WRAP;
	if (mr->all_memory)
		return XIW_MEM_OK;
	if (addr < mr->iova || addr - mr->iova >= mr->length ||
	    len > mr->length - (addr - mr->iova))
		return XIW_MEM_BAD_BOUNDS;
	return XIW_MEM_OK;
}

static enum xiw_mem_fault mem_judge(const struct xiw_mr *mr, const struct ib_pd *pd, u32 stag,
				    u64 addr, u64 len, int access)
{
	/* pairs with xiw_mr_register(): who sees it valid sees what it stands for */
	if (!smp_load_acquire(&mr->valid) || mr->stag != stag)
		return XIW_MEM_BAD_STAG;
	if (mr->ibmr.pd != pd)
		return XIW_MEM_BAD_PD;
	if (access & ~mr->access)
		return XIW_MEM_NO_RIGHT;
	return mem_judge_range(mr, addr, len);
}

/* Kernel-doc of what other files call is in mem.h. */
enum xiw_mem_fault xiw_mr_get(struct xiw_mr **mr, struct ib_pd *pd, u32 stag, u64 addr, u64 len,
			      int access)
{
	enum xiw_mem_fault fault;
	struct xiw_mr *found;

	local_bh_disable();
	found = mem_lookup(to_xiw_device(pd->device), stag);
	if (unlikely(!found)) {
		local_bh_enable();
		return XIW_MEM_BAD_STAG;
	}
	smp_mb__after_atomic();	/* pairs with the barrier in mem_quiesce() */
	fault = mem_judge(found, pd, stag, addr, len, access);
	if (unlikely(fault))
		xiw_mr_put(found);
	else
		*mr = found;
	return fault;
}

static void mem_drop(struct xiw_mr *mr)
{
	if (refcount_dec_and_test(&mr->ref))
		complete(&mr->unused);
}

void xiw_mr_put(struct xiw_mr *mr)
{
	mem_drop(mr);
	local_bh_enable();
}

void *xiw_mr_span(const struct xiw_mr *mr, u64 addr, size_t *len)
{
	size_t block_size, run;
	u64 *block, start;

	if (mr->all_memory)
		return (void *)(uintptr_t)addr;

	block_size = (size_t)1 << mr->block_shift;
	block = &mr->blocks[(addr >> mr->block_shift) - (mr->iova >> mr->block_shift)];
	start = *block + (addr & (block_size - 1));
	for (run = *block + block_size - start; run < *len; run += block_size, block++)
		if (block[1] != block[0] + block_size)
			break;
	*len = min(*len, run);
	return (void *)(uintptr_t)start;
}

void xiw_mr_read(const struct xiw_mr *mr, u64 addr, void *to, size_t len)
{
	const void *from;
	size_t run;

	for (; len; addr += run, to += run, len -= run) {
		run = len;
		from = xiw_mr_span(mr, addr, &run);
		memcpy(to, from, run);
	}
}

void xiw_mr_write(const struct xiw_mr *mr, u64 addr, const void *from, size_t len)
{
	size_t run;
	void *to;

	for (; len; addr += run, from += run, len -= run) {
		run = len;
		to = xiw_mr_span(mr, addr, &run);
		memcpy(to, from, run);
	}
}

static enum xiw_mem_fault mem_judge_invalidate(const struct xiw_mr *mr, const struct ib_pd *pd,
					       u32 stag, bool remote)
{
	if (READ_ONCE(mr->stag) != stag)
		return XIW_MEM_BAD_STAG;
	if (mr->ibmr.pd != pd)
		return XIW_MEM_BAD_PD;
	if (mr->all_memory || (remote && mr->ibmr.type != IB_MR_TYPE_MEM_REG))
		return XIW_MEM_NO_RIGHT;
	return XIW_MEM_OK;
}

/* Accesses run with softirqs off, on other CPUs: the wait is no longer than one of them. */
static void mem_quiesce(const struct xiw_mr *mr)
{
	smp_mb();	/* pairs with xiw_mr_get(): it sees what was done before, or we see it */
	while (refcount_read(&mr->ref) > 1)
		cpu_relax();
}

enum xiw_mem_fault xiw_mr_invalidate(struct ib_pd *pd, u32 stag, bool remote)
{
	enum xiw_mem_fault fault = XIW_MEM_BAD_STAG;
	struct xiw_mr *mr;

	rcu_read_lock_bh();
	mr = mem_find(to_xiw_device(pd->device), stag);
	if (mr)
		fault = mem_judge_invalidate(mr, pd, stag, remote);
	if (!fault) {
		WRITE_ONCE(mr->valid, false);
		mem_quiesce(mr);
	}
	rcu_read_unlock_bh();
	return fault;
}

static enum xiw_mem_fault mem_judge_register(const struct xiw_mr *mr, const struct ib_pd *pd,
					     int access)
{
	if (mr->ibmr.type != IB_MR_TYPE_MEM_REG)
		return XIW_MEM_BAD_STAG;
	if (mr->ibmr.pd != pd)
		return XIW_MEM_BAD_PD;
	if (mr->valid || (access & ~MEM_ACCESS))
		return XIW_MEM_NO_RIGHT;
	return mr->num_staged ? XIW_MEM_OK : XIW_MEM_BAD_BOUNDS;
}

/* No access is under way: it has not been valid yet, or was invalidated, which waits for them. */
static void mem_adopt_staged(struct xiw_mr *mr, u32 stag, int access)
{
	swap(mr->blocks, mr->staged);
	mr->num_staged = 0;
	mr->block_shift = ilog2(mr->ibmr.page_size);
	mr->iova = mr->ibmr.iova;
	mr->length = mr->ibmr.length;
	mr->access = access;
	WRITE_ONCE(mr->stag, stag);
	smp_store_release(&mr->valid, true);	/* pairs with mem_judge() */
}

enum xiw_mem_fault xiw_mr_register(struct ib_pd *pd, u32 stag, int access)
{
	enum xiw_mem_fault fault = XIW_MEM_BAD_STAG;
	struct xiw_mr *mr;

	rcu_read_lock();
	mr = mem_find(to_xiw_device(pd->device), stag);
	if (mr)
		fault = mem_judge_register(mr, pd, access);
	if (!fault)
		mem_adopt_staged(mr, stag, access);
	rcu_read_unlock();
	return fault;
}

/*
 * Registration
 */

static struct xiw_mr *mem_alloc(struct ib_pd *pd, enum ib_mr_type type, int access)
{
	struct xiw_mr *mr;

	if (access & ~MEM_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);
	mr = kzalloc_obj(*mr, GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	mr->ibmr.device = pd->device;
	mr->ibmr.pd = pd;
	mr->ibmr.type = type;
	mr->access = access;
	refcount_set(&mr->ref, 1);
	init_completion(&mr->unused);
	return mr;
}

/* Frees what no lookup has ever seen, or none can see any more. */
static void mem_free(struct xiw_mr *mr)
{
	if (mr->umem)
		ib_umem_release(mr->umem);
	kvfree(mr->blocks);
	kvfree(mr->staged);
	kfree_rcu(mr, rcu);
}

/*
 * Gives the finished region an STag, under which it can be found at once. Indices are drawn at
 * random from 2^24, so that one cannot be guessed and is not soon used again.
 */
static int mem_publish(struct xiw_mr *mr)
{
	struct xiw_device *dev = to_xiw_device(mr->ibmr.device);
	u32 index;
	int ret;

	do {
		index = get_random_u32_inclusive(1, MEM_INDEX_MAX);
		mr->stag = (index << MEM_KEY_BITS) | get_random_u8();
		mr->ibmr.lkey = mr->stag;
		mr->ibmr.rkey = mr->stag;
		ret = xa_insert(&dev->stags, index, mr, GFP_KERNEL);
	} while (ret == -EBUSY);
	return ret;
}

/* Publishes @mr, or frees it. */
static struct ib_mr *mem_finish(struct xiw_mr *mr)
{
	int ret = mem_publish(mr);

	if (ret) {
		mem_free(mr);
		return ERR_PTR(ret);
	}
	return &mr->ibmr;
}

/* Notes where the pinned pages are. The core maps them for a device without DMA: to addresses
 * in the kernel's own space.
 */
static int mem_fill_blocks(struct xiw_mr *mr)
{
	struct ib_block_iter iter;
	unsigned long block_size;
	size_t num, i = 0;

	block_size = ib_umem_find_best_pgsz(mr->umem, PAGE_MASK, mr->iova);
	if (!block_size)	/* the range wraps */
		return -EINVAL;
	num = ib_umem_num_dma_blocks(mr->umem, block_size);
	mr->blocks = kvcalloc(num, sizeof(*mr->blocks), GFP_KERNEL);
	if (!mr->blocks)
		return -ENOMEM;

	mr->block_shift = ilog2(block_size);
	rdma_umem_for_each_dma_block(mr->umem, &iter, block_size)
		mr->blocks[i++] = rdma_block_iter_dma_address(&iter);
	return 0;
}

/**
 * xiw_mr_reg_user - register memory of a process
 * @pd: protection domain
 * @start: where it is in the process
 * @len: octets
 * @iova: the address by which work requests and the peer name @start
 * @access: enum ib_access_flags
 * @dmah: NULL, because we make no such handles
 * @udata: unused
 *
 * Return: the region or an ERR_PTR().
 */
struct ib_mr *xiw_mr_reg_user(struct ib_pd *pd, u64 start, u64 len, u64 iova, int access,
			      struct ib_dmah *dmah, struct ib_udata *udata)
{
	struct xiw_mr *mr = mem_alloc(pd, IB_MR_TYPE_USER, access);
	int ret;

	if (IS_ERR(mr))
		return ERR_CAST(mr);

	mr->umem = ib_umem_get_va(pd->device, start, len, access);
	if (IS_ERR(mr->umem)) {
		ret = PTR_ERR(mr->umem);
		mr->umem = NULL;
		goto fail;
	}
	mr->iova = iova;
	mr->length = len;
	ret = mem_fill_blocks(mr);
	if (ret)
		goto fail;
	mr->valid = true;
	return mem_finish(mr);

fail:
	mem_free(mr);
	return ERR_PTR(ret);
}

/**
 * xiw_mr_get_dma - make a region that stands for all memory of the kernel
 * @pd: protection domain of a kernel consumer
 * @access: enum ib_access_flags
 *
 * Return: the region or an ERR_PTR().
 */
struct ib_mr *xiw_mr_get_dma(struct ib_pd *pd, int access)
{
	struct xiw_mr *mr = mem_alloc(pd, IB_MR_TYPE_DMA, access);

	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->all_memory = true;
	mr->valid = true;
	return mem_finish(mr);
}

/**
 * xiw_mr_alloc - make an empty region for fast registration
 * @pd: protection domain
 * @type: IB_MR_TYPE_MEM_REG
 * @max_num_sg: blocks that it can hold
 *
 * Return: the region or an ERR_PTR().
 */
struct ib_mr *xiw_mr_alloc(struct ib_pd *pd, enum ib_mr_type type, u32 max_num_sg)
{
	struct xiw_mr *mr;

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg || max_num_sg > XIW_MAX_FAST_REG_PAGES)
		return ERR_PTR(-EINVAL);
	mr = mem_alloc(pd, type, 0);
	if (IS_ERR(mr))
		return ERR_CAST(mr);

	mr->max_blocks = max_num_sg;
	mr->blocks = kvcalloc(max_num_sg, sizeof(*mr->blocks), GFP_KERNEL);
	mr->staged = kvcalloc(max_num_sg, sizeof(*mr->staged), GFP_KERNEL);
	if (!mr->blocks || !mr->staged) {
		mem_free(mr);
		return ERR_PTR(-ENOMEM);
	}
	return mem_finish(mr);
}

static int mem_stage_block(struct ib_mr *ibmr, u64 addr)
{
	struct xiw_mr *mr = to_xiw_mr(ibmr);

	if (mr->num_staged == mr->max_blocks)
		return -ENOMEM;
	mr->staged[mr->num_staged++] = addr;
	return 0;
}

/**
 * xiw_mr_map_sg - put a list of pages into a region for fast registration
 * @ibmr: the region; ibmr->page_size is the size of a block
 * @sg: mapped list
 * @sg_nents: its entries
 * @sg_offset: octets to skip in the first one; updated
 *
 * What the region stood for so far stays in force until the registration request.
 *
 * Return: number of entries that found room, or a negative errno.
 */
int xiw_mr_map_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		  unsigned int *sg_offset)
{
	to_xiw_mr(ibmr)->num_staged = 0;
	return ib_sg_to_pages(ibmr, sg, sg_nents, sg_offset, mem_stage_block);
}

/**
 * xiw_mr_dereg - end a registration of any kind
 * @ibmr: the region
 * @udata: unused
 *
 * When it returns nobody can touch the pages: no lookup finds the region any more, and those who
 * hold it, who never sleep, have put it.
 *
 * Return: 0.
 */
int xiw_mr_dereg(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct xiw_mr *mr = to_xiw_mr(ibmr);

	xa_erase(&to_xiw_device(ibmr->device)->stags, mr->stag >> MEM_KEY_BITS);
	mem_drop(mr);
	wait_for_completion(&mr->unused);
	mem_free(mr);
	return 0;
}
