/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* rx.h - finds whole FPDUs in the bytes of the socket */
#ifndef XIW_RX_H
#define XIW_RX_H

#include <linux/jiffies.h>

#include "carrier/cursor.h"
#include "stream/qp.h"

/* When the patience of a Send that waits for a receive request ends, in jiffies. */
static inline unsigned long xiw_rx_patience_ends(const struct xiw_qp *qp)
{
	return qp->rx.starved_since + msecs_to_jiffies(qp->rx.patience_ms);
}

/* Whether the Send may still wait for a receive request. The queue pair is locked. */
static inline bool xiw_rx_patient(const struct xiw_qp *qp)
{
	return !(qp->rx.waits & XIW_WAIT_RECEIVE) ||
	       time_before_eq(jiffies, xiw_rx_patience_ends(qp));
}

/* rx.c APIs */

/**
 * xiw_rx_run - process all complete FPDUs in the socket
 * @qp: queue pair; the socket lock is held
 * @sk: the socket
 *
 * An FPDU stays in the socket until it is complete, so it does not matter how TCP cuts the stream.
 * If CRCs are on, nothing is placed before its CRC has been verified (RFC 5044 section 6).
 *
 * Context: process or softirq; does not sleep.
 */
void xiw_rx_run(struct xiw_qp *qp, struct sock *sk);

/**
 * xiw_rx_drive_now - lock the socket of a queue pair and receive, unless it is locked
 * @qp: queue pair
 *
 * Context: process; does not wait for the socket.
 * Return: false if it is locked, see XIW_QP_LOCKED_OUT.
 */
bool xiw_rx_drive_now(struct xiw_qp *qp);

/**
 * xiw_rx_segment - process one segment
 * @qp: queue pair, locked (see Locking)
 * @hdr: headers of the segment
 * @ulpdu_len: length of its ULPDU in bytes
 * @payload: see xiw_place()
 *
 * Return: XIW_OK; XIW_NOT_YET if the segment was not placed and has to come again when what
 * @qp->rx.waits for is there; or the cause for which the stream has ended.
 */
enum xiw_cause xiw_rx_segment(struct xiw_qp *qp, const struct xiw_headers *hdr, u32 ulpdu_len,
			      struct xiw_cursor *payload);

#endif /* XIW_RX_H */
