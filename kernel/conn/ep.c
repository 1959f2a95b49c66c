// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* ep.c - one TCP connection, from before its handshake to after its end */

#include <linux/slab.h>
#include <net/l3mdev.h>
#include <net/sock.h>

#include "carrier/carrier.h"
#include "carrier/sock_lock.h"
#include "conn/ep.h"
#include "conn/listener.h"
#include "conn/sock.h"
#include "conn/tune.h"
#include "device.h"
#include "pause.h"
#include "stream/qp.h"
#include "stream/rx.h"
#include "stream/tx.h"
#include "stream/worker.h"

/*
 * The deadlines of the handshake (RFC 5044 section 7.1.2 rule 10) are settings. An initiator has
 * one for TCP and the Reply together, also if it calls twice. A responder has one for the Request,
 * and another one for the message that opens the stream.
 */
static void ep_set_deadline(struct xiw_ep *ep, enum xiw_setting which)
{
	xiw_ep_set_deadline(ep, xiw_setting(&ep->dev->settings, which));
}

/*
 * When a consumer stops listening, the iw_cm silently drops the requests that it has not handed to
 * the consumer yet. It does not say which ones, so each request gets this long to be answered. An
 * initiator that runs xiw does not wait longer than that either, by default.
 */
#define EP_HURRY_MS	10000

/* After the other end on this host has left the loop, TCP has this long to say why. */
#define EP_ALONE_MS	1000

/*
 * How long to wait before the next look, if whoever has the socket locked does not wake the
 * endpoint.
 */
#define EP_LOCKED_MS	20

/* Bytes of private data in an event: the iw_cm counts them in a u8. */
#define EP_MAX_EVENT_PD	255

/*
 * Socket and frames
 */

/* Takes over a socket. Its callbacks have missed what happened before. */
static void ep_adopt(struct xiw_ep *ep, struct socket *sock)
{
	sock_hold(sock->sk);
	ep->sk = sock->sk;
	ep->sock = sock;
	xiw_sock_attach(sock, ep);
}

/*
 * Whether octets, the end or an error came that the callbacks may not have told of. They tell of
 * what comes when the socket is unlocked.
 */
static bool ep_has_input(const struct xiw_ep *ep)
{
	bool has;

	lock_sock(ep->sk);
	has = xiw_sock_has_input(ep->sk);
	xiw_sock_unlock(ep->sk);
	return has;
}

/* Frees the handshake frames; the consumer has been told their contents. */
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
 * The handshake
 */

/* TCP may have connected, or failed to connect, before the callbacks were set. */
static void ep_called(struct xiw_ep *ep)
{
	if (READ_ONCE(ep->sk->sk_state) != TCP_SYN_SENT)
		set_bit(XIW_EP_EV_SOCKET, &ep->events);
}

static int ep_call(struct xiw_ep *ep, bool new_port)
{
	struct socket *sock;
	int ret;

	sock = xiw_sock_open(read_pnet(&ep->dev->net), l3mdev_master_ifindex(ep->dev->netdev),
			     ep->cm_id, ep->cm_id->m_remote_addr.ss_family);
	if (IS_ERR(sock))
		return PTR_ERR(sock);
	xiw_sock_charge(sock->sk, ep->qp->payer);	/* a kernel thread may call */
	xiw_tune(sock, ep->dev, !ep->cm_id->tos_set);
	ret = xiw_sock_connect(sock, &ep->cm_id->m_local_addr, &ep->cm_id->m_remote_addr, new_port);
	if (ret) {
		xiw_sock_release(sock, true);
		return ret;
	}
	ep_adopt(ep, sock);
	ep_called(ep);
	return 0;
}

