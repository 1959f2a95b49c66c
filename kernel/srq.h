/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* srq.h - shared receive queues */
#ifndef XIW_SRQ_H
#define XIW_SRQ_H

#include <linux/list.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <rdma/ib_verbs.h>
#include <rdma/xiw-abi.h>

#include "device.h"
#include "ring.h"

struct xiw_qp;

/**
 * struct xiw_recv - a receive request that was taken out of its ring and judged
 * @wr_id: as posted
 * @num_sge: 0 to XIW_MAX_SGE
 * @length: sum of the lengths of @sge, or as much of it as a message can have
 * @sge: where the message goes
 */
struct xiw_recv {
	u64		wr_id;
	u32		num_sge;
	u64		length;
	struct xiw_sge	sge[XIW_MAX_SGE];
};

/**
 * struct xiw_srq - shared receive queue
 * @ibsrq: what the core sees
 * @max_sge: SGEs of a request
 * @resizing: one change of the memory at a time
 * @lock: guards all below; taken in any context, a leaf
 * @area: memory of the ring
 * @max_wr: requests that the consumer may have posted
 * @ring: the ring
 * @limit: IB_EVENT_SRQ_LIMIT_REACHED is due when fewer are left; 0 if not armed
 * @told: that event was raised by arming it, and no request was taken since
 * @waiters: queue pairs whose next Send waits for a request, the longest first; doorbells are
 *	asked for while there are any
 * @promised: requests that are kept for queue pairs which were called and have not come yet
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

/* Octets of a slot that holds @max_sge SGEs: a power of two. */
static inline u32 xiw_recv_slot_size(u32 max_sge)
{
	return roundup_pow_of_two(offsetof(struct xiw_recv_slot, sge) +
				  max(max_sge, 1u) * sizeof(struct xiw_sge));
}

/* The SGEs of a slot, of which the type only names the first. */
static inline void *xiw_recv_slot_sges(void *slot)
{
	return slot + offsetof(struct xiw_recv_slot, sge);
}

/* srq.c APIs */

/**
 * xiw_recv_take - take the next receive request out of a ring
 * @recv: result
 * @ring: ring of a receive or shared receive queue; the caller holds what guards it
 * @max_sge: SGEs that a request may have
 *
 * Copies the slot once, judges the copy, and gives the slot back.
 *
 * Return: 0, -ENOENT if none is there, or -EINVAL if the ring or the request is nonsense. A
 * request that is nonsense has been taken, with its wr_id and no SGEs; a ring stays as it is.
 */
int xiw_recv_take(struct xiw_recv *recv, struct xiw_ring *ring, u32 max_sge);

/**
 * xiw_recv_post - kernel consumer: put receive requests into a ring
 * @ring: ring; the caller holds what guards its producing side
 * @max_wr: requests that may wait
 * @max_sge: SGEs that a request may have
 * @wr: list of requests
 * @bad_wr: names the first that was refused; those before it are posted
 *
 * Return: 0, -ENOMEM if the ring is full, or -EINVAL for too many SGEs.
 */
int xiw_recv_post(struct xiw_ring *ring, u32 max_wr, u32 max_sge, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad_wr);

/**
 * xiw_srq_take - take the next receive request of a shared queue for one QP
 * @srq: the queue
 * @qp: the queue pair, whose progress the caller owns; it gets the request in its rx.recv
 *
 * Raises the limit event when it is due. If there is no request, or others wait for one already,
 * the queue pair is put in line, and its endpoint is woken when its turn has come.
 *
 * Context: any.
 * Return: as xiw_recv_take().
 */
int xiw_srq_take(struct xiw_srq *srq, struct xiw_qp *qp);

/**
 * xiw_srq_leave - a queue pair does not wait for a request any more
 * @srq: the queue
 * @qp: the queue pair, waiting or not
 *
 * Context: any.
 */
void xiw_srq_leave(struct xiw_srq *srq, struct xiw_qp *qp);

/* Verbs, as struct ib_device_ops wants them; kernel-doc is in srq.c. */
int xiw_srq_create(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr, struct ib_udata *udata);
int xiw_srq_modify(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		   struct ib_udata *udata);
int xiw_srq_query(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int xiw_srq_destroy(struct ib_srq *ibsrq, struct ib_udata *udata);
int xiw_srq_post(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		 const struct ib_recv_wr **bad_wr);

#endif /* XIW_SRQ_H */
