/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* loop.h - connections between two queue pairs of this host */
#ifndef XIW_LOOP_H
#define XIW_LOOP_H

#include <linux/kref.h>
#include <linux/spinlock.h>

#include "stream/qp.h"

/**
 * struct xiw_loop - a connection within this host
 * @lock: guards the progress of both queue pairs; see Locking in qp.h
 * @waiting: number of CPUs that wait for @lock
 * @qp: the two queue pairs; NULL for one that is detached
 * @ref: one for each endpoint and one for each holder of @lock; on another cache line than @lock,
 *	on which CPUs spin
 */
struct xiw_loop {
	spinlock_t	lock;
	atomic_t	waiting;
	struct xiw_qp	*qp[2];
	struct kref	ref ____cacheline_aligned_in_smp;
};

/* loop.c APIs */

/* Return: a loop without queue pairs and with one reference, or NULL without memory. */
struct xiw_loop *xiw_loop_create(void);

/**
 * xiw_loop_connect - pass segments from one queue pair to the other without TCP from now on
 * @loop: the loop; both endpoints keep a reference to it
 * @qp: one end; it is attached and has sent nothing yet
 * @peer: the other end, in the same state
 *
 * Context: process; the caller holds both socket locks.
 */
void xiw_loop_connect(struct xiw_loop *loop, struct xiw_qp *qp, struct xiw_qp *peer);

/*
 * Removes @qp from its loop if it is in one. The caller holds qp->lock, and the loop's lock if
 * there is a loop. The peer is woken because it may never see the end of the TCP connection: a
 * packet filter may drop the segments that close it.
 */
void xiw_loop_part(struct xiw_qp *qp);

static inline struct xiw_loop *xiw_loop_get(struct xiw_loop *loop)
{
	kref_get(&loop->ref);
	return loop;
}

void xiw_loop_put(struct xiw_loop *loop);

/* The other end, or NULL if it is detached. The caller holds the loop's lock. */
static inline struct xiw_qp *xiw_loop_peer(const struct xiw_qp *qp)
{
	return qp->loop->qp[qp->loop->qp[0] == qp];
}

/*
 * How often xiw_loop_unlock() checks whether the waiter has got the lock before it gives up: a
 * hypervisor may have descheduled the waiter's CPU.
 */
#define XIW_LOOP_PATIENCE	200

/*
 * Spinlocks may be unfair in a virtual machine, and a thread that sends a stream takes this lock
 * again as soon as it has released it. xiw_loop_unlock() therefore gives a waiter some time to take
 * it.
 *
 * Whether there is a loop is known only at run time, so sparse is told that nothing is locked.
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
 * Takes the lock of the loop of @qp, if there is one. The caller holds the socket lock of @qp.
 * Return: the loop, or NULL if there is none.
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
