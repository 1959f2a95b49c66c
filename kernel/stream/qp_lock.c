// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* qp_lock.c - locks what drives a queue pair, as its carrier knows how */

#include "carrier/carrier.h"
#include "conn/ep.h"
#include "stream/qp.h"
#include "stream/worker.h"

/* Reads what drives @qp and takes a reference on it. Return: false if @qp is not attached. */
static bool qp_hold_driver(struct xiw_qp *qp, struct xiw_driver *driver)
{
	unsigned long flags;
	bool attached;

	spin_lock_irqsave(&qp->lock, flags);
	attached = xiw_qp_attached(qp);
	if (attached) {
		*driver = xiw_carrier_driver(qp);
		driver->carrier->hold(driver);
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	return attached;
}

/*
 * The caller has locked what drove @qp a moment ago. If @qp was detached meanwhile, the next attach
 * may write these fields at any time, but never the old values: the caller has a reference on what
 * they point to, so it is not used again.
 */
static bool qp_is_driven_by(const struct xiw_qp *qp, const struct xiw_driver *driver)
{
	return READ_ONCE(qp->sk) == driver->sk && READ_ONCE(qp->loop) == driver->loop;
}

static void qp_unlock(const struct xiw_driver *driver)
{
	driver->carrier->unlock(driver);
	driver->carrier->put(driver);
}

/* With @wait the result is never XIW_QP_LOCKED_OUT. */
static enum xiw_qp_lock_result qp_lock_driver(struct xiw_qp *qp, bool wait)
{
	struct xiw_driver driver;

	while (qp_hold_driver(qp, &driver)) {
		if (!driver.carrier->lock(&driver, wait)) {
			driver.carrier->put(&driver);
			return XIW_QP_LOCKED_OUT;
		}
		if (qp_is_driven_by(qp, &driver))
			return XIW_QP_LOCKED;
		qp_unlock(&driver);
	}
	return XIW_QP_NO_SOCKET;
}

bool xiw_qp_lock(struct xiw_qp *qp)
{
	return qp_lock_driver(qp, true) == XIW_QP_LOCKED;
}

enum xiw_qp_lock_result xiw_qp_lock_now(struct xiw_qp *qp)
{
	enum xiw_qp_lock_result result = qp_lock_driver(qp, false);

	if (result == XIW_QP_LOCKED_OUT) {
		set_bit(XIW_WORKER_LOCKED_OUT, &qp->worker_flags);
		smp_mb__after_atomic();		/* pairs with xiw_qp_unlocked() */
		result = qp_lock_driver(qp, false);
	}
	if (result != XIW_QP_LOCKED_OUT)
		xiw_worker_take(qp, XIW_WORKER_LOCKED_OUT);
	return result;
}

static void qp_wake_endpoint(struct xiw_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	if (xiw_qp_attached(qp))
		xiw_ep_wake(qp->ep, XIW_EP_EV_SOCKET);
	spin_unlock_irqrestore(&qp->lock, flags);
}

void xiw_qp_unlocked(struct xiw_qp *qp)
{
	/*
	 * Pairs with xiw_qp_lock_now() and ep_lock_now(): they get the lock, or we see their flag.
	 */
	smp_mb();
	if (xiw_worker_take(qp, XIW_WORKER_LOCKED_OUT))
		xiw_worker_resume(qp);
	if (xiw_worker_take(qp, XIW_WORKER_LANE_WAITS))
		qp_wake_endpoint(qp);
}

void xiw_qp_unlock(struct xiw_qp *qp)
{
	struct xiw_driver driver = xiw_carrier_driver(qp);

	qp_unlock(&driver);
	xiw_qp_unlocked(qp);
}

void xiw_qp_check_locked(const struct xiw_qp *qp)
{
	xiw_carrier_assert_locked(qp);
}

void xiw_qp_resume_rx(struct xiw_qp *qp)
{
	if (READ_ONCE(qp->carrier)->resends)
		xiw_worker_queue(qp);
	else
		xiw_ep_wake(qp->ep, XIW_EP_EV_SOCKET);
}

void xiw_qp_wake(struct xiw_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	if (xiw_qp_attached(qp))
		xiw_qp_resume_rx(qp);
	spin_unlock_irqrestore(&qp->lock, flags);
}

void xiw_qp_resume_waiter(struct xiw_srq_waiter *waiter)
{
	xiw_qp_resume_rx(container_of(waiter, struct xiw_qp, srq_waiter));
}
