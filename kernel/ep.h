/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* ep.h - one TCP connection, from before its handshake to after its end */
#ifndef XIW_EP_H
#define XIW_EP_H

#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/workqueue.h>
#include <rdma/iw_cm.h>

#include "batch.h"
#include "mpa.h"
#include "terminate.h"

struct xiw_device;
struct xiw_listener;
struct xiw_loop;
struct xiw_qp;

/* Runs endpoints and listeners. */
extern struct workqueue_struct *xiw_cm_wq;

/*
 * enum xiw_ep_state - where a connection is
 *
 *   initiator: CONNECTING -> WAIT_REPLY ---------------------> OPEN
 *   responder: WAIT_REQUEST -> ASKED -> (WAIT_OPENING) ------> OPEN
 *   both:      any -> FAREWELL -> CLOSED
 */
enum xiw_ep_state {
	XIW_EP_CONNECTING,	/* TCP connects */
	XIW_EP_WAIT_REPLY,	/* Request is sent */
	XIW_EP_WAIT_REQUEST,
	XIW_EP_ASKED,		/* the consumer is to accept or reject */
	XIW_EP_WAIT_OPENING,	/* Reply is sent, the RTR message is due */
	XIW_EP_OPEN,
	XIW_EP_FAREWELL,	/* parted from everybody, the last octets are on their way */
	XIW_EP_CLOSED,
};

/* xiw_ep.events, bit numbers: why its work was queued */
#define XIW_EP_EV_SOCKET	0	/* the socket's state changed, or data came */
#define XIW_EP_EV_OPENED	1	/* the first FPDU came */
#define XIW_EP_EV_FAILED	2	/* xiw_qp_fail() or xiw_qp_lost() */
#define XIW_EP_EV_DEADLINE	3

/**
 * struct xiw_ep - one connection
 * @ref: one for its place in the list, one for each that points here: QP, worker, queued work
 * @rcu: socket callbacks may still look at it for a grace period
 * @id: what the iw_cm knows it by before it is accepted
 * @dev: its device
 * @sk: the socket, with a reference of our own; a second call to a peer of revision 1 sets it anew,
 *	but it is constant while a queue pair is attached
 * @sock: the same while it is open
 * @events: XIW_EP_EV_*, atomic
 * @work: the state machine's run
 * @deadline: of the handshake, or of the farewell
 * @retry: looks at received data when a Send has waited for long enough
 * @lock: guards all below; see Locking in qp.h
 * @state: where it is
 * @initiator: this end sent the Request
 * @cm_id: whom to tell, with a reference; NULL before accept and after the end
 * @qp: queue pair, with a reference; NULL before accept and after the end
 * @listener: whose quota of half-open connections it counts in; NULL once a Request came
 * @half_open: place in the listener's list, guarded by its lock
 * @ours: what our Request says; its private data is in @pd
 * @theirs: what the peer's frame says; points into @frame
 * @terms: what was agreed
 * @frame: the peer's frame, as far as it has come; gone when the stream is agreed on, as is @pd
 * @frame_len: octets of it
 * @pd: private data of our Request
 * @rest: last octets for TCP
 * @loop: shared with the endpoint of the peer, with a reference, or NULL
 * @said_bye: our FIN is sent
 */
struct xiw_ep {
	struct kref		ref;
	struct rcu_head		rcu;
	u32			id;
	struct xiw_device	*dev;
	struct sock		*sk;
	struct socket		*sock;
	unsigned long		events;
	struct work_struct	work;
	struct delayed_work	deadline;
	struct delayed_work	retry;

	struct mutex		lock;
	enum xiw_ep_state	state;
	bool			initiator;
	struct iw_cm_id		*cm_id;
	struct xiw_qp		*qp;
	struct xiw_listener	*listener;
	struct list_head	half_open;
	struct xiw_mpa		ours;
	struct xiw_mpa		theirs;
	struct xiw_mpa_terms	terms;
	void			*frame;
	unsigned int		frame_len;
	void			*pd;
	struct xiw_batch	rest;
	struct xiw_loop		*loop;
	bool			said_bye;
};

