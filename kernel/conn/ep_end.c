// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* ep_end.c - ends a connection: detaches queue pair and consumer, then says farewell to the peer */

#include <linux/jiffies.h>
#include <linux/sched/signal.h>
#include <net/sock.h>

#include "carrier/carrier.h"
#include "carrier/sock_lock.h"
#include "conn/ep.h"
#include "conn/listener.h"
#include "conn/sock.h"
#include "device.h"
#include "pause.h"
#include "stream/qp.h"
#include "stream/rx.h"
#include "stream/tx.h"
#include "stream/worker.h"
#include "trace.h"

/* If TCP takes nothing of the farewell, it is tried again so much later. */
#define EP_FAREWELL_RETRY_MS	100

/* The log tells of a cause again after this time. */
#define EP_WARN_PAUSE	(3600 * HZ)

/* How long an orderly close keeps sending what was posted. */
#define EP_LAST_MS	500

/* Detaches and releases the socket; resets the connection if @abort. */
static void ep_drop_socket(struct xiw_ep *ep, bool abort)
{
	struct socket *sock = ep->sock;

	lockdep_assert_held(&ep->lock);

	if (!sock)
		return;
	ep->sock = NULL;
	xiw_sock_detach(sock);
	xiw_sock_release(sock, abort);
}

/* The kernel-doc of public functions is in ep.h. */
void xiw_ep_leave_listener(struct xiw_ep *ep)
{
	struct xiw_listener *listener = ep->listener;

	lockdep_assert_held(&ep->lock);

	ep->listener = NULL;
	if (listener)
		xiw_listener_leave(listener, ep);
}

void xiw_ep_close(struct xiw_ep *ep, bool abort)
{
	ep_drop_socket(ep, abort);
	xiw_ep_leave_listener(ep);
	xiw_batch_drop(&ep->rest);
	xiw_ep_clear_timers(ep);
	xiw_ep_move(ep, XIW_EP_CLOSED);
	xiw_ep_erase(ep);
}

void xiw_ep_farewell(struct xiw_ep *ep)
{
	struct sock *sk = ep->sk;
	bool abort;
	int ret;

	lock_sock(sk);
	ret = xiw_batch_push(&ep->rest, sk);
	/*
	 * If TCP has no memory and nothing in its queues, it says at once that the socket is
	 * writeable again. So do not listen to that, but look again later.
	 */
	if (ret == -EAGAIN) {
		clear_bit(XIW_EP_EV_SOCKET, &ep->events);
		smp_mb__after_atomic();	/* what else has raised the event is looked at below */
		xiw_ep_look_later(ep, EP_FAREWELL_RETRY_MS);
	}
	xiw_sock_discard(sk);
	xiw_sock_unlock(sk);
	if (!ret && !ep->said_bye) {
		ep->said_bye = true;
		ret = xiw_sock_shutdown(ep->sock);
	}
	abort = (ret && ret != -EAGAIN) || READ_ONCE(sk->sk_err);
	if (abort || READ_ONCE(sk->sk_state) == TCP_CLOSE)
		xiw_ep_close(ep, abort);
}

/*
 * Says in the log why a stream has ended and what may help. A peer or a program can cause faults as
 * often as it likes, so each device does this once for each cause, and again after some time.
 */
static void ep_warn(struct xiw_ep *ep, enum xiw_cause cause)
{
	unsigned long *due = &ep->dev->warn_due[cause], before = READ_ONCE(*due);

	if (cause == XIW_OK || cause == XIW_LOCAL_ABORT)
		return;
	if ((before && time_before(jiffies, before)) ||
	    cmpxchg(due, before, (jiffies + EP_WARN_PAUSE) | 1) != before)
		return;
	ibdev_warn(&ep->dev->ibdev, "queue pair %u: the stream has ended, %s: %s\n", ep->qp->qpn,
		   xiw_causes[cause].name, xiw_causes[cause].advice ?:
		   "the peer breaks the rules of iWARP: see which driver it runs");
}

