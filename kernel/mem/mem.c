// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* mem.c - STags, and checks of each access to the memory that they name */

#include <linux/dma-buf.h>
#include <linux/overflow.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <rdma/ib_umem.h>

#include "device.h"
#include "limit.h"
#include "mem/mem.h"
#include "mem/odp.h"

#define MEM_INDEX_MAX	(U32_MAX >> XIW_STAG_KEY_BITS)
#define MEM_TRIES	64

/*
 * Access
 */

/* Kernel-doc of the functions that other files call is in mem.h. */
struct xiw_mr *xiw_mem_find(struct ib_device *ibdev, u32 stag)
{
	return xa_load(&to_xiw_device(ibdev)->stags, stag >> XIW_STAG_KEY_BITS);
}

/*
 * Looks up an STag like xiw_mem_find(), but first tries the result of an earlier lookup, @found.
 * That object still exists if no STag of the device has been retired since. If one is retired
 * concurrently, its object is freed after a grace period, which cannot end while this RCU reader
 * runs.
 */
static struct xiw_mr *mem_find_again(struct ib_device *ibdev, u32 stag, struct xiw_found *found)
{
	u64 ended = atomic64_read_acquire(&to_xiw_device(ibdev)->stags_ended);

	if (!found->mr || found->ended != ended ||
	    (READ_ONCE(found->mr->stag) ^ stag) >> XIW_STAG_KEY_BITS) {
		found->mr = xiw_mem_find(ibdev, stag);
		found->ended = ended;
	}
	return found->mr;
}

static void mem_drop(struct xiw_mr *mr)
{
	if (refcount_dec_and_test(&mr->ref))
		complete(&mr->unused);
}

/*
 * With PREEMPT_RT a thread can be preempted during an access, and a thread that spins until the
 * access ends could then spin forever. There each access holds mr->accesses instead, a lock whose
 * waiters sleep. An access only tries that lock, because a thread may hold two of them. The attempt
 * fails only while another thread ends the validity of the STag. Return: false in that case.
 */
static bool mem_begin_access(struct xiw_mr *mr)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		return true;
	if (!read_trylock(&mr->accesses))
		return false;
	__release(&mr->accesses);	/* for sparse: mem_end_access() unlocks it */
	return true;
}

static void mem_end_access(struct xiw_mr *mr)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		return;
	__acquire(&mr->accesses);
	read_unlock(&mr->accesses);
}

/* Waits for all accesses that began before @mr became invalid. */
static void mem_await_accesses(struct xiw_mr *mr)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT)) {
		write_lock(&mr->accesses);
		write_unlock(&mr->accesses);
		return;
	}
	while (refcount_read(&mr->ref) > 1)
		cpu_relax();
	smp_acquire__after_ctrl_dep();	/* what the caller does next comes after the accesses */
}

struct xiw_mr *xiw_mr_hold(struct ib_device *ibdev, u32 stag, struct xiw_found *found)
{
	struct xiw_mr *mr;

	local_bh_disable();
	rcu_read_lock();
	mr = found ? mem_find_again(ibdev, stag, found) : xiw_mem_find(ibdev, stag);
	if (mr && !refcount_inc_not_zero(&mr->ref))
		mr = NULL;
	rcu_read_unlock();
	if (mr)
		smp_mb__after_atomic();	/* pairs with the barrier in xiw_mem_disable() */
	if (mr && unlikely(!mem_begin_access(mr))) {
		mem_drop(mr);
		mr = NULL;
	}
	if (!mr)
		local_bh_enable();
	return mr;
}

void xiw_mr_drop(struct xiw_mr *mr)
{
	mem_end_access(mr);
	mem_drop(mr);
	local_bh_enable();
}

enum xiw_mem_fault xiw_mr_judge_range(const struct xiw_mr *mr, u64 addr, u64 len)
{
	u64 last;

	if (check_add_overflow(addr, len - 1, &last))
		return XIW_MEM_BAD_WRAP;
	if (xiw_mr_all_memory(mr))
		return XIW_MEM_OK;
	if (addr < mr->iova || addr - mr->iova >= mr->length ||
	    len > mr->length - (addr - mr->iova))
		return XIW_MEM_BAD_BOUNDS;
	return XIW_MEM_OK;
}

static enum xiw_mem_fault mem_judge(const struct xiw_mr *mr, const struct ib_qp *ibqp, u32 stag,
				    u64 addr, u64 len, int access)
{
	/* pairs with xiw_mem_enable(): a reader that sees valid also sees the fields set before */
	if (!smp_load_acquire(&mr->valid) || mr->stag != stag)
		return XIW_MEM_BAD_STAG;
	if (!xiw_mem_belongs(mr, ibqp))
		return XIW_MEM_BAD_PD;
	if (access & ~mr->access)
		return XIW_MEM_NO_RIGHT;
	return xiw_mr_judge_range(mr, addr, len);
}

enum xiw_mem_fault xiw_mr_judge(const struct ib_qp *ibqp, u32 stag, u64 addr, u64 len, int access)
{
	struct xiw_mr *mr = xiw_mr_hold(ibqp->device, stag, NULL);
	enum xiw_mem_fault fault;

	if (unlikely(!mr))
		return XIW_MEM_BAD_STAG;
	fault = mem_judge(mr, ibqp, stag, addr, len, access);
	xiw_mr_drop(mr);
	return fault;
}

enum xiw_mem_fault xiw_mr_get(struct xiw_mr **mr, struct xiw_accessor *by, u32 stag, u64 addr,
			      u64 len, int access)
{
	struct xiw_mr *found = xiw_mr_hold(by->ibqp->device, stag, &by->found);
	enum xiw_mem_fault fault;

	if (unlikely(!found))
		return XIW_MEM_BAD_STAG;
	fault = mem_judge(found, by->ibqp, stag, addr, len, access);
	if (!fault && xiw_mr_on_demand(found))
		fault = xiw_odp_enter(found, by, addr, len);
	if (unlikely(fault))
		xiw_mr_drop(found);
	else
		*mr = found;
	return fault;
}

