// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* srq.c - shared receive queues */

#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/sched/signal.h>
#include <rdma/uverbs_ioctl.h>

#include "device.h"
#include "pause.h"
#include "queue/area.h"
#include "queue/ring.h"
#include "queue/slot.h"
#include "queue/srq.h"

/* Limits for requests that are copied: with interrupts off, and between two cond_resched(). */
#define SRQ_PIECE	64
#define SRQ_ROUND	1024U

/* Maximum number of queue pairs that are woken at a time. */
#define SRQ_CALLS	64U

/* Whether the limit event is due. If so, it is disarmed. */
static bool srq_take_limit(struct xiw_srq *srq)
{
	lockdep_assert_held(&srq->lock);
	if (likely(!srq->limit) || xiw_ring_ready(&srq->ring) >= srq->limit)
		return false;
	WRITE_ONCE(srq->limit, 0);	/* xiw_srq_query() reads it without the lock */
	return true;
}

/*
 * Queue pairs that wait
 */

/* Number of requests that are not reserved for a queue pair that was called. */
static u32 srq_free(struct xiw_srq *srq)
{
	u32 ready = xiw_ring_ready(&srq->ring);

	return ready - min(ready, srq->promised);
}

/*
 * Calls one waiting queue pair for each free request, the longest waiting first. Interrupts are
 * off, so at most SRQ_CALLS of them are called at a time. When one of them takes its request or
 * leaves, the next ones are called.
 */
static void srq_call(struct xiw_srq *srq)
{
	struct xiw_srq_waiter *waiter, *next;
	u32 calls;

	lockdep_assert_held(&srq->lock);

	calls = min(srq_free(srq), SRQ_CALLS);
	list_for_each_entry_safe(waiter, next, &srq->waiters, entry) {
		if (!calls--)
			return;
		list_del_init(&waiter->entry);
		waiter->called = true;
		srq->promised++;
		waiter->resume(waiter);
	}
	xiw_ring_watch(&srq->ring);
}

/* Puts a queue pair in line. If its Send has waited before, it goes back to the head. */
static void srq_wait(struct xiw_srq *srq, struct xiw_srq_waiter *waiter)
{
	lockdep_assert_held(&srq->lock);

	if (waiter->again)
		list_add(&waiter->entry, &srq->waiters);
	else
		list_add_tail(&waiter->entry, &srq->waiters);
	if (xiw_ring_unwatch(&srq->ring))
		srq_call(srq);
}

/* Takes a queue pair out of the line, and releases the request that was reserved for it. */
static void srq_step_out(struct xiw_srq *srq, struct xiw_srq_waiter *waiter)
{
	lockdep_assert_held(&srq->lock);

	list_del_init(&waiter->entry);
	if (waiter->called)
		srq->promised--;
	waiter->called = false;
}

static enum xiw_slot_result srq_take(struct xiw_srq *srq, struct xiw_srq_waiter *waiter,
				     struct xiw_recv *recv)
{
	bool called = waiter->called;
	enum xiw_slot_result result;

	lockdep_assert_held(&srq->lock);

	/*
	 * A queue pair that cannot wait any longer may take a request that is reserved for another
	 * one, which may never come to take it.
	 */
	if (!called && !waiter->urgent) {
		if (!list_empty(&waiter->entry))
			return XIW_SLOT_NONE;
		if (!list_empty(&srq->waiters) || !srq_free(srq)) {
			srq_wait(srq, waiter);
			return XIW_SLOT_NONE;
		}
	}
	srq_step_out(srq, waiter);
	result = xiw_slot_take_recv(recv, &srq->ring, srq->max_sge);
	if (result == XIW_SLOT_NONE) {
		if (!waiter->urgent)
			srq_wait(srq, waiter);
		return result;
	}
	if (called)
		srq_call(srq);
	if (result == XIW_SLOT_GOOD)
		srq->told = false;
	return result;
}

