// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* ep.c - one TCP connection, from before its handshake to after its end */

#include <linux/jiffies.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <net/l3mdev.h>
#include <net/sock.h>

#include "device.h"
#include "ep.h"
#include "listener.h"
#include "loop.h"
#include "pause.h"
#include "qp.h"
#include "rx.h"
#include "sock.h"
#include "tx.h"
#include "trace.h"
#include "worker.h"

/* One deadline for each: all of the handshake (RFC 5044 section 7.1.2 rule 10), the farewell. */
#define EP_CONNECT_MS	10000
#define EP_REQUEST_MS	5000
#define EP_OPENING_MS	10000
#define EP_FAREWELL_MS	3000

/*
 * The iw_cm drops requests of a listener that goes, without a word, and keeps those that it has
 * handed on: nobody can tell which. They are kept for so long; an initiator of this kind waits no
 * longer either.
 */
#define EP_HURRY_MS	EP_CONNECT_MS

/* How long an orderly close goes on to send what was posted. */
#define EP_LAST_MS	500

/* On one host: when the other end has gone, TCP has this long to bring why. */
#define EP_ALONE_MS	1000

/* The iw_cm counts these octets in a u8. */
#define EP_MAX_EVENT_PD	255

/*
 * Life
 */

static void ep_free(struct kref *ref)
{
	struct xiw_ep *ep = container_of(ref, struct xiw_ep, ref);

	if (ep->sk)
		sock_put(ep->sk);
	if (ep->loop)
		xiw_loop_put(ep->loop);
	kfree(ep->frame);
	kfree(ep->pd);
	xiw_lane_put(ep->lane);
	if (atomic_dec_and_test(&ep->dev->num_eps))
		wake_up_var(&ep->dev->num_eps);
	kfree_rcu(ep, rcu);
}

void xiw_ep_put(struct xiw_ep *ep)
{
	kref_put(&ep->ref, ep_free);
}

static void ep_queue(struct xiw_ep *ep)
{
	xiw_ep_get(ep);
	if (!xiw_lane_queue(ep->lane, &ep->job))
		xiw_ep_put(ep);
}

void xiw_ep_wake(struct xiw_ep *ep, unsigned int event)
{
	set_bit(event, &ep->events);
	ep_queue(ep);
}

/* What came meanwhile was left to the holder of the lock. */
void xiw_ep_unlock(struct xiw_ep *ep)
{
	mutex_unlock(&ep->lock);
	smp_mb();	/* pairs with ep_run(): it gets the lock, or its events are seen here */
	if (READ_ONCE(ep->events))
		ep_queue(ep);
}

static void ep_move(struct xiw_ep *ep, enum xiw_ep_state to)
{
	lockdep_assert_held(&ep->lock);

	trace_xiw_ep_move(ep->id, ep->state, to);
	ep->state = to;
}

/*
 * The socket becomes ours. What came before is looked at, and nothing else: with a place in the
 * lane and nothing to say, a connection would be heard before an older one that speaks before it.
 */
static void ep_adopt(struct xiw_ep *ep, struct socket *sock)
{
	if (ep->sk)
		sock_put(ep->sk);
	sock_hold(sock->sk);
	ep->sk = sock->sk;
	ep->sock = sock;
	xiw_sock_attach(sock, ep);
	if (!ep->initiator && (xiw_sock_pending(sock->sk) || xiw_sock_ended(sock->sk)))
		xiw_ep_wake(ep, XIW_EP_EV_SOCKET);
}

static void ep_drop_socket(struct xiw_ep *ep, bool abort)
{
	struct socket *sock = ep->sock;

	lockdep_assert_held(&ep->lock);

	if (!sock)
		return;
	ep->sock = NULL;
	xiw_sock_detach(sock);
	xiw_sock_release(sock, abort);
}

/* The handshake is over, and what it said has been told. */
static void ep_forget_frames(struct xiw_ep *ep)
{
	kfree(ep->frame);
	kfree(ep->pd);
	ep->frame = NULL;
	ep->pd = NULL;
	ep->ours.pd = NULL;
	ep->theirs.pd = NULL;
	ep->theirs.pd_len = 0;
}