/* ep.c APIs */

/**
 * xiw_ep_accept - begin a connection that came in
 * @dev: the device that serves its local address
 * @sock: the connection; belongs to the endpoint if one is returned
 * @listener: where it came in; its lock is held, and it counts the endpoint as half-open
 *
 * Return: the endpoint with a reference, or NULL without memory.
 */
struct xiw_ep *xiw_ep_accept(struct xiw_device *dev, struct socket *sock,
			     struct xiw_listener *listener);

/**
 * xiw_ep_create - make an endpoint without a socket
 * @dev: its device
 * @state: CONNECTING or WAIT_REQUEST
 *
 * Return: the endpoint with a reference, or NULL without memory.
 */
struct xiw_ep *xiw_ep_create(struct xiw_device *dev, enum xiw_ep_state state);

/**
 * xiw_ep_dial - open a socket and start to connect, with @ep->ours and its cm_id
 * @ep: endpoint of an initiator, locked
 *
 * Return: 0 or a negative errno.
 */
int xiw_ep_dial(struct xiw_ep *ep);

/**
 * xiw_ep_find - find an endpoint that the consumer is asked about
 * @id: xiw_ep.id
 *
 * Return: the endpoint with a reference, or NULL if the connection is over.
 */
struct xiw_ep *xiw_ep_find(u32 id);

/* Returns any endpoint of @dev with a reference, or NULL. */
struct xiw_ep *xiw_ep_any(struct xiw_device *dev);

static inline void xiw_ep_get(struct xiw_ep *ep)
{
	kref_get(&ep->ref);
}

void xiw_ep_put(struct xiw_ep *ep);

/**
 * xiw_ep_wake - have the state machine look
 * @ep: the endpoint
 * @event: XIW_EP_EV_*
 *
 * Context: any.
 */
void xiw_ep_wake(struct xiw_ep *ep, unsigned int event);

/* Has received data looked at again after a time. Context: any. */
void xiw_ep_retry_rx(struct xiw_ep *ep, unsigned int timeout_ms);

/* Ties consumer and queue pair to an endpoint; takes a reference on each. @ep is locked. */
void xiw_ep_bind(struct xiw_ep *ep, struct iw_cm_id *cm_id, struct xiw_qp *qp);
void xiw_ep_unbind(struct xiw_ep *ep);

/* The stream is agreed on: tells the consumer, or awaits the opening message. @ep is locked. */
void xiw_ep_accepted(struct xiw_ep *ep);

/**
 * xiw_ep_finish - part an endpoint from everybody and begin the farewell
 * @ep: the endpoint, locked
 * @err: what the consumer is told if the connection was being set up, negative errno
 * @cause: why a Terminate is sent, or XIW_OK for none
 *
 * 1. The queue pair is detached and flushed; TCP still has to take what was staged.
 * 2. The iw_cm hears of the end.
 * 3. References to consumer and queue pair are dropped.
 * 4. The last octets are sent, then the FIN; input is thrown away until the peer's FIN, so that
 *    TCP does not answer it with a reset (RFC 5040 section 6.2.1).
 */
void xiw_ep_finish(struct xiw_ep *ep, int err, enum xiw_cause cause);

/**
 * xiw_ep_end - end a connection from this side
 * @ep: the endpoint
 * @cause: XIW_OK for an orderly close, else why a Terminate is sent
 *
 * When it returns the queue pair is detached and flushed, and all events are on their way.
 *
 * Context: process; sleeps.
 */
void xiw_ep_end(struct xiw_ep *ep, enum xiw_cause cause);

/* Resets the connection and forgets it. Context: process; sleeps. */
void xiw_ep_kill(struct xiw_ep *ep);

#endif /* XIW_EP_H */
