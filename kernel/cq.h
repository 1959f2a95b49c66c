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
 * @resizing: one change of the memory at a time
 * @lock: guards all below; taken in any context, a leaf
 * @area: memory of @ctl and @slots
 * @ctl: shared control words
 * @slots: shared entries
 * @entries: number of them, a power of two
 * @produced: entries ever written
 * @consumed: entries ever read, by a process when we looked last
 * @arm: kernel consumer: what it asked for last, as xiw_cq_ctl.arm
 * @fired: the value of arm that was notified last
 * @fresh: entries written since the last xiw_cq_fire(): XIW_CQ_FRESH_*
 * @calling: the consumer is being called; two calls at a time would be too many for him
 * @broken: it overflowed; nothing is written any more
 * @stamped: completions carry the time
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
 * @cq: where to
 * @cqe: what; gen, timestamp and reserved words are filled here. @cqe->solicited marks a
 *	solicited one
 *
 * The consumer sees it at once, but is notified by xiw_cq_fire() only. Overflow marks the queue
 * as broken and raises IB_EVENT_CQ_ERR once.
 *
 * Context: any.
 * Return: 0, or -EOVERFLOW if the queue is broken: the queue pair has to be ended.
 */
int xiw_cq_push(struct xiw_cq *cq, const struct xiw_cqe *cqe);

/**
 * xiw_cq_fire - notify the consumer if it asked for what was pushed since the last call
 * @cq: the queue
 *
 * Context: any; no lock of a QP, SRQ or CQ is held by the caller except a socket's.
 */
void xiw_cq_fire(struct xiw_cq *cq);

/**
 * xiw_cq_seen - whether the process says that it has read an entry
 * @cq: the queue
 * @count: number of the entry
 *
 * A hint for speed: nothing may depend on it.
 *
 * Context: any.
 * Return: true if it has, as far as it tells.
 */
bool xiw_cq_seen(struct xiw_cq *cq, u32 count);

/* Whether a process has asked for the next event: a hint, too. */
bool xiw_cq_awaited(struct xiw_cq *cq);

/* Verbs, as struct ib_device_ops wants them; kernel-doc is in cq.c. */
int xiw_cq_create(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		  struct uverbs_attr_bundle *attrs);
int xiw_cq_resize(struct ib_cq *ibcq, unsigned int wanted, struct ib_udata *udata);
int xiw_cq_destroy(struct ib_cq *ibcq, struct ib_udata *udata);
int xiw_cq_poll(struct ib_cq *ibcq, int num_entries, struct ib_wc *wc);
int xiw_cq_arm(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

#endif /* XIW_CQ_H */