/*
 * The end
 */

static void ep_close(struct xiw_ep *ep, bool abort)
{
	ep_drop_socket(ep, abort);
	xiw_batch_drop(&ep->rest);
	xiw_ep_clear_timers(ep);
	ep_move(ep, XIW_EP_CLOSED);
	xiw_ep_erase(ep);
}

/* Sends the last octets and the FIN, and waits for the peer's. */
static void ep_farewell(struct xiw_ep *ep)
{
	struct sock *sk = ep->sk;
	int ret;

	lock_sock(sk);
	ret = xiw_batch_push(&ep->rest, sk);
	xiw_sock_discard(sk);
	xiw_sock_unlock(sk);
	if (!ret && !ep->said_bye) {
		ep->said_bye = true;
		ret = xiw_sock_shutdown(ep->sock);
	}
	if ((ret && ret != -EAGAIN) || sk->sk_err || READ_ONCE(sk->sk_state) == TCP_CLOSE)
		ep_close(ep, ret || sk->sk_err);
}

/* Return: whether there is anything to say farewell to. */
static bool ep_part(struct xiw_ep *ep, enum xiw_cause cause)
{
	struct xiw_loop *loop;
	bool attached = false;

	if (!ep->sock)
		return false;
	lock_sock(ep->sk);
	xiw_pause("ep_part");
	if (ep->qp) {
		loop = xiw_loop_enter(ep->qp);
		attached = xiw_qp_detach(ep->qp, ep->sk, &ep->rest, &cause);
		xiw_loop_leave(loop);
	}
	if (attached && cause != XIW_OK && !xiw_sock_ended(ep->sk)) {
		xiw_tx_terminate(&ep->rest, cause,
				 ep->qp->rx.fault_known ? &ep->qp->rx.fault : NULL,
				 &ep->qp->tx.framing);
		xiw_stat_inc(ep->dev, XIW_STAT_TX_TERMINATES);
	}
	xiw_sock_unlock(ep->sk);
	if (attached) {
		xiw_qp_unlocked(ep->qp);
		xiw_qp_detached(ep->qp);
	}
	return true;
}

/* The listener counts it no more, and does not know it. */
static void ep_leave_listener(struct xiw_ep *ep)
{
	struct xiw_listener *listener = ep->listener;

	lockdep_assert_held(&ep->lock);

	ep->listener = NULL;
	if (listener)
		xiw_listener_leave(listener, ep);
}

/* Another needs its place: nobody has to be told, and the peer hears of it by a reset. */
static void ep_evict(struct xiw_ep *ep)
{
	if (ep->state != XIW_EP_WAIT_REQUEST)
		return;
	xiw_stat_inc(ep->dev, XIW_STAT_CONN_FAILURES);
	ep_leave_listener(ep);
	ep_close(ep, true);
}

void xiw_ep_finish(struct xiw_ep *ep, int err, enum xiw_cause cause)
{
	bool connected;

	lockdep_assert_held(&ep->lock);

	ep_leave_listener(ep);
	connected = ep_part(ep, cause);
	xiw_ep_tell_end(ep, err);
	xiw_ep_unbind(ep);
	xiw_ep_clear_deadline(ep);
	if (!connected || ep->state == XIW_EP_CONNECTING) {
		ep_close(ep, true);
		return;
	}
	ep_move(ep, XIW_EP_FAREWELL);
	xiw_ep_set_deadline(ep, EP_FAREWELL_MS);
	ep_farewell(ep);
}

/*
 * Sends what was posted, as far as the peer takes it. A process may have posted more than can be
 * sent in hours, and post more meanwhile, while others wait for the endpoint: the rest is flushed.
 */
static void ep_send_last(struct xiw_ep *ep)
{
	unsigned long end = jiffies + msecs_to_jiffies(EP_LAST_MS);

	lockdep_assert_held(&ep->lock);

	while (xiw_tx_drive(ep->qp, XIW_TX_BUDGET_WORKER, XIW_STAT_TX_WORKER) &&
	       time_before(jiffies, end) && !fatal_signal_pending(current))
		cond_resched();
}

