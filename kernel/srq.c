// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* srq.c - shared receive queues, and receive requests of both kinds of queues */

#include <linux/log2.h>
#include <rdma/uverbs_ioctl.h>

#include "device.h"
#include "qp.h"
#include "ring.h"
#include "srq.h"

/* Kernel-doc of what other files call is in srq.h. */
int xiw_recv_take(struct xiw_recv *recv, struct xiw_ring *ring, u32 max_sge)
{
	struct xiw_recv_slot *slot = xiw_ring_slot(ring, ring->taken);
	u32 ready = xiw_ring_ready(ring);
	int ret = 0;
	u32 i;

	if (!ready)
		return -ENOENT;
	if (unlikely(ready == XIW_RING_BROKEN))
		return -EINVAL;

	recv->wr_id = READ_ONCE(slot->wr_id);
	recv->num_sge = READ_ONCE(slot->num_sge);
	recv->length = 0;
	if (unlikely(recv->num_sge > max_sge)) {
		recv->num_sge = 0;
		ret = -EINVAL;
	}
	memcpy(recv->sge, xiw_recv_slot_sges(slot), recv->num_sge * sizeof(recv->sge[0]));
	barrier();	/* add up the copy, never the slot */
	for (i = 0; i < recv->num_sge; i++)
		recv->length += recv->sge[i].length;

	ring->taken++;
	xiw_ring_return(ring, 1);
	return ret;
}

static void srq_fill_slot(struct xiw_recv_slot *slot, const struct ib_recv_wr *wr)
{
	static_assert(sizeof(struct ib_sge) == sizeof(struct xiw_sge));
	static_assert(offsetof(struct ib_sge, length) == offsetof(struct xiw_sge, length));
	static_assert(offsetof(struct ib_sge, lkey) == offsetof(struct xiw_sge, lkey));

	slot->wr_id = wr->wr_id;
	slot->num_sge = wr->num_sge;
	memcpy(xiw_recv_slot_sges(slot), wr->sg_list, wr->num_sge * sizeof(struct xiw_sge));
}

int xiw_recv_post(struct xiw_ring *ring, u32 max_wr, u32 max_sge, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad_wr)
{
	int ret = 0;

	for (; wr; wr = wr->next) {
		/* pairs with xiw_ring_return(): the slot is read before it is filled again */
		if (ring->posted - smp_load_acquire(&ring->ctl->consumed) >= max_wr)
			ret = -ENOMEM;
		else if (wr->num_sge < 0 || wr->num_sge > max_sge)
			ret = -EINVAL;
		if (unlikely(ret)) {
			*bad_wr = wr;
			break;
		}
		srq_fill_slot(xiw_ring_slot(ring, ring->posted), wr);
		ring->posted++;
	}
	/* pairs with xiw_ring_ready(): slots are filled before they are counted */
	smp_store_release(&ring->ctl->produced, ring->posted);
	return ret;
}

/* Whether the limit event is due; it is disarmed if so. */
static bool srq_take_limit(struct xiw_srq *srq)
{
	lockdep_assert_held(&srq->lock);
	if (likely(!srq->limit) || xiw_ring_ready(&srq->ring) >= srq->limit)
		return false;
	srq->limit = 0;
	return true;
}

/*
 * Queue pairs that wait
 */

/* Wakes as many as there are requests, the longest waiting first. */
static void srq_call(struct xiw_srq *srq)
{
	struct xiw_qp *qp, *next;
	u32 ready;

	lockdep_assert_held(&srq->lock);

	if (list_empty(&srq->waiters))
		return;
	ready = xiw_ring_ready(&srq->ring);
	list_for_each_entry_safe(qp, next, &srq->waiters, srq_entry) {
		if (!ready--)
			return;
		list_del_init(&qp->srq_entry);
		xiw_qp_resume_rx(qp);	/* attached: it leaves before that ends */
	}
	xiw_ring_watch(&srq->ring);
}

/* One that was called and finds nothing goes back to the head of the line. */
static int srq_wait(struct xiw_srq *srq, struct xiw_qp *qp)
{
	lockdep_assert_held(&srq->lock);

	if (qp->rx.starved)
		list_add(&qp->srq_entry, &srq->waiters);
	else
		list_add_tail(&qp->srq_entry, &srq->waiters);
	if (xiw_ring_unwatch(&srq->ring))
		srq_call(srq);
	return -ENOENT;
}

static int srq_take(struct xiw_srq *srq, struct xiw_qp *qp)
{
	int ret;

	lockdep_assert_held(&srq->lock);

	if (!list_empty(&qp->srq_entry))
		return -ENOENT;
	if (!list_empty(&srq->waiters) && !qp->rx.starved)
		return srq_wait(srq, qp);
	ret = xiw_recv_take(qp->rx.recv, &srq->ring, srq->max_sge);
	return ret == -ENOENT ? srq_wait(srq, qp) : ret;
}

