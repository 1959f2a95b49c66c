/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* gather.h - lets the requests of a process gather until it has nothing else to do */
#ifndef XIW_GATHER_H
#define XIW_GATHER_H

#include <linux/hrtimer.h>

#include "stream/worker.h"

/*
 * Whether requests may gather: the administrator says so, and a timer can be that short. Without
 * high-resolution timers it may take a jiffy.
 */
static inline bool xiw_gather_works(const struct xiw_qp *qp)
{
	return hrtimer_resolution <= READ_ONCE(qp->gather_ns);
}

/*
 * Called by a doorbell of a stream before it sends. When all is sent, the process is asked to ring
 * later.
 */
static inline void xiw_gather(struct xiw_qp *qp)
{
	xiw_worker_take(qp, XIW_WORKER_PROMPT);
	set_bit(XIW_WORKER_STREAMS, &qp->worker_flags);
}

/*
 * Called by a doorbell before it sends, if its process may not ring later. Then the process is
 * asked for doorbells until one calls xiw_gather(), even if the timer runs.
 */
static inline void xiw_gather_nothing(struct xiw_qp *qp)
{
	if (!test_bit(XIW_WORKER_PROMPT, &qp->worker_flags))
		set_bit(XIW_WORKER_PROMPT, &qp->worker_flags);
	xiw_worker_take(qp, XIW_WORKER_STREAMS);
}

/*
 * Called after that run. If it has not begun to let requests gather, what the doorbell wanted is
 * over: a run that comes much later does not know who posts then, and whether it waits.
 */
static inline void xiw_gather_settle(struct xiw_qp *qp)
{
	if (!test_bit(XIW_WORKER_GATHERS, &qp->worker_flags))
		xiw_worker_take(qp, XIW_WORKER_STREAMS);
}

/* gather.c APIs */

/**
 * xiw_gather_asks - ask for doorbells, or for later ones while requests gather
 * @qp: queue pair, open and locked (see Locking); all that was posted is sent
 *
 * Requests gather if xiw_gather() was called and the timer has not ended since, unless
 * xiw_gather_nothing() was called later. The timer runs meanwhile. When it ends, it asks for
 * doorbells, and a worker sends what has gathered.
 *
 * Context: process or softirq.
 * Return: number of slots that were posted meanwhile, as xiw_ring_unwatch().
 */
u32 xiw_gather_asks(struct xiw_qp *qp);

/*
 * Set up and stop the timer of a queue pair. xiw_gather_forget() is called when no socket is
 * attached any more: nothing starts the timer then. It sleeps.
 */
void xiw_gather_prepare(struct xiw_qp *qp);
void xiw_gather_forget(struct xiw_qp *qp);

#endif /* XIW_GATHER_H */