void xiw_ep_end(struct xiw_ep *ep, enum xiw_cause cause)
{
	mutex_lock(&ep->lock);
	if (ep->state < XIW_EP_FAREWELL) {
		if (ep->qp && cause == XIW_OK)
			ep_send_last(ep);
		xiw_ep_finish(ep, -ECONNABORTED, cause);
	}
	xiw_ep_unlock(ep);
}

void xiw_ep_kill(struct xiw_ep *ep)
{
	mutex_lock(&ep->lock);
	if (ep->state < XIW_EP_FAREWELL)
		xiw_ep_finish(ep, -ECONNABORTED, XIW_LOCAL_ABORT);
	if (ep->state == XIW_EP_FAREWELL)
		ep_close(ep, true);
	xiw_ep_unlock(ep);
}

/*
 * The handshake
 */

static int ep_dial(struct xiw_ep *ep, bool new_port)
{
	struct socket *sock;
	int ret;

	sock = xiw_sock_open(read_pnet(&ep->dev->net), l3mdev_master_ifindex(ep->dev->netdev),
			     ep->cm_id, ep->cm_id->m_remote_addr.ss_family);
	if (IS_ERR(sock))
		return PTR_ERR(sock);
	xiw_sock_charge(sock->sk, ep->qp->payer);	/* a second call is a kernel thread's */
	ep->frame_len = 0;
	ep_adopt(ep, sock);
	ret = xiw_sock_connect(sock, &ep->cm_id->m_local_addr, &ep->cm_id->m_remote_addr, new_port);
	if (ret)
		ep_drop_socket(ep, true);
	return ret;
}

/* Either TCP may still know the ports of a connection that is over: ours, or the peer's. */
static int ep_call(struct xiw_ep *ep)
{
	int ret;

	ret = ep_dial(ep, ep->ours.revision == MPA_REV_1);
	return ret == -EADDRNOTAVAIL ? ep_dial(ep, true) : ret;
}

int xiw_ep_dial(struct xiw_ep *ep)
{
	lockdep_assert_held(&ep->lock);

	xiw_ep_set_deadline(ep, EP_CONNECT_MS);
	return ep_call(ep);
}

/* TCP is connected: send the Request. */
static void ep_request(struct xiw_ep *ep)
{
	int len, ret;

	len = xiw_mpa_build(ep->frame, &ep->ours);
	lock_sock(ep->sk);
	ret = len < 0 ? len : xiw_sock_send(ep->sk, ep->frame, len);
	xiw_sock_unlock(ep->sk);
	if (ret)
		xiw_ep_finish(ep, ret, XIW_OK);
	else
		ep_move(ep, XIW_EP_WAIT_REPLY);
}

static void ep_connecting(struct xiw_ep *ep)
{
	u8 state = READ_ONCE(ep->sk->sk_state);

	if (state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT)
		ep_request(ep);
	else if (ep->sk->sk_err || state == TCP_CLOSE)
		xiw_ep_finish(ep, xiw_sock_connect_error(ep->sk), XIW_OK);
}

/* Return: 1 with the whole frame in ep->theirs; 0 if more is to come; or a negative errno. */
static int ep_read_frame(struct xiw_ep *ep)
{
	unsigned int want;
	int ret;

	for (;;) {
		want = xiw_mpa_wants(ep->frame, ep->frame_len);
		if (ep->frame_len < want) {
			ret = xiw_sock_recv(ep->sock, ep->frame + ep->frame_len,
					    want - ep->frame_len);
			if (ret <= 0)
				return ret == -EAGAIN ? 0 : ret ?: -ECONNRESET;
			ep->frame_len += ret;
		}
		ret = xiw_mpa_parse(&ep->theirs, ep->frame, ep->frame_len, ep->initiator);
		if (ret < 0)
			return ret;
		if (ret)
			return ep->theirs.pd_len > EP_MAX_EVENT_PD ? -EMSGSIZE : 1;
	}
}

