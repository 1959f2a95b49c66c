/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* worker.h - threads that transmit for queue pairs which are busy */
#ifndef XIW_WORKER_H
#define XIW_WORKER_H

#include "qp.h"

/* xiw_qp.worker_flags, bit numbers */
#define XIW_WORKER_QUEUED	0	/* a worker has it, or it is on its way to one */
#define XIW_WORKER_WANTED	1	/* it shall be run at least once more */
#define XIW_WORKER_WATCHES	2	/* a worker looks at its ring: doorbells are not needed */
#define XIW_WORKER_DEFERRED	3	/* the next doorbell says that the process waits */
#define XIW_WORKER_LOCKED_OUT	4	/* whoever has the queue pair locked gives it to a worker */

static inline bool xiw_worker_watches(const struct xiw_qp *qp)
{
	return test_bit(XIW_WORKER_WATCHES, &qp->worker_flags);
}

/* worker.c APIs */

/**
 * xiw_worker_queue - have a worker transmit for a queue pair
 * @qp: the queue pair; the worker takes a reference of its own
 *
 * The worker runs it until it finds nothing to do for some time, and needs no doorbells meanwhile.
 *
 * Context: any.
 */
void xiw_worker_queue(struct xiw_qp *qp);

/**
 * xiw_worker_retry - have a worker transmit for a queue pair after a pause
 * @qp: the queue pair; a reference is taken until then
 *
 * For lack of memory, of which no event tells the end. Each pause in a row is longer, up to a
 * bound.
 *
 * Context: any; what drives the queue pair is locked.
 */
void xiw_worker_retry(struct xiw_qp *qp);

/*
 * The timer of that, which it inits; and its end, when nothing is attached any more: a worker that
 * was locked out may still start it, with a reference. Sleeps.
 */
void xiw_worker_prepare(struct xiw_qp *qp);
void xiw_worker_forget(struct xiw_qp *qp);

int xiw_workers_init(void);
void xiw_workers_exit(void);

#endif /* XIW_WORKER_H */
