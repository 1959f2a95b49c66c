// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* qp_lock.c - what drives a queue pair: its socket, or its loop */

#include "ep.h"
#include "loop.h"
#include "qp.h"
#include "sock.h"
#include "worker.h"

/* Return: the endpoint that drives @qp, with a reference, or NULL. The loop lives as long. */
static struct xiw_ep *qp_driver(struct xiw_qp *qp, struct xiw_loop **loop)
{
	struct xiw_ep *ep = NULL;
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	*loop = qp->loop;
	if (qp->attached) {
		ep = qp->ep;
		xiw_ep_get(ep);
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	return ep;
}

static void qp_unlock(struct xiw_ep *ep, struct xiw_loop *loop)
{
	if (loop)
		xiw_loop_unlock(loop);
	else
		xiw_sock_unlock(ep->sk);
	xiw_ep_put(ep);
}

/* Return: false if somebody else has the socket locked, and @wait does not say to wait for it. */
static bool qp_lock(struct xiw_ep *ep, struct xiw_loop *loop, bool wait)
{
	if (loop)
		xiw_loop_lock(loop);
	else if (wait)
		lock_sock(ep->sk);
	else
		return xiw_sock_lock_now(ep->sk);
	return true;
}

static struct xiw_ep *qp_lock_driver(struct xiw_qp *qp, bool wait)
{
	struct xiw_loop *loop;
	struct xiw_ep *ep;

	while ((ep = qp_driver(qp, &loop))) {
		if (!qp_lock(ep, loop, wait)) {
			xiw_ep_put(ep);
			return ERR_PTR(-EAGAIN);
		}
		if (qp->attached && qp->ep == ep && qp->loop == loop)
			break;
		qp_unlock(ep, loop);
	}
	return ep;
}

struct xiw_ep *xiw_qp_lock(struct xiw_qp *qp)
{
	return qp_lock_driver(qp, true);
}

struct xiw_ep *xiw_qp_lock_now(struct xiw_qp *qp)
{
	struct xiw_ep *ep = qp_lock_driver(qp, false);

	if (IS_ERR(ep)) {
		set_bit(XIW_WORKER_LOCKED_OUT, &qp->worker_flags);
		smp_mb__after_atomic();		/* pairs with xiw_qp_unlocked() */
		ep = qp_lock_driver(qp, false);
	}
	if (!IS_ERR(ep) && test_bit(XIW_WORKER_LOCKED_OUT, &qp->worker_flags))
		clear_bit(XIW_WORKER_LOCKED_OUT, &qp->worker_flags);
	return ep;
}

void xiw_qp_unlocked(struct xiw_qp *qp)
{
	smp_mb();	/* pairs with xiw_qp_lock_now(): it gets the lock, or is seen here */
	if (unlikely(test_bit(XIW_WORKER_LOCKED_OUT, &qp->worker_flags)) &&
	    test_and_clear_bit(XIW_WORKER_LOCKED_OUT, &qp->worker_flags))
		xiw_worker_queue(qp);
}

void xiw_qp_unlock(struct xiw_qp *qp, struct xiw_ep *ep)
{
	qp_unlock(ep, qp->loop);
	xiw_qp_unlocked(qp);
}

void xiw_qp_assert_locked(const struct xiw_qp *qp)
{
	if (qp->loop)
		lockdep_assert_held(&qp->loop->lock);
	else
		lockdep_assert(lockdep_sock_is_held(qp->ep->sk));
}

void xiw_qp_resume_rx(struct xiw_qp *qp)
{
	if (READ_ONCE(qp->loop))
		xiw_worker_queue(qp);
	else
		xiw_ep_wake(qp->ep, XIW_EP_EV_SOCKET);
}

void xiw_qp_wake(struct xiw_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	if (qp->attached)
		xiw_qp_resume_rx(qp);
	spin_unlock_irqrestore(&qp->lock, flags);
}
