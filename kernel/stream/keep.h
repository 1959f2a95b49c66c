/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* keep.h - takes the start of an FPDU out of a socket that has no room for the rest */
#ifndef XIW_KEEP_H
#define XIW_KEEP_H

#include "stream/qp.h"

/*
 * An FPDU stays in the socket until all of it has come. TCP always takes a segment if nothing else
 * is in its queue, but may have no room for a whole FPDU that spans several: the host or the
 * control group is out of memory for sockets, or the peer sends so small segments that the receive
 * buffer is full of what they cost. Then the stream would stand still, and if other streams did so
 * too they would never give their memory back. So what has come is taken out of the socket, and
 * what follows is added to it.
 *
 * TCP may find out only when a segment comes that it has no memory. It notes that (ICSK_ACK_NOMEM),
 * and calls sk_data_ready before it drops the segment.
 */

/* keep.c APIs; the socket lock is held */

/**
 * xiw_keep_look - take an incomplete FPDU out of the socket if TCP has no room for the rest of it
 * @qp: queue pair; qp->rx.need is more than there is in the socket
 * @sk: the socket
 *
 * In softirq this wakes the endpoint, which calls again in process context.
 *
 * Context: process or softirq; does not sleep.
 */
void xiw_keep_look(struct xiw_qp *qp, struct sock *sk);

/**
 * xiw_keep_add - add what has come to an FPDU that was taken out of the socket
 * @qp: queue pair with qp->rx.kept; the FPDU is complete when qp->rx.need is 0
 * @sk: the socket
 *
 * Context: process or softirq; does not sleep.
 */
void xiw_keep_add(struct xiw_qp *qp, struct sock *sk);

/**
 * xiw_keep_done - tell TCP what was read
 * @qp: queue pair; the socket lock is held
 * @sk: the socket
 * @len: bytes read from the head of the receive queue, at most all that is in it
 *
 * Context: process or softirq; does not sleep.
 */
void xiw_keep_done(struct xiw_qp *qp, struct sock *sk, u32 len);

/* Frees the FPDU that was taken out of the socket, if there is one. */
void xiw_keep_drop(struct xiw_qp *qp);

#endif /* XIW_KEEP_H */
