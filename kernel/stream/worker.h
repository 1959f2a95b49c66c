/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* worker.h - per-CPU threads that send and receive for busy queue pairs */
#ifndef XIW_WORKER_H
#define XIW_WORKER_H

#include <linux/cpumask.h>

#include "pause.h"
#include "stream/qp.h"

/* xiw_qp.worker_flags, bit numbers */
#define XIW_WORKER_QUEUED	0	/* a worker has the queue pair, or will get it */
#define XIW_WORKER_WANTED	1	/* it has to send at least once more */
#define XIW_WORKER_WATCHES	2	/* a worker watches the ring: no doorbells needed */
#define XIW_WORKER_DEFERRED	3	/* the next doorbell means that the process waits */
#define XIW_WORKER_LOCKED_OUT	4	/* the holder of its socket queues it to a worker */
#define XIW_WORKER_LANE_WAITS	5	/* ... wakes its endpoint */
#define XIW_WORKER_RECEIVES	6	/* it has to receive at least once more */
#define XIW_WORKER_STREAMS	7	/* a doorbell has called xiw_gather() */
#define XIW_WORKER_GATHERS	8	/* the process may ring later; the timer of gather.c runs */
#define XIW_WORKER_PROMPT	9	/* but not now: a doorbell called xiw_gather_nothing() */

static inline bool xiw_worker_watches(const struct xiw_qp *qp)
{
	return test_bit(XIW_WORKER_WATCHES, &qp->worker_flags);
}

/* Clears a flag that is rarely set; then looking costs less. Return: whether it was set. */
static inline bool xiw_worker_take(struct xiw_qp *qp, int flag)
{
	return unlikely(test_bit(flag, &qp->worker_flags)) &&
	       test_and_clear_bit(flag, &qp->worker_flags);
}

/*
 * Whether there is no other CPU. Then a worker can send only while the process does not run. This
 * may change at any time.
 */
static inline bool xiw_worker_shares_cpu(void)
{
	return num_online_cpus() == 1 || xiw_fails("other_cpus");
}

/* worker.c APIs */

/**
 * xiw_worker_queue - have a worker transmit for a queue pair
 * @qp: the queue pair; the worker takes its own reference
 *
 * The worker serves the queue pair until it has had nothing to do for some time. Meanwhile the
 * queue pair needs no doorbells.
 *
 * Context: any.
 */
void xiw_worker_queue(struct xiw_qp *qp);

/**
 * xiw_worker_receive - have a worker of another CPU receive for a queue pair
 * @qp: the queue pair; the worker takes its own reference
 *
 * Context: softirq.
 * Return: false if no other CPU may take it. Then the caller has to receive.
 */
bool xiw_worker_receive(struct xiw_qp *qp);

/* Whether a worker was asked to receive and has not begun. */
static inline bool xiw_worker_receives(const struct xiw_qp *qp)
{
	return test_bit(XIW_WORKER_RECEIVES, &qp->worker_flags);
}

/* Has the worker in which the caller runs receive again, after it has served others. */
void xiw_worker_receive_again(struct xiw_qp *qp);

/* Whether the caller runs in a worker. Context: any. */
bool xiw_worker_is_current(void);

/* Has a worker do what it could not do, because the socket was locked. Context: any. */
void xiw_worker_resume(struct xiw_qp *qp);

/**
 * xiw_worker_retry - have a worker transmit for a queue pair after a pause
 * @qp: the queue pair, locked (see Locking); a reference is held during the pause
 *
 * For a lack of memory, because no event tells when memory is back. Each pause in a row is twice as
 * long as the one before, up to a limit.
 *
 * Context: any.
 */
void xiw_worker_retry(struct xiw_qp *qp);

/*
 * Set up and stop the retry timer of a queue pair. xiw_worker_forget() is called when no socket is
 * attached any more: a worker that was locked out may still start the timer, which then holds a
 * reference. It sleeps.
 */
void xiw_worker_prepare(struct xiw_qp *qp);
void xiw_worker_forget(struct xiw_qp *qp);

int xiw_workers_init(void);
void xiw_workers_exit(void);

#endif /* XIW_WORKER_H */
