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

int xiw_workers_init(void);
void xiw_workers_exit(void);

#endif /* XIW_WORKER_H */