/* Attaches, and sends and receives what can be. The first cause of failure is reported. */
static int ep_start_stream(struct xiw_ep *ep)
{
	struct xiw_qp *qp = ep->qp;
	struct xiw_loop *loop;
	bool more = false;
	int ret;

	lock_sock(ep->sk);
	ret = xiw_fails("attach") ? -ENOMEM :
				    xiw_qp_attach(qp, ep, ep->sk, &ep->terms, ep->terms.rtr);
	if (!ret)
		xiw_loop_join(qp);
	xiw_pause("ep_opening");
	loop = xiw_loop_enter(qp);
	if (!ret && ep->terms.rtr)
		ret = xiw_tx_opening(qp, ep->sk, ep->terms.rtr);
	if (!ret)
		more = xiw_tx_run(qp, ep->sk, XIW_TX_BUDGET_INLINE);
	xiw_loop_leave(loop);
	if (!ret)
		xiw_rx_run(qp, ep->sk);
	if (xiw_sock_ended(ep->sk))	/* its event came with that of the Reply */
		xiw_ep_wake(ep, XIW_EP_EV_SOCKET);
	xiw_sock_unlock(ep->sk);
	xiw_qp_unlocked(qp);
	if (more)
		xiw_worker_queue(qp);
	return ret;
}

/* An initiator's setup has failed in a way that the peer is told by a Terminate (RFC 6581 9). */
static void ep_refuse_reply(struct xiw_ep *ep, int err)
{
	enum xiw_cause cause = err == -EMSGSIZE ? XIW_BAD_IRD :
			       err == -EOPNOTSUPP ? XIW_BAD_RTR : XIW_SETUP_FAILED;
	struct xiw_framing framing = {
		.crc = ep->ours.crc || ep->theirs.crc,
		.markers = ep->theirs.markers,
	};

	xiw_pause("ep_refuse_reply");
	if (err == -EPROTO)
		cause = XIW_OK;
	else if (!ep->qp->attached)	/* else the queue pair's framing and batch are used */
		xiw_tx_terminate(&ep->rest, cause, NULL, &framing);
	xiw_ep_finish(ep, err, cause);
}

static void ep_replied(struct xiw_ep *ep)
{
	int ret;

	if (ep->theirs.reject) {
		xiw_ep_finish(ep, -ECONNREFUSED, XIW_OK);
		return;
	}
	ret = xiw_mpa_conclude(&ep->terms, &ep->ours, &ep->theirs, XIW_MAX_IRD);
	if (!ret)
		ret = ep_start_stream(ep);
	if (!ret)
		ret = xiw_ep_tell(ep, IW_CM_EVENT_CONNECT_REPLY, 0);
	if (ret) {
		ep_refuse_reply(ep, ret);
		return;
	}
	xiw_ep_clear_deadline(ep);
	ep_move(ep, XIW_EP_OPEN);
	xiw_stat_inc(ep->dev, XIW_STAT_CONNECTS);
	ep_forget_frames(ep);
}

/* A peer of revision 1 closes without a word: ask once more, in its terms (RFC 6581 section 10). */
static bool ep_retry(struct xiw_ep *ep)
{
	if (ep->ours.revision == MPA_REV_1 || ep->frame_len)
		return false;
	ep->ours.revision = MPA_REV_1;
	ep->ours.enhanced = false;
	ep->ours.p2p = false;
	ep->ours.rtr = 0;
	ep_drop_socket(ep, true);
	ep_move(ep, XIW_EP_CONNECTING);
	return !ep_call(ep);
}

static void ep_wait_reply(struct xiw_ep *ep)
{
	int ret = ep_read_frame(ep);

	if (ret > 0)
		ep_replied(ep);
	else if (ret < 0 && (ret != -ECONNRESET || !ep_retry(ep)))
		xiw_ep_finish(ep, -ECONNRESET, XIW_OK);
}

/* The Request is complete: ask the consumer. */
static void ep_asked(struct xiw_ep *ep)
{
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REQUEST,
		.provider_data = (void *)ep->id,
		.private_data = (void *)ep->theirs.pd,
		.private_data_len = ep->theirs.pd_len,
	};
	int ret;

	if (!ep->theirs.enhanced) {
		ep->theirs.ird = XIW_MAX_IRD;
		ep->theirs.ord = XIW_MAX_ORD;
	}
	xiw_ep_fill_event(ep, &event);
	/* How long the consumer takes to answer is its own affair, while it listens. */
	xiw_ep_clear_deadline(ep);
	ep_move(ep, XIW_EP_ASKED);
	ret = xiw_listener_ask(ep->listener, ep, &event);
	if (ret)
		xiw_ep_finish(ep, ret, XIW_OK);
}

