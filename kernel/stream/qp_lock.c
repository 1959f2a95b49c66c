// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* qp_lock.c - locks what drives a queue pair: its socket or its loop */

#include "carrier/loop.h"
#include "carrier/sock_lock.h"
#include "conn/ep.h"
#include "stream/qp.h"
#include "stream/worker.h"

/*
 * Return: the socket of @qp, or NULL if none is attached. Takes a reference: on @loop if there is
 * one, else on the socket.
 */
static struct sock *qp_driver(struct xiw_qp *qp, struct xiw_loop **loop)
{
	struct sock *sk = NULL;
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	if (qp->attached) {
		sk = qp->sk;
		*loop = qp->loop;
		if (*loop)
			xiw_loop_get(*loop);
		else
			sock_hold(sk);
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	return sk;
}

static void qp_put_driver(struct sock *sk, struct xiw_loop *loop)
{
	if (loop)
		xiw_loop_put(loop);
	else
		sock_put(sk);
}

static void qp_unlock(struct sock *sk, struct xiw_loop *loop)
{
	if (loop)
		xiw_loop_unlock(loop);
	else
		xiw_sock_unlock(sk);
	qp_put_driver(sk, loop);
}

/* Return: false if another thread has the socket locked and @wait is false. */
static bool qp_lock(struct sock *sk, struct xiw_loop *loop, bool wait)
{
	if (loop)
		xiw_loop_lock(loop);
	else if (wait)
		lock_sock(sk);
	else
		return xiw_sock_lock_now(sk);
	return true;
}

static struct sock *qp_lock_driver(struct xiw_qp *qp, bool wait)
{
	struct xiw_loop *loop;
	struct sock *sk;

	while ((sk = qp_driver(qp, &loop))) {
		if (!qp_lock(sk, loop, wait)) {
			qp_put_driver(sk, loop);
			return ERR_PTR(-EAGAIN);
		}
		if (qp->attached && qp->sk == sk && qp->loop == loop)
			break;
		qp_unlock(sk, loop);
	}
	return sk;
}

struct sock *xiw_qp_lock(struct xiw_qp *qp)
{
	return qp_lock_driver(qp, true);
}

struct sock *xiw_qp_lock_now(struct xiw_qp *qp)
{
	struct sock *sk = qp_lock_driver(qp, false);

	if (IS_ERR(sk)) {
		set_bit(XIW_WORKER_LOCKED_OUT, &qp->worker_flags);
		smp_mb__after_atomic();		/* pairs with xiw_qp_unlocked() */
		sk = qp_lock_driver(qp, false);
	}
	if (!IS_ERR(sk) && test_bit(XIW_WORKER_LOCKED_OUT, &qp->worker_flags))
		clear_bit(XIW_WORKER_LOCKED_OUT, &qp->worker_flags);
	return sk;
}

void xiw_qp_unlocked(struct xiw_qp *qp)
{
	smp_mb();	/* pairs with xiw_qp_lock_now(): it gets the lock, or we see its flag */
	if (unlikely(test_bit(XIW_WORKER_LOCKED_OUT, &qp->worker_flags)) &&
	    test_and_clear_bit(XIW_WORKER_LOCKED_OUT, &qp->worker_flags))
		xiw_worker_queue(qp);
}

void xiw_qp_unlock(struct xiw_qp *qp, struct sock *sk)
{
	qp_unlock(sk, qp->loop);
	xiw_qp_unlocked(qp);
}

void xiw_qp_assert_locked(const struct xiw_qp *qp)
{
	if (qp->loop)
		lockdep_assert_held(&qp->loop->lock);
	else
		lockdep_assert(lockdep_sock_is_held(qp->sk));
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

void xiw_qp_resume_waiter(struct xiw_srq_waiter *waiter)
{
	xiw_qp_resume_rx(container_of(waiter, struct xiw_qp, srq_waiter));
}
