// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* cq.c - completions and notification */

#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/sched/signal.h>
#include <linux/timekeeping.h>
#include <rdma/uverbs_ioctl.h>

#include "device.h"
#include "pause.h"
#include "queue/area.h"
#include "queue/cq.h"
#include "stream/qp.h"

/*
 * Limits for entries that are read or copied: with interrupts off, and between two cond_resched().
 */
#define CQ_PIECE	256U
#define CQ_ROUND	4096U

static bool cq_of_process(const struct xiw_cq *cq)
{
	return cq->ibcq.uobject;
}

static struct xiw_cqe *cq_slot(const struct xiw_cq *cq, u32 count)
{
	return &cq->slots[count & (cq->entries - 1)];
}

/* Whether one more entry fits. None does if a process claims to have read entries never written. */
static bool cq_has_room(struct xiw_cq *cq)
{
	lockdep_assert_held(&cq->lock);
	if (likely(cq->produced - cq->consumed < cq->entries))
		return true;
	if (!cq_of_process(cq))
		return false;
	/* pairs with the process's release: it has read the entries that it gives back */
	cq->consumed = smp_load_acquire(&cq->ctl->consumed);
	return cq->produced - cq->consumed < cq->entries;
}

static void cq_write(struct xiw_cq *cq, const struct xiw_cqe *cqe)
{
	struct xiw_cqe *slot = cq_slot(cq, cq->produced);
	u8 fresh = cq->fresh | XIW_CQ_FRESH;

	lockdep_assert_held(&cq->lock);
	memcpy(slot, cqe, offsetof(struct xiw_cqe, reserved));
	slot->timestamp = cq->stamped ? ktime_get_raw_ns() : 0;
	/* pairs with the consumer's acquire: the entry is filled before it becomes valid */
	smp_store_release(&slot->gen, xiw_cqe_gen(cq->produced, cq->entries));
	WRITE_ONCE(cq->produced, cq->produced + 1);	/* complete_send() reads it unlocked */
	if (cqe->solicited || cqe->status != IB_WC_SUCCESS)
		fresh |= XIW_CQ_FRESH_SOLICITED;
	WRITE_ONCE(cq->fresh, fresh);	/* xiw_cq_fire() reads it without the lock */
}

static void cq_report_overflow(struct xiw_cq *cq)
{
	struct ib_event event = {
		.device = cq->ibcq.device,
		.event = IB_EVENT_CQ_ERR,
		.element.cq = &cq->ibcq,
	};

	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
}

/* Kernel-doc of the functions that other files call is in cq.h. */
int xiw_cq_push(struct xiw_cq *cq, const struct xiw_cqe *cqe)
{
	unsigned long flags;
	bool known, broken;

	spin_lock_irqsave(&cq->lock, flags);
	known = cq->broken;
	broken = known || !cq_has_room(cq);
	if (likely(!broken))
		cq_write(cq, cqe);
	cq->broken = broken;
	spin_unlock_irqrestore(&cq->lock, flags);

	if (unlikely(broken && !known))
		cq_report_overflow(cq);
	return unlikely(broken) ? -EOVERFLOW : 0;
}

/* Whether the consumer wants to be notified of @fresh entries. If so, its request is used up. */
static bool cq_take_arm(struct xiw_cq *cq, u8 fresh)
{
	u32 arm = cq->arm;

	lockdep_assert_held(&cq->lock);
	if (cq_of_process(cq)) {
		smp_mb();	/* pairs with the process's barrier after it stores arm */
		arm = READ_ONCE(cq->ctl->arm);
	}
	if (arm == cq->fired)
		return false;
	if ((arm & XIW_ARM_SOLICITED) && !(fresh & XIW_CQ_FRESH_SOLICITED))
		return false;

	cq->fired = arm;
	WRITE_ONCE(cq->ctl->fired, arm);
	return true;
}

/*
 * Whether the consumer must be called now. A consumer in the kernel is not called again before its
 * handler has returned.
 */
static bool cq_begin_call(struct xiw_cq *cq)
{
	u8 fresh = cq->fresh;
	bool call;

	lockdep_assert_held(&cq->lock);
	if (!fresh || cq->calling)
		return false;
	WRITE_ONCE(cq->fresh, 0);
	call = cq_take_arm(cq, fresh);
	cq->calling = call && !cq_of_process(cq);
	return call;
}

