// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* ep_bind.c - binds an endpoint to its consumer and queue pair, and raises events */

#include <net/sock.h>

#include "carrier/sock_lock.h"
#include "conn/ep.h"
#include "conn/sock.h"
#include "device.h"
#include "pause.h"
#include "stream/qp.h"

/* The kernel-doc of public functions is in ep.h. */
int xiw_ep_claim(struct xiw_ep *ep, struct xiw_qp *qp)
{
	struct xiw_ep *old = NULL;
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&qp->lock, flags);
	if (qp->state != XIW_QP_IDLE || qp->claimed || qp->dying) {
		ret = -EINVAL;
	} else {
		old = qp->ep;
		xiw_ep_get(ep);
		qp->ep = ep;
		qp->claimed = true;
		qp->told_last = false;
	}
	spin_unlock_irqrestore(&qp->lock, flags);
	if (old)
		xiw_ep_put(old);
	return ret;
}

static void ep_unclaim(struct xiw_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	qp->claimed = false;
	spin_unlock_irqrestore(&qp->lock, flags);
}

/* Socket callbacks read ep->qp under the socket lock alone. Return: the old queue pair. */
static struct xiw_qp *ep_swap_qp(struct xiw_ep *ep, struct xiw_qp *qp)
{
	struct sock *sk = ep->sk;

	if (sk)
		lock_sock(sk);
	swap(ep->qp, qp);
	if (sk)
		xiw_sock_unlock(sk);
	return qp;
}

void xiw_ep_bind(struct xiw_ep *ep, struct iw_cm_id *cm_id, struct xiw_qp *qp)
{
	lockdep_assert_held(&ep->lock);

	cm_id->add_ref(cm_id);
	cm_id->provider_data = NULL;
	ep->cm_id = cm_id;
	xiw_qp_get(qp);
	ep_swap_qp(ep, qp);
}

void xiw_ep_unbind(struct xiw_ep *ep)
{
	struct xiw_qp *qp;

	lockdep_assert_held(&ep->lock);

	qp = ep_swap_qp(ep, NULL);
	if (qp) {
		ep_unclaim(qp);
		xiw_qp_put(qp);
		xiw_pause("ep_unbind");
	}
	if (ep->cm_id) {
		ep->cm_id->rem_ref(ep->cm_id);
		ep->cm_id = NULL;
	}
}

void xiw_ep_fill_event(struct xiw_ep *ep, struct iw_cm_event *event)
{
	event->ird = min_t(u16, ep->theirs.ird, U8_MAX);
	event->ord = min_t(u16, ep->theirs.ord, U8_MAX);
	if (ep->sock)
		xiw_sock_names(ep->sock, &event->local_addr, &event->remote_addr);
}

/* The core copies the private data, and may have no memory for that. */
static int ep_raise(struct xiw_ep *ep, struct iw_cm_event *event)
{
	if (event->private_data_len && xiw_fails("ep_raise"))
		return -ENOMEM;
	return ep->cm_id->event_handler(ep->cm_id, event);
}

int xiw_ep_tell(struct xiw_ep *ep, enum iw_cm_event_type type, int status)
{
	struct iw_cm_event event = { .event = type, .status = status };
	int ret;

	if (!ep->cm_id)
		return 0;
	xiw_ep_fill_event(ep, &event);
	if (type == IW_CM_EVENT_CONNECT_REPLY && (!status || ep->theirs.reject)) {
		event.private_data = (void *)ep->theirs.pd;
		event.private_data_len = ep->theirs.pd_len;
	}
	ret = ep_raise(ep, &event);
	if (ret && status) {	/* a failure must be reported, even without the private data */
		event.private_data_len = 0;
		ret = ep_raise(ep, &event);
	}
	return ret;
}

void xiw_ep_tell_end(struct xiw_ep *ep, int err)
{
	switch (ep->state) {
	case XIW_EP_CONNECTING:
	case XIW_EP_WAIT_REPLY:
		xiw_ep_tell(ep, IW_CM_EVENT_CONNECT_REPLY, err);
		xiw_stat_inc(ep->dev, XIW_STAT_CONN_FAILURES);
		break;
	case XIW_EP_WAIT_REQUEST:
	case XIW_EP_ASKED:
		if (err != -ECONNREFUSED)	/* the consumer has rejected the call */
			xiw_stat_inc(ep->dev, XIW_STAT_CONN_FAILURES);
		break;
	case XIW_EP_WAIT_OPENING:
		xiw_ep_tell(ep, IW_CM_EVENT_ESTABLISHED, err);
		xiw_ep_tell(ep, IW_CM_EVENT_CLOSE, 0);
		xiw_stat_inc(ep->dev, XIW_STAT_CONN_FAILURES);
		break;
	case XIW_EP_OPEN:
		xiw_ep_tell(ep, IW_CM_EVENT_DISCONNECT, 0);
		xiw_ep_tell(ep, IW_CM_EVENT_CLOSE, 0);
		break;
	default:
		break;
	}
}