void xiw_srq_leave(struct xiw_srq *srq, struct xiw_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&srq->lock, flags);
	list_del_init(&qp->srq_entry);
	srq_call(srq);		/* perhaps it had been called */
	spin_unlock_irqrestore(&srq->lock, flags);
}

int xiw_srq_take(struct xiw_srq *srq, struct xiw_qp *qp)
{
	struct ib_event event = {
		.device = srq->ibsrq.device,
		.event = IB_EVENT_SRQ_LIMIT_REACHED,
		.element.srq = &srq->ibsrq,
	};
	unsigned long flags;
	bool limit;
	int ret;

	spin_lock_irqsave(&srq->lock, flags);
	ret = srq_take(srq, qp);
	limit = srq_take_limit(srq);
	spin_unlock_irqrestore(&srq->lock, flags);

	if (limit && srq->ibsrq.event_handler)
		srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
	return ret;
}

/**
 * xiw_srq_post - ib_post_srq_recv(); for a process: its doorbell while queue pairs wait
 * @ibsrq: the queue
 * @wr: requests of a kernel consumer; NULL for a process
 * @bad_wr: names the first that was refused; those before it are posted
 *
 * Context: any.
 * Return: 0; -ENOMEM if the queue is full; -EINVAL for a request that cannot be.
 */
int xiw_srq_post(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		 const struct ib_recv_wr **bad_wr)
{
	struct xiw_srq *srq = to_xiw_srq(ibsrq);
	unsigned long flags;
	int ret = 0;

	*bad_wr = wr;
	if (wr && !rdma_is_kernel_res(&ibsrq->res))
		return -EINVAL;
	spin_lock_irqsave(&srq->lock, flags);
	if (wr)
		ret = xiw_recv_post(&srq->ring, srq->max_wr, srq->max_sge, wr, bad_wr);
	srq_call(srq);
	spin_unlock_irqrestore(&srq->lock, flags);
	return ret;
}

/*
 * Sizes
 */

static struct xiw_area *srq_area_create(u32 entries, u32 slot_size, struct ib_ucontext *uctx)
{
	return xiw_area_create(sizeof(struct xiw_queue_ctl) + (size_t)entries * slot_size, uctx);
}

static void srq_use_area(struct xiw_srq *srq, struct xiw_area *area, u32 entries, u32 slot_size)
{
	srq->area = area;
	srq->max_wr = entries;
	xiw_ring_init(&srq->ring, area->mem, area->mem + sizeof(struct xiw_queue_ctl), entries,
		      slot_size);
}

static struct xiw_create_srq_resp srq_answer(struct xiw_area *area, u32 entries, u32 slot_size)
{
	return (struct xiw_create_srq_resp){
		.map_key = xiw_area_key(area),
		.map_len = area->len,
		.entries = entries,
		.slots_offset = sizeof(struct xiw_queue_ctl),
		.slot_size = slot_size,
	};
}

/* Moves to @to what waits. Return: 0; -EINVAL if that or the limit does not fit, or is nonsense. */
static int srq_move(struct xiw_srq *srq, struct xiw_area *to, u32 entries)
{
	const struct xiw_ring old = srq->ring;
	u32 slot_size = BIT(old.slot_shift);
	struct xiw_ring *ring = &srq->ring;
	u32 ready = xiw_ring_ready(&old);
	u32 n;

	lockdep_assert_held(&srq->lock);
	if (ready == XIW_RING_BROKEN || ready > entries || srq->limit > entries)
		return -EINVAL;
	srq_use_area(srq, to, entries, slot_size);
	ring->taken = old.taken;
	ring->returned = old.returned;
	ring->posted = old.posted;
	ring->ctl->produced = old.taken + ready;
	ring->ctl->consumed = old.returned;
	if (list_empty(&srq->waiters))
		xiw_ring_watch(ring);
	for (n = old.taken; n != old.taken + ready; n++)
		memcpy(xiw_ring_slot(ring, n), xiw_ring_slot(&old, n), slot_size);
	return 0;
}

/* The process hears of the new memory before it is in use, so that nothing can fail after that. */
static int srq_tell(struct xiw_area *area, u32 entries, u32 slot_size, struct ib_udata *udata)
{
	struct xiw_create_srq_resp resp = srq_answer(area, entries, slot_size);
	struct xiw_modify_srq req;

	if (udata->inlen < sizeof(req) || ib_copy_from_udata(&req, udata, sizeof(req)))
		return -EINVAL;
	return copy_to_user(u64_to_user_ptr(req.response), &resp, sizeof(resp)) ? -EFAULT : 0;
}

