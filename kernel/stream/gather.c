// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* gather.c - lets the requests of a process gather until it has nothing else to do */

#include <linux/hrtimer.h>

#include "pause.h"
#include "stream/gather.h"

/*
 * A process that sends a stream on the only CPU sends it by itself: a worker would take its time.
 * If it rang for each request, each one would cost a system call, and TCP would get them one by
 * one. So it is asked to ring when it has polled in vain, and all that it could post is there.
 *
 * It need not poll. It may wait for something else, such as a change in its memory. So a timer
 * hands the queue pair to a worker. The timer runs on while doorbells of the stream come, because
 * setting it anew each time would cost more. So what is posted waits for one or two of its times.
 *
 * A real-time task does not let the worker run. So nothing gathers after its doorbell, until
 * another thread rings. But such a task may post without a doorbell, while requests gather because
 * of another thread. If it then spins and does not poll, what it has posted is not sent (USING.md).
 */

/*
 * Nothing waits for a timer that has ended. This function clears GATHERS, asks for doorbells, and
 * then looks at the ring. xiw_gather_asks() asks for later ones, and then looks at GATHERS. No
 * worker is woken for nothing: on a slow machine the timer may end before the process has the CPU
 * again, each time.
 *
 * Only this function clears GATHERS. If a doorbell did, the next one would start the timer while
 * this function sets it anew.
 *
 * The time counts from now. If it counted from the last end, a timer that was late would run again
 * at once, before the process had the CPU, and a stream that goes on would be handed to a worker.
 */
static enum hrtimer_restart gather_timer(struct hrtimer *timer)
{
	struct xiw_qp *qp = container_of(timer, struct xiw_qp, gather);

	if (xiw_worker_take(qp, XIW_WORKER_STREAMS)) {
		hrtimer_set_expires(timer, ktime_add_ns(ktime_get(), READ_ONCE(qp->gather_ns)));
		return HRTIMER_RESTART;
	}
	xiw_pause("gather_timer");
	clear_bit(XIW_WORKER_GATHERS, &qp->worker_flags);
	smp_mb__after_atomic();	/* pairs with xiw_gather_asks() */
	xiw_worker_take(qp, XIW_WORKER_STREAMS);	/* xiw_gather_settle() may have left it */
	/* The owner of the ring may take slots meanwhile. Then a worker is woken for nothing. */
	xiw_ring_ask(&qp->sq);
	if (xiw_ring_waits(&qp->sq))
		xiw_worker_queue(qp);
	return HRTIMER_NORESTART;
}

/* Whether requests gather from now on. Starts the timer if it does not run. */
static bool gather_begins(struct xiw_qp *qp)
{
	if (!xiw_gather_works(qp) || test_bit(XIW_WORKER_PROMPT, &qp->worker_flags))
		return false;
	if (!test_bit(XIW_WORKER_GATHERS, &qp->worker_flags) &&
	    xiw_worker_take(qp, XIW_WORKER_STREAMS)) {
		set_bit(XIW_WORKER_GATHERS, &qp->worker_flags);
		hrtimer_start(&qp->gather, READ_ONCE(qp->gather_ns), HRTIMER_MODE_REL_SOFT);
	}
	return test_bit(XIW_WORKER_GATHERS, &qp->worker_flags);
}

/* The kernel-doc of public functions is in gather.h. */
u32 xiw_gather_asks(struct xiw_qp *qp)
{
	u32 ready;

	xiw_qp_assert_locked(qp);

	if (!gather_begins(qp))
		return xiw_ring_unwatch(&qp->sq);
	xiw_pause("gather_asks");
	ready = xiw_ring_gather(&qp->sq);
	if (!test_bit(XIW_WORKER_GATHERS, &qp->worker_flags))	/* the timer has ended just now */
		ready = xiw_ring_unwatch(&qp->sq);
	return ready;
}

void xiw_gather_prepare(struct xiw_qp *qp)
{
	hrtimer_setup(&qp->gather, gather_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
}

void xiw_gather_forget(struct xiw_qp *qp)
{
	hrtimer_cancel(&qp->gather);
}
