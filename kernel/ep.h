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
#include "lane.h"
#include "mpa.h"
#include "terminate.h"

struct xiw_device;
struct xiw_listener;
struct xiw_loop;
struct xiw_qp;

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
#define XIW_EP_EV_EVICTED	4	/* a newer connection takes its place among the half-open */
#define XIW_EP_EV_ALONE		5	/* the other end on this host has left the loop */
#define XIW_EP_EV_HURRY		6	/* who was asked listens no more: it is to answer soon */

/**
 * struct xiw_ep - one connection
 * @ref: one for its place in the list, one for each that points here: QP, worker, queued work
 * @rcu: socket callbacks may still look at it for a grace period
 * @id: what the iw_cm knows it by before it is accepted; never given to another one
 * @dev: its device
 * @initiator: this end sent the Request; constant, so that RCU is enough to read it
 * @sk: the socket, with a reference of our own; a second call to a peer of revision 1 sets it anew,
 *	but it is constant while a queue pair is attached
 * @sock: the same while it is open
 * @events: XIW_EP_EV_*, atomic
 * @lane: where @job runs, with a reference
 * @job: the state machine's run
 * @deadline: of the handshake, of the consumer's answer, or of the farewell
 * @retry: looks at received data when a Send has waited for long enough
 * @lock: guards all below; see Locking in qp.h
 * @state: where it is
 * @due: when @deadline is over, in jiffies; far away if there is none
 * @cm_id: whom to tell, with a reference; NULL before accept and after the end
 * @qp: queue pair, with a reference; NULL before accept and after the end. Written with the socket
 *	lock held, too, which is enough to read it
 * @listener: where it came in; NULL once the consumer has answered
 * @asked: the consumer that listens there knows of it, guarded by the listener's lock
 * @waiting: place in a list of the listener, guarded by its lock
 * @ours: what our Request says; its private data is in @pd
 * @theirs: what the peer's frame says; points into @frame
 * @terms: what was agreed
 * @frame: the peer's frame, as far as it has come; gone when the stream is agreed on, as is @pd
 * @frame_len: octets of it
 * @pd: private data of our Request
 * @rest: last octets for TCP
 * @loop: shared with the endpoint of the peer, with a reference, or NULL; written once, under the
 *	socket lock
 * @said_bye: our FIN is sent
 */
struct xiw_ep {
	struct kref		ref;
	struct rcu_head		rcu;
	unsigned long		id;
	struct xiw_device	*dev;
	bool			initiator;
	struct sock		*sk;
	struct socket		*sock;
	unsigned long		events;
	struct xiw_lane		*lane;
	struct xiw_job		job;
	struct delayed_work	deadline;
	struct delayed_work	retry;

