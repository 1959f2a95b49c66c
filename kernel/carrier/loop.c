// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* loop.c - connections between two queue pairs of this host */

#include <linux/slab.h>
#include <net/sock.h>

#include "carrier/loop.h"
#include "conn/ep.h"
#include "pause.h"

static void loop_free(struct kref *ref)
{
	kfree(container_of(ref, struct xiw_loop, ref));
}

/* Kernel-doc of the functions that other files call is in loop.h. */
void xiw_loop_put(struct xiw_loop *loop)
{
	kref_put(&loop->ref, loop_free);
}

struct xiw_loop *xiw_loop_create(void)
{
	struct xiw_loop *loop = kzalloc_obj(*loop, GFP_KERNEL);

	if (!loop)
		return NULL;
	kref_init(&loop->ref);
	spin_lock_init(&loop->lock);
	return loop;
}

/*
 * The caller holds the socket lock. Some readers of qp->loop hold only qp->lock, so take it, too.
 */
static void loop_add(struct xiw_loop *loop, struct xiw_qp *qp, unsigned int end)
{
	unsigned long flags;

	lockdep_assert(lockdep_sock_is_held(qp->sk));
	lockdep_assert_held(&loop->lock);

	loop->qp[end] = qp;
	spin_lock_irqsave(&qp->lock, flags);
	qp->loop = loop;
	spin_unlock_irqrestore(&qp->lock, flags);
}

/*
 * A thread that sees one end in the loop takes loop->lock before anything else, and then finds both
 * ends there. Without that, a segment could reach an end that still answers over TCP, through a
 * socket that the caller of this function has locked.
 */
void xiw_loop_connect(struct xiw_loop *loop, struct xiw_qp *qp, struct xiw_qp *peer)
{
	xiw_loop_lock(loop);
	loop_add(loop, qp, 0);
	xiw_pause("loop_connect");
	loop_add(loop, peer, 1);
	xiw_loop_unlock(loop);
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
