/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* tx.h - from a work request to octets in the socket */
#ifndef XIW_TX_H
#define XIW_TX_H

#include "qp.h"

/* Octets that one run may stage: large in a worker, small where others wait. */
#define XIW_TX_BUDGET_WORKER	(256 * 1024)
#define XIW_TX_BUDGET_INLINE	(128 * 1024)
#define XIW_TX_BUDGET_RX	(64 * 1024)

/* tx.c APIs */

/**
 * xiw_tx_run - send what can be sent
 * @qp: queue pair; what drives it is locked, see Locking
 * @sk: the socket
 * @budget: octets to stage at most, in whole batches; each request counts for some, whatever it
 *	stages. It has its own for a peer on this host
 *
 * Takes turns between Responses that the peer waits for and the send queue, gathers as many
 * FPDUs as fit for one call into TCP, completes what needs no answer.
 * When nothing is left it asks for doorbells, unless a worker goes on looking at the ring. Does
 * nothing if called from inside itself (TCP may process received segments while we send).
 *
 * Without memory it has a worker try again after a pause.
 *
 * Context: process or softirq; does not sleep.
 * Return: true if work remains for which no event will come: call again, or queue to a worker.
 */
bool xiw_tx_run(struct xiw_qp *qp, struct sock *sk, size_t budget);

/**
 * xiw_tx_drive - lock what drives a queue pair, and run
 * @qp: queue pair
 * @budget: see xiw_tx_run()
 * @by: how the run is counted: XIW_STAT_TX_INLINE or XIW_STAT_TX_WORKER
 *
 * If the connection has ended what was posted is flushed.
 *
 * Context: process; sleeps.
 * Return: as xiw_tx_run().
 */
bool xiw_tx_drive(struct xiw_qp *qp, size_t budget, enum xiw_stat by);

/**
 * xiw_tx_drive_now - as xiw_tx_drive(), but wait for no process
 * @qp: queue pair
 * @budget: see xiw_tx_run()
 * @by: see xiw_tx_drive()
 *
 * Return: as xiw_tx_run(), or -EAGAIN as xiw_qp_lock_now().
 */
int xiw_tx_drive_now(struct xiw_qp *qp, size_t budget, enum xiw_stat by);

/**
 * xiw_tx_wants - whether a run would find something to do
 * @qp: queue pair, held by a worker that looks at its ring; no lock needed
 *
 * Return: true if it might.
 */
bool xiw_tx_wants(const struct xiw_qp *qp);

/**
 * xiw_tx_opening - stage the message that opens a peer-to-peer stream (RFC 6581 section 9.2)
 * @qp: queue pair of the initiator, just attached; its socket lock is held
 * @sk: the socket
 * @rtr: XIW_RTR_WRITE or XIW_RTR_READ
 *
 * @qp has held back what the process posted meanwhile; it may send now.
 *
 * Return: 0 or -ENOMEM.
 */
int xiw_tx_opening(struct xiw_qp *qp, struct sock *sk, u8 rtr);

/**
 * xiw_tx_terminate - stage a Terminate behind what is under way
 * @batch: where to; a free entry must be there
 * @cause: why
 * @fault: headers of the faulty FPDU, or NULL
 * @framing: of the stream
 *
 * Return: 0 or -ENOMEM.
 */
int xiw_tx_terminate(struct xiw_batch *batch, enum xiw_cause cause,
		     const struct xiw_headers *fault, struct xiw_framing *framing);

#endif /* XIW_TX_H */
