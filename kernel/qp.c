// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* qp.c - life of a queue pair */

#include <linux/cred.h>
#include <linux/sched/signal.h>
#include <rdma/uverbs_ioctl.h>

#include "ep.h"
#include "loop.h"
#include "mem.h"
#include "qp.h"
#include "tx.h"
#include "worker.h"
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

/* The iw_cm wants a reference of what it has just found: xiw_qp_find() took it. */
void xiw_qp_add_ref(struct ib_qp *ibqp)
{
}

void xiw_qp_rem_ref(struct ib_qp *ibqp)
{
	xiw_qp_put(to_xiw_qp(ibqp));
}

/*
 * The number in a connection is what any process says, and the iw_cm takes it as it is. A process
 * may mean a queue pair of its own or of its user; others are for the administrator of the
 * network, and those of the kernel are for the kernel, too.
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
 * Return: with a reference, so that xiw_qp_destroy() need not wait until nobody looks; NULL if
 * there is none that this process may connect.
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

/* The only writer of qp->state. Return: false if there is no such move. */
static bool xiw_qp_move(struct xiw_qp *qp, enum xiw_qp_state to)
{
	lockdep_assert_held(&qp->lock);

	if (!(qp_moves[qp->state] & BIT(to)))
		return false;
	trace_xiw_qp_move(qp->qpn, qp->state, to);
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
	if (layer == TERM_MPA || etype == 0)
		xiw_qp_event(qp, IB_EVENT_QP_FATAL);
	else if (etype == 1)
		xiw_qp_event(qp, IB_EVENT_QP_ACCESS_ERR);
	else
		xiw_qp_event(qp, IB_EVENT_QP_REQ_ERR);
}

/*
 * No request of the shared receive queue will be taken any more: a consumer that drains it waits
 * for IB_EVENT_QP_LAST_WQE_REACHED. It is told once for each attempt to connect: events that a
 * process does not read fill memory.
 */
static bool qp_owes_last_event(struct xiw_qp *qp)
{
	bool owes = qp->ibqp.srq && !qp->told_last;

	lockdep_assert_held(&qp->lock);
	qp->told_last = true;
	return owes;
}

