// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* bind.c - work requests that validate and invalidate STags: registration, windows, invalidation */

#include <linux/log2.h>

#include "mem/mem.h"

/*
 * Fast registration
 */

static enum xiw_mem_fault bind_judge_register(const struct xiw_mr *mr, const struct ib_qp *ibqp,
					      int access)
{
	if (mr->ibmr.type != IB_MR_TYPE_MEM_REG)
		return XIW_MEM_BAD_STAG;
	if (!xiw_mem_belongs(mr, ibqp))
		return XIW_MEM_BAD_PD;
	if (mr->valid || (access & ~XIW_MEM_ACCESS))
		return XIW_MEM_NO_RIGHT;
	return mr->num_staged ? XIW_MEM_OK : XIW_MEM_BAD_BOUNDS;
}

/*
 * No access is under way: the region has either never been valid, or was invalidated, and whoever
 * did that has held the lock until xiw_mem_disable() had waited for all accesses to end.
 */
static void bind_adopt_staged(struct xiw_mr *mr, int access)
{
	swap(mr->blocks, mr->staged);
	mr->num_staged = 0;
	mr->block_shift = ilog2(mr->ibmr.page_size);
	mr->iova = mr->ibmr.iova;
	mr->offset = mr->iova & (mr->ibmr.page_size - 1);
	mr->length = mr->ibmr.length;
	mr->access = access;
}

static enum xiw_mem_fault bind_register(struct xiw_mr *mr, const struct ib_qp *ibqp, u32 stag,
					int access)
{
	enum xiw_mem_fault fault;

	lockdep_assert_held(&mr->lock);
	fault = bind_judge_register(mr, ibqp, access);
	if (fault)
		return fault;
	bind_adopt_staged(mr, access);
	xiw_mem_enable(mr, stag);
	return XIW_MEM_OK;
}

/* Kernel-doc of the functions that other files call is in mem.h. */
enum xiw_mem_fault xiw_mr_validate(const struct ib_qp *ibqp, u32 stag, int access)
{
	enum xiw_mem_fault fault = XIW_MEM_BAD_STAG;
	struct xiw_mr *mr;

	rcu_read_lock();
	mr = xiw_mem_find(ibqp->device, stag);
	if (mr) {
		spin_lock_bh(&mr->lock);
		fault = bind_register(mr, ibqp, stag, access);
		spin_unlock_bh(&mr->lock);
	}
	rcu_read_unlock();
	return fault;
}

/*
 * Windows
 */

#define BIND_WRITES	(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC)
#define BIND_ACCESS	(BIND_WRITES | IB_ACCESS_REMOTE_READ | IB_ZERO_BASED)

/* The window is disabled first: once its region no longer counts it, the blocks may be freed. */
static void bind_unbind(struct xiw_mr *mw)
{
	lockdep_assert_held(&mw->lock);
	if (!mw->region)
		return;
	xiw_mem_disable(mw);
	atomic_dec(&mw->region->windows);
	mw->region = NULL;
}

static enum xiw_mem_fault bind_judge_region(const struct xiw_mr *region, const struct ib_qp *ibqp,
					    const struct xiw_bind *bind)
{
	if (!READ_ONCE(region->valid) || READ_ONCE(region->stag) != bind->lkey ||
	    (region->ibmr.type != IB_MR_TYPE_USER && region->ibmr.type != IB_MR_TYPE_DM))
		return XIW_MEM_BAD_STAG;
	if (!xiw_mem_belongs(region, ibqp))
		return XIW_MEM_BAD_PD;
	if (!(region->access & IB_ACCESS_MW_BIND) || (bind->access & ~BIND_ACCESS) ||
	    ((bind->access & BIND_WRITES) && !(region->access & IB_ACCESS_LOCAL_WRITE)))
		return XIW_MEM_NO_RIGHT;
	if (bind->addr < region->iova || bind->addr - region->iova > region->length ||
	    bind->length > region->length - (bind->addr - region->iova))
		return XIW_MEM_BAD_BOUNDS;
	return XIW_MEM_OK;
}

/* On success region->windows counts one more window, which keeps the region registered. */
static enum xiw_mem_fault bind_find_region(struct xiw_mr **region, const struct ib_qp *ibqp,
					   const struct xiw_bind *bind)
{
	struct xiw_mr *found = xiw_mem_find(ibqp->device, bind->lkey);
	enum xiw_mem_fault fault;

	if (!found || found->window || !atomic_inc_unless_negative(&found->windows))
		return XIW_MEM_BAD_STAG;
	fault = bind_judge_region(found, ibqp, bind);
	if (fault)
		atomic_dec(&found->windows);
	else
		*region = found;
	return fault;
}

