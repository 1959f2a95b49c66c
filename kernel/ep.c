// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* ep.c - one TCP connection, from before its handshake to after its end */

#include <linux/slab.h>
#include <linux/xarray.h>
#include <net/sock.h>

#include "device.h"
#include "ep.h"
#include "listener.h"
#include "loop.h"
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

/* The iw_cm counts these octets in a u8. */
#define EP_MAX_EVENT_PD	255

static DEFINE_XARRAY_ALLOC1(eps);

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
	kfree_rcu(ep, rcu);
}

void xiw_ep_put(struct xiw_ep *ep)
{
	kref_put(&ep->ref, ep_free);
}

struct xiw_ep *xiw_ep_find(u32 id)
{
	struct xiw_ep *ep;

	xa_lock(&eps);
	ep = xa_load(&eps, id);
	if (ep)
		xiw_ep_get(ep);
	xa_unlock(&eps);
	return ep;
}

struct xiw_ep *xiw_ep_any(struct xiw_device *dev)
{
	struct xiw_ep *ep;
	unsigned long id;

	xa_lock(&eps);
	xa_for_each(&eps, id, ep) {
		if (ep->dev == dev) {
			xiw_ep_get(ep);
			break;
		}
	}
	xa_unlock(&eps);
	return ep;	/* NULL after the last */
}

void xiw_ep_wake(struct xiw_ep *ep, unsigned int event)
{
	set_bit(event, &ep->events);
	xiw_ep_get(ep);
	if (!queue_work(xiw_cm_wq, &ep->work))
		xiw_ep_put(ep);
}

/* A timer holds a reference while it is pending. */
static void ep_set_timer(struct xiw_ep *ep, struct delayed_work *timer, unsigned int timeout_ms)
{
	if (!mod_delayed_work(xiw_cm_wq, timer, msecs_to_jiffies(timeout_ms)))
		xiw_ep_get(ep);
}

static void ep_clear_timer(struct xiw_ep *ep, struct delayed_work *timer)
{
	if (cancel_delayed_work(timer))
		xiw_ep_put(ep);
}

void xiw_ep_retry_rx(struct xiw_ep *ep, unsigned int timeout_ms)
{
	ep_set_timer(ep, &ep->retry, timeout_ms);
}

static void ep_move(struct xiw_ep *ep, enum xiw_ep_state to)
{
	lockdep_assert_held(&ep->lock);

	trace_xiw_ep_move(ep->id, ep->state, to);
	ep->state = to;
}

