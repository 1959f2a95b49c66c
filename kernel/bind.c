// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* bind.c - work requests that make STags valid and invalid: registration, invalidation */

#include <linux/log2.h>

#include "mem.h"

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

/* No access is under way: it has not been valid yet, or was invalidated, which waits for them. */
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

/* Kernel-doc of what other files call is in mem.h. */
enum xiw_mem_fault xiw_mr_register(const struct ib_qp *ibqp, u32 stag, int access)
{
	enum xiw_mem_fault fault = XIW_MEM_BAD_STAG;
	struct xiw_mr *mr;

	rcu_read_lock();
	mr = xiw_mem_find(ibqp->device, stag);
	if (mr)
		fault = bind_judge_register(mr, ibqp, access);
	if (!fault) {
		bind_adopt_staged(mr, access);
		xiw_mem_enable(mr, stag);
	}
	rcu_read_unlock();
	return fault;
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
	if (mr->all_memory || (remote && mr->ibmr.type != IB_MR_TYPE_MEM_REG))
		return XIW_MEM_NO_RIGHT;
	return XIW_MEM_OK;
}

enum xiw_mem_fault xiw_mr_invalidate(const struct ib_qp *ibqp, u32 stag, bool remote)
{
	enum xiw_mem_fault fault = XIW_MEM_BAD_STAG;
	struct xiw_mr *mr;

	rcu_read_lock();
	mr = xiw_mem_find(ibqp->device, stag);
	if (mr)
		fault = bind_judge_invalidate(mr, ibqp, stag, remote);
	if (!fault)
		xiw_mem_disable(mr);
	rcu_read_unlock();
	return fault;
}