/* TCP is connected: sends the Request. */
static void ep_request(struct xiw_ep *ep)
{
	int len, ret;

	len = xiw_mpa_build(ep->frame, &ep->ours);
	lock_sock(ep->sk);
	ret = len < 0 ? len : xiw_sock_send(ep->sk, ep->frame, len);
	xiw_sock_unlock(ep->sk);
	if (ret) {
		xiw_ep_finish(ep, ret, XIW_OK);
		return;
	}
	xiw_ep_move(ep, XIW_EP_WAIT_REPLY);
	/* One event may stand for the connection and for what came after it. */
	if (ep_has_input(ep))
		set_bit(XIW_EP_EV_SOCKET, &ep->events);
}

static void ep_connecting(struct xiw_ep *ep)
{
	u8 state = READ_ONCE(ep->sk->sk_state);

	if (state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT)
		ep_request(ep);
	else if (READ_ONCE(ep->sk->sk_err) || state == TCP_CLOSE)
		xiw_ep_finish(ep, xiw_sock_connect_error(ep->sk), XIW_OK);
}

/* Return: 0 with the frame parsed into ep->theirs; -EAGAIN if it is incomplete; another errno. */
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
				return ret ?: -ECONNRESET;
			ep->frame_len += ret;
		}
		ret = xiw_mpa_parse(&ep->theirs, ep->frame, ep->frame_len, ep->initiator);
		if (ret < 0)
			return ret;
		if (ret)
			return ep->theirs.pd_len > EP_MAX_EVENT_PD ? -EMSGSIZE : 0;
	}
}

/* Attaches the queue pair, then sends and receives what it can. Return: 0 or the first error. */
static int ep_start_stream(struct xiw_ep *ep)
{
	struct xiw_qp *qp = ep->qp;
	struct xiw_driver driver;
	bool more = false;
	int ret;

	lock_sock(ep->sk);
	ret = xiw_fails("attach") ? -ENOMEM :
				    xiw_qp_attach(qp, ep, ep->sk, &ep->terms, ep->terms.rtr);
	if (!ret)
		xiw_ep_join_loop(ep);
	xiw_pause("ep_opening");
	driver = xiw_carrier_enter(qp);
	if (!ret && ep->terms.rtr)
		ret = xiw_tx_opening(qp, ep->terms.rtr);
	if (!ret)
		more = xiw_tx_run(qp, XIW_TX_BUDGET_INLINE);
	xiw_carrier_leave(&driver);
	if (!ret)
		xiw_rx_run(qp, ep->sk);
	if (xiw_sock_ended(ep->sk))	/* one event may stand for the Reply and the FIN */
		xiw_ep_wake(ep, XIW_EP_EV_SOCKET);
	xiw_sock_unlock(ep->sk);
	xiw_qp_unlocked(qp);
	if (more)
		xiw_worker_queue(qp);
	return ret;
}

/*
 * The initiator cannot use the Reply. A Terminate tells the peer why (RFC 6581 section 9), unless
 * the Reply does not match the Request (-EPROTO).
 */
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
	else if (!xiw_qp_attached(ep->qp))	/* if it is, xiw_ep_finish() stages the Terminate */
		xiw_tx_terminate(ep->qp, &ep->rest, cause, NULL, &framing);
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
	xiw_ep_move(ep, XIW_EP_OPEN);
	xiw_stat_inc(ep->dev, XIW_STAT_CONNECTS);
	ep_forget_frames(ep);
}

/*
 * A peer that knows only revision 1 closes the connection without a Reply. Tries once more with
 * revision 1 (RFC 6581 section 10), and from another port: TCP of the peer may still remember the
 * first attempt.
 */
static bool ep_retry(struct xiw_ep *ep)
{
	if (ep->ours.revision == MPA_REV_1 || ep->frame_len)
		return false;
	ep->ours.revision = MPA_REV_1;
	ep->ours.enhanced = false;
	ep->ours.large_fpdus = false;	/* the peer may not know this either */
	ep->ours.p2p = false;
	ep->ours.rtr = 0;
	xiw_ep_move(ep, XIW_EP_CONNECTING);
	xiw_sock_detach(ep->sock);
	if (xiw_sock_reconnect(ep->sock, &ep->cm_id->m_remote_addr))
		return false;
	xiw_sock_attach(ep->sock, ep);
	ep_called(ep);
	return true;
}