static void bind_to(struct xiw_mr *mw, struct xiw_mr *region, const struct ib_qp *ibqp, u32 stag,
		    const struct xiw_bind *bind)
{
	lockdep_assert_held(&mw->lock);
	mw->region = region;
	mw->qpn = ibqp->qp_num;
	mw->access = bind->access;
	mw->iova = bind->access & IB_ZERO_BASED ? 0 : bind->addr;
	mw->length = bind->length;
	mw->offset = region->offset + (bind->addr - region->iova);
	mw->block_shift = region->block_shift;
	mw->blocks = region->blocks;
	mw->odp = region->odp;
	xiw_mem_enable(mw, stag);
}

static enum xiw_mem_fault bind_window(struct xiw_mr *mw, const struct ib_qp *ibqp, u32 stag,
				      const struct xiw_bind *bind)
{
	enum xiw_mem_fault fault;
	struct xiw_mr *region;

	lockdep_assert_held(&mw->lock);
	if (!mw->window || atomic_read(&mw->windows) == XIW_MR_CLOSED)
		return XIW_MEM_BAD_STAG;
	if (mw->ibmr.pd != ibqp->pd)
		return XIW_MEM_BAD_PD;
	if (mw->window == IB_MW_TYPE_2 && mw->region)
		return XIW_MEM_NO_RIGHT;
	if (mw->window == IB_MW_TYPE_1 && !bind->length) {
		bind_unbind(mw);
		return XIW_MEM_OK;
	}
	fault = bind_find_region(&region, ibqp, bind);
	if (fault)
		return fault;
	bind_unbind(mw);
	bind_to(mw, region, ibqp, stag, bind);
	return XIW_MEM_OK;
}

enum xiw_mem_fault xiw_mw_bind(const struct ib_qp *ibqp, u32 stag, const struct xiw_bind *bind)
{
	enum xiw_mem_fault fault = XIW_MEM_BAD_STAG;
	struct xiw_mr *mw;

	rcu_read_lock();
	mw = xiw_mem_find(ibqp->device, stag);
	if (mw) {
		spin_lock_bh(&mw->lock);
		fault = bind_window(mw, ibqp, stag, bind);
		spin_unlock_bh(&mw->lock);
	}
	rcu_read_unlock();
	return fault;
}

/**
 * xiw_mw_alloc - ib_alloc_mw(): create an unbound memory window
 * @ibmw: the window, allocated by the core; its type and protection domain are set
 * @udata: unused
 *
 * Return: 0 or a negative errno.
 */
int xiw_mw_alloc(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct xiw_mr *mr = xiw_mem_alloc(ibmw->pd, IB_MR_TYPE_USER, 0);
	int ret;

	if (IS_ERR(mr))
		return PTR_ERR(mr);
	mr->window = ibmw->type;
	ret = xiw_mem_publish(mr);
	if (ret)
		return ret;
	ibmw->rkey = mr->stag;
	to_xiw_mw(ibmw)->mr = mr;
	return 0;
}

/**
 * xiw_mw_dealloc - ib_dealloc_mw(): destroy a window, bound or not
 * @ibmw: the window
 *
 * Return: 0.
 */
int xiw_mw_dealloc(struct ib_mw *ibmw)
{
	struct xiw_mr *mw = to_xiw_mw(ibmw)->mr;

	spin_lock_bh(&mw->lock);
	bind_unbind(mw);
	atomic_set(&mw->windows, XIW_MR_CLOSED);	/* no request can bind it after this */
	spin_unlock_bh(&mw->lock);
	xiw_mem_retire(mw);
	return 0;
}

/*
 * Invalidation
 */

static enum xiw_mem_fault bind_judge_invalidate(const struct xiw_mr *mr, const struct ib_qp *ibqp,
						u32 stag, bool remote)
{
	if (READ_ONCE(mr->stag) != stag)
		return XIW_MEM_BAD_STAG;
	if (!xiw_mem_belongs(mr, ibqp))
		return XIW_MEM_BAD_PD;
	if (mr->window)
		return mr->window == IB_MW_TYPE_2 ? XIW_MEM_OK : XIW_MEM_NO_RIGHT;
	if (xiw_mr_all_memory(mr) || atomic_read(&mr->windows) ||
	    (remote && mr->ibmr.type != IB_MR_TYPE_MEM_REG))
		return XIW_MEM_NO_RIGHT;
	return XIW_MEM_OK;
}

enum xiw_mem_fault xiw_mr_invalidate(const struct ib_qp *ibqp, u32 stag, bool remote)
{
	enum xiw_mem_fault fault = XIW_MEM_BAD_STAG;
	struct xiw_mr *mr;

	rcu_read_lock();
	mr = xiw_mem_find(ibqp->device, stag);
	if (mr) {
		spin_lock_bh(&mr->lock);
		fault = bind_judge_invalidate(mr, ibqp, stag, remote);
		if (!fault && mr->window)
			bind_unbind(mr);
		else if (!fault && READ_ONCE(mr->valid))	/* else no access is left */
			xiw_mem_disable(mr);
		spin_unlock_bh(&mr->lock);
	}
	rcu_read_unlock();
	return fault;
}
