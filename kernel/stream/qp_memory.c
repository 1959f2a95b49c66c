// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* qp_memory.c - the rings of a queue pair, and the kernel's memory beside them */

#include <linux/memcontrol.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "device.h"
#include "queue/area.h"
#include "stream/qp.h"

/*
 * Computes the sizes of the rings from those that the consumer wants, and checks the limits.
 * Return: 0 or -EINVAL.
 */
static int qp_size(struct ib_qp_cap *cap, const struct ib_qp_init_attr *attr,
		   struct xiw_create_qp_resp *resp)
{
	u32 data;

	*cap = attr->cap;
	if (cap->max_send_wr > XIW_MAX_QP_WR || cap->max_send_sge > XIW_MAX_SGE ||
	    cap->max_inline_data > XIW_MAX_INLINE)
		return -EINVAL;
	if (attr->srq) {
		cap->max_recv_wr = 0;
		cap->max_recv_sge = 0;
	}
	if (cap->max_recv_wr > XIW_MAX_QP_WR || cap->max_recv_sge > XIW_MAX_SGE)
		return -EINVAL;

	data = max_t(u32, cap->max_send_sge * sizeof(struct xiw_sge), cap->max_inline_data);
	resp->sq_slot_size = max(roundup_pow_of_two(XIW_SLOT_HEADER + data), XIW_SLOT_MIN);
	cap->max_inline_data = min(resp->sq_slot_size - XIW_SLOT_HEADER, XIW_MAX_INLINE);
	resp->max_inline = cap->max_inline_data;
	resp->sq_entries = roundup_pow_of_two(max(cap->max_send_wr, 1u));
	resp->rq_slot_size = xiw_recv_slot_size(cap->max_recv_sge);
	resp->rq_entries = attr->srq ? 0 : roundup_pow_of_two(max(cap->max_recv_wr, 1u));
	resp->sq_offset = sizeof(struct xiw_qp_ctl);
	resp->rq_offset = resp->sq_offset + resp->sq_entries * resp->sq_slot_size;
	return 0;
}

static int qp_alloc_rings(struct xiw_qp *qp, const struct ib_qp_init_attr *attr,
			  struct ib_udata *udata, struct xiw_create_qp_resp *resp)
{
	struct ib_ucontext *uctx = xiw_udata_context(udata);
	struct xiw_qp_ctl *ctl;
	int ret;

	ret = qp_size(&qp->cap, attr, resp);
	if (ret)
		return ret;
	qp->area = xiw_area_create(resp->rq_offset +
				   (size_t)resp->rq_entries * resp->rq_slot_size, uctx);
	if (IS_ERR(qp->area))
		return PTR_ERR(qp->area);
	ctl = qp->area->mem;
	xiw_ring_init(&qp->sq, &ctl->sq, (void *)ctl + resp->sq_offset, resp->sq_entries,
		      resp->sq_slot_size);
	if (resp->rq_entries) {
		xiw_ring_init(&qp->rq, &ctl->rq, (void *)ctl + resp->rq_offset, resp->rq_entries,
			      resp->rq_slot_size);
		/* No doorbells: the kernel looks for a receive request when a message comes. */
		xiw_ring_watch(&qp->rq);
	}
	resp->map_key = uctx ? xiw_area_key(qp->area) : 0;
	resp->map_len = qp->area->len;
	resp->qpn = qp->qpn;
	return 0;
}

/**
 * xiw_qp_free_memory - free what xiw_qp_alloc_memory() allocated
 * @qp: the queue pair; the allocation may have failed halfway
 * @udata: of the process, or NULL
 */
void xiw_qp_free_memory(struct xiw_qp *qp, struct ib_udata *udata)
{
	if (!IS_ERR_OR_NULL(qp->area))
		xiw_area_destroy(qp->area, xiw_udata_context(udata));
	kvfree(qp->sq_wrs);
	kvfree(qp->inbound_slots);
	kvfree(qp->read_slots);
	kfree(qp->tx.request.slot);
	kfree(qp->rx.recv);
	mem_cgroup_put(qp->payer);
}

/**
 * xiw_qp_alloc_memory - allocate the rings and the memory that belongs to them
 * @qp: the queue pair
 * @attr: the sizes wanted; the sizes granted are in @qp->cap afterwards
 * @udata: of the process, or NULL
 * @resp: result: where the rings are
 *
 * Return: 0; -EINVAL for sizes beyond the limits of the device; -ENOMEM. The caller has to call
 * xiw_qp_free_memory() in any case.
 */
int xiw_qp_alloc_memory(struct xiw_qp *qp, const struct ib_qp_init_attr *attr,
			struct ib_udata *udata, struct xiw_create_qp_resp *resp)
{
	int ret = qp_alloc_rings(qp, attr, udata, resp);

	if (ret)
		return ret;
	if (udata)
		qp->payer = get_mem_cgroup_from_mm(current->mm);
	qp->sq_wrs = kvcalloc(resp->sq_entries, sizeof(*qp->sq_wrs), XIW_GFP_PROCESS);
	qp->tx.request.slot = kmalloc(resp->sq_slot_size, XIW_GFP_PROCESS);
	qp->rx.recv = kmalloc_obj(*qp->rx.recv, XIW_GFP_PROCESS);
	return qp->sq_wrs && qp->tx.request.slot && qp->rx.recv ? 0 : -ENOMEM;
}

/**
 * xiw_qp_alloc_fifos - allocate records for the Reads and Atomics a connection may have in flight
 * @qp: the queue pair; the records of an earlier connection are freed
 * @ird: Reads and Atomics that the peer may have in flight
 * @ord: Reads and Atomics that this end may have in flight
 *
 * The numbers are known only when the connection is set up. That may happen in a kernel thread, and
 * the socket is locked by then. The memory is still charged to the owner of the queue pair, and the
 * allocation does not wait.
 *
 * Return: 0; -ENOMEM, and nothing has changed.
 */
int xiw_qp_alloc_fifos(struct xiw_qp *qp, u16 ird, u16 ord)
{
	struct mem_cgroup *before = set_active_memcg(qp->payer);
	struct xiw_inbound_read *inbound = kcalloc(max(ird, 1), sizeof(*inbound), XIW_GFP_ATOMIC);
	struct xiw_read *reads = kcalloc(max(ord, 1), sizeof(*reads), XIW_GFP_ATOMIC);

	set_active_memcg(before);
	if (!inbound || !reads) {
		kfree(inbound);
		kfree(reads);
		return -ENOMEM;
	}
	kfree(qp->inbound_slots);
	kfree(qp->read_slots);
	qp->inbound_slots = inbound;
	qp->read_slots = reads;
	/* xiw_qp_query() may read the sizes meanwhile. */
	WRITE_ONCE(qp->inbound.size, ird);
	WRITE_ONCE(qp->reads.size, ord);
	qp->inbound.head = 0;
	qp->inbound.used = 0;
	qp->reads.head = 0;
	qp->reads.used = 0;
	return 0;
}