/* The socket becomes ours; what came before is looked at. */
static void ep_adopt(struct xiw_ep *ep, struct socket *sock)
{
	if (ep->sk)
		sock_put(ep->sk);
	sock_hold(sock->sk);
	ep->sk = sock->sk;
	ep->sock = sock;
	xiw_sock_attach(sock, ep);
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

/*
 * Telling the consumer
 */

static void ep_fill_event(struct xiw_ep *ep, struct iw_cm_event *event)
{
	event->ird = min_t(u16, ep->theirs.ird, U8_MAX);
	event->ord = min_t(u16, ep->theirs.ord, U8_MAX);
	if (ep->sock)
		xiw_sock_names(ep->sock, &event->local_addr, &event->remote_addr);
}

static void ep_tell(struct xiw_ep *ep, enum iw_cm_event_type type, int status)
{
	struct iw_cm_event event = { .event = type, .status = status };

	if (!ep->cm_id)
		return;
	ep_fill_event(ep, &event);
	if (type == IW_CM_EVENT_CONNECT_REPLY && (!status || ep->theirs.reject)) {
		event.private_data = (void *)ep->theirs.pd;
		event.private_data_len = ep->theirs.pd_len;
	}
	ep->cm_id->event_handler(ep->cm_id, &event);
}

void xiw_ep_bind(struct xiw_ep *ep, struct iw_cm_id *cm_id, struct xiw_qp *qp)
{
	lockdep_assert_held(&ep->lock);

	cm_id->add_ref(cm_id);
	cm_id->provider_data = NULL;
	ep->cm_id = cm_id;
	xiw_qp_get(qp);
	WRITE_ONCE(ep->qp, qp);
}

void xiw_ep_unbind(struct xiw_ep *ep)
{
	lockdep_assert_held(&ep->lock);

	if (ep->qp) {
		xiw_qp_unclaim(ep->qp);
		xiw_qp_put(ep->qp);
		WRITE_ONCE(ep->qp, NULL);
	}
	if (ep->cm_id) {
		ep->cm_id->rem_ref(ep->cm_id);
		ep->cm_id = NULL;
	}
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
	ep_clear_timer(ep, &ep->deadline);
	ep_clear_timer(ep, &ep->retry);
	ep_move(ep, XIW_EP_CLOSED);
	xa_erase(&eps, ep->id);
	xiw_ep_put(ep);
}

/* Sends the last octets and the FIN, and waits for the peer's. */
static void ep_farewell(struct xiw_ep *ep)
{
	struct sock *sk = ep->sk;
	int ret;

	lock_sock(sk);
	ret = xiw_batch_push(&ep->rest, sk);
	xiw_sock_discard(sk);
	release_sock(sk);
	if (!ret && !ep->said_bye) {
		ep->said_bye = true;
		ret = kernel_sock_shutdown(ep->sock, SHUT_WR);
	}
	if ((ret && ret != -EAGAIN) || sk->sk_err || READ_ONCE(sk->sk_state) == TCP_CLOSE)
		ep_close(ep, ret || sk->sk_err);
}

/* Events that end what the consumer knows of the connection; each state asks for its own. */
static void ep_tell_end(struct xiw_ep *ep, int err)
{
	switch (ep->state) {
	case XIW_EP_CONNECTING:
	case XIW_EP_WAIT_REPLY:
		ep_tell(ep, IW_CM_EVENT_CONNECT_REPLY, err);
		xiw_stat_inc(ep->dev, XIW_STAT_CONN_FAILURES);
		break;
	case XIW_EP_WAIT_OPENING:
		ep_tell(ep, IW_CM_EVENT_ESTABLISHED, err);
		ep_tell(ep, IW_CM_EVENT_CLOSE, 0);
		xiw_stat_inc(ep->dev, XIW_STAT_CONN_FAILURES);
		break;
	case XIW_EP_OPEN:
		ep_tell(ep, IW_CM_EVENT_DISCONNECT, 0);
		ep_tell(ep, IW_CM_EVENT_CLOSE, 0);
		break;
	default:
		break;
	}
}

/* Return: whether there is anything to say farewell to. */
static bool ep_part(struct xiw_ep *ep, enum xiw_cause cause)
{
	struct xiw_loop *loop;
	bool attached = false;

	if (!ep->sock)
		return false;
	lock_sock(ep->sk);
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
	release_sock(ep->sk);
	return true;
}

void xiw_ep_finish(struct xiw_ep *ep, int err, enum xiw_cause cause)
{
	struct xiw_listener *listener = ep->listener;
	bool connected;

	lockdep_assert_held(&ep->lock);

	if (listener) {
		ep->listener = NULL;
		xiw_listener_leave(listener, ep);
	}
	connected = ep_part(ep, cause);
	ep_tell_end(ep, err);
	xiw_ep_unbind(ep);
	ep_clear_timer(ep, &ep->deadline);
	if (!connected || ep->state == XIW_EP_CONNECTING) {
		ep_close(ep, true);
		return;
	}
	ep_move(ep, XIW_EP_FAREWELL);
	ep_set_timer(ep, &ep->deadline, EP_FAREWELL_MS);
	ep_farewell(ep);
}

void xiw_ep_end(struct xiw_ep *ep, enum xiw_cause cause)
{
	mutex_lock(&ep->lock);
	if (ep->state < XIW_EP_FAREWELL) {
		if (ep->qp && cause == XIW_OK)	/* what was posted is sent if the peer takes it */
			while (xiw_tx_drive(ep->qp, SIZE_MAX, XIW_STAT_TX_WORKER) && ep->loop)
				;
		xiw_ep_finish(ep, -ECONNABORTED, cause);
	}
	mutex_unlock(&ep->lock);
}

void xiw_ep_kill(struct xiw_ep *ep)
{
	mutex_lock(&ep->lock);
	if (ep->state < XIW_EP_FAREWELL)
		xiw_ep_finish(ep, -ECONNABORTED, XIW_LOCAL_ABORT);
	if (ep->state == XIW_EP_FAREWELL)
		ep_close(ep, true);
	mutex_unlock(&ep->lock);
}

/*
 * The handshake
 */

static int ep_dial(struct xiw_ep *ep, bool new_port)
{
	struct socket *sock;
	int ret;

	sock = xiw_sock_open(read_pnet(&ep->dev->net), ep->cm_id,
			     ep->cm_id->m_remote_addr.ss_family);
	if (IS_ERR(sock))
		return PTR_ERR(sock);
	ep->frame_len = 0;
	ep_adopt(ep, sock);
	ret = xiw_sock_connect(sock, &ep->cm_id->m_local_addr, &ep->cm_id->m_remote_addr, new_port);
	if (ret)
		ep_drop_socket(ep, true);
	return ret;
}

/* Either TCP may still know the ports of a connection that is over: ours, or the peer's. */
int xiw_ep_dial(struct xiw_ep *ep)
{
	int ret;

	lockdep_assert_held(&ep->lock);

	ret = ep_dial(ep, ep->ours.revision == MPA_REV_1);
	return ret == -EADDRNOTAVAIL ? ep_dial(ep, true) : ret;
}

/* TCP is connected: send the Request. */
static void ep_request(struct xiw_ep *ep)
{
	int len, ret;

	len = xiw_mpa_build(ep->frame, &ep->ours);
	lock_sock(ep->sk);
	ret = len < 0 ? len : xiw_sock_send(ep->sk, ep->frame, len);
	release_sock(ep->sk);
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
	ret = xiw_qp_attach(qp, ep, ep->sk, &ep->terms, false);
	if (!ret)
		xiw_loop_join(qp);
	loop = xiw_loop_enter(qp);
	if (!ret && ep->terms.rtr)
		ret = xiw_tx_opening(qp, ep->sk, ep->terms.rtr);
	if (!ret)
		more = xiw_tx_run(qp, ep->sk, XIW_TX_BUDGET_INLINE);
	xiw_loop_leave(loop);
	if (!ret)
		xiw_rx_run(qp, ep->sk);
	release_sock(ep->sk);
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
	if (ret) {
		ep_refuse_reply(ep, ret);
		return;
	}
	ep_clear_timer(ep, &ep->deadline);
	ep_move(ep, XIW_EP_OPEN);
	xiw_stat_inc(ep->dev, XIW_STAT_CONNECTS);
	ep_tell(ep, IW_CM_EVENT_CONNECT_REPLY, 0);
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
	return !xiw_ep_dial(ep);
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
	struct xiw_listener *listener = ep->listener;
	struct iw_cm_event event = {
		.event = IW_CM_EVENT_CONNECT_REQUEST,
		.provider_data = (void *)(uintptr_t)ep->id,
		.private_data = (void *)ep->theirs.pd,
		.private_data_len = ep->theirs.pd_len,
	};
	int ret;

	if (!ep->theirs.enhanced) {
		ep->theirs.ird = XIW_MAX_IRD;
		ep->theirs.ord = XIW_MAX_ORD;
	}
	ep_fill_event(ep, &event);
	ep_clear_timer(ep, &ep->deadline);
	ep_move(ep, XIW_EP_ASKED);
	ret = xiw_listener_ask(listener, ep->dev, &event);
	if (ret) {
		xiw_ep_finish(ep, ret, XIW_OK);
		return;
	}
	ep->listener = NULL;
	xiw_listener_leave(listener, ep);
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
	if (ep->terms.rtr) {
		ep_move(ep, XIW_EP_WAIT_OPENING);
		ep_set_timer(ep, &ep->deadline, EP_OPENING_MS);
		return;
	}
	ep_move(ep, XIW_EP_OPEN);
	xiw_stat_inc(ep->dev, XIW_STAT_ACCEPTS);
	ep_tell(ep, IW_CM_EVENT_ESTABLISHED, 0);
}

static void ep_opened(struct xiw_ep *ep)
{
	if (ep->state != XIW_EP_WAIT_OPENING)
		return;
	ep_clear_timer(ep, &ep->deadline);
	ep_move(ep, XIW_EP_OPEN);
	xiw_stat_inc(ep->dev, XIW_STAT_ACCEPTS);
	ep_tell(ep, IW_CM_EVENT_ESTABLISHED, 0);
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
	release_sock(ep->sk);
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

static void ep_deadline_passed(struct xiw_ep *ep)
{
	switch (ep->state) {
	case XIW_EP_OPEN:
	case XIW_EP_ASKED:
	case XIW_EP_CLOSED:
		break;		/* it came too late */
	case XIW_EP_FAREWELL:
		ep_close(ep, true);
		break;
	default:
		xiw_ep_finish(ep, -ETIMEDOUT, XIW_OK);
	}
}

static void ep_work(struct work_struct *work)
{
	struct xiw_ep *ep = container_of(work, struct xiw_ep, work);
	unsigned long events;

	mutex_lock(&ep->lock);
	events = xchg(&ep->events, 0);
	if (test_bit(XIW_EP_EV_OPENED, &events))
		ep_opened(ep);
	if (test_bit(XIW_EP_EV_FAILED, &events) && ep->state < XIW_EP_FAREWELL && ep->qp)
		xiw_ep_finish(ep, -ECONNRESET, ep->qp->rx.cause);
	if (test_bit(XIW_EP_EV_SOCKET, &events))
		ep_socket_event(ep);
	if (test_bit(XIW_EP_EV_DEADLINE, &events))
		ep_deadline_passed(ep);
	mutex_unlock(&ep->lock);
	xiw_ep_put(ep);
}

static void ep_deadline_work(struct work_struct *work)
{
	struct xiw_ep *ep = container_of(to_delayed_work(work), struct xiw_ep, deadline);

	xiw_ep_wake(ep, XIW_EP_EV_DEADLINE);
	xiw_ep_put(ep);
}

static void ep_retry_work(struct work_struct *work)
{
	struct xiw_ep *ep = container_of(to_delayed_work(work), struct xiw_ep, retry);

	xiw_ep_wake(ep, XIW_EP_EV_SOCKET);
	xiw_ep_put(ep);
}

struct xiw_ep *xiw_ep_create(struct xiw_device *dev, enum xiw_ep_state state)
{
	struct xiw_ep *ep = kzalloc_obj(*ep, GFP_KERNEL);

	if (!ep)
		return NULL;
	kref_init(&ep->ref);
	ep->dev = dev;
	ep->state = state;
	ep->initiator = state == XIW_EP_CONNECTING;
	mutex_init(&ep->lock);
	INIT_WORK(&ep->work, ep_work);
	INIT_DELAYED_WORK(&ep->deadline, ep_deadline_work);
	INIT_DELAYED_WORK(&ep->retry, ep_retry_work);
	INIT_LIST_HEAD(&ep->half_open);
	ep->frame = kmalloc(XIW_MPA_FRAME_MAX, GFP_KERNEL);
	if (!ep->frame || xa_alloc(&eps, &ep->id, ep, xa_limit_31b, GFP_KERNEL)) {
		xiw_ep_put(ep);
		return NULL;
	}
	xiw_ep_get(ep);		/* its place in eps */
	ep_set_timer(ep, &ep->deadline, ep->initiator ? EP_CONNECT_MS : EP_REQUEST_MS);
	return ep;
}

struct xiw_ep *xiw_ep_accept(struct xiw_device *dev, struct socket *sock,
			     struct xiw_listener *listener)
{
	struct xiw_ep *ep = xiw_ep_create(dev, XIW_EP_WAIT_REQUEST);

	if (!ep)
		return NULL;
	ep->listener = listener;
	ep_adopt(ep, sock);
	return ep;
}
