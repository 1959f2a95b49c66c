/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* ep.h - one TCP connection, from before its handshake to after its end */
#ifndef XIW_EP_H
#define XIW_EP_H

#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/timer.h>
#include <rdma/iw_cm.h>

#include "carrier/batch.h"
#include "conn/lane.h"
#include "wire/mpa.h"
#include "wire/terminate.h"

struct xiw_device;
struct xiw_listener;
struct xiw_loop;
struct xiw_qp;

/*
 * enum xiw_ep_state - the steps of a connection
 *
 *   initiator: CONNECTING -> WAIT_REPLY ---------------------> OPEN
 *   responder: WAIT_REQUEST -> ASKED -> (WAIT_OPENING) ------> OPEN
 *   both:      any -> FAREWELL -> CLOSED
 */
enum xiw_ep_state {
	XIW_EP_CONNECTING,	/* TCP is connecting */
	XIW_EP_WAIT_REPLY,	/* the Request has been sent */
	XIW_EP_WAIT_REQUEST,
	XIW_EP_ASKED,		/* the consumer has to accept or reject */
	XIW_EP_WAIT_OPENING,	/* the Reply has been sent, the RTR message is due */
	XIW_EP_OPEN,
	XIW_EP_FAREWELL,	/* queue pair and consumer are detached, TCP sends the rest */
	XIW_EP_CLOSED,
};

enum xiw_ep_place {
	XIW_EP_NO_PLACE,	/* not of a listener, or evicted */
	XIW_EP_HALF_OPEN,	/* counts as half-open */
	XIW_EP_WAS_ASKED,	/* the listening consumer has been asked */
};

/* xiw_ep.events, bit numbers: why the job was queued */
#define XIW_EP_EV_SOCKET	0	/* the socket's state changed, or data arrived */
#define XIW_EP_EV_OPENED	1	/* the first FPDU arrived */
#define XIW_EP_EV_FAILED	2	/* xiw_qp_fail() or xiw_qp_lost() */
#define XIW_EP_EV_DEADLINE	3
#define XIW_EP_EV_EVICTED	4	/* a newer half-open connection takes its place */
#define XIW_EP_EV_ALONE		5	/* the other end on this host has left the loop */
#define XIW_EP_EV_HURRY		6	/* its consumer no longer listens: it has to answer soon */

/**
 * struct xiw_ep - one connection
 * @ref: one for its entry in the table of endpoints, one for each user: queue pair, queued job,
 *	pending timer
 * @rcu: socket callbacks may still read it for a grace period
 * @id: names it to the iw_cm until it is accepted; never reused
 * @dev: its device
 * @initiator: this end sent the Request; constant, so RCU is enough to read it
 * @sk: the socket, with our own reference; constant from the first call on
 * @sock: the struct socket of @sk; NULL once it has been released
 * @events: XIW_EP_EV_*, atomic
 * @lane: runs @job; with a reference
 * @job: runs the state machine
 * @deadline: timer of the handshake, of the consumer's answer, of the end of a stream whose peer
 *	has left the loop, or of the farewell
 * @retry: timer: looks at the socket again after a Send has waited long enough for a receive
 *	request, when an access to memory has to be repeated, when TCP may have memory again, or if
 *	another thread does not do what it was to do
 * @retry_lock: held to start @retry
 * @lock: guards all below; see Locking in qp.h
 * @state: the current step
 * @due: when @deadline expires, in jiffies; far in the future if none is set
 * @cm_id: gets the events, with a reference; NULL before accept and after the end
 * @qp: queue pair, with a reference; NULL before accept and after the end. Written with the socket
 *	lock held as well, so that lock is enough to read it
 * @listener: TCP accepted the connection there; NULL once the consumer has accepted it
 * @place: what it is to the listener; guarded by the listener's lock
 * @waiting: entry in a list of the listener, guarded by the listener's lock
 * @ours: contents of our Request; its private data is in @pd
 * @theirs: contents of the peer's frame; points into @frame
 * @terms: what the handshake agreed on
 * @frame: what has arrived of the peer's frame; freed after the handshake, as is @pd
 * @frame_len: bytes that have arrived of it
 * @pd: private data of our Request
 * @rest: the last bytes for TCP to send
 * @loop: shared with the endpoint of the peer, with a reference, or NULL; written once, under the
 *	socket lock
 * @said_bye: our FIN has been sent
 * @close_ms: the deadline of the farewell, as it was set when the endpoint was made; constant
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
	struct timer_list	deadline;
	struct timer_list	retry;
	spinlock_t		retry_lock;

	struct mutex		lock;
	enum xiw_ep_state	state;
	unsigned long		due;
	struct iw_cm_id		*cm_id;
	struct xiw_qp		*qp;
	struct xiw_listener	*listener;
	enum xiw_ep_place	place;
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
	u32			close_ms;
};

/* ep.c APIs */

