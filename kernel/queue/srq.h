/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* srq.h - shared receive queues */
#ifndef XIW_SRQ_H
#define XIW_SRQ_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <rdma/ib_verbs.h>

#include "device.h"
#include "queue/ring.h"
#include "queue/slot.h"

/**
 * struct xiw_srq_waiter - a queue pair that takes requests out of a shared queue
 * @entry: place in the line, empty if it is not waiting; guarded by the lock of the queue
 * @called: a request is reserved for it; guarded by the lock of the queue
 * @again: the Send that needs a request has waited before. The caller sets this and @urgent
 *	before each xiw_srq_take()
 * @urgent: that Send cannot wait any longer
 * @resume: called when its turn has come, with the lock of the queue held, in any context
 */
struct xiw_srq_waiter {
	struct list_head	entry;
	bool			called;
	bool			again;
	bool			urgent;
	void			(*resume)(struct xiw_srq_waiter *waiter);
};

/**
 * struct xiw_srq - shared receive queue
 * @ibsrq: what the core sees
 * @max_sge: maximum number of SGEs of a request
 * @resizing: allows one resize at a time
 * @lock: guards all fields below; leaf, any context
 * @area: memory of the ring
 * @max_wr: maximum number of requests that the consumer may have posted
 * @ring: the ring
 * @limit: IB_EVENT_SRQ_LIMIT_REACHED is raised when fewer requests are left; 0 if it is not armed
 * @told: arming the limit raised that event, and no request has been taken since
 * @waiters: queue pairs whose next Send waits for a request, the longest waiting first. While the
 *	list is not empty, doorbells are requested
 * @promised: number of requests reserved for queue pairs that were called and have not taken one
 *	yet
 */
struct xiw_srq {
	struct ib_srq	ibsrq;
	u32		max_sge;
	struct mutex	resizing;

	spinlock_t	lock;	/* guards all below */
	struct xiw_area	*area;
	u32		max_wr;
	struct xiw_ring	ring;
	u32		limit;
	bool		told;
	struct list_head waiters;
	u32		promised;
};

static inline struct xiw_srq *to_xiw_srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct xiw_srq, ibsrq);
}

/* srq.c APIs */

/**
 * xiw_srq_take - take the next receive request of a shared queue for one queue pair
 * @srq: the queue
 * @waiter: entry of the queue pair, whose progress the caller owns
 * @recv: result
 *
 * Raises the limit event when it is due. If there is no request, or other queue pairs already wait
 * for one, the queue pair is put in line. It is resumed when its turn has come.
 *
 * Context: any.
 * Return: as xiw_slot_take_recv().
 */
enum xiw_slot_result xiw_srq_take(struct xiw_srq *srq, struct xiw_srq_waiter *waiter,
				  struct xiw_recv *recv);

/**
 * xiw_srq_leave - stop waiting for a request
 * @srq: the queue
 * @waiter: entry of the queue pair, waiting or not
 *
 * Context: any.
 */
void xiw_srq_leave(struct xiw_srq *srq, struct xiw_srq_waiter *waiter);

/* Verbs for struct ib_device_ops; kernel-doc is in srq.c. */
int xiw_srq_create(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr, struct ib_udata *udata);
int xiw_srq_modify(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		   struct ib_udata *udata);
int xiw_srq_query(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int xiw_srq_destroy(struct ib_srq *ibsrq, struct ib_udata *udata);
int xiw_srq_post(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		 const struct ib_recv_wr **bad_wr);

#endif /* XIW_SRQ_H */
