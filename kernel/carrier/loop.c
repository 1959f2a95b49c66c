// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* loop.c - carries a stream between two queue pairs of this host without TCP */

#include <linux/slab.h>
#include <net/sock.h>

#include "carrier/carrier.h"
#include "carrier/loop.h"
#include "conn/ep.h"
#include "pause.h"

/* The most payload of one segment, in bytes. It is copied with softirqs off. */
#define LOOP_SEGMENT_MAX	(32 * 1024)

/* What each segment adds to its payload when it is counted against the budget, in bytes. */
#define LOOP_SEGMENT_WEIGHT	256

/* Bytes per run, and again for all the answers to it: softirqs are off. */
#define LOOP_BUDGET		(128 * 1024)

/**
 * struct xiw_loop - a connection within this host
 * @lock: guards the progress of both queue pairs; see Locking in qp.h
 * @waiting: number of CPUs that wait for @lock
 * @qp: the two queue pairs; NULL for one that is detached
 * @receive: processes a segment at the other end
 * @ref: one for each endpoint and one for each holder of @lock; on another cache line than @lock,
 *	on which CPUs spin
 */
struct xiw_loop {
	spinlock_t		lock;
	atomic_t		waiting;
	struct xiw_qp		*qp[2];
	xiw_loop_receive_t	*receive;
	struct kref		ref ____cacheline_aligned_in_smp;
};

/* The other end, or NULL if it is detached. The caller holds the loop's lock. */
static struct xiw_qp *loop_peer(const struct xiw_qp *qp)
{
	return qp->loop->qp[qp->loop->qp[0] == qp];
}

/*
 * The lock
 */

/*
 * How often loop_release() checks whether the waiter has got the lock before it gives up: a
 * hypervisor may have descheduled the waiter's CPU. Without any patience ib_send_bw -e stood still
 * in 3 of 40 runs, and in none with it.
 */
#define LOOP_PATIENCE	200

/*
 * Spinlocks may be unfair in a virtual machine, and a thread that sends a stream takes this lock
 * again as soon as it has released it. loop_release() therefore gives a waiter some time to take
 * it.
 */
static void loop_take(struct xiw_loop *loop) __acquires(&loop->lock)
{
	local_bh_disable();
	if (!spin_trylock(&loop->lock)) {
		atomic_inc(&loop->waiting);
		spin_lock(&loop->lock);
		atomic_dec(&loop->waiting);
	}
}

static void loop_release(struct xiw_loop *loop) __releases(&loop->lock)
{
	unsigned int turns = LOOP_PATIENCE;

	spin_unlock_bh(&loop->lock);
	while (atomic_read(&loop->waiting) && turns--)
		cpu_relax();
}

static void loop_hold(const struct xiw_driver *driver)
{
	xiw_loop_get(driver->loop);
}

static void loop_put(const struct xiw_driver *driver)
{
	xiw_loop_put(driver->loop);
}

static bool loop_lock(const struct xiw_driver *driver, bool wait)
	__acquires(&driver->loop->lock)
{
	loop_take(driver->loop);
	return true;
}

static void loop_enter(const struct xiw_driver *driver) __acquires(&driver->loop->lock)
{
	loop_take(driver->loop);
}

static void loop_unlock(const struct xiw_driver *driver) __releases(&driver->loop->lock)
{
	loop_release(driver->loop);
}

static void loop_assert_locked(const struct xiw_qp *qp)
{
	lockdep_assert_held(&qp->loop->lock);
}

/*
 * Life
 */

static void loop_free(struct kref *ref)
{
	kfree(container_of(ref, struct xiw_loop, ref));
}

/* Kernel-doc of the functions that other files call is in loop.h. */
struct xiw_loop *xiw_loop_get(struct xiw_loop *loop)
{
	kref_get(&loop->ref);
	return loop;
}

void xiw_loop_put(struct xiw_loop *loop)
{
	kref_put(&loop->ref, loop_free);
}

struct xiw_loop *xiw_loop_create(xiw_loop_receive_t *receive)
{
	struct xiw_loop *loop = kzalloc_obj(*loop, GFP_KERNEL);

	if (!loop)
		return NULL;
	kref_init(&loop->ref);
	spin_lock_init(&loop->lock);
	loop->receive = receive;
	return loop;
}

/*
 * The caller holds the socket lock. Some readers of qp->loop hold only qp->lock, so take it, too.
 */
