// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* cq.c - completions and notification */

#include <linux/log2.h>
#include <linux/timekeeping.h>
#include <rdma/uverbs_ioctl.h>

#include "cq.h"
#include "device.h"
#include "qp.h"

static bool cq_of_process(const struct xiw_cq *cq)
{
	return cq->ibcq.uobject;
}

static struct xiw_cqe *cq_slot(const struct xiw_cq *cq, u32 count)
{
	return &cq->slots[count & (cq->entries - 1)];
}

/* Room for one more? A process that claims to have read what was never there has none. */
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

	lockdep_assert_held(&cq->lock);
	memcpy(slot, cqe, offsetof(struct xiw_cqe, reserved));
	slot->timestamp = cq->stamped ? ktime_get_raw_ns() : 0;
	/* pairs with the consumer's acquire: the entry is filled before it is there */
	smp_store_release(&slot->gen, xiw_cqe_gen(cq->produced, cq->entries));
	cq->produced++;
	cq->fresh |= XIW_CQ_FRESH;
	if (cqe->solicited || cqe->status != IB_WC_SUCCESS)
		cq->fresh |= XIW_CQ_FRESH_SOLICITED;
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

/* Kernel-doc of what other files call is in cq.h. */
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

/* Whether the consumer wants to hear of what is @fresh; notes that it does if so. */
static bool cq_take_arm(struct xiw_cq *cq, u8 fresh)
{
	u32 arm = cq->arm;

	lockdep_assert_held(&cq->lock);
	if (cq_of_process(cq)) {
		smp_mb();	/* pairs with the process's, after it stored arm */
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

/* Whether the consumer is to be called now; his answer is awaited before he is called again. */
static bool cq_begin_call(struct xiw_cq *cq)
{
	u8 fresh = cq->fresh;

	lockdep_assert_held(&cq->lock);
	if (!fresh || cq->calling)
		return false;
	WRITE_ONCE(cq->fresh, 0);
	cq->calling = cq_take_arm(cq, fresh);
	return cq->calling;
}

void xiw_cq_fire(struct xiw_cq *cq)
{
	unsigned long flags;

	if (!READ_ONCE(cq->fresh))	/* whoever pushed sees it set, or someone fires for him */
		return;

	spin_lock_irqsave(&cq->lock, flags);
	while (cq_begin_call(cq)) {
		spin_unlock_irqrestore(&cq->lock, flags);
		xiw_stat_inc(to_xiw_device(cq->ibcq.device), XIW_STAT_NOTIFICATIONS);
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
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

static void cq_to_wc(struct xiw_cq *cq, const struct xiw_cqe *cqe, struct ib_wc *wc)
{
	struct xiw_qp *qp = xa_load(&to_xiw_device(cq->ibcq.device)->qps, cqe->qpn);

	*wc = (struct ib_wc){
		.wr_id = cqe->wr_id,
		.status = cqe->status,
		.opcode = cq_wc_opcode(cqe->opcode),
		.vendor_err = cqe->vendor_err,
		.byte_len = cqe->byte_len,
		.qp = qp ? &qp->ibqp : NULL,
		.port_num = 1,
	};
	if (cqe->flags & XIW_WC_WITH_IMM) {
		wc->wc_flags = IB_WC_WITH_IMM;
		wc->ex.imm_data = (__force __be32)cqe->imm_inv;
	} else if (cqe->flags & XIW_WC_WITH_INV) {
		wc->wc_flags = IB_WC_WITH_INVALIDATE;
		wc->ex.invalidate_rkey = cqe->imm_inv;
	}
}

/**
 * xiw_cq_poll - read completions
 * @ibcq: completion queue of a kernel consumer
 * @num_entries: at most
 * @wc: where to
 *
 * Context: any.
 * Return: number of entries read.
 */
int xiw_cq_poll(struct ib_cq *ibcq, int num_entries, struct ib_wc *wc)
{
	struct xiw_cq *cq = to_xiw_cq(ibcq);
	unsigned long flags;
	int n;

	spin_lock_irqsave(&cq->lock, flags);
	for (n = 0; n < num_entries && cq->consumed != cq->produced; n++)
		cq_to_wc(cq, cq_slot(cq, cq->consumed++), &wc[n]);
	spin_unlock_irqrestore(&cq->lock, flags);
	return n;
}

/**
 * xiw_cq_arm - ask for one notification
 * @ibcq: completion queue of a kernel consumer
 * @flags: for which completions; whether to tell if some are there already
 *
 * Context: any.
 * Return: 1 if completions are there and the caller wants to know that, else 0.
 */
int xiw_cq_arm(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	bool solicited = (flags & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED;
	struct xiw_cq *cq = to_xiw_cq(ibcq);
	unsigned long irq_flags;
	int missed;

	spin_lock_irqsave(&cq->lock, irq_flags);
	/* A request for any completion is not weakened by a later one for solicited ones. */
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
	cq->ibcq.cqe = entries;
}

/**
 * xiw_cq_create - make a completion queue
 * @ibcq: zeroed but for what the core filled in
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

/* Moves to @to what has not been read. Return: 0; -EINVAL if that does not fit or is nonsense. */
static int cq_move(struct xiw_cq *cq, struct xiw_area *to, u32 entries)
{
	const struct xiw_cq old = *cq;
	u32 unread, n;

	lockdep_assert_held(&cq->lock);
	/* pairs with the process's release: it has read the entries that it gives back */
	cq->consumed = smp_load_acquire(&cq->ctl->consumed);
	unread = cq->produced - cq->consumed;
	if (cq->broken || unread > old.entries || unread > entries)
		return -EINVAL;
	cq_use_area(cq, to, entries);
	cq->ctl->consumed = cq->consumed;
	cq->ctl->arm = READ_ONCE(old.ctl->arm);
	cq->ctl->fired = cq->fired;
	for (n = cq->consumed; n != cq->produced; n++) {
		*cq_slot(cq, n) = *cq_slot(&old, n);
		cq_slot(cq, n)->gen = xiw_cqe_gen(n, entries);
	}
	return 0;
}

/**
 * xiw_cq_resize - ibv_resize_cq(): give a completion queue of a process other memory
 * @ibcq: the queue
 * @wanted: number of entries wanted
 * @udata: of the process, whose provider lets nobody poll or arm meanwhile; kernel consumers have
 *	no such verb
 *
 * The process hears of the new memory before it is in use, so that nothing can fail after that.
 *
 * Return: 0; -EINVAL for a size beyond the limits, or too small for what has not been polled;
 * -ENOMEM.
 */
int xiw_cq_resize(struct ib_cq *ibcq, unsigned int wanted, struct ib_udata *udata)
{
	struct ib_ucontext *uctx = xiw_udata_context(udata);
	struct xiw_cq *cq = to_xiw_cq(ibcq);
	struct xiw_area *area, *old;
	unsigned long flags;
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
	if (!ret) {
		spin_lock_irqsave(&cq->lock, flags);
		old = cq->area;
		ret = cq_move(cq, area, entries);
		spin_unlock_irqrestore(&cq->lock, flags);
	}
	xiw_area_destroy(ret ? area : old, uctx);
	return ret;
}

/**
 * xiw_cq_destroy - end a completion queue that no queue pair uses any more
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
