// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* srq.c - shared receive queues, and receive requests of both kinds of queues */

#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/sched/signal.h>
#include <rdma/uverbs_ioctl.h>

#include "device.h"
#include "pause.h"
#include "qp.h"
#include "ring.h"
#include "rx.h"
#include "srq.h"

/* Requests that are copied with interrupts off, and without a look at the scheduler. */
#define SRQ_PIECE	64
#define SRQ_ROUND	1024U

/* Queue pairs that are woken at a time. */
#define SRQ_CALLS	64U

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
	/* No message is longer (RFC 5041 section 5.2), and no completion can tell of more. */
	recv->length = min(recv->length, U32_MAX);

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

/* Requests that are not kept for somebody who was called. */
static u32 srq_free(struct xiw_srq *srq)
{
	u32 ready = xiw_ring_ready(&srq->ring);

	return ready - min(ready, srq->promised);
}

/*
 * Wakes as many as there are requests, the longest waiting first; of a long line only its head, as
 * interrupts are off. Each of those calls for others when it takes its request, or leaves.
 */
static void srq_call(struct xiw_srq *srq)
{
	struct xiw_qp *qp, *next;
	u32 calls;

	lockdep_assert_held(&srq->lock);

	calls = min(srq_free(srq), SRQ_CALLS);
	list_for_each_entry_safe(qp, next, &srq->waiters, srq_entry) {
		if (!calls--)
			return;
		list_del_init(&qp->srq_entry);
		qp->srq_called = true;
		srq->promised++;
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

/* It is neither in the line any more, nor called. */
static void srq_step_out(struct xiw_srq *srq, struct xiw_qp *qp)
{
	lockdep_assert_held(&srq->lock);

	list_del_init(&qp->srq_entry);
	if (qp->srq_called)
		srq->promised--;
	qp->srq_called = false;
}

static int srq_take(struct xiw_srq *srq, struct xiw_qp *qp)
{
	bool called = qp->srq_called;
	int ret;

	lockdep_assert_held(&srq->lock);

	/* One that cannot wait any longer takes what was kept for another, who may never come. */
	if (!called && xiw_rx_patient(qp)) {
		if (!list_empty(&qp->srq_entry))
			return -ENOENT;
		if (!list_empty(&srq->waiters) || !srq_free(srq))
			return srq_wait(srq, qp);
	}
	srq_step_out(srq, qp);
	ret = xiw_recv_take(qp->rx.recv, &srq->ring, srq->max_sge);
	if (ret == -ENOENT)
		return xiw_rx_patient(qp) ? srq_wait(srq, qp) : ret;
	if (called)
		srq_call(srq);
	if (!ret)
		srq->told = false;
	return ret;
}

void xiw_srq_leave(struct xiw_srq *srq, struct xiw_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&srq->lock, flags);
	srq_step_out(srq, qp);
	srq_call(srq);		/* perhaps it had been called */
	spin_unlock_irqrestore(&srq->lock, flags);
}

static void srq_report_limit(struct xiw_srq *srq)
{
	struct ib_event event = {
		.device = srq->ibsrq.device,
		.event = IB_EVENT_SRQ_LIMIT_REACHED,
		.element.srq = &srq->ibsrq,
	};

	if (srq->ibsrq.event_handler)
		srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
}

int xiw_srq_take(struct xiw_srq *srq, struct xiw_qp *qp)
{
	unsigned long flags;
	bool limit;
	int ret;

	spin_lock_irqsave(&srq->lock, flags);
	ret = srq_take(srq, qp);
	limit = srq_take_limit(srq);
	spin_unlock_irqrestore(&srq->lock, flags);

	if (limit)
		srq_report_limit(srq);
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

/**
 * struct srq_move - a queue on its way to other memory
 * @area: that memory
 * @to: a ring on it
 * @end: behind the last request that has been copied
 */
struct srq_move {
	struct xiw_area	*area;
	struct xiw_ring	to;
	u32		end;
};

/*
 * Copies requests up to @end. Without the lock: those that are taken meanwhile are copied in vain,
 * and a process that fills slots that still wait has others copied than it posted.
 */
static void srq_copy(const struct xiw_ring *from, struct srq_move *move, u32 end)
{
	for (; (s32)(end - move->end) > 0; move->end++)
		memcpy(xiw_ring_slot(&move->to, move->end), xiw_ring_slot(from, move->end),
		       BIT(from->slot_shift));
}

/* The ring goes on in its new place, where it was in the old one. */
static void srq_settle(struct xiw_srq *srq, struct srq_move *move, u32 ready)
{
	struct xiw_ring *ring = &srq->ring;
	const struct xiw_ring old = *ring;

	lockdep_assert_held(&srq->lock);
	srq->area = move->area;
	srq->max_wr = move->to.entries;
	*ring = move->to;
	ring->taken = old.taken;
	ring->returned = old.returned;
	ring->posted = old.posted;
	ring->ctl->produced = old.taken + ready;
	ring->ctl->consumed = old.returned;
	if (list_empty(&srq->waiters))
		xiw_ring_watch(ring);
}

/* What has come since the last look: enough to be copied without the lock, or the rest. */
static int srq_move_more(struct xiw_srq *srq, struct srq_move *move, u32 *end)
{
	struct xiw_ring *ring = &srq->ring;
	u32 ready = xiw_ring_ready(ring);

	lockdep_assert_held(&srq->lock);
	if (ready == XIW_RING_BROKEN || ready > move->to.entries || srq->limit > move->to.entries)
		return -EINVAL;
	if ((s32)(ring->taken - move->end) > 0)
		move->end = ring->taken;
	*end = ring->taken + ready;
	if ((s32)(*end - move->end) > SRQ_PIECE)
		return -EAGAIN;
	srq_copy(ring, move, *end);
	srq_settle(srq, move, ready);
	return 0;
}

/*
 * Moves to @area what waits. Interrupts are off for a small rest only.
 *
 * Return: 0; -EINVAL if that or the limit does not fit, or is nonsense; -EINTR.
 */
static int srq_move(struct xiw_srq *srq, struct xiw_area *area, u32 entries)
{
	struct srq_move move = { .area = area };
	struct xiw_ring from;
	u32 end;
	int ret;

	lockdep_assert_held(&srq->resizing);
	spin_lock_irq(&srq->lock);
	from = srq->ring;
	spin_unlock_irq(&srq->lock);
	xiw_ring_init(&move.to, area->mem, area->mem + sizeof(struct xiw_queue_ctl), entries,
		      BIT(from.slot_shift));
	move.end = from.taken;
	for (;;) {
		spin_lock_irq(&srq->lock);
		ret = srq_move_more(srq, &move, &end);
		spin_unlock_irq(&srq->lock);
		if (ret != -EAGAIN)
			return ret;
		if (fatal_signal_pending(current))
			return -EINTR;
		srq_copy(&from, &move, move.end + min(end - move.end, SRQ_ROUND));
		cond_resched();
		xiw_pause("resize");
	}
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
	mutex_lock(&srq->resizing);
	old = srq->area;
	if (!ret)
		ret = srq_move(srq, area, entries);
	mutex_unlock(&srq->resizing);
	xiw_area_destroy(ret ? area : old, uctx);
	return ret;
}

/*
 * Arms the limit event. It may be due at once, but a process that arms it over and over gets no
 * second one before a request was taken: unread events pile up in memory that nobody pays for.
 *
 * Return: whether it is due.
 */
static bool srq_arm_limit(struct xiw_srq *srq, u32 limit)
{
	bool crossed;

	lockdep_assert_held(&srq->lock);
	srq->limit = limit;
	crossed = !srq->told && srq_take_limit(srq);
	srq->told |= crossed;
	return crossed;
}

/**
 * xiw_srq_modify - arm the limit event, or give the queue another size
 * @ibsrq: the queue
 * @attr: limit and number of requests
 * @mask: IB_SRQ_LIMIT, IB_SRQ_MAX_WR
 * @udata: of the process, whose provider lets nobody post meanwhile; or NULL
 *
 * If fewer requests wait than the limit says, the event is due at once.
 *
 * Return: 0; -EINVAL for a limit that is more than the queue holds, or for a size beyond the limits
 * or too small for what is posted; -ENOMEM; -EFAULT; -EINTR if it is killed.
 */
int xiw_srq_modify(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		   struct ib_udata *udata)
{
	struct xiw_srq *srq = to_xiw_srq(ibsrq);
	unsigned long flags;
	bool crossed = false;
	int ret = 0;

	if (mask & ~(IB_SRQ_MAX_WR | IB_SRQ_LIMIT))
		return -EINVAL;
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
		crossed = srq_arm_limit(srq, attr->srq_limit);
	spin_unlock_irqrestore(&srq->lock, flags);
	if (crossed)
		srq_report_limit(srq);
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
	mutex_init(&srq->resizing);
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
