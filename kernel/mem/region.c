// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* region.c - registers memory of processes and of the kernel */

#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <rdma/ib_umem.h>
#include <rdma/iter.h>

#include "device.h"
#include "mem/mem.h"
#include "mem/odp.h"

static struct ib_mr *region_finish(struct xiw_mr *mr)
{
	int ret = xiw_mem_publish(mr);

	return ret ? ERR_PTR(ret) : &mr->ibmr;
}

/*
 * Stores the addresses of the pinned pages. The device has no DMA, so these are kernel addresses.
 */
static int region_fill_blocks(struct xiw_mr *mr)
{
	struct ib_block_iter iter;
	unsigned long block_size;
	size_t num, i = 0;

	block_size = ib_umem_find_best_pgsz(mr->umem, PAGE_MASK, mr->iova);
	if (!block_size)	/* the range wraps */
		return -EINVAL;
	num = ib_umem_num_dma_blocks(mr->umem, block_size);
	mr->blocks = kvcalloc(num, sizeof(*mr->blocks), XIW_GFP_PROCESS);
	if (!mr->blocks)
		return -ENOMEM;

	mr->block_shift = ilog2(block_size);
	mr->offset = mr->iova & (block_size - 1);
	rdma_umem_for_each_dma_block(mr->umem, &iter, block_size)
		mr->blocks[i++] = rdma_block_iter_dma_address(&iter);
	return 0;
}

/* Prevents windows from being bound to @mr. Return: false if a window is bound already. */
static bool region_close(struct xiw_mr *mr)
{
	return !atomic_cmpxchg(&mr->windows, 0, XIW_MR_CLOSED);
}

static void region_open(struct xiw_mr *mr)
{
	atomic_set_release(&mr->windows, 0);	/* pairs with the increment in bind_find_region() */
}

/* Pins memory of this process. Return: a region that is not published yet, or an ERR_PTR(). */
static struct xiw_mr *region_pin(struct ib_pd *pd, u64 start, u64 len, u64 iova, int access)
{
	struct xiw_mr *mr = xiw_mem_alloc(pd, IB_MR_TYPE_USER, access);
	int ret;

	if (IS_ERR(mr))
		return mr;

	mr->umem = ib_umem_get_va(pd->device, start, len, access);
	if (IS_ERR(mr->umem)) {
		ret = PTR_ERR(mr->umem);
		mr->umem = NULL;
		goto fail;
	}
	mr->iova = iova;
	mr->length = len;
	ret = region_fill_blocks(mr);
	if (ret)
		goto fail;
	mr->valid = true;
	return mr;

fail:
	xiw_mem_free(mr);
	return ERR_PTR(ret);
}

/* Makes an on-demand region of memory of this process. Return: as region_pin(). */
static struct xiw_mr *region_on_demand(struct ib_pd *pd, u64 start, u64 len, u64 iova, int access)
{
	struct xiw_mr *mr = xiw_mem_alloc(pd, IB_MR_TYPE_USER, access);
	int ret;

	if (IS_ERR(mr))
		return mr;
	ret = xiw_odp_attach(mr, start, len);
	if (ret) {
		xiw_mem_free(mr);
		return ERR_PTR(ret);
	}
	mr->iova = iova;
	mr->length = len;
	mr->valid = true;
	return mr;
}

/**
 * xiw_mr_reg_user - register memory of a process
 * @pd: protection domain
 * @start: address in the process
 * @len: length in bytes
 * @iova: address of the first byte, for work requests and the peer
 * @access: enum ib_access_flags
 * @dmah: NULL, because this device creates no DMA handles
 * @udata: unused
 *
 * Return: the region or an ERR_PTR().
 */
struct ib_mr *xiw_mr_reg_user(struct ib_pd *pd, u64 start, u64 len, u64 iova, int access,
			      struct ib_dmah *dmah, struct ib_udata *udata)
{
	struct xiw_mr *mr;

	if (IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING) && (access & IB_ACCESS_ON_DEMAND))
		mr = region_on_demand(pd, start, len, iova, access & ~IB_ACCESS_ON_DEMAND);
	else
		mr = region_pin(pd, start, len, iova, access);
	return IS_ERR(mr) ? ERR_CAST(mr) : region_finish(mr);
}

static void region_swap_pages(struct xiw_mr *a, struct xiw_mr *b)
{
	swap(a->umem, b->umem);
	swap(a->block_shift, b->block_shift);
	swap(a->blocks, b->blocks);
	swap(a->offset, b->offset);
	swap(a->iova, b->iova);
	swap(a->length, b->length);
}

/* Pins the memory of @mr again for other rights. Only the process that pinned it may do so. */
static struct xiw_mr *region_pin_again(const struct xiw_mr *mr, struct ib_pd *pd, int access)
{
	const struct ib_umem *umem = mr->umem;

