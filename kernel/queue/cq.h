/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* cq.h - completions and notification */
#ifndef XIW_CQ_H
#define XIW_CQ_H

#include <linux/mutex.h>
#include <rdma/ib_verbs.h>
#include <rdma/xiw-abi.h>

#include "device.h"

/**
 * struct xiw_cq - completion queue
 * @ibcq: what the core sees
 * @resizing: allows one resize at a time
 * @lock: guards all fields below; leaf, any context
 * @area: memory that holds @ctl and @slots
 * @ctl: shared control words
 * @slots: shared entries
 * @entries: number of entries, a power of two
 * @produced: number of entries ever written
 * @consumed: number of entries ever read; for a process, as it was when the kernel last looked
 * @arm: kernel consumer: its last request, encoded as in xiw_cq_ctl.arm
 * @fired: value of arm for which the last notification was sent
 * @fresh: entries written since the last xiw_cq_fire(): XIW_CQ_FRESH_*
 * @calling: a kernel consumer is being called; a second call must wait until the first has
 *	returned
 * @broken: the queue has overflowed, and no more entries are written
 * @stamped: completions carry a timestamp
 */
struct xiw_cq {
	struct ib_cq		ibcq;
	struct mutex		resizing;

	spinlock_t		lock;	/* guards all below */
	struct xiw_area		*area;
	struct xiw_cq_ctl	*ctl;
	struct xiw_cqe		*slots;
	u32			entries;
	u32			produced;
	u32			consumed;
	u32			arm;
	u32			fired;
	u8			fresh;
	bool			calling;
	bool			broken;
	bool			stamped;
};

#define XIW_CQ_FRESH		0x1
#define XIW_CQ_FRESH_SOLICITED	0x2	/* a solicited one, or an error */

static inline struct xiw_cq *to_xiw_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct xiw_cq, ibcq);
}

/* cq.c APIs */

/**
 * xiw_cq_push - write one completion
 * @cq: the queue
 * @cqe: the completion; gen, timestamp and reserved words are filled in here. @cqe->solicited
 *	marks a solicited completion
 *
 * The consumer can poll the entry at once, but only xiw_cq_fire() notifies it. An overflow marks
 * the queue as broken and raises IB_EVENT_CQ_ERR once.
 *
 * Context: any.
 * Return: 0, or -EOVERFLOW if the queue is broken: the caller must then end the queue pair.
 */
int xiw_cq_push(struct xiw_cq *cq, const struct xiw_cqe *cqe);

/**
 * xiw_cq_fire - notify the consumer if it asked for what was pushed since the last call
 * @cq: the queue
 *
 * Context: any; the caller holds no lock of a QP, SRQ or CQ, but may hold a socket lock.
 */
void xiw_cq_fire(struct xiw_cq *cq);

/**
 * xiw_cq_seen - whether the process claims to have read an entry
 * @cq: the queue
 * @count: count of the entry
 *
 * This is only a hint for speed. Correctness must not depend on it.
 *
 * Context: any.
 * Return: true if the process claims so.
 */
bool xiw_cq_seen(struct xiw_cq *cq, u32 count);

/* Whether a process has asked to be notified of the next completion. Also only a hint. */
bool xiw_cq_awaited(struct xiw_cq *cq);

/* Verbs for struct ib_device_ops; kernel-doc is in cq.c. */
int xiw_cq_create(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		  struct uverbs_attr_bundle *attrs);
int xiw_cq_resize(struct ib_cq *ibcq, unsigned int wanted, struct ib_udata *udata);
int xiw_cq_destroy(struct ib_cq *ibcq, struct ib_udata *udata);
int xiw_cq_poll(struct ib_cq *ibcq, int num_entries, struct ib_wc *wc);
int xiw_cq_arm(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

#endif /* XIW_CQ_H */
