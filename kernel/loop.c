// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* loop.c - connections whose two ends are queue pairs of this host */

#include <linux/slab.h>
#include <net/tcp.h>

#include "ep.h"
#include "loop.h"
#include "sock.h"

static void loop_free(struct kref *ref)
{
	kfree(container_of(ref, struct xiw_loop, ref));
}

void xiw_loop_put(struct xiw_loop *loop)
{
	kref_put(&loop->ref, loop_free);
}

/* Both socket locks are held; who takes qp->lock alone is to see the loop, too. */
static void loop_add(struct xiw_loop *loop, struct xiw_qp *qp, unsigned int end)
{
	unsigned long flags;

	loop->qp[end] = qp;
	kref_get(&loop->ref);
	qp->ep->loop = loop;
	spin_lock_irqsave(&qp->lock, flags);
	qp->loop = loop;
	spin_unlock_irqrestore(&qp->lock, flags);
}

static bool loop_allowed(const struct xiw_qp *qp)
{
	return xiw_qp_open(qp) && !qp->loop && READ_ONCE(qp->dev->loopback);
}

static void loop_connect(struct xiw_qp *qp, struct sock *other)
{
	struct xiw_ep *ep = xiw_sock_ep(other);
	struct xiw_loop *loop;
	struct xiw_qp *peer;

	peer = ep ? READ_ONCE(ep->qp) : NULL;
	if (!peer || !loop_allowed(peer) || !peer->tx.hold)
		return;
	loop = kzalloc_obj(*loop, GFP_KERNEL);
	if (!loop)
		return;
	kref_init(&loop->ref);
	spin_lock_init(&loop->lock);
	loop_add(loop, qp, 0);
	loop_add(loop, peer, 1);
	xiw_loop_put(loop);
}

void xiw_loop_join(struct xiw_qp *qp)
{
	struct sock *sk = qp->ep->sk;
	struct sock *other;

	lockdep_assert(lockdep_sock_is_held(sk));

	if (!loop_allowed(qp))
		return;
	other = xiw_sock_other_end(sk);
	if (!other)
		return;
	if (other != sk) {
		lock_sock_nested(other, SINGLE_DEPTH_NESTING);
		loop_connect(qp, other);
		release_sock(other);
	}
	sock_gen_put(other);
}

void xiw_loop_part(struct xiw_qp *qp)
{
	struct xiw_loop *loop = qp->loop;

	lockdep_assert_held(&qp->lock);

	if (!loop)
		return;
	lockdep_assert_held(&loop->lock);
	loop->qp[loop->qp[1] == qp] = NULL;
	qp->loop = NULL;
}