void xiw_mr_put(struct xiw_mr *mr)
{
	if (xiw_mr_on_demand(mr))
		xiw_odp_leave(mr);
	xiw_mr_drop(mr);
}

void *xiw_mr_span(const struct xiw_mr *mr, u64 addr, size_t *len)
{
	size_t block_size, run;
	u64 *block, start, offset;

	if (xiw_mr_all_memory(mr))
		return (void *)(uintptr_t)addr;

	block_size = (size_t)1 << mr->block_shift;
	offset = xiw_mr_offset(mr, addr);
	block = &mr->blocks[offset >> mr->block_shift];
	start = *block + (offset & (block_size - 1));
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

void xiw_mem_disable(struct xiw_mr *mr)
{
	local_bh_disable();
	WRITE_ONCE(mr->valid, false);
	smp_mb();	/* pairs with xiw_mr_hold(): it sees valid false, or we see its reference */
	mem_await_accesses(mr);
	local_bh_enable();
}

void xiw_mem_enable(struct xiw_mr *mr, u32 stag)
{
	WRITE_ONCE(mr->stag, stag);
	smp_store_release(&mr->valid, true);	/* pairs with mem_judge() */
}

/*
 * Life
 */

struct xiw_mr *xiw_mem_alloc(struct ib_pd *pd, enum ib_mr_type type, int access)
{
	struct xiw_mr *mr;

	if (access & ~XIW_MEM_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);
	mr = kzalloc_obj(*mr, XIW_GFP_PROCESS);
	if (!mr)
		return ERR_PTR(-ENOMEM);

	mr->ibmr.device = pd->device;
	mr->ibmr.pd = pd;
	mr->ibmr.type = type;
	mr->access = access;
	refcount_set(&mr->ref, 1);
	init_completion(&mr->unused);
	spin_lock_init(&mr->lock);
	rwlock_init(&mr->accesses);
	return mr;
}

/* The region sees one block that is larger than any memory. */
int xiw_mem_use_row(struct xiw_mr *mr, void *start, u64 offset, u64 len)
{
	mr->blocks = kzalloc_obj(*mr->blocks, XIW_GFP_PROCESS);
	if (!mr->blocks)
		return -ENOMEM;
	mr->blocks[0] = (uintptr_t)start;
	mr->block_shift = BITS_PER_LONG - 2;
	mr->offset = offset;
	mr->length = len;
	return 0;
}

static void mem_free_blocks(struct xiw_mr *mr)
{
	if (xiw_mr_on_demand(mr))
		xiw_odp_put(mr->odp);
	else
		kvfree(mr->blocks);
}

static void mem_release_dmabuf(struct xiw_mr *mr)
{
	dma_buf_vunmap_unlocked(mr->dmabuf, &mr->mapping);
	dma_buf_end_cpu_access(mr->dmabuf, DMA_BIDIRECTIONAL);
	dma_buf_put(mr->dmabuf);
}

void xiw_mem_free(struct xiw_mr *mr)
{
	if (mr->umem)
		ib_umem_release(mr->umem);
	if (mr->dmabuf)
		mem_release_dmabuf(mr);
	if (!mr->window)	/* a window uses its region's blocks */
		mem_free_blocks(mr);
	kvfree(mr->staged);
	kfree_rcu(mr, rcu);
}

static enum xiw_kind mem_kind(const struct xiw_mr *mr)
{
	return mr->window ? XIW_MWS : XIW_MRS;
}

/*
 * Indices are drawn at random from 2^24, so they are hard to guess and are not reused soon. At most
 * an eighth of them is in use. A third draw is therefore rare, and MEM_TRIES draws are always
 * enough in practice.
 */
static int mem_draw_stag(struct xiw_device *dev, struct xiw_mr *mr)
{
	int ret = -EBUSY;
	u32 index;
	int i;

	static_assert(XIW_MAX_MR + XIW_MAX_MW <= (MEM_INDEX_MAX + 1) / 8);

	for (i = 0; ret == -EBUSY && i < MEM_TRIES; i++) {
		index = get_random_u32_inclusive(1, MEM_INDEX_MAX);
		mr->stag = (index << XIW_STAG_KEY_BITS) | get_random_u8();
		mr->ibmr.lkey = mr->stag;
		mr->ibmr.rkey = mr->stag;
		ret = xa_insert(&dev->stags, index, mr, XIW_GFP_PROCESS);
	}
	return ret;
}

int xiw_mem_publish(struct xiw_mr *mr)
{
	struct xiw_device *dev = to_xiw_device(mr->ibmr.device);
	int ret;

	ret = xiw_limit_take(dev, mem_kind(mr));
	if (ret)
		goto too_many;
	ret = mem_draw_stag(dev, mr);
	if (ret)
		goto no_stag;
	return 0;

no_stag:
	xiw_limit_give_back(dev, mem_kind(mr));
too_many:
	xiw_mem_free(mr);
	return ret;
}

void xiw_mem_retire(struct xiw_mr *mr)
{
	struct xiw_device *dev = to_xiw_device(mr->ibmr.device);

	xa_erase(&dev->stags, mr->stag >> XIW_STAG_KEY_BITS);
	smp_mb__before_atomic();	/* pairs with mem_find_again() */
	atomic64_inc(&dev->stags_ended);
	mem_drop(mr);
	wait_for_completion(&mr->unused);
	xiw_limit_give_back(dev, mem_kind(mr));
	xiw_mem_free(mr);
}