static void loop_join(struct xiw_loop *loop, struct xiw_qp *qp, unsigned int end)
{
	unsigned long flags;

	lockdep_assert(lockdep_sock_is_held(qp->sk));
	lockdep_assert_held(&loop->lock);

	loop->qp[end] = qp;
	spin_lock_irqsave(&qp->lock, flags);
	WRITE_ONCE(qp->loop, loop);
	WRITE_ONCE(qp->carrier, &xiw_loop_carrier);
	spin_unlock_irqrestore(&qp->lock, flags);
}

/*
 * A thread that sees one end in the loop takes loop->lock before anything else, and then finds both
 * ends there. Without that, a segment could reach an end that still answers over TCP, through a
 * socket that the caller of this function has locked.
 */
void xiw_loop_connect(struct xiw_loop *loop, struct xiw_qp *qp, struct xiw_qp *peer)
{
	loop_take(loop);
	loop_join(loop, qp, 0);
	xiw_pause("loop_connect");
	loop_join(loop, peer, 1);
	loop_release(loop);
}

/*
 * The peer is woken because it may never see the end of the TCP connection: a packet filter may
 * drop the segments that close it.
 */
static void loop_part(struct xiw_qp *qp)
{
	struct xiw_loop *loop = qp->loop;
	struct xiw_qp *peer;

	lockdep_assert_held(&qp->lock);
	lockdep_assert_held(&loop->lock);

	peer = loop_peer(qp);
	loop->qp[loop->qp[1] == qp] = NULL;
	WRITE_ONCE(qp->loop, NULL);
	WRITE_ONCE(qp->carrier, &xiw_over_tcp_carrier);
	if (peer)
		xiw_ep_wake(peer->ep, XIW_EP_EV_ALONE);
}

/*
 * The carrier
 */

/* Only the headers are written; the peer copies the payload from its source. */
static enum xiw_segment_result loop_begin(struct xiw_run *run, struct xiw_fpdu *fpdu, u32 hdr_len,
					  u32 *payload)
{
	struct xiw_qp *peer = loop_peer(run->qp);

	if (!peer || !xiw_qp_open(peer))
		return XIW_SEGMENT_NONE;	/* the socket will report the end */
	fpdu->start = &run->hdr;
	fpdu->at = fpdu->start + sizeof(struct xiw_fpdu_head);
	*payload = min(*payload, LOOP_SEGMENT_MAX);
	run->payload = (struct xiw_cursor){};
	run->payload_len = 0;
	return XIW_SEGMENT_STAGED;
}

/* A segment that makes the peer end its stream counts as sent. The peer reports the cause. */
static bool loop_end(struct xiw_run *run, struct xiw_fpdu *fpdu)
{
	struct xiw_qp *peer = loop_peer(run->qp);
	u32 ulpdu_len = fpdu->at - fpdu->start - sizeof(struct xiw_fpdu_head) + run->payload_len;
	enum xiw_cause cause;

	run->hdr.mpa.ulpdu_len = cpu_to_be16(ulpdu_len);
	cause = run->qp->loop->receive(peer, &run->hdr, ulpdu_len, &run->payload);
	if (run->payload.mr)
		xiw_mr_put(run->payload.mr);
	WRITE_ONCE(peer->doorbells, 0);
	run->staged += LOOP_SEGMENT_WEIGHT + run->payload_len;
	xiw_qp_count(run->qp, XIW_STAT_TX_LOOP, 1);
	return cause != XIW_NOT_YET;
}

static void loop_add_region(struct xiw_run *run, struct xiw_fpdu *fpdu, struct xiw_mr *mr, u64 addr,
			    u32 len)
{
	run->payload = (struct xiw_cursor){ .mr = mr, .addr = addr };
	run->payload_len = len;
}

static void loop_add_data(struct xiw_run *run, struct xiw_fpdu *fpdu, const void *data, u32 len)
{
	run->payload = (struct xiw_cursor){ .data = data };
	run->payload_len = len;
}

static bool loop_full(const struct xiw_run *run)
{
	return run->staged >= run->budget;
}

const struct xiw_carrier xiw_loop_carrier = {
	.by_reference = true,
	.resends = true,
	.budget = LOOP_BUDGET,
	.begin = loop_begin,
	.add = loop_add_region,
	.add_data = loop_add_data,
	.end = loop_end,
	.full = loop_full,
	.peer = loop_peer,
	.hold = loop_hold,
	.put = loop_put,
	.lock = loop_lock,
	.unlock = loop_unlock,
	.enter = loop_enter,
	.leave = loop_unlock,
	.part = loop_part,
	.assert_locked = loop_assert_locked,
};