/**
 * xiw_ep_accept - make an endpoint for an incoming connection
 * @dev: the device that owns the local address
 * @sock: the connection; the endpoint owns it unless NULL is returned
 * @listener: accepted the connection; its lock is held, and it counts the endpoint as half-open
 * @lane: the lane of @listener
 * @may_mark: see xiw_tune()
 *
 * Return: the endpoint with a reference, or NULL if there is no memory.
 */
struct xiw_ep *xiw_ep_accept(struct xiw_device *dev, struct socket *sock,
			     struct xiw_listener *listener, struct xiw_lane *lane, bool may_mark);

/**
 * xiw_ep_create - make an endpoint without a socket
 * @dev: its device
 * @state: CONNECTING or WAIT_REQUEST
 * @lane: runs it in order with other endpoints; NULL for a new lane
 *
 * Return: the endpoint with a reference, or NULL if there is no memory.
 */
struct xiw_ep *xiw_ep_create(struct xiw_device *dev, enum xiw_ep_state state,
			     struct xiw_lane *lane);

/**
 * xiw_ep_dial - open a socket and start to connect
 * @ep: endpoint of an initiator, locked; @ep->ours, @ep->cm_id and @ep->qp are set
 *
 * The Request may have been sent on return, or the attempt may have failed and been reported.
 *
 * Return: 0 or a negative errno.
 */
int xiw_ep_dial(struct xiw_ep *ep);

static inline void xiw_ep_get(struct xiw_ep *ep)
{
	kref_get(&ep->ref);
}

/* Fills in the depths that the peer named, and the addresses of both ends. @ep is locked. */
void xiw_ep_fill_event(struct xiw_ep *ep, struct iw_cm_event *event);

/**
 * xiw_ep_tell - raise an event for the consumer of an endpoint, if it has one
 * @ep: the endpoint, locked
 * @type: type of the event
 * @status: 0 or a negative errno
 *
 * Return: 0, or -ENOMEM without an event if there is no memory for the peer's private data.
 */
int xiw_ep_tell(struct xiw_ep *ep, enum iw_cm_event_type type, int status);

/*
 * Raises the events that end a connection in its current state, and counts a handshake that failed.
 * @err says why. @ep is locked.
 */
void xiw_ep_tell_end(struct xiw_ep *ep, int err);

/* The handshake is done: tells the consumer, or waits for the RTR message. @ep is locked. */
void xiw_ep_accepted(struct xiw_ep *ep);

/* ep_end.c APIs */

/* Removes the endpoint from its listener, if it has one. @ep is locked. */
void xiw_ep_leave_listener(struct xiw_ep *ep);

/* Releases the socket (with a reset if @abort), timers, listener and id. @ep is locked. */
void xiw_ep_close(struct xiw_ep *ep, bool abort);

/* Sends the last bytes and the FIN as TCP takes them; closes when TCP is done. @ep is locked. */
void xiw_ep_farewell(struct xiw_ep *ep);

/**
 * xiw_ep_finish - detach an endpoint from queue pair and consumer, and begin the farewell
 * @ep: the endpoint, locked
 * @err: negative errno for the consumer if the connection was still being set up
 * @cause: why a Terminate is sent, or XIW_OK for none
 *
 * 1. Detach and flush the queue pair; TCP still has to take what was staged.
 * 2. Tell the iw_cm that the connection has ended.
 * 3. Drop the references to consumer and queue pair.
 * 4. Send the last bytes, then the FIN. Throw input away until the peer's FIN arrives, because
 *    TCP would answer unread input with a reset (RFC 5040 section 6.2.1).
 */
void xiw_ep_finish(struct xiw_ep *ep, int err, enum xiw_cause cause);

/**
 * xiw_ep_end - end a connection from this side
 * @ep: the endpoint
 * @cause: XIW_OK for an orderly close, else why a Terminate is sent
 *
 * An orderly close first sends what was posted before it, as far as the peer takes it. That lasts
 * half a second at most, and ends at once if the process is being killed. The rest is flushed.
 *
 * On return the queue pair is detached and flushed, and all events have been raised.
 *
 * Context: process; sleeps.
 */