static void ep_wait_reply(struct xiw_ep *ep)
{
	int ret = ep_read_frame(ep);

	if (!ret)
		ep_replied(ep);
	else if (ret != -EAGAIN && (ret != -ECONNRESET || !ep_retry(ep)))
		xiw_ep_finish(ep, -ECONNRESET, XIW_OK);
}

/* The Request is complete: asks the consumer. */
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
	/* While it listens the consumer may take any time to answer. */
	xiw_ep_clear_deadline(ep);
	xiw_ep_move(ep, XIW_EP_ASKED);
	ret = xiw_listener_ask(ep->listener, ep, &event);
	if (ret)
		xiw_ep_finish(ep, ret, XIW_OK);
}

static void ep_wait_request(struct xiw_ep *ep)
{
	int ret = ep_read_frame(ep);

	if (ret == -EAGAIN)
		return;
	/*
	 * The peer may send nothing after its Request until it has the Reply. One event may stand
	 * for the Request and for what came after it.
	 */
	if (!ret && !ep_has_input(ep))
		ep_asked(ep);
	else
		xiw_ep_finish(ep, -EPROTO, XIW_OK);
}

/* The consumer has not answered yet. The peer has left, or does not wait for the Reply. */
static void ep_wait_answer(struct xiw_ep *ep)
{
	if (ep_has_input(ep))
		xiw_ep_finish(ep, -ECONNRESET, XIW_OK);
}

void xiw_ep_accepted(struct xiw_ep *ep)
{
	lockdep_assert_held(&ep->lock);

	ep_forget_frames(ep);
	xiw_ep_leave_listener(ep);
	if (ep->terms.rtr) {
		xiw_ep_move(ep, XIW_EP_WAIT_OPENING);
		ep_set_deadline(ep, XIW_SET_OPENING_MS);
		return;
	}
	xiw_ep_clear_deadline(ep);
	xiw_ep_move(ep, XIW_EP_OPEN);
	xiw_stat_inc(ep->dev, XIW_STAT_ACCEPTS);
	xiw_ep_tell(ep, IW_CM_EVENT_ESTABLISHED, 0);
}

static void ep_opened(struct xiw_ep *ep)
{
	if (ep->state != XIW_EP_WAIT_OPENING)
		return;
	xiw_ep_clear_deadline(ep);
	xiw_ep_move(ep, XIW_EP_OPEN);
	xiw_stat_inc(ep->dev, XIW_STAT_ACCEPTS);
	xiw_ep_tell(ep, IW_CM_EVENT_ESTABLISHED, 0);
}

/*
 * The state machine
 */

/*
 * Whether the stream is over. An FPDU that waits in the socket came before the end. Within a loop a
 * segment waits at the other end instead. That end leaves the loop before it closes its socket.
 */
static bool ep_stream_is_over(const struct xiw_ep *ep)
{
	const struct xiw_qp *qp = ep->qp;

	if (!qp->carrier->resends && qp->rx.waits && xiw_qp_open(qp))
		return false;
	return qp->tx.lost || xiw_sock_ended(ep->sk);
}

/*
 * A process that has the socket locked may get a CPU only now and then. While the stream lasts, the
 * lane does not wait for it, because that would hold up all other connections of the lane. (To tell
 * the consumer that a connection has been opened, or to end one, it still does.) Return: false if
 * it is locked; then the holder wakes the endpoint, or a timer does.
 */
static bool ep_lock_now(struct xiw_ep *ep)
{
	if (xiw_sock_lock_now(ep->sk))
		return true;
	set_bit(XIW_WORKER_LANE_WAITS, &ep->qp->worker_flags);
	smp_mb__after_atomic();		/* pairs with xiw_qp_unlocked() */
	if (xiw_sock_lock_now(ep->sk))
		return true;
	xiw_ep_look_later(ep, EP_LOCKED_MS);
	return false;
}

