// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* ep_loop.c - finds out whether the peer is a queue pair of this host, and connects the two */

#include <linux/delay.h>
#include <linux/jiffies.h>
#include <net/sock.h>

#include "carrier/carrier.h"
#include "carrier/loop.h"
#include "carrier/sock_lock.h"
#include "conn/ep.h"
#include "conn/sock.h"
#include "device.h"
#include "pause.h"
#include "stream/qp.h"
#include "stream/rx.h"

/* If the other end stays locked for longer than this, TCP carries the stream. */
#define EP_LOOP_PATIENCE_MS	200

static bool ep_may_loop(const struct xiw_qp *qp)
{
	return xiw_qp_open(qp) && qp->carrier == &xiw_over_tcp_carrier &&
	       xiw_setting(&qp->dev->settings, XIW_SET_LOOPBACK);
}

/*
 * The process at the other end keeps its socket locked until it has sent its Reply. That Reply may
 * have just brought us here, so the lock is worth a short wait. It is not worth a long one, because
 * that process may have lost its CPU and this thread has other endpoints to run.
 */
static bool ep_lock_other(struct sock *other)
{
	unsigned long end = jiffies + msecs_to_jiffies(EP_LOOP_PATIENCE_MS);
	bool locked;

	while (!(locked = xiw_sock_lock_now(other)) && time_before(jiffies, end))
		usleep_range(20, 100);
	return locked;
}

/* Connects the two queue pairs if the one of @other still waits for its first FPDU. */
static void ep_connect_loop(struct xiw_ep *ep, struct xiw_loop *loop, struct sock *other)
{
	struct xiw_qp *peer;

	if (!ep_lock_other(other))
		return;
	peer = xiw_sock_peer(ep->sk, other);
	if (peer && ep_may_loop(peer) && peer->tx.hold) {
		ep->loop = xiw_loop_get(loop);
		peer->ep->loop = xiw_loop_get(loop);
		xiw_loop_connect(loop, ep->qp, peer);
	}
	if (peer)
		xiw_qp_get(peer);
	xiw_sock_unlock(other);
	if (peer) {
		xiw_qp_unlocked(peer);	/* its lane or its worker may have wanted the socket */
		xiw_qp_put(peer);
	}
}

void xiw_ep_join_loop(struct xiw_ep *ep)
{
	struct xiw_loop *loop;
	struct sock *other;

	lockdep_assert(lockdep_sock_is_held(ep->sk));

	xiw_pause("loop_find");
	if (!ep_may_loop(ep->qp))
		return;
	other = xiw_sock_other_end(ep->sk);
	if (!other)
		return;
	loop = xiw_loop_create(xiw_rx_segment);
	if (loop) {
		ep_connect_loop(ep, loop, other);
		xiw_loop_put(loop);
	}
	sock_put(other);
}
