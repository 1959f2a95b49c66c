/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* listener.h - TCP ports on which connections are awaited */
#ifndef XIW_LISTENER_H
#define XIW_LISTENER_H

#include <rdma/iw_cm.h>

struct xiw_ep;
struct xiw_listener;

/* listener.c APIs */

/* The socket of @listener has connections to accept. Context: RCU read side, any. */
void xiw_listener_wake(struct xiw_listener *listener);

/**
 * xiw_listener_ask - give a complete Request to the consumer that listens on a device
 * @listener: where the connection came in
 * @ep: the connection, locked; it is half-open no more if this succeeds
 * @event: the event
 *
 * Return: 0; -ECONNREFUSED if nobody listens there any more; -ENOMEM if the consumer's backlog
 * is full.
 */
int xiw_listener_ask(struct xiw_listener *listener, struct xiw_ep *ep,
		     struct iw_cm_event *event);

/* A connection of @listener has been answered, or ended: it gives back its place. */
void xiw_listener_leave(struct xiw_listener *listener, struct xiw_ep *ep);

/* Verbs, as struct ib_device_ops wants them; kernel-doc is in listener.c. */
int xiw_listen(struct iw_cm_id *cm_id, int backlog);
int xiw_unlisten(struct iw_cm_id *cm_id);

#endif /* XIW_LISTENER_H */