/*
 * Detaches the queue pair and stages a Terminate if there is a cause. If the stream had failed
 * before, sets @cause to the first cause. Return: false if there is no socket, and so no farewell.
 */
static bool ep_part(struct xiw_ep *ep, enum xiw_cause *cause)
{
	struct xiw_driver driver;
	bool attached = false;

	if (!ep->sock)
		return false;
	lock_sock(ep->sk);
	xiw_pause("ep_part");
	if (ep->qp) {
		/* What has come before this end is received, if anybody can still learn of it. */
		if (ep->state == XIW_EP_OPEN && !READ_ONCE(ep->qp->dying))
			xiw_rx_run(ep->qp, ep->sk);
		driver = xiw_carrier_enter(ep->qp);
		attached = xiw_qp_detach(ep->qp, ep->sk, &ep->rest, cause);
		xiw_carrier_leave(&driver);
	}
	if (attached && *cause != XIW_OK && !xiw_sock_ended(ep->sk)) {
		xiw_tx_terminate(ep->qp, &ep->rest, *cause,
				 ep->qp->fault.has_hdr ? &ep->qp->fault.hdr : NULL,
				 &ep->qp->tx.framing);
		xiw_stat_inc(ep->dev, XIW_STAT_TX_TERMINATES);
	}
	xiw_sock_unlock(ep->sk);
	if (attached) {
		ep_warn(ep, *cause);
		xiw_qp_unlocked(ep->qp);
		xiw_qp_detached(ep->qp);
	}
	return true;
}

void xiw_ep_finish(struct xiw_ep *ep, int err, enum xiw_cause cause)
{
	bool connected;

	lockdep_assert_held(&ep->lock);

	connected = ep_part(ep, &cause);
	trace_xiw_end(ep, err, cause);
	xiw_ep_tell_end(ep, err);
	xiw_ep_unbind(ep);
	xiw_ep_clear_deadline(ep);
	if (!connected || ep->state == XIW_EP_CONNECTING) {
		xiw_ep_close(ep, true);
		return;
	}
	xiw_ep_move(ep, XIW_EP_FAREWELL);
	xiw_ep_set_deadline(ep, ep->close_ms);
	xiw_ep_farewell(ep);
	if (ep->listener)	/* the consumer has not accepted it, and it is not closed yet */
		xiw_listener_refused(ep->listener, ep);
}

/*
 * Sends what was posted, as far as the peer takes it. The process may have posted hours of work and
 * may keep posting, while other threads wait for the endpoint. So there is a time limit, after
 * which the caller flushes the rest.
 */
static void ep_send_last(struct xiw_ep *ep)
{
	unsigned long end = jiffies + msecs_to_jiffies(EP_LAST_MS);

	lockdep_assert_held(&ep->lock);

	while (xiw_tx_drive(ep->qp, XIW_TX_BUDGET_WORKER, XIW_STAT_TX_WORKER) &&
	       time_before(jiffies, end) && !fatal_signal_pending(current))
		cond_resched();
}

void xiw_ep_end(struct xiw_ep *ep, enum xiw_cause cause)
{
	mutex_lock(&ep->lock);
	if (ep->state < XIW_EP_FAREWELL) {
		if (ep->qp && cause == XIW_OK)
			ep_send_last(ep);
		xiw_ep_finish(ep, -ECONNABORTED, cause);
	}
	xiw_ep_unlock(ep);
}

void xiw_ep_kill(struct xiw_ep *ep)
{
	mutex_lock(&ep->lock);
	xiw_ep_leave_listener(ep);	/* it needs no place for a farewell */
	if (ep->state < XIW_EP_FAREWELL)
		xiw_ep_finish(ep, -ECONNABORTED, XIW_LOCAL_ABORT);
	if (ep->state == XIW_EP_FAREWELL)
		xiw_ep_close(ep, true);
	xiw_ep_unlock(ep);
}