/* Return: true for the first call after the stream was open. */
static bool qp_stop(struct xiw_qp *qp, enum xiw_cause cause, const struct xiw_headers *fault)
{
	unsigned long flags;
	bool first;

	spin_lock_irqsave(&qp->lock, flags);
	first = qp->attached && xiw_qp_move(qp, XIW_QP_ERROR);
	if (first) {
		qp->rx.cause = cause;
		qp->rx.fault_known = fault;
		if (fault)
			qp->rx.fault = *fault;
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
	trace_xiw_qp_fail(qp->qpn, xiw_causes[cause].name);
	/* A local fault is told by the work request that completes with it. */
	if (cause != XIW_LOCAL_FAULT && cause != XIW_LOCAL_ABORT)
		xiw_qp_report(qp, xiw_causes[cause].layer, xiw_causes[cause].etype);
	xiw_ep_wake(qp->ep, XIW_EP_EV_FAILED);
}

void xiw_qp_lost(struct xiw_qp *qp)
{
	if (qp_stop(qp, XIW_OK, NULL))
		xiw_ep_wake(qp->ep, XIW_EP_EV_FAILED);
}

/*
 * The socket
 */

static void qp_start_streams(struct xiw_qp *qp, const struct xiw_mpa_terms *terms, bool hold)
{
	struct xiw_send_slot *cur = qp->tx.cur;
	struct xiw_recv *recv = qp->rx.recv;
	unsigned int qn;

	qp->tx = (struct xiw_tx){
		.cur = cur,
		.framing = { .crc = terms->crc, .markers = terms->tx_markers },
		.hold = hold,
		.blocked = hold,
	};
	xiw_accessor_begin(&qp->tx_accessor);
	xiw_accessor_begin(&qp->rx_accessor);
	qp->rx = (struct xiw_rx){ .recv = recv, .crc = terms->crc, .first = true };
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

	/* Nobody else touches these: the endpoint has claimed the queue pair. */
	ret = xiw_qp_alloc_fifos(qp, terms->ird, terms->ord);
	if (ret)
		return ret;
	qp_start_streams(qp, terms, hold);

	spin_lock_irqsave(&qp->lock, flags);
	if (qp->ep != ep || !xiw_qp_move(qp, XIW_QP_RTS))
		ret = -EINVAL;
	else
		qp->attached = true;
	spin_unlock_irqrestore(&qp->lock, flags);
	return ret;
}

bool xiw_qp_detach(struct xiw_qp *qp, struct sock *sk, struct xiw_batch *rest,
		   enum xiw_cause *cause)
{
	unsigned long flags;
	bool attached;

	lockdep_assert(lockdep_sock_is_held(sk));

	spin_lock_irqsave(&qp->lock, flags);
	attached = qp->attached;
	if (attached) {
		if (!xiw_qp_move(qp, XIW_QP_ERROR))
			*cause = qp->rx.cause;
		qp->attached = false;
		xiw_loop_part(qp);
		WRITE_ONCE(qp->tx.blocked, true);
		*rest = qp->tx.batch;
		qp->tx.batch = (struct xiw_batch){};
		if (qp->ibqp.srq)
			xiw_srq_leave(xiw_qp_srq(qp), qp);
	}
	spin_unlock_irqrestore(&qp->lock, flags);
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

int xiw_qp_claim(struct xiw_qp *qp, struct xiw_ep *ep)
{
	struct xiw_ep *old = NULL;
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&qp->lock, flags);
	if (qp->state != XIW_QP_IDLE || qp->claimed || qp->dying) {
		ret = -EINVAL;
	} else {
		old = qp->ep;
		xiw_ep_get(ep);
		qp->ep = ep;
		qp->claimed = true;
		qp->told_last = false;
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	if (old)
		xiw_ep_put(old);
	return ret;
}

void xiw_qp_unclaim(struct xiw_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	qp->claimed = false;
	spin_unlock_irqrestore(&qp->lock, flags);
}

/* Return: the endpoint that has claimed @qp, with a reference, or NULL. */
static struct xiw_ep *qp_endpoint(struct xiw_qp *qp)
{
	struct xiw_ep *ep = NULL;
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	if (qp->claimed) {
		ep = qp->ep;
		xiw_ep_get(ep);
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	return ep;
}

/* Ends the connection, if there is one, and leaves the queue pair in ERROR. */
static void qp_end(struct xiw_qp *qp, enum xiw_cause cause)
{
	struct xiw_ep *ep = qp_endpoint(qp);
	unsigned long flags;
	bool tell = false;

	if (ep) {
		xiw_ep_end(ep, cause);
		xiw_ep_put(ep);
	}
	spin_lock_irqsave(&qp->lock, flags);
	if (!qp->attached && qp->state != XIW_QP_ERROR && xiw_qp_move(qp, XIW_QP_ERROR))
		tell = qp_owes_last_event(qp);
	spin_unlock_irqrestore(&qp->lock, flags);
	xiw_qp_flush(qp);
	if (tell)
		xiw_qp_event(qp, IB_EVENT_QP_LAST_WQE_REACHED);
}

/*
 * Create and destroy
 */

static void qp_leave_fetches(struct xiw_qp *qp)
{
	if (IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING)) {
		xiw_odp_leave_alone(&qp->tx_accessor);
		xiw_odp_leave_alone(&qp->rx_accessor);
	}
}

static int qp_prepare_fetches(struct xiw_qp *qp)
{
	if (!IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING))
		return 0;
	return xiw_odp_prepare(&qp->tx_accessor) ?: xiw_odp_prepare(&qp->rx_accessor);
}

/**
 * xiw_qp_create - ib_create_qp()
 * @ibqp: the queue pair, allocated by the core
 * @attr: what is wanted; the sizes granted go back in it
 * @udata: of the process, or NULL
 *
 * Return: 0; -EOPNOTSUPP for other types than RC or for flags; -EINVAL for sizes beyond the
 * limits of the device; -ENOMEM.
 */
int xiw_qp_create(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	struct xiw_qp *qp = to_xiw_qp(ibqp);
	struct xiw_device *dev = to_xiw_device(ibqp->device);
	struct xiw_create_qp_resp resp = {};
	int ret;

	if (attr->qp_type != IB_QPT_RC || attr->create_flags)
		return -EOPNOTSUPP;
	qp->dev = dev;
	qp->lane = udata ? to_xiw_ucontext(xiw_udata_context(udata))->lane : NULL;
	qp->sig_all = attr->sq_sig_type == IB_SIGNAL_ALL_WR;
	kref_init(&qp->ref);
	init_completion(&qp->unused);
	spin_lock_init(&qp->lock);
	INIT_LIST_HEAD(&qp->srq_entry);
	spin_lock_init(&qp->sq_post_lock);
	spin_lock_init(&qp->rq_post_lock);
	xiw_worker_prepare(qp);
	qp->tx.blocked = true;	/* until it is connected */
	xiw_accessor_init(&qp->tx_accessor, ibqp, xiw_worker_queue);
	xiw_accessor_init(&qp->rx_accessor, ibqp, xiw_qp_wake);
	qp->attr_state = IB_QPS_INIT;	/* the name of iWARP's Idle: rdma-core's tests want it */

	ret = xa_alloc_cyclic(&dev->qps, &qp->qpn, NULL, XA_LIMIT(2, 0xffffff), &dev->next_qpn,
			      XIW_GFP_PROCESS);
	if (ret < 0)
		return ret;
	ret = xiw_qp_alloc_memory(qp, attr, udata, &resp) ?: qp_prepare_fetches(qp);
	if (!ret && udata)
		ret = ib_respond_udata(udata, resp);
	if (ret) {
		xa_erase(&dev->qps, qp->qpn);
		qp_leave_fetches(qp);
		xiw_qp_free_memory(qp, udata);
		return ret;
	}
	attr->cap = qp->cap;
	ibqp->qp_num = qp->qpn;
	xiw_stats_join(qp);
	/* Only now can anybody find it. */
	xa_store(&dev->qps, qp->qpn, qp, GFP_KERNEL);
	return 0;
}

/*
 * From here on nothing completes: whoever is at it has looked before, under a lock that the end of
 * the connection takes, too.
 */
static void qp_die(struct xiw_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	WRITE_ONCE(qp->dying, true);
	spin_unlock_irqrestore(&qp->lock, flags);
	qp_end(qp, XIW_LOCAL_ABORT);
}

/**
 * xiw_qp_destroy - ib_destroy_qp()
 * @ibqp: the queue pair
 * @udata: of the process, or NULL
 *
 * 1. Nobody finds it any more, and who did find it has taken a reference (xiw_qp_find()).
 * 2. Nothing completes any more: what is posted is forgotten, and so is what a kernel consumer has
 *    not polled, as xiw_cq_poll() finds its queue pair gone. A process takes that out of the queues
 *    itself, when this has returned.
 * 3. The connection ends; the endpoint gives its reference back and tells the iw_cm.
 * 4. All references are awaited.
 * 5. Memory goes.
 *
 * Who may still be running: a worker, or the end of a fetch of pages (each holds a reference, finds
 * no socket), socket callbacks (none after detach), the iw_cm (gives its reference back when it
 * hears of the end).
 *
 * Return: 0.
 */
int xiw_qp_destroy(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct xiw_qp *qp = to_xiw_qp(ibqp);

	xa_erase(&qp->dev->qps, qp->qpn);
	qp_die(qp);
	xiw_worker_forget(qp);
	qp_leave_fetches(qp);
	xiw_qp_put(qp);
	wait_for_completion(&qp->unused);
	if (qp->ep)
		xiw_ep_put(qp->ep);
	xiw_stats_leave(qp);
	xiw_qp_free_memory(qp, udata);
	return 0;
}

/*
 * Modify and query
 */

/*
 * From any state: a connection is ended first, or its end awaited. What was posted is forgotten;
 * the provider takes what had completed out of the completion queues.
 *
 * Return: 0, or -EINVAL if somebody sets up the next connection meanwhile.
 */
static int qp_reset(struct xiw_qp *qp)
{
	struct xiw_ep *ep = qp_endpoint(qp);
	unsigned long flags;
	int ret = -EINVAL;
	u32 ready;

	if (ep) {
		xiw_ep_end(ep, XIW_LOCAL_ABORT);
		xiw_ep_put(ep);
	}
	spin_lock_irqsave(&qp->lock, flags);
	if (!qp->claimed && !qp->attached && xiw_qp_move(qp, XIW_QP_IDLE)) {
		ready = xiw_ring_ready(&qp->sq);
		if (ready != XIW_RING_BROKEN) {
			qp->sq.taken += ready;
			xiw_ring_return(&qp->sq, qp->sq.taken - qp->sq.returned);
		}
		if (qp->rq.entries) {
			ready = xiw_ring_ready(&qp->rq);
			if (ready != XIW_RING_BROKEN) {
				qp->rq.taken += ready;
				xiw_ring_return(&qp->rq, ready);
			}
			xiw_ring_watch(&qp->rq);
		}
		qp->attr_state = IB_QPS_RESET;
		qp->sq_failed = false;
		ret = 0;
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	return ret;
}

static int qp_prepare(struct xiw_qp *qp, enum ib_qp_state to)
{
	unsigned long flags;
	int ret = -EINVAL;

	spin_lock_irqsave(&qp->lock, flags);
	if (qp->state == XIW_QP_IDLE && to != IB_QPS_RTS) {
		qp->attr_state = to;
		ret = 0;
	} else if (qp->state == XIW_QP_RTS) {
		ret = 0;
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	return ret;
}

/*
 * Closes the connection in good order. One that has ended needs nothing more: rdma_disconnect(3) is
 * for both ends, so a process that was told of the end calls it, too.
 */
static int qp_close(struct xiw_qp *qp)
{
	struct xiw_ep *ep = qp_endpoint(qp);

	if (!ep)
		return READ_ONCE(qp->state) == XIW_QP_ERROR ? 0 : -EINVAL;
	xiw_ep_end(ep, XIW_OK);
	xiw_ep_put(ep);
	return 0;
}

static int qp_modify_state(struct xiw_qp *qp, enum ib_qp_state to)
{
	switch (to) {
	case IB_QPS_RESET:
		return qp_reset(qp);
	case IB_QPS_INIT:
	case IB_QPS_RTR:
	case IB_QPS_RTS:	/* only a connection leads there */
		return qp_prepare(qp, to);
	case IB_QPS_SQD:
		return qp_close(qp);
	case IB_QPS_SQE:
	case IB_QPS_ERR:
		qp_end(qp, XIW_LOCAL_ABORT);
		return 0;
	default:
		return -EINVAL;
	}
}

/**
 * xiw_qp_modify - ib_modify_qp()
 * @ibqp: the queue pair
 * @attr: new attributes
 * @mask: which of them
 * @udata: unused
 *
 * RTS is entered by connecting only. SQD closes the connection in good order, ERR with a Terminate.
 *
 * RESET ends it with a Terminate, too, and can be told in any state.
 *
 * Return: 0, -EINVAL for a move that the state does not allow, -EOPNOTSUPP for extended attributes,
 * for other sizes and for another path. If it fails nothing has changed.
 */
int xiw_qp_modify(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	const int refused = ~IB_QP_ATTR_STANDARD_BITS | IB_QP_CAP | IB_QP_ALT_PATH;
	struct xiw_qp *qp = to_xiw_qp(ibqp);
	int ret = 0;

	if (mask & refused)
		return -EOPNOTSUPP;
	if (mask & IB_QP_STATE)
		ret = qp_modify_state(qp, attr->qp_state);
	if (!ret && (mask & IB_QP_ACCESS_FLAGS))
		qp->access = attr->qp_access_flags;
	return ret;
}

static enum ib_qp_state qp_verbs_state(const struct xiw_qp *qp)
{
	switch (READ_ONCE(qp->state)) {
	case XIW_QP_RTS:
		return IB_QPS_RTS;
	case XIW_QP_ERROR:
		return IB_QPS_ERR;
	default:
		return qp->attr_state;
	}
}

/**
 * xiw_qp_query - ib_query_qp()
 * @ibqp: the queue pair
 * @attr: result
 * @mask: ignored, all is filled in
 * @init_attr: result
 *
 * Return: 0.
 */
int xiw_qp_query(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init_attr)
{
	struct xiw_qp *qp = to_xiw_qp(ibqp);

	*attr = (struct ib_qp_attr){
		.qp_state = qp_verbs_state(qp),
		.cur_qp_state = qp_verbs_state(qp),
		.path_mtu = ib_mtu_int_to_enum(qp->dev->netdev->mtu),
		.qp_access_flags = qp->access,
		.cap = qp->cap,
		.max_rd_atomic = qp->ord,
		.max_dest_rd_atomic = qp->ird,
		.port_num = 1,
	};
	*init_attr = (struct ib_qp_init_attr){
		.event_handler = ibqp->event_handler,
		.qp_context = ibqp->qp_context,
		.send_cq = ibqp->send_cq,
		.recv_cq = ibqp->recv_cq,
		.srq = ibqp->srq,
		.cap = qp->cap,
		.sq_sig_type = qp->sig_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	return 0;
}