/* Kernel-doc of the functions that other files call is in srq.h. */
void xiw_srq_leave(struct xiw_srq *srq, struct xiw_srq_waiter *waiter)
{
	unsigned long flags;

	spin_lock_irqsave(&srq->lock, flags);
	srq_step_out(srq, waiter);
	srq_call(srq);		/* a request may have been reserved for it */
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

enum xiw_slot_result xiw_srq_take(struct xiw_srq *srq, struct xiw_srq_waiter *waiter,
				  struct xiw_recv *recv)
{
	enum xiw_slot_result result;
	unsigned long flags;
	bool limit;

	spin_lock_irqsave(&srq->lock, flags);
	result = srq_take(srq, waiter, recv);
	limit = srq_take_limit(srq);
	spin_unlock_irqrestore(&srq->lock, flags);

	if (limit)
		srq_report_limit(srq);
	return result;
}

/**
 * xiw_srq_post - ib_post_srq_recv(), and the doorbell of a process while queue pairs wait
 * @ibsrq: the queue
 * @wr: requests of a kernel consumer; NULL for a process
 * @bad_wr: set to the first request that was refused; those before it are posted
 *
 * Context: any.
 * Return: 0; -ENOMEM if the queue is full; -EINVAL for a malformed request.
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
		ret = xiw_slot_post_recv(&srq->ring, srq->max_wr, srq->max_sge, wr, bad_wr);
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
	WRITE_ONCE(srq->max_wr, entries);
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
 * struct srq_move - a shared receive queue that is being moved to other memory
 * @area: the new memory
 * @to: a ring in that memory
 * @end: count of the request after the last one that has been copied
 */
struct srq_move {
	struct xiw_area	*area;
	struct xiw_ring	to;
	u32		end;
};

/*
 * Copies requests up to @end. May run without the lock: copies of requests that are taken meanwhile
 * are not used. If a process changes a slot that is still waiting, the copy may differ from what it
 * posted.
 */
static void srq_copy(const struct xiw_ring *from, struct srq_move *move, u32 end)
{
	for (; (s32)(end - move->end) > 0; move->end++)
		memcpy(xiw_ring_slot(&move->to, move->end), xiw_ring_slot(from, move->end),
		       BIT(from->slot_shift));
}

/* Switches to the new ring, which continues with the counters of the old one. */
static void srq_settle(struct xiw_srq *srq, struct srq_move *move, u32 ready)
{
	struct xiw_ring *ring = &srq->ring;
	const struct xiw_ring old = *ring;

	lockdep_assert_held(&srq->lock);
	srq->area = move->area;
	WRITE_ONCE(srq->max_wr, move->to.entries);
	*ring = move->to;
	ring->taken = old.taken;
	ring->returned = old.returned;
	ring->told = old.returned;
	ring->posted = old.posted;
	ring->ctl->produced = old.taken + ready;
	ring->ctl->consumed = old.returned;
	if (list_empty(&srq->waiters))
		xiw_ring_watch(ring);
}

/*
 * Finishes the move if few enough requests are left to be copied under the lock. Return: 0; -EAGAIN
 * if the requests up to @end must first be copied without the lock; or -EINVAL.
 */
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
 * Moves the waiting requests to @area. Interrupts are off only while the last few are copied.
 *
 * Return: 0; -EINVAL if they or the limit do not fit, or the process's count is impossible; -EINTR.
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

/*
 * Tells the process of the new memory before it is used, so that no step after the move can fail.
 */
static int srq_tell(struct xiw_area *area, u32 entries, u32 slot_size, struct ib_udata *udata)
{
	struct xiw_create_srq_resp resp = srq_answer(area, entries, slot_size);
	struct xiw_modify_srq req;

	if (udata->inlen < sizeof(req))
		return -EINVAL;
	if (ib_copy_from_udata(&req, udata, sizeof(req)))
		return -EFAULT;
	return copy_to_user(u64_to_user_ptr(req.response), &resp, sizeof(resp)) ? -EFAULT : 0;
}

static int srq_resize(struct xiw_srq *srq, u32 wanted, struct ib_udata *udata)
{
	struct ib_ucontext *uctx = xiw_udata_context(udata);
	u32 slot_size = BIT(data_race(srq->ring.slot_shift));	/* it never changes */
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
 * Arms the limit event. It may be due at once. But a process that arms it repeatedly gets a second
 * event only after a request has been taken, because unread events use memory that is not charged
 * to any process.
 *
 * Return: whether the event is due.
 */
static bool srq_arm_limit(struct xiw_srq *srq, u32 limit)
{
	bool crossed;

	lockdep_assert_held(&srq->lock);
	WRITE_ONCE(srq->limit, limit);
	crossed = !srq->told && srq_take_limit(srq);
	srq->told |= crossed;
	return crossed;
}

/**
 * xiw_srq_modify - arm the limit event or resize the queue
 * @ibsrq: the queue
 * @attr: limit and number of requests
 * @mask: IB_SRQ_LIMIT, IB_SRQ_MAX_WR
 * @udata: of the process, whose provider prevents posting meanwhile; or NULL
 *
 * If fewer requests wait than the limit, the event is due at once.
 *
 * Return: 0; -EINVAL for a limit that exceeds the size of the queue, or for a size that is out of
 * range or too small for the posted requests; -ENOMEM; -EFAULT; -EINTR if the process is killed.
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
 * xiw_srq_query - report the sizes and the limit
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
 * xiw_srq_create - create a shared receive queue
 * @ibsrq: zeroed except for what the core has filled in
 * @attr: in: sizes wanted; out: sizes granted
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
	xiw_ring_watch(&srq->ring);	/* each message looks: no doorbells */
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
 * xiw_srq_destroy - destroy a shared receive queue that no queue pair uses any more
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