void xiw_cq_fire(struct xiw_cq *cq)
{
	unsigned long flags;

	if (!READ_ONCE(cq->fresh))	/* set after a push, unless another thread has taken it */
		return;

	spin_lock_irqsave(&cq->lock, flags);
	while (cq_begin_call(cq)) {
		spin_unlock_irqrestore(&cq->lock, flags);
		xiw_stat_inc(to_xiw_device(cq->ibcq.device), XIW_STAT_NOTIFICATIONS);
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
		if (cq_of_process(cq))	/* it could re-arm forever: call it once */
			return;
		spin_lock_irqsave(&cq->lock, flags);
		cq->calling = false;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
}

bool xiw_cq_seen(struct xiw_cq *cq, u32 count)
{
	unsigned long flags;
	u32 consumed;

	spin_lock_irqsave(&cq->lock, flags);
	consumed = READ_ONCE(cq->ctl->consumed);
	spin_unlock_irqrestore(&cq->lock, flags);
	return (s32)(consumed - count) > 0;
}

bool xiw_cq_awaited(struct xiw_cq *cq)
{
	unsigned long flags;
	bool awaited;

	spin_lock_irqsave(&cq->lock, flags);
	awaited = cq_of_process(cq) && READ_ONCE(cq->ctl->arm) != cq->fired;
	spin_unlock_irqrestore(&cq->lock, flags);
	return awaited;
}

/*
 * Kernel consumers
 */

static enum ib_wc_opcode cq_wc_opcode(u16 opcode)
{
	static const u8 opcodes[] = {
		[XIW_WC_SEND]		= IB_WC_SEND,
		[XIW_WC_WRITE]		= IB_WC_RDMA_WRITE,
		[XIW_WC_READ]		= IB_WC_RDMA_READ,
		[XIW_WC_CMP_SWP]	= IB_WC_COMP_SWAP,
		[XIW_WC_FETCH_ADD]	= IB_WC_FETCH_ADD,
		[XIW_WC_BIND_MW]	= IB_WC_BIND_MW,
		[XIW_WC_LOCAL_INV]	= IB_WC_LOCAL_INV,
		[XIW_WC_REG_MR]		= IB_WC_REG_MR,
		[XIW_WC_RECV]		= IB_WC_RECV,
		[XIW_WC_RECV_IMM]	= IB_WC_RECV_RDMA_WITH_IMM,
	};

	return opcodes[opcode];
}

/* Return: false if the queue pair has been destroyed, and the consumer must not see the entry. */
static bool cq_to_wc(struct xiw_cq *cq, const struct xiw_cqe *cqe, struct ib_wc *wc)
{
	struct xiw_qp *qp = xa_load(&to_xiw_device(cq->ibcq.device)->qps, cqe->qpn);

	if (!qp)
		return false;
	*wc = (struct ib_wc){
		.wr_id = cqe->wr_id,
		.status = cqe->status,
		.opcode = cq_wc_opcode(cqe->opcode),
		.vendor_err = cqe->vendor_err,
		.byte_len = cqe->byte_len,
		.qp = &qp->ibqp,
		.port_num = 1,
	};
	if (cqe->flags & XIW_WC_WITH_IMM) {
		wc->wc_flags = IB_WC_WITH_IMM;
		wc->ex.imm_data = (__force __be32)cqe->imm_inv;
	} else if (cqe->flags & XIW_WC_WITH_INV) {
		wc->wc_flags = IB_WC_WITH_INVALIDATE;
		wc->ex.invalidate_rkey = cqe->imm_inv;
	}
	return true;
}

/* Reads up to CQ_PIECE entries. Return: the number of them that are for the consumer. */
static int cq_poll_piece(struct xiw_cq *cq, int num_entries, struct ib_wc *wc)
{
	unsigned int room = CQ_PIECE;
	int n = 0;

	lockdep_assert_held(&cq->lock);
	for (; n < num_entries && cq->consumed != cq->produced && room; room--)
		n += cq_to_wc(cq, cq_slot(cq, cq->consumed++), &wc[n]);
	return n;
}

/**
 * xiw_cq_poll - read completions
 * @ibcq: completion queue of a kernel consumer
 * @num_entries: maximum number of completions to read
 * @wc: array for the completions
 *
 * Entries of destroyed queue pairs are skipped, because the consumer may have freed the objects
 * that their wr_id stands for.
 *
 * Context: any.
 * Return: number of entries read.
 */
int xiw_cq_poll(struct ib_cq *ibcq, int num_entries, struct ib_wc *wc)
{
	struct xiw_cq *cq = to_xiw_cq(ibcq);
	unsigned long flags;
	bool more;
	int n = 0;

	do {
		spin_lock_irqsave(&cq->lock, flags);
		n += cq_poll_piece(cq, num_entries - n, &wc[n]);
		more = n < num_entries && cq->consumed != cq->produced;
		spin_unlock_irqrestore(&cq->lock, flags);
	} while (more);
	return n;
}

/**
 * xiw_cq_arm - ask for one notification
 * @ibcq: completion queue of a kernel consumer
 * @flags: which completions to notify of, and whether to report completions that are present
 *	already
 *
 * Context: any.
 * Return: 1 if the caller asked for that report and completions are present, else 0.
 */
int xiw_cq_arm(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	bool solicited = (flags & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED;
	struct xiw_cq *cq = to_xiw_cq(ibcq);
	unsigned long irq_flags;
	int missed;

	spin_lock_irqsave(&cq->lock, irq_flags);
	/*
	 * A request for any completion stays in force when one for solicited completions follows.
	 */
	if (cq->arm != cq->fired && !(cq->arm & XIW_ARM_SOLICITED))
		solicited = false;
	cq->arm = (cq->arm & ~XIW_ARM_SOLICITED) + XIW_ARM_STEP;
	if (solicited)
		cq->arm |= XIW_ARM_SOLICITED;
	missed = (flags & IB_CQ_REPORT_MISSED_EVENTS) && cq->consumed != cq->produced;
	spin_unlock_irqrestore(&cq->lock, irq_flags);
	return missed;
}

/*
 * Life
 */

static struct xiw_area *cq_area_create(u32 entries, struct ib_ucontext *uctx)
{
	return xiw_area_create(sizeof(struct xiw_cq_ctl) + entries * sizeof(struct xiw_cqe), uctx);
}

static int cq_answer(struct xiw_area *area, u32 entries, struct ib_udata *udata)
{
	struct xiw_create_cq_resp resp = {
		.map_key = xiw_area_key(area),
		.map_len = area->len,
		.entries = entries,
		.slots_offset = sizeof(struct xiw_cq_ctl),
	};

	return ib_respond_udata(udata, resp);
}

static void cq_use_area(struct xiw_cq *cq, struct xiw_area *area, u32 entries)
{
	cq->area = area;
	cq->ctl = area->mem;
	cq->slots = area->mem + sizeof(struct xiw_cq_ctl);
	cq->entries = entries;
	WRITE_ONCE(cq->ibcq.cqe, entries);	/* the core reads it at any time */
}

/**
 * xiw_cq_create - create a completion queue
 * @ibcq: zeroed except for what the core has filled in
 * @attr: number of entries wanted, flags
 * @attrs: of the process, or NULL for a kernel consumer
 *
 * Return: 0 or a negative errno.
 */
int xiw_cq_create(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		  struct uverbs_attr_bundle *attrs)
{
	struct ib_ucontext *uctx = attrs ? attrs->context : NULL;
	struct xiw_cq *cq = to_xiw_cq(ibcq);
	struct xiw_area *area;
	u32 entries;
	int ret;

	if (attr->flags & ~IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > XIW_MAX_CQE)
		return -EINVAL;

	spin_lock_init(&cq->lock);
	mutex_init(&cq->resizing);
	cq->stamped = attr->flags & IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION;
	entries = roundup_pow_of_two(attr->cqe);
	area = cq_area_create(entries, uctx);
	if (IS_ERR(area))
		return PTR_ERR(area);
	cq_use_area(cq, area, entries);

	if (attrs) {
		ret = cq_answer(area, entries, &attrs->driver_udata);
		if (ret) {
			xiw_area_destroy(area, uctx);
			return ret;
		}
	}
	return 0;
}

/**
 * struct cq_move - a completion queue that is being moved to other memory
 * @to: the new memory, as a completion queue
 * @first: count of the first entry that has not been read
 * @end: count of the entry after the last one that has been copied
 */
struct cq_move {
	struct xiw_cq	to;
	u32		first;
	u32		end;
};

/*
 * Whether the unread entries fit and have all been written by us. The process supplies @consumed.
 */
static bool cq_can_move(const struct xiw_cq *cq, const struct cq_move *move, u32 consumed)
{
	u32 unread = cq->produced - consumed;

	lockdep_assert_held(&cq->lock);
	return !cq->broken && unread <= min(cq->entries, move->to.entries) &&
	       consumed - move->first <= cq->produced - move->first;
}

/*
 * Copies the entries from the end of the last call up to @end. May run without the lock: new
 * completions are only written after @end. If a process claims to have read an entry that is being
 * copied, the entry may be overwritten and the process finds garbage in the copy.
 */
static void cq_copy(const struct xiw_cq *cq, struct cq_move *move, u32 end)
{
	struct xiw_cqe *to;

	for (; move->end != end; move->end++) {
		to = cq_slot(&move->to, move->end);
		*to = *cq_slot(cq, move->end);
		to->gen = xiw_cqe_gen(move->end, move->to.entries);
	}
}

/*
 * Finishes the move if few enough entries are left to be copied under the lock. Return: 0; -EAGAIN
 * if the entries up to @end must first be copied without the lock; or -EINVAL.
 */
static int cq_move_more(struct xiw_cq *cq, struct cq_move *move, u32 *end)
{
	/* pairs with the process's release: it has read the entries that it gives back */
	u32 consumed = smp_load_acquire(&cq->ctl->consumed);

	if (!cq_can_move(cq, move, consumed))
		return -EINVAL;
	*end = cq->produced;
	if (*end - move->end > CQ_PIECE)
		return -EAGAIN;
	cq_copy(cq, move, *end);
	move->to.ctl->consumed = consumed;
	move->to.ctl->arm = READ_ONCE(cq->ctl->arm);
	move->to.ctl->fired = cq->fired;
	cq->consumed = consumed;
	cq_use_area(cq, move->to.area, move->to.entries);
	return 0;
}

/* Return: 0, or -EINVAL if the process claims to have read entries that were never written. */
static int cq_begin_move(struct xiw_cq *cq, struct cq_move *move, struct xiw_area *area,
			 u32 entries)
{
	int ret = 0;

	cq_use_area(&move->to, area, entries);
	spin_lock_irq(&cq->lock);
	move->first = smp_load_acquire(&cq->ctl->consumed);	/* as in cq_move_more() */
	if (cq->produced - move->first > cq->entries)
		ret = -EINVAL;
	spin_unlock_irq(&cq->lock);
	move->end = move->first;
	return ret;
}

/*
 * Moves the unread entries to @area. Interrupts are off only while the last few are copied: those
 * that were written while the entries before them were copied.
 *
 * Return: 0; -EINVAL if they do not fit or the process's count is impossible; -EINTR.
 */
static int cq_move(struct xiw_cq *cq, struct xiw_area *area, u32 entries)
{
	struct cq_move move = {};
	u32 end;
	int ret;

	lockdep_assert_held(&cq->resizing);
	ret = cq_begin_move(cq, &move, area, entries);
	if (ret)
		return ret;
	for (;;) {
		spin_lock_irq(&cq->lock);
		ret = cq_move_more(cq, &move, &end);
		spin_unlock_irq(&cq->lock);
		if (ret != -EAGAIN)
			return ret;
		if (fatal_signal_pending(current))
			return -EINTR;
		cq_copy(cq, &move, move.end + min(end - move.end, CQ_ROUND));
		cond_resched();
		xiw_pause("resize");
	}
}

/**
 * xiw_cq_resize - ibv_resize_cq(): move a completion queue of a process to memory of another size
 * @ibcq: the queue
 * @wanted: number of entries wanted
 * @udata: of the process; its provider prevents polling and arming meanwhile. NULL for a kernel
 *	consumer, which cannot resize a queue
 *
 * The process is told of the new memory before it is used, so that no step after the move can fail.
 *
 * Return: 0; -EINVAL for a size that is out of range or too small for the entries that have not
 * been polled; -ENOMEM; -EINTR if the process is killed.
 */
int xiw_cq_resize(struct ib_cq *ibcq, unsigned int wanted, struct ib_udata *udata)
{
	struct ib_ucontext *uctx = xiw_udata_context(udata);
	struct xiw_cq *cq = to_xiw_cq(ibcq);
	struct xiw_area *area, *old;
	u32 entries;
	int ret;

	if (!udata)
		return -EOPNOTSUPP;
	if (wanted < 1 || wanted > XIW_MAX_CQE)
		return -EINVAL;
	entries = roundup_pow_of_two(wanted);
	area = cq_area_create(entries, uctx);
	if (IS_ERR(area))
		return PTR_ERR(area);
	ret = cq_answer(area, entries, udata);
	mutex_lock(&cq->resizing);
	old = cq->area;
	if (!ret)
		ret = cq_move(cq, area, entries);
	mutex_unlock(&cq->resizing);
	xiw_area_destroy(ret ? area : old, uctx);
	return ret;
}

/**
 * xiw_cq_destroy - destroy a completion queue that no queue pair uses any more
 * @ibcq: the queue
 * @udata: of the process, or NULL for a kernel consumer
 *
 * Return: 0.
 */
int xiw_cq_destroy(struct ib_cq *ibcq, struct ib_udata *udata)
{
	xiw_area_destroy(to_xiw_cq(ibcq)->area, xiw_udata_context(udata));
	return 0;
}