static int srq_resize(struct xiw_srq *srq, u32 wanted, struct ib_udata *udata)
{
	struct ib_ucontext *uctx = xiw_udata_context(udata);
	u32 slot_size = BIT(srq->ring.slot_shift);
	struct xiw_area *area, *old;
	unsigned long flags;
	u32 entries;
	int ret = 0;

	if (!wanted || wanted > XIW_MAX_SRQ_WR)
		return -EINVAL;
	entries = roundup_pow_of_two(wanted);
	area = srq_area_create(entries, slot_size, uctx);
	if (IS_ERR(area))
		return PTR_ERR(area);
	if (uctx)
		ret = srq_tell(area, entries, slot_size, udata);
	if (!ret) {
		spin_lock_irqsave(&srq->lock, flags);
		old = srq->area;
		ret = srq_move(srq, area, entries);
		spin_unlock_irqrestore(&srq->lock, flags);
	}
	xiw_area_destroy(ret ? area : old, uctx);
	return ret;
}

/**
 * xiw_srq_modify - arm the limit event, or give the queue another size
 * @ibsrq: the queue
 * @attr: limit and number of requests
 * @mask: IB_SRQ_LIMIT, IB_SRQ_MAX_WR
 * @udata: of the process, whose provider lets nobody post meanwhile; or NULL
 *
 * Return: 0; -EINVAL for a limit that is more than the queue holds, or for a size beyond the limits
 * or too small for what is posted; -ENOMEM; -EFAULT.
 */
int xiw_srq_modify(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		   struct ib_udata *udata)
{
	struct xiw_srq *srq = to_xiw_srq(ibsrq);
	unsigned long flags;
	int ret = 0;

	if (mask == (IB_SRQ_MAX_WR | IB_SRQ_LIMIT) && attr->srq_limit > attr->max_wr)
		return -EINVAL;
	if (mask & IB_SRQ_MAX_WR)
		ret = srq_resize(srq, attr->max_wr, udata);
	if (ret || !(mask & IB_SRQ_LIMIT))
		return ret;

	spin_lock_irqsave(&srq->lock, flags);
	if (attr->srq_limit > srq->max_wr)
		ret = -EINVAL;
	else
		srq->limit = attr->srq_limit;
	spin_unlock_irqrestore(&srq->lock, flags);
	return ret;
}

/**
 * xiw_srq_query - tell the sizes and the limit
 * @ibsrq: the queue
 * @attr: result
 *
 * Return: 0.
 */
int xiw_srq_query(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct xiw_srq *srq = to_xiw_srq(ibsrq);

	attr->max_wr = READ_ONCE(srq->max_wr);
	attr->max_sge = srq->max_sge;
	attr->srq_limit = READ_ONCE(srq->limit);
	return 0;
}

/**
 * xiw_srq_create - make a shared receive queue
 * @ibsrq: zeroed but for what the core filled in
 * @attr: sizes wanted; sizes granted
 * @udata: of the process, or NULL for a kernel consumer
 *
 * Return: 0 or a negative errno.
 */
int xiw_srq_create(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr, struct ib_udata *udata)
{
	struct ib_ucontext *uctx = xiw_udata_context(udata);
	struct xiw_srq *srq = to_xiw_srq(ibsrq);
	struct xiw_create_srq_resp resp;
	struct xiw_area *area;
	u32 entries, slot_size;
	int ret;

	if (attr->srq_type != IB_SRQT_BASIC)
		return -EOPNOTSUPP;
	if (!attr->attr.max_wr || attr->attr.max_wr > XIW_MAX_SRQ_WR ||
	    attr->attr.max_sge > XIW_MAX_SGE)
		return -EINVAL;

	entries = roundup_pow_of_two(attr->attr.max_wr);
	slot_size = xiw_recv_slot_size(attr->attr.max_sge);
	area = srq_area_create(entries, slot_size, uctx);
	if (IS_ERR(area))
		return PTR_ERR(area);

	spin_lock_init(&srq->lock);
	INIT_LIST_HEAD(&srq->waiters);
	srq->max_sge = attr->attr.max_sge;
	srq_use_area(srq, area, entries, slot_size);
	xiw_ring_watch(&srq->ring);	/* the next message looks: nobody needs to ring */
	attr->attr.max_wr = srq->max_wr;

	if (udata) {
		resp = srq_answer(area, entries, slot_size);
		ret = ib_respond_udata(udata, resp);
		if (ret) {
			xiw_area_destroy(area, uctx);
			return ret;
		}
	}
	return 0;
}

/**
 * xiw_srq_destroy - end a shared receive queue that no queue pair uses any more
 * @ibsrq: the queue
 * @udata: of the process, or NULL for a kernel consumer
 *
 * Return: 0.
 */
int xiw_srq_destroy(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	xiw_area_destroy(to_xiw_srq(ibsrq)->area, xiw_udata_context(udata));
	return 0;
}
