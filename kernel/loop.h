/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* loop.h - connections whose two ends are queue pairs of this host */
#ifndef XIW_LOOP_H
#define XIW_LOOP_H

#include <linux/kref.h>
#include <linux/spinlock.h>

#include "qp.h"

/**
 * struct xiw_loop - a connection within this host
 * @ref: one for each endpoint
 * @lock: the progress of both queue pairs; see Locking in qp.h
 * @waiting: how many wait for @lock
 * @qp: the two, or NULL for one that is detached
 */
struct xiw_loop {
	struct kref	ref;
	spinlock_t	lock;
	atomic_t	waiting;
	struct xiw_qp	*qp[2];
};

/* loop.c APIs */

/**
 * xiw_loop_join - find out whether the peer is a queue pair of this host, and connect both
 * @qp: queue pair of an initiator, just attached; it has sent nothing yet
 *
 * From here on segments go from one to the other without TCP, which only carries a Terminate and
 * the close. Both ends must be in one network namespace and have the setting "loopback", and the
 * responder must be one that waits for the first FPDU (RFC 5044 section 7.1.2): nothing is in TCP's
 * hands then. If any of that is not so, TCP carries the stream.
 *
 * Context: process; the socket lock of @qp is held, and that of its peer is taken.
 */
void xiw_loop_join(struct xiw_qp *qp);

/*
 * Takes @qp out of its loop, if it has one, whose lock is held. Its peer is told, for nobody knows
 * whether TCP will bring the end: a filter may take it away.
 */
void xiw_loop_part(struct xiw_qp *qp);

void xiw_loop_put(struct xiw_loop *loop);

/* The other end, or NULL if it is detached; the lock is held. */
static inline struct xiw_qp *xiw_loop_peer(const struct xiw_qp *qp)
{
	return qp->loop->qp[qp->loop->qp[0] == qp];
}

/* How many turns of a waiting loop one gives way: a hypervisor may have taken the other's CPU. */
#define XIW_LOOP_PATIENCE	200

/*
 * In a virtual machine spinlocks may be unfair, and who sends a stream takes this one again as soon
 * as it has let go: so the next one is let in first.
 *
 * Whether there is a loop is known at run time only: sparse is told that nothing is locked.
 */
static inline void xiw_loop_lock(struct xiw_loop *loop)
{
	local_bh_disable();
	if (!spin_trylock(&loop->lock)) {
		atomic_inc(&loop->waiting);
		spin_lock(&loop->lock);
		atomic_dec(&loop->waiting);
	}
	__release(&loop->lock);
}

static inline void xiw_loop_unlock(struct xiw_loop *loop)
{
	unsigned int turns = XIW_LOOP_PATIENCE;

	__acquire(&loop->lock);
	spin_unlock_bh(&loop->lock);
	while (atomic_read(&loop->waiting) && turns--)
		cpu_relax();
}

/*
 * The caller holds the socket lock of @qp. Takes what else its progress needs. Return: the loop, or
 * NULL if there is none.
 */
static inline struct xiw_loop *xiw_loop_enter(struct xiw_qp *qp)
{
	struct xiw_loop *loop = qp->loop;

	if (loop)
		xiw_loop_lock(loop);
	return loop;
}

static inline void xiw_loop_leave(struct xiw_loop *loop)
{
	if (loop)
		xiw_loop_unlock(loop);
}

#endif /* XIW_LOOP_H */
