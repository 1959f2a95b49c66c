// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* qp.c - a queue pair: its states, its faults, and the socket that drives it */

#include <linux/cred.h>
#include <net/sock.h>

#include "carrier/carrier.h"
#include "conn/ep.h"
#include "stream/complete.h"
#include "stream/gather.h"
#include "stream/keep.h"
#include "stream/qp.h"
#include "trace.h"

void xiw_qp_get(struct xiw_qp *qp)
{
	kref_get(&qp->ref);
}

static void qp_unused(struct kref *ref)
{
	complete(&container_of(ref, struct xiw_qp, ref)->unused);
}

void xiw_qp_put(struct xiw_qp *qp)
{
	kref_put(&qp->ref, qp_unused);
}

/* The iw_cm takes a reference on what it has found. xiw_qp_find() has taken that one already. */
void xiw_qp_add_ref(struct ib_qp *ibqp)
{
}

void xiw_qp_rem_ref(struct ib_qp *ibqp)
{
	xiw_qp_put(to_xiw_qp(ibqp));
}

/*
 * Any process can name any queue pair number when it connects, and the iw_cm does not check it. A
 * process may connect its own queue pairs and those of its user. All others, including those of
 * the kernel, need CAP_NET_ADMIN. A kernel thread may connect queue pairs of the kernel only.
 */
static bool qp_is_for_caller(const struct xiw_qp *qp)
{
	struct task_struct *maker = qp->ibqp.res.task;

	if (current->flags & PF_KTHREAD)
		return !maker;
	if (maker && (same_thread_group(maker, current) ||
		      uid_eq(task_cred_xxx(maker, euid), current_euid())))
		return true;
	return capable(CAP_NET_ADMIN);
}

/*
 * Takes the reference under the lock of the xarray, so xiw_qp_destroy() does not have to wait for
 * lookups under way. Return: the queue pair; NULL if there is none that the caller may connect.
 */
struct ib_qp *xiw_qp_find(struct ib_device *ibdev, int qpn)
{
	struct xarray *qps = &to_xiw_device(ibdev)->qps;
	struct xiw_qp *qp;

	xa_lock(qps);
	qp = xa_load(qps, qpn);
	if (qp)
		xiw_qp_get(qp);
	xa_unlock(qps);
	if (!qp)
		return NULL;
	if (qp_is_for_caller(qp))
		return &qp->ibqp;
	xiw_qp_put(qp);
	return NULL;
}

/*
 * States
 */

static const u8 qp_moves[XIW_QP_NUM_STATES] = {
	[XIW_QP_IDLE]	= BIT(XIW_QP_RTS) | BIT(XIW_QP_ERROR) | BIT(XIW_QP_IDLE),
	[XIW_QP_RTS]	= BIT(XIW_QP_ERROR),
	[XIW_QP_ERROR]	= BIT(XIW_QP_IDLE),
};

/* The only writer of qp->state. Return: false if the table does not allow the move. */
static bool qp_move(struct xiw_qp *qp, enum xiw_qp_state to)
{
	lockdep_assert_held(&qp->lock);

	if (!(qp_moves[qp->state] & BIT(to)))
		return false;
	trace_xiw_qp_move(qp, to);
	WRITE_ONCE(qp->state, to);
	return true;
}

/*
 * Faults
 */

void xiw_qp_event(struct xiw_qp *qp, enum ib_event_type event)
{
	struct ib_event ev = {
		.device = qp->ibqp.device,
		.element.qp = &qp->ibqp,
		.event = event,
	};

	if (qp->ibqp.event_handler)
		qp->ibqp.event_handler(&ev, qp->ibqp.qp_context);
}

void xiw_qp_report(struct xiw_qp *qp, u8 layer, u8 etype)
{
	if (layer == TERM_MPA || etype == TERM_CATASTROPHIC)
		xiw_qp_event(qp, IB_EVENT_QP_FATAL);
	else if (etype == TERM_PROTECTION)
		xiw_qp_event(qp, IB_EVENT_QP_ACCESS_ERR);
	else
		xiw_qp_event(qp, IB_EVENT_QP_REQ_ERR);
}