void xiw_ep_end(struct xiw_ep *ep, enum xiw_cause cause);

/* Resets the connection and closes the endpoint. Context: process; sleeps. */
void xiw_ep_kill(struct xiw_ep *ep);

/* ep_bind.c APIs */

/**
 * xiw_ep_claim - reserve a queue pair for a connection that is being set up
 * @ep: the endpoint; the queue pair takes a reference on it
 * @qp: the queue pair
 *
 * Return: 0, or -EINVAL if @qp is not IDLE or has a connection.
 */
int xiw_ep_claim(struct xiw_ep *ep, struct xiw_qp *qp);

/* Binds consumer and queue pair to an endpoint; takes a reference on each. @ep is locked. */
void xiw_ep_bind(struct xiw_ep *ep, struct iw_cm_id *cm_id, struct xiw_qp *qp);
void xiw_ep_unbind(struct xiw_ep *ep);

/* ep_loop.c APIs */

/**
 * xiw_ep_join_loop - if the peer is a queue pair of this host, connect the two directly
 * @ep: an initiator, whose queue pair has just been attached and has sent nothing yet
 *
 * From then on segments bypass TCP, which only carries a Terminate and the close. Both ends must
 * be in one network namespace and have the setting "loopback". The responder must be waiting for
 * the first FPDU (RFC 5044 section 7.1.2), because then TCP holds no part of the stream. If one of
 * these conditions fails, TCP carries the stream.
 *
 * Context: process; the caller holds the socket lock of @ep, and that of its peer is taken.
 */
void xiw_ep_join_loop(struct xiw_ep *ep);

/* ep_ref.c APIs */

/* The only writer of @ep->state. @ep is locked. */
void xiw_ep_move(struct xiw_ep *ep, enum xiw_ep_state to);

/* Unlocks @ep->lock. Queues the job if events arrived while the lock was held. */
void xiw_ep_unlock(struct xiw_ep *ep);

/**
 * xiw_ep_wake - run the state machine
 * @ep: the endpoint
 * @event: XIW_EP_EV_*: why
 *
 * Context: any.
 */
void xiw_ep_wake(struct xiw_ep *ep, unsigned int event);

void xiw_ep_put(struct xiw_ep *ep);

/**
 * xiw_ep_insert - give an endpoint an id, and add it to the table of endpoints
 * @ep: the endpoint; the table takes a reference on it
 *
 * An id is never reused: the iw_cm may use one long after its connection has ended, and must not
 * reach another connection with it. With a 32-bit long the ids run out after some four thousand
 * million connections. New connections then fail until the module is loaded again.
 *
 * Return: 0; -ENOMEM; -ENOSPC if the ids have run out.
 */
int xiw_ep_insert(struct xiw_ep *ep);

/* Removes an endpoint from the table of endpoints. */
void xiw_ep_erase(struct xiw_ep *ep);

/**
 * xiw_ep_find - find the endpoint of a connection request
 * @cm_id: from the CONNECT_REQUEST event; its provider_data is xiw_ep.id
 *
 * Return: the endpoint with a reference, or NULL if the connection has ended.
 */
struct xiw_ep *xiw_ep_find(const struct iw_cm_id *cm_id);

/* Returns any endpoint of @dev with a reference, or NULL. */
struct xiw_ep *xiw_ep_any(struct xiw_device *dev);

/* Waits until all endpoints of @dev are freed. All must be closed, and no new ones are made. */
void xiw_ep_await_all(struct xiw_device *dev);

/* ep_timer.c APIs */

void xiw_ep_init_timers(struct xiw_ep *ep);
void xiw_ep_clear_timers(struct xiw_ep *ep);

/**
 * xiw_ep_set_deadline - raise XIW_EP_EV_DEADLINE after a time
 * @ep: the endpoint, locked, or not yet used by any other thread
 * @timeout_ms: milliseconds from now
 *
 * A new deadline replaces the old one. The event of the old one may still be pending, so the state
 * machine has to ask xiw_ep_is_due() before it acts on an event.
 */
void xiw_ep_set_deadline(struct xiw_ep *ep, unsigned int timeout_ms);
void xiw_ep_clear_deadline(struct xiw_ep *ep);
bool xiw_ep_is_due(const struct xiw_ep *ep);

/*
 * Raises XIW_EP_EV_SOCKET after a time, or earlier if another caller has asked for that. Context:
 * any.
 */
void xiw_ep_look_later(struct xiw_ep *ep, unsigned int timeout_ms);

#endif /* XIW_EP_H */