static void ep_wait_request(struct xiw_ep *ep)
{
	int ret = ep_read_frame(ep);

	/* Nothing may follow a Request before its Reply. */
	if (ret > 0 && !xiw_sock_pending(ep->sk)) {
		ep_asked(ep);
	} else if (ret) {
		xiw_stat_inc(ep->dev, XIW_STAT_CONN_FAILURES);
		xiw_ep_finish(ep, -EPROTO, XIW_OK);
	}
}

void xiw_ep_accepted(struct xiw_ep *ep)
{
	lockdep_assert_held(&ep->lock);

	ep_forget_frames(ep);
	ep_leave_listener(ep);
	if (ep->terms.rtr) {
		ep_move(ep, XIW_EP_WAIT_OPENING);
		xiw_ep_set_deadline(ep, EP_OPENING_MS);
		return;
	}
	xiw_ep_clear_deadline(ep);
	ep_move(ep, XIW_EP_OPEN);
	xiw_stat_inc(ep->dev, XIW_STAT_ACCEPTS);
	xiw_ep_tell(ep, IW_CM_EVENT_ESTABLISHED, 0);
}

static void ep_opened(struct xiw_ep *ep)
{
	if (ep->state != XIW_EP_WAIT_OPENING)
		return;
	xiw_ep_clear_deadline(ep);
	ep_move(ep, XIW_EP_OPEN);
	xiw_stat_inc(ep->dev, XIW_STAT_ACCEPTS);
	xiw_ep_tell(ep, IW_CM_EVENT_ESTABLISHED, 0);
}

/*
 * The state machine
 */

/* The stream runs, or has just ended; what came before the end is still processed. */
static void ep_streaming(struct xiw_ep *ep)
{
	bool ended;

	lock_sock(ep->sk);
	xiw_rx_run(ep->qp, ep->sk);
	/* Letting go of the socket may bring more FPDUs and the end; of that there is an event. */
	ended = xiw_sock_ended(ep->sk);
	if ((ep->qp->rx.starved || ep->qp->rx.paging) && xiw_qp_open(ep->qp))
		ended = false;
	xiw_sock_unlock(ep->sk);
	xiw_qp_unlocked(ep->qp);
	if (!ended)
		return;
	if (test_bit(XIW_EP_EV_OPENED, &ep->events))
		ep_opened(ep);
	xiw_ep_finish(ep, -ECONNRESET, ep->qp->rx.cause);
}

static void ep_socket_event(struct xiw_ep *ep)
{
	switch (ep->state) {
	case XIW_EP_CONNECTING:
		ep_connecting(ep);
		break;
	case XIW_EP_WAIT_REPLY:
		ep_wait_reply(ep);
		break;
	case XIW_EP_WAIT_REQUEST:
		ep_wait_request(ep);
		break;
	case XIW_EP_ASKED:
		if (xiw_sock_ended(ep->sk))
			xiw_ep_finish(ep, -ECONNRESET, XIW_OK);
		break;
	case XIW_EP_WAIT_OPENING:
	case XIW_EP_OPEN:
		ep_streaming(ep);
		break;
	case XIW_EP_FAREWELL:
		ep_farewell(ep);
		break;
	case XIW_EP_CLOSED:
		break;
	}
}

/* The other end on this host has gone. What TCP brings of it, like a Terminate, comes first. */
static void ep_alone(struct xiw_ep *ep)
{
	if (ep->state == XIW_EP_OPEN || ep->state == XIW_EP_WAIT_OPENING)
		xiw_ep_set_deadline(ep, EP_ALONE_MS);
}

