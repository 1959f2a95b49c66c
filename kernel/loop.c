// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* loop.c - connections whose two ends are queue pairs of this host */

#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <net/tcp.h>

#include "ep.h"
#include "loop.h"
#include "pause.h"
#include "sock.h"

/* If the other end is locked for longer TCP carries the stream. */
#define LOOP_PATIENCE_MS	200

static void loop_free(struct kref *ref)
{
	kfree(container_of(ref, struct xiw_loop, ref));
}

void xiw_loop_put(struct xiw_loop *loop)
{
	kref_put(&loop->ref, loop_free);
}

static struct xiw_loop *loop_create(void)
{
	struct xiw_loop *loop = kzalloc_obj(*loop, GFP_KERNEL);

	if (!loop)
		return NULL;
	kref_init(&loop->ref);
	spin_lock_init(&loop->lock);
	return loop;
}

static bool loop_allowed(const struct xiw_qp *qp)
{
	return xiw_qp_open(qp) && !qp->loop && READ_ONCE(qp->dev->loopback);
}

/* The socket lock is held. A reader may have qp->lock alone, so that is taken, too. */
static void loop_add(struct xiw_loop *loop, struct xiw_qp *qp, unsigned int end)
{
	unsigned long flags;

	lockdep_assert(lockdep_sock_is_held(qp->ep->sk));
	lockdep_assert_held(&loop->lock);

	loop->qp[end] = qp;
	kref_get(&loop->ref);
	qp->ep->loop = loop;
	spin_lock_irqsave(&qp->lock, flags);
	qp->loop = loop;
	spin_unlock_irqrestore(&qp->lock, flags);
}

/*
 * Whoever sees one end in the loop takes its lock before anything else, and then sees both there:
 * else an FPDU would reach an end that answers it over TCP, with a socket that we have locked.
 */
static void loop_connect(struct xiw_loop *loop, struct xiw_qp *qp, struct xiw_qp *peer)
{
	xiw_loop_lock(loop);
	loop_add(loop, qp, 0);
	xiw_pause("loop_connect");
	loop_add(loop, peer, 1);
	xiw_loop_unlock(loop);
}

/*
 * The process at the other end has its socket locked until its Reply is sent, which may have just
 * brought us here. It may also have lost its CPU for longer than others want to wait for it.
 */
static bool loop_lock_other(struct sock *other)
{
	unsigned long end = jiffies + msecs_to_jiffies(LOOP_PATIENCE_MS);
	bool locked;

	while (!(locked = xiw_sock_lock_now(other)) && time_before(jiffies, end))
		usleep_range(20, 100);
	return locked;
}

/* Connects @qp to what is attached to @other, if it waits for its first FPDU. */
static void loop_join(struct xiw_loop *loop, struct xiw_qp *qp, struct sock *other)
{
	struct xiw_qp *peer;

	if (!loop_lock_other(other))
		return;
	peer = xiw_sock_peer(qp->ep->sk, other);
	if (peer && loop_allowed(peer) && peer->tx.hold)
		loop_connect(loop, qp, peer);
	xiw_sock_unlock(other);
}

void xiw_loop_join(struct xiw_qp *qp)
{
	struct xiw_loop *loop;
	struct sock *other;

	lockdep_assert(lockdep_sock_is_held(qp->ep->sk));

	xiw_pause("loop_find");
	if (!loop_allowed(qp))
		return;
	other = xiw_sock_other_end(qp->ep->sk);
	if (!other)
		return;
	loop = loop_create();
	if (loop) {
		loop_join(loop, qp, other);
		xiw_loop_put(loop);
	}
	sock_put(other);
}

void xiw_loop_part(struct xiw_qp *qp)
{
	struct xiw_loop *loop = qp->loop;
	struct xiw_qp *peer;

	lockdep_assert_held(&qp->lock);

	if (!loop)
		return;
	lockdep_assert_held(&loop->lock);
	peer = xiw_loop_peer(qp);
	loop->qp[loop->qp[1] == qp] = NULL;
	qp->loop = NULL;
	if (peer)
		xiw_ep_wake(peer->ep, XIW_EP_EV_ALONE);
}