	struct mutex		lock;
	enum xiw_ep_state	state;
	unsigned long		due;
	struct iw_cm_id		*cm_id;
	struct xiw_qp		*qp;
	struct xiw_listener	*listener;
	bool			asked;
	struct list_head	waiting;
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
 * @lane: of @listener
 *
 * Return: the endpoint with a reference, or NULL without memory.
 */
struct xiw_ep *xiw_ep_accept(struct xiw_device *dev, struct socket *sock,
			     struct xiw_listener *listener, struct xiw_lane *lane);

/**
 * xiw_ep_create - make an endpoint without a socket
 * @dev: its device
 * @state: CONNECTING or WAIT_REQUEST
 * @lane: orders what comes of it with that of others; NULL for a lane of its own
 *
 * Return: the endpoint with a reference, or NULL without memory.
 */
struct xiw_ep *xiw_ep_create(struct xiw_device *dev, enum xiw_ep_state state,
			     struct xiw_lane *lane);

/**
 * xiw_ep_dial - open a socket and start to connect, with @ep->ours and its cm_id
 * @ep: endpoint of an initiator, locked
 *
 * Return: 0 or a negative errno.
 */
int xiw_ep_dial(struct xiw_ep *ep);

static inline void xiw_ep_get(struct xiw_ep *ep)
{
	kref_get(&ep->ref);
}

void xiw_ep_put(struct xiw_ep *ep);

/* What the consumer is told: the depths that the peer named, and the addresses. @ep is locked. */
void xiw_ep_fill_event(struct xiw_ep *ep, struct iw_cm_event *event);

/**
 * xiw_ep_tell - tell the consumer of an endpoint, if it has one
 * @ep: the endpoint, locked
 * @type: of what
 * @status: 0 or a negative errno
 *
 * Return: 0, or -ENOMEM if there is no memory for the peer's private data: then nothing was told.
 */
int xiw_ep_tell(struct xiw_ep *ep, enum iw_cm_event_type type, int status);

/* Tells in what events its state asks for that it is over, for reason @err. @ep is locked. */
void xiw_ep_tell_end(struct xiw_ep *ep, int err);

/* Lets go of @ep->lock, and has the state machine look at what came while it was held. */
void xiw_ep_unlock(struct xiw_ep *ep);

/**
 * xiw_ep_wake - have the state machine look
 * @ep: the endpoint
 * @event: XIW_EP_EV_*
 *
 * Context: any.
 */
void xiw_ep_wake(struct xiw_ep *ep, unsigned int event);

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
 * What was posted before an orderly close is sent as far as the peer takes it, for half a second at
 * most and not for a process that is being killed; what is left is flushed.
 *
 * When it returns the queue pair is detached and flushed, and all events are on their way.
 *
 * Context: process; sleeps.
 */
void xiw_ep_end(struct xiw_ep *ep, enum xiw_cause cause);

/* Resets the connection and forgets it. Context: process; sleeps. */
void xiw_ep_kill(struct xiw_ep *ep);

/* ep_bind.c APIs */

/* Ties consumer and queue pair to an endpoint; takes a reference on each. @ep is locked. */
void xiw_ep_bind(struct xiw_ep *ep, struct iw_cm_id *cm_id, struct xiw_qp *qp);
void xiw_ep_unbind(struct xiw_ep *ep);

/* ep_id.c APIs */

/**
 * xiw_ep_insert - give an endpoint its id, by which it is found from now on
 * @ep: the endpoint; its place among those that are found holds a reference
 *
 * No id is ever given again: the iw_cm may name one long after its connection is over, and must not
 * hit another with that. Where a long has 32 bits they run out after some four thousand million
 * connections; then there are no more until the module is loaded anew.
 *
 * Return: 0; -ENOMEM; -ENOSPC.
 */
int xiw_ep_insert(struct xiw_ep *ep);

/* It is not found any more. */
void xiw_ep_erase(struct xiw_ep *ep);

/**
 * xiw_ep_find - find the endpoint of a connection that the consumer was asked about
 * @cm_id: from the CONNECT_REQUEST event; its provider_data is xiw_ep.id
 *
 * Return: the endpoint with a reference, or NULL if the connection is over.
 */
struct xiw_ep *xiw_ep_find(const struct iw_cm_id *cm_id);

/* Returns any endpoint of @dev with a reference, or NULL. */
struct xiw_ep *xiw_ep_any(struct xiw_device *dev);

/* Waits until nobody refers to an endpoint of @dev any more; all are closed, and none is made. */
void xiw_ep_await_all(struct xiw_device *dev);

/* ep_timer.c APIs */

void xiw_ep_init_timers(struct xiw_ep *ep);
void xiw_ep_clear_timers(struct xiw_ep *ep);

/**
 * xiw_ep_set_deadline - have the state machine woken by XIW_EP_EV_DEADLINE
 * @ep: the endpoint, locked, or still known to its maker alone
 * @timeout_ms: from now
 *
 * There is one deadline at a time. The event of an earlier one may be pending still when the next
 * is set, so it says only that it is time to ask xiw_ep_is_due().
 */
void xiw_ep_set_deadline(struct xiw_ep *ep, unsigned int timeout_ms);
void xiw_ep_clear_deadline(struct xiw_ep *ep);
bool xiw_ep_is_due(const struct xiw_ep *ep);

/* Has received data looked at again after a time. Context: any. */
void xiw_ep_retry_rx(struct xiw_ep *ep, unsigned int timeout_ms);

#endif /* XIW_EP_H */