/* Receives what is there. If the stream has ended, all that came before the end is processed. */
static void ep_streaming(struct xiw_ep *ep)
{
	bool over;

	if (!ep_lock_now(ep))
		return;
	xiw_rx_run(ep->qp, ep->sk);
	/* Unlocking may receive more FPDUs and the end, and then raises an event. So test first. */
	over = ep_stream_is_over(ep);
	xiw_sock_unlock(ep->sk);
	xiw_qp_unlocked(ep->qp);
	if (!over)
		return;
	if (test_bit(XIW_EP_EV_OPENED, &ep->events))
		ep_opened(ep);
	xiw_ep_finish(ep, -ECONNRESET, XIW_OK);
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
		ep_wait_answer(ep);
		break;
	case XIW_EP_WAIT_OPENING:
	case XIW_EP_OPEN:
		ep_streaming(ep);
		break;
	case XIW_EP_FAREWELL:
		xiw_ep_farewell(ep);
		break;
	case XIW_EP_CLOSED:
		break;
	}
}

/* A newer connection needs the place of this one, which no consumer has accepted: resets it. */
static void ep_evict(struct xiw_ep *ep)
{
	if (!ep->listener || (ep->state != XIW_EP_WAIT_REQUEST && ep->state != XIW_EP_FAREWELL))
		return;
	xiw_ep_tell_end(ep, -ECONNRESET);
	xiw_ep_close(ep, true);
}

/*
 * The other end on this host has left the loop. TCP may still deliver something that it sent, such
 * as a Terminate, so wait for that before ending the stream.
 */
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
		break;		/* closed before the event was handled */
	case XIW_EP_OPEN:	/* EP_ALONE_MS after the other end left the loop */
		xiw_ep_finish(ep, -ECONNRESET, XIW_OK);
		break;
	case XIW_EP_FAREWELL:
		xiw_ep_close(ep, true);
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
		xiw_ep_finish(ep, -ECONNRESET, XIW_OK);
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
 * On one host TCP connects at once. Then the caller sends the Request, unless the lane has to send
 * older ones first. So the lane need not be woken for it.
 */
int xiw_ep_dial(struct xiw_ep *ep)
{
	int ret;

	lockdep_assert_held(&ep->lock);

	ep_set_deadline(ep, XIW_SET_CONNECT_MS);
	ret = ep_call(ep, false);
	if (ret == -EADDRNOTAVAIL)	/* TCP still remembers a connection of these ports */
		ret = ep_call(ep, true);
	xiw_pause("ep_dial");
	if (!ret && READ_ONCE(ep->events) && xiw_lane_idle(ep->lane))
		ep_look(ep);
	return ret;
}

/*
 * Events that arrive during the first look may be older than those of the next job in the lane, so
 * look a second time before that job runs.
 *
 * A process may hold the lock for as long as ep_send_last() takes. Do not wait for it, because that
 * would block one of the threads that run all lanes: xiw_ep_unlock() queues the job again.
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
	/* A process may wait for its control group. A kernel thread serves others and may not. */
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
	ep->close_ms = xiw_setting(&dev->settings, XIW_SET_CLOSE_MS);
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
			     struct xiw_listener *listener, struct xiw_lane *lane, bool may_mark)
{
	struct mem_cgroup *before = set_active_memcg(mem_cgroup_from_sk(sock->sk));
	struct xiw_ep *ep = xiw_ep_create(dev, XIW_EP_WAIT_REQUEST, lane);

	set_active_memcg(before);
	if (!ep)
		return NULL;
	ep->listener = listener;
	xiw_tune(sock, dev, may_mark);
	ep_set_deadline(ep, XIW_SET_REQUEST_MS);
	ep_adopt(ep, sock);
	/*
	 * If the job were queued for a connection that has sent nothing, that connection would hold
	 * an early place in the lane, and be served before an older one whose Request came first.
	 */
	if (ep_has_input(ep))
		xiw_ep_wake(ep, XIW_EP_EV_SOCKET);
	return ep;
}
