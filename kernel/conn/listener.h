/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* listener.h - TCP sockets that listen, each for all devices of a network namespace or VRF */
#ifndef XIW_LISTENER_H
#define XIW_LISTENER_H

#include <rdma/iw_cm.h>

struct xiw_ep;
struct xiw_listener;

/* listener.c APIs */

/**
 * xiw_listener_ask - hand a complete Request to the consumer that listens on a device
 * @listener: accepted the connection
 * @ep: the connection, locked; if this succeeds it is no longer half-open
 * @event: the event
 *
 * Return: 0; -ECONNABORTED if no consumer listens on the device any more; -ENOMEM if the consumer's
 * backlog is full.
 */
int xiw_listener_ask(struct xiw_listener *listener, struct xiw_ep *ep,
		     struct iw_cm_event *event);

/* A connection has been refused: it counts as half-open until it leaves. @ep is locked. */
void xiw_listener_refused(struct xiw_listener *listener, struct xiw_ep *ep);

/* Removes a connection from @listener when the consumer has accepted it, or it is closed. */
void xiw_listener_leave(struct xiw_listener *listener, struct xiw_ep *ep);

/* Members of struct ib_device_ops; kernel-doc is in listener.c. */
int xiw_listen(struct iw_cm_id *cm_id, int backlog);
int xiw_unlisten(struct iw_cm_id *cm_id);

#endif /* XIW_LISTENER_H */
