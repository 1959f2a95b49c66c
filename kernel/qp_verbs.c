// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* qp_verbs.c - the verbs of queue pairs: create, destroy, modify, query */

#include <linux/sched/signal.h>
#include <rdma/uverbs_ioctl.h>

#include "carrier/carrier.h"
#include "conn/ep.h"
#include "device.h"
#include "pause.h"
#include "stats.h"
#include "stream/accessor.h"
#include "stream/gather.h"
#include "stream/qp.h"
#include "stream/worker.h"

/*
 * Create and destroy
 */

/**
 * xiw_qp_create - ib_create_qp()
 * @ibqp: the queue pair, allocated by the core
 * @attr: requested attributes; on return it contains the granted sizes
 * @udata: the request of the process, or NULL for a kernel consumer
 *
 * Return: 0; -EOPNOTSUPP for types other than RC and for flags; -EINVAL for sizes beyond the limits
 * of the device; -ENOMEM.
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
	INIT_LIST_HEAD(&qp->srq_waiter.entry);
	qp->srq_waiter.resume = xiw_qp_resume_waiter;
	spin_lock_init(&qp->sq_post_lock);
	spin_lock_init(&qp->rq_post_lock);
	qp->carrier = &xiw_over_tcp_carrier;
	xiw_worker_prepare(qp);
	xiw_gather_prepare(qp);
	qp->tx.blocked = true;	/* until it is connected */
	qp->attr_state = IB_QPS_INIT;	/* rdma-core's tests expect INIT for iWARP's Idle */

	ret = xa_alloc_cyclic(&dev->qps, &qp->qpn, NULL, XA_LIMIT(2, 0xffffff), &dev->next_qpn,
			      XIW_GFP_PROCESS);
	if (ret < 0)
		return ret;
	ret = xiw_qp_alloc_memory(qp, attr, udata, &resp) ?: xiw_accessor_init(qp);
	if (!ret && udata)
		ret = ib_respond_udata(udata, resp);
	if (ret) {
		xa_erase(&dev->qps, qp->qpn);
		xiw_accessor_exit(qp);
		xiw_qp_free_memory(qp, udata);
		return ret;
	}
	attr->cap = qp->cap;
	ibqp->qp_num = qp->qpn;
	xiw_stats_join(qp);
	xiw_pause("qp_create");
	/* From here on xiw_qp_find() finds the queue pair. */
	xa_store(&dev->qps, qp->qpn, qp, GFP_KERNEL);
	return 0;
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

/* Ends the connection. Return: whether there was one. */
static bool qp_end_connection(struct xiw_qp *qp, enum xiw_cause cause)
{
	struct xiw_ep *ep = qp_endpoint(qp);

	if (!ep)
		return false;
	xiw_ep_end(ep, cause);
	xiw_ep_put(ep);
	return true;
}

/* Ends the connection, if there is one, and leaves the queue pair in ERROR. */
static void qp_end(struct xiw_qp *qp, enum xiw_cause cause)
{
	qp_end_connection(qp, cause);
	xiw_qp_halt(qp);
}

/*
 * Nothing completes after this. A thread that has tested @dying before it was set holds the socket
 * lock, the loop's lock or qp->lock until it has completed its request. qp_end() takes these locks
 * too, so it waits for that thread.
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
 * @udata: the request of the process, or NULL for a kernel consumer
 *
 * 1. Remove it from the table. A thread that found it before holds a reference (xiw_qp_find()).
 * 2. Stop completions. What is posted is forgotten. Completions that a kernel consumer has not
 *    polled are dropped too, because xiw_cq_poll() no longer finds the queue pair. A process
 *    removes its own from the completion queues after this returns.
 * 3. End the connection. The endpoint drops its reference and tells the iw_cm.
 * 4. Stop the timers. Without a socket nothing starts the one of gather.c, which has no reference.
 * 5. Wait for all references to be dropped.
 * 6. Free the memory.
 *
 * These may still run during that: the timer of gather.c (until step 4), a worker and the end of a
 * fetch of pages (each holds a reference and finds no socket), socket callbacks (none after
 * detach), and the iw_cm (drops its reference when it is told of the end).
 *
 * Return: 0.
 */
int xiw_qp_destroy(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct xiw_qp *qp = to_xiw_qp(ibqp);

	xa_erase(&qp->dev->qps, qp->qpn);
	qp_die(qp);
	xiw_gather_forget(qp);
	xiw_worker_forget(qp);
	xiw_accessor_exit(qp);
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
 * Works in any state: ends the connection first, or waits until it has ended. What was posted is
 * forgotten. The provider removes what has completed from the completion queues.
 *
 * Return: 0, or -EINVAL if another thread starts the next connection meanwhile.
 */
static int qp_end_and_reset(struct xiw_qp *qp)
{
	qp_end_connection(qp, XIW_LOCAL_ABORT);
	return xiw_qp_reset(qp);
}

/*
 * Closes the connection in an orderly way. It is no error if the connection has ended already:
 * rdma_disconnect(3) is meant to be called at both ends, and the process at the second end calls it
 * after it was told of the end.
 */
static int qp_close(struct xiw_qp *qp)
{
	if (qp_end_connection(qp, XIW_OK))
		return 0;
	return READ_ONCE(qp->state) == XIW_QP_ERROR ? 0 : -EINVAL;
}

static int qp_modify_state(struct xiw_qp *qp, enum ib_qp_state to)
{
	switch (to) {
	case IB_QPS_RESET:
		return qp_end_and_reset(qp);
	case IB_QPS_INIT:
	case IB_QPS_RTR:
	case IB_QPS_RTS:	/* only the handshake can enter RTS */
		return xiw_qp_prepare(qp, to);
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
 * @mask: which attributes of @attr are set
 * @udata: unused
 *
 * Only a connection moves a queue pair to RTS. SQD closes the connection in an orderly way. ERR
 * ends it with a Terminate, and so does RESET, which is allowed in any state.
 *
 * Return: 0, -EINVAL for a move that the state does not allow, -EOPNOTSUPP for extended attributes,
 * for new sizes and for an alternate path. On failure nothing has changed.
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
		WRITE_ONCE(qp->access, attr->qp_access_flags);
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
		return READ_ONCE(qp->attr_state);
	}
}

/**
 * xiw_qp_query - ib_query_qp()
 * @ibqp: the queue pair
 * @attr: result
 * @mask: ignored, all attributes are filled in
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
		.path_mtu = ib_mtu_int_to_enum(READ_ONCE(qp->dev->netdev->mtu)),
		.qp_access_flags = READ_ONCE(qp->access),
		.cap = qp->cap,
		.max_rd_atomic = READ_ONCE(qp->reads.size),
		.max_dest_rd_atomic = READ_ONCE(qp->inbound.size),
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
