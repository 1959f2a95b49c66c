/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* rx.h - from octets in the socket to whole FPDUs */
#ifndef XIW_RX_H
#define XIW_RX_H

#include "qp.h"

/**
 * struct xiw_cursor - a place in the receive queue of a socket, or in the memory of a peer on this
 *	host
 * @sk: the socket, locked
 * @skb: segment that holds the next octet, or one before it
 * @seq: TCP sequence number of the next octet
 * @mr: region, from xiw_mr_get(), or NULL
 * @addr: the next octet of @mr
 * @data: if there is neither socket nor region
 */
struct xiw_cursor {
	struct sock		*sk;
	struct sk_buff		*skb;
	u32			seq;
	struct xiw_mr		*mr;
	u64			addr;
	const void		*data;
};

/* rx.c APIs */

/**
 * xiw_rx_run - process all whole FPDUs that wait in the socket
 * @qp: queue pair; its socket lock is held
 * @sk: the socket
 *
 * An FPDU is left in the socket until all of it is there, so how TCP cuts the stream does not
 * matter, and with CRCs on nothing is placed before its CRC has been verified (RFC 5044
 * section 6).
 *
 * Context: process or softirq; does not sleep.
 */
void xiw_rx_run(struct xiw_qp *qp, struct sock *sk);

/**
 * xiw_rx_segment - process one segment
 * @qp: queue pair; what drives it is locked
 * @hdr: its headers
 * @ulpdu_len: its length in octets
 * @payload: see xiw_place()
 *
 * Return: 0; -EAGAIN if nothing has happened, and it is to come again when @qp->rx.starved or
 * @qp->rx.paging has ended; -EPROTO if the stream has ended.
 */
int xiw_rx_segment(struct xiw_qp *qp, const struct xiw_headers *hdr, u32 ulpdu_len,
		   struct xiw_cursor *payload);

/* Whether a Send may wait for a receive request any longer. What drives @qp is locked. */
bool xiw_rx_patient(const struct xiw_qp *qp);

/**
 * xiw_cursor_copy - copy octets
 * @cur: where they start; advanced behind them
 * @to: where to
 * @len: octets; the caller has made sure that they are there
 *
 * Return: 0, or -EFAULT if they are not readable.
 */
int xiw_cursor_copy(struct xiw_cursor *cur, void *to, size_t len);

#endif /* XIW_RX_H */
