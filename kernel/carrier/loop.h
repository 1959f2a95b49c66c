/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* loop.h - carries a stream between two queue pairs of this host without TCP */
#ifndef XIW_LOOP_H
#define XIW_LOOP_H

#include <linux/types.h>

#include "wire/terminate.h"

struct xiw_cursor;
struct xiw_loop;
struct xiw_qp;

/* How an end processes a segment: see xiw_rx_segment(). */
typedef enum xiw_cause xiw_loop_receive_t(struct xiw_qp *qp, const struct xiw_headers *hdr,
					  u32 ulpdu_len, struct xiw_cursor *payload);

/* loop.c APIs */

/* Return: a loop without queue pairs and with one reference, or NULL without memory. */
struct xiw_loop *xiw_loop_create(xiw_loop_receive_t *receive);

/**
 * xiw_loop_connect - pass segments from one queue pair to the other without TCP from now on
 * @loop: the loop; both endpoints keep a reference to it
 * @qp: one end; it is attached and has sent nothing yet
 * @peer: the other end, in the same state
 *
 * Context: process; the caller holds both socket locks.
 */
void xiw_loop_connect(struct xiw_loop *loop, struct xiw_qp *qp, struct xiw_qp *peer);

struct xiw_loop *xiw_loop_get(struct xiw_loop *loop);
void xiw_loop_put(struct xiw_loop *loop);

#endif /* XIW_LOOP_H */