	if (umem->owning_mm != current->mm)
		return ERR_PTR(-EPERM);
	return region_pin(pd, umem->address, mr->length, mr->iova, access);
}

/**
 * xiw_mr_rereg_user - ibv_rereg_mr(): change a registration and keep its STag
 * @ibmr: the region
 * @flags: IB_MR_REREG_*: what to change
 * @start: new address in the process
 * @len: new length in bytes
 * @iova: new address for work requests and the peer
 * @access: new rights
 * @pd: new protection domain
 * @udata: unused
 *
 * No access is under way while the registration changes. If the call fails, nothing has changed.
 *
 * Return: NULL, which tells the core that @ibmr stays, or an ERR_PTR(); -EBUSY while windows are
 * bound to it.
 */
struct ib_mr *xiw_mr_rereg_user(struct ib_mr *ibmr, int flags, u64 start, u64 len, u64 iova,
				int access, struct ib_pd *pd, struct ib_udata *udata)
{
	struct xiw_mr *mr = to_xiw_mr(ibmr);
	struct xiw_mr *fresh = NULL;
	struct ib_mr *ret = NULL;

	if (!(flags & IB_MR_REREG_ACCESS))
		access = mr->access;
	if (!mr->umem || (access & ~XIW_MEM_ACCESS))
		return ERR_PTR(-EOPNOTSUPP);
	if (flags & IB_MR_REREG_TRANS)
		fresh = region_pin(pd, start, len, iova, access);
	else if (ib_access_writable(access) && !mr->umem->writable)
		fresh = region_pin_again(mr, pd, access);
	if (IS_ERR(fresh))
		return ERR_CAST(fresh);

	if (!region_close(mr)) {
		ret = ERR_PTR(-EBUSY);
		goto busy;
	}
	xiw_mem_disable(mr);
	if (fresh)
		region_swap_pages(mr, fresh);
	mr->access = access;
	WRITE_ONCE(mr->ibmr.pd, pd);
	xiw_mem_enable(mr, mr->stag);
	region_open(mr);
busy:
	if (fresh)
		xiw_mem_free(fresh);
	return ret;
}

/**
 * xiw_mr_get_dma - create a region that covers all kernel memory
 * @pd: protection domain of a kernel consumer
 * @access: enum ib_access_flags
 *
 * Return: the region or an ERR_PTR().
 */
struct ib_mr *xiw_mr_get_dma(struct ib_pd *pd, int access)
{
	struct xiw_mr *mr = xiw_mem_alloc(pd, IB_MR_TYPE_DMA, access);

	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->valid = true;
	return region_finish(mr);
}

/**
 * xiw_mr_alloc - create an empty region for fast registration
 * @pd: protection domain
 * @type: IB_MR_TYPE_MEM_REG
 * @max_num_sg: maximum number of blocks
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
	mr = xiw_mem_alloc(pd, type, 0);
	if (IS_ERR(mr))
		return ERR_CAST(mr);

	mr->max_blocks = max_num_sg;
	mr->blocks = kvcalloc(max_num_sg, sizeof(*mr->blocks), XIW_GFP_PROCESS);
	mr->staged = kvcalloc(max_num_sg, sizeof(*mr->staged), XIW_GFP_PROCESS);
	if (!mr->blocks || !mr->staged) {
		xiw_mem_free(mr);
		return ERR_PTR(-ENOMEM);
	}
	return region_finish(mr);
}

static int region_stage_block(struct ib_mr *ibmr, u64 addr)
{
	struct xiw_mr *mr = to_xiw_mr(ibmr);

	if (mr->num_staged == mr->max_blocks)
		return -ENOMEM;
	mr->staged[mr->num_staged++] = addr;
	return 0;
}

/**
 * xiw_mr_map_sg - put a list of pages into a fast-registration region
 * @ibmr: the region; ibmr->page_size is the size of a block
 * @sg: list of mapped entries
 * @sg_nents: number of entries in @sg
 * @sg_offset: bytes to skip in the first entry; updated
 *
 * The blocks that the region has now stay in use until the registration request.
 *
 * Return: number of entries that fit, or a negative errno.
 */
int xiw_mr_map_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		  unsigned int *sg_offset)
{
	to_xiw_mr(ibmr)->num_staged = 0;
	return ib_sg_to_pages(ibmr, sg, sg_nents, sg_offset, region_stage_block);
}

/**
 * xiw_mr_dereg - end a registration of any kind
 * @ibmr: the region
 * @udata: unused
 *
 * When it returns, no access to the pages is possible: lookups do not find the region any more, and
 * all accesses that held it, which never sleep, have dropped it.
 *
 * Return: 0, or -EBUSY while windows are bound to it.
 */
int xiw_mr_dereg(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct xiw_mr *mr = to_xiw_mr(ibmr);

	if (!region_close(mr))
		return -EBUSY;
	xiw_mem_retire(mr);
	return 0;
}