static void ep_deadline_passed(struct xiw_ep *ep)
{
	if (!xiw_ep_is_due(ep))
		return;
	switch (ep->state) {
	case XIW_EP_CLOSED:
		break;		/* it came too late */
	case XIW_EP_ASKED:
		xiw_stat_inc(ep->dev, XIW_STAT_CONN_FAILURES);
		xiw_ep_finish(ep, -ETIMEDOUT, XIW_OK);
		break;
	case XIW_EP_OPEN:	/* alone for long enough */
		xiw_ep_finish(ep, -ECONNRESET, ep->qp->rx.cause);
		break;
	case XIW_EP_FAREWELL:
		ep_close(ep, true);
		break;
	default:
		xiw_ep_finish(ep, -ETIMEDOUT, XIW_OK);
	}
}

static void ep_look(struct xiw_ep *ep)
{
	unsigned long events = xchg(&ep->events, 0);

	if (test_bit(XIW_EP_EV_EVICTED, &events))
		ep_evict(ep);
	if (test_bit(XIW_EP_EV_OPENED, &events))
		ep_opened(ep);
	if (test_bit(XIW_EP_EV_FAILED, &events) && ep->state < XIW_EP_FAREWELL && ep->qp)
		xiw_ep_finish(ep, -ECONNRESET, ep->qp->rx.cause);
	if (test_bit(XIW_EP_EV_SOCKET, &events))
		ep_socket_event(ep);
	if (test_bit(XIW_EP_EV_ALONE, &events))
		ep_alone(ep);
	if (test_bit(XIW_EP_EV_HURRY, &events) && ep->state == XIW_EP_ASKED)
		xiw_ep_set_deadline(ep, EP_HURRY_MS);
	if (test_bit(XIW_EP_EV_DEADLINE, &events))
		ep_deadline_passed(ep);
}

/*
 * What comes while it looks comes before what has come for the next one in the lane meanwhile: it
 * looks once more. A process may hold the lock for as long as ep_send_last() takes. To wait for it
 * here would be to occupy a thread of those that run the lanes of all.
 */
static void ep_run(struct xiw_job *job)
{
	struct xiw_ep *ep = container_of(job, struct xiw_ep, job);

	smp_mb();	/* pairs with xiw_ep_unlock() */
	if (mutex_trylock(&ep->lock)) {
		xiw_pause("ep_work");
		ep_look(ep);
		if (READ_ONCE(ep->events))
			ep_look(ep);
		xiw_ep_unlock(ep);
	}
	xiw_ep_put(ep);
}

struct xiw_ep *xiw_ep_create(struct xiw_device *dev, enum xiw_ep_state state,
			     struct xiw_lane *lane)
{
	/* A process may wait for its control group; a thread of the kernel has others to serve. */
	const gfp_t gfp = current->flags & PF_KTHREAD ? XIW_GFP_ATOMIC : XIW_GFP_PROCESS;
	struct xiw_ep *ep = kzalloc_obj(*ep, gfp);

	if (!ep)
		return NULL;
	ep->lane = lane ? xiw_lane_get(lane) : xiw_lane_create();
	if (!ep->lane) {
		kfree(ep);
		return NULL;
	}
	kref_init(&ep->ref);
	atomic_inc(&dev->num_eps);
	ep->dev = dev;
	ep->state = state;
	ep->initiator = state == XIW_EP_CONNECTING;
	mutex_init(&ep->lock);
	xiw_job_init(&ep->job, ep_run);
	xiw_ep_init_timers(ep);
	INIT_LIST_HEAD(&ep->waiting);
	ep->frame = kmalloc(XIW_MPA_FRAME_MAX, gfp);
	if (!ep->frame || xiw_ep_insert(ep)) {
		xiw_ep_put(ep);
		return NULL;
	}
	return ep;
}

struct xiw_ep *xiw_ep_accept(struct xiw_device *dev, struct socket *sock,
			     struct xiw_listener *listener, struct xiw_lane *lane)
{
	struct mem_cgroup *before = set_active_memcg(mem_cgroup_from_sk(sock->sk));
	struct xiw_ep *ep = xiw_ep_create(dev, XIW_EP_WAIT_REQUEST, lane);

	set_active_memcg(before);
	if (!ep)
		return NULL;
	ep->listener = listener;
	xiw_ep_set_deadline(ep, EP_REQUEST_MS);
	ep_adopt(ep, sock);
	return ep;
}