/*
 * Whether the consumer has to be told that the queue pair takes no more requests from its shared
 * receive queue. A consumer that drains the queue waits for IB_EVENT_QP_LAST_WQE_REACHED. It gets
 * one per attempt to connect, because events that a process does not read use up memory.
 */
static bool qp_owes_last_event(struct xiw_qp *qp)
{
	bool owes = qp->ibqp.srq && !qp->told_last;

	lockdep_assert_held(&qp->lock);
	qp->told_last = true;
	return owes;
}

/* Ends the stream. Return: true for the first call since the stream was opened. */
static bool qp_stop(struct xiw_qp *qp, enum xiw_cause cause, const struct xiw_headers *fault)
{
	unsigned long flags;
	bool first;

	xiw_qp_assert_locked(qp);

	spin_lock_irqsave(&qp->lock, flags);
	first = xiw_qp_attached(qp) && qp_move(qp, XIW_QP_ERROR);
	if (first) {
		qp->fault.cause = cause;
		qp->fault.has_hdr = fault;
		if (fault)
			qp->fault.hdr = *fault;
		WRITE_ONCE(qp->tx.blocked, true);
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	return first;
}

void xiw_qp_fail(struct xiw_qp *qp, enum xiw_cause cause, const struct xiw_headers *fault)
{
	if (!qp_stop(qp, cause, fault))
		return;
	xiw_stat_inc(qp->dev, XIW_STAT_CAUSES + cause);
	trace_xiw_qp_fail(qp, cause);
	/* The consumer learns of a local fault from the completion of the work request. */
	if (cause != XIW_LOCAL_FAULT && cause != XIW_LOCAL_ABORT)
		xiw_qp_report(qp, xiw_causes[cause].layer, xiw_causes[cause].etype);
	xiw_ep_wake(qp->ep, XIW_EP_EV_FAILED);
}

void xiw_qp_lost(struct xiw_qp *qp, const struct xiw_headers *terminate)
{
	if (qp_stop(qp, XIW_OK, terminate))
		xiw_ep_wake(qp->ep, XIW_EP_EV_FAILED);
}

/*
 * The socket
 */

static void qp_start_streams(struct xiw_qp *qp, const struct xiw_mpa_terms *terms, bool hold)
{
	const struct xiw_tx tx = {
		.request.slot = qp->tx.request.slot,
		.framing = {
			.crc = terms->crc,
			.markers = terms->tx_markers,
			.large = terms->tx_large_fpdus,
		},
		.hold = hold,
		.blocked = hold,
	};
	const struct xiw_settings *settings = &qp->dev->settings;
	struct xiw_recv *recv = qp->rx.recv;
	unsigned int qn;

	lockdep_assert_held(&qp->lock);
	data_race(qp->tx = tx);		/* a worker may still look at blocked: xiw_tx_wants() */
	xiw_accessor_begin(&qp->tx_accessor);
	xiw_accessor_begin(&qp->rx_accessor);
	qp->rx = (struct xiw_rx){
		.recv = recv,
		.crc = terms->crc,
		.patience_ms = xiw_setting(settings, XIW_SET_RECEIVE_WAIT_MS),
	};
	WRITE_ONCE(qp->worker_spin_ns, xiw_setting(settings, XIW_SET_SPIN_US) * NSEC_PER_USEC);
	WRITE_ONCE(qp->gather_ns, xiw_setting(settings, XIW_SET_GATHER_US) * NSEC_PER_USEC);
	xiw_gather_nothing(qp);		/* the timer of the last connection may run */
	qp->fault = (struct xiw_fault){};
	for (qn = 0; qn < DDP_NUM_QN; qn++) {
		qp->tx.msn[qn] = 1;
		qp->rx.msn[qn] = 1;
	}
}

int xiw_qp_attach(struct xiw_qp *qp, struct xiw_ep *ep, struct sock *sk,
		  const struct xiw_mpa_terms *terms, bool hold)
{
	unsigned long flags;
	int ret;

	lockdep_assert(lockdep_sock_is_held(sk));

	/* No lock is needed: the endpoint has claimed the queue pair. */
	ret = xiw_qp_alloc_fifos(qp, terms->ird, terms->ord);
	if (ret)
		return ret;

	spin_lock_irqsave(&qp->lock, flags);
	qp_start_streams(qp, terms, hold);
	if (qp->ep != ep || !qp_move(qp, XIW_QP_RTS))
		ret = -EINVAL;
	else
		WRITE_ONCE(qp->sk, sk);
	spin_unlock_irqrestore(&qp->lock, flags);
	if (!ret)
		trace_xiw_connect(qp, ep->initiator, terms);
	return ret;
}

bool xiw_qp_detach(struct xiw_qp *qp, struct sock *sk, struct xiw_batch *rest,
		   enum xiw_cause *cause)
{
	unsigned long flags;
	bool attached;

	lockdep_assert(lockdep_sock_is_held(sk));

	spin_lock_irqsave(&qp->lock, flags);
	attached = xiw_qp_attached(qp);
	if (attached) {
		if (qp_move(qp, XIW_QP_ERROR))
			qp->fault.cause = *cause;
		else
			*cause = qp->fault.cause;
		WRITE_ONCE(qp->sk, NULL);	/* what waits for its lock must look again */
		if (qp->carrier->part)
			qp->carrier->part(qp);
		WRITE_ONCE(qp->tx.blocked, true);
		*rest = qp->tx.batch;
		qp->tx.batch = (struct xiw_batch){};
		if (qp->ibqp.srq)
			xiw_srq_leave(xiw_qp_srq(qp), &qp->srq_waiter);
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	if (attached)
		xiw_keep_drop(qp);
	return attached;
}

void xiw_qp_detached(struct xiw_qp *qp)
{
	unsigned long flags;
	bool tell;

	xiw_qp_flush(qp);
	spin_lock_irqsave(&qp->lock, flags);
	tell = qp_owes_last_event(qp);
	spin_unlock_irqrestore(&qp->lock, flags);
	if (tell)
		xiw_qp_event(qp, IB_EVENT_QP_LAST_WQE_REACHED);
}

/*
 * Without a socket
 */

void xiw_qp_halt(struct xiw_qp *qp)
{
	unsigned long flags;
	bool tell = false;

	spin_lock_irqsave(&qp->lock, flags);
	if (!xiw_qp_attached(qp) && qp->state != XIW_QP_ERROR && qp_move(qp, XIW_QP_ERROR))
		tell = qp_owes_last_event(qp);
	spin_unlock_irqrestore(&qp->lock, flags);
	xiw_qp_flush(qp);
	if (tell)
		xiw_qp_event(qp, IB_EVENT_QP_LAST_WQE_REACHED);
}

static void qp_empty_ring(struct xiw_ring *ring)
{
	u32 ready = xiw_ring_ready(ring);

	if (ready != XIW_RING_BROKEN) {
		xiw_ring_take(ring, ready);
		/* Even if it is none: the process may have overwritten the counter. */
		xiw_ring_return(ring, ring->taken - ring->returned);
	}
	ring->known = 0;
}

/* Drops all posted requests without completions. */
static void qp_empty_rings(struct xiw_qp *qp)
{
	lockdep_assert_held(&qp->lock);

	qp_empty_ring(&qp->sq);
	if (!qp->rq.entries)
		return;
	qp_empty_ring(&qp->rq);
	xiw_ring_watch(&qp->rq);
}

int xiw_qp_reset(struct xiw_qp *qp)
{
	unsigned long flags;
	int ret = -EINVAL;

	spin_lock_irqsave(&qp->lock, flags);
	if (!qp->claimed && !xiw_qp_attached(qp) && qp_move(qp, XIW_QP_IDLE)) {
		qp_empty_rings(qp);
		WRITE_ONCE(qp->attr_state, IB_QPS_RESET);
		qp->fault = (struct xiw_fault){};
		qp->sq_failed = false;
		ret = 0;
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	return ret;
}

int xiw_qp_prepare(struct xiw_qp *qp, enum ib_qp_state to)
{
	unsigned long flags;
	int ret = -EINVAL;

	spin_lock_irqsave(&qp->lock, flags);
	if (qp->state == XIW_QP_IDLE && to != IB_QPS_RTS) {
		WRITE_ONCE(qp->attr_state, to);
		ret = 0;
	} else if (qp->state == XIW_QP_RTS) {
		ret = 0;
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	return ret;
}
