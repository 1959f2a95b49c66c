/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* tx.h - runs that turn work requests and Responses into segments, and have them carried */
#ifndef XIW_TX_H
#define XIW_TX_H

#include "stream/qp.h"

/* Bytes that one run may stage. A run in a worker keeps no process and no softirq waiting. */
#define XIW_TX_BUDGET_WORKER	(256 * 1024)
#define XIW_TX_BUDGET_INLINE	(128 * 1024)
#define XIW_TX_BUDGET_RX	(64 * 1024)

/* tx.c APIs */

/**
 * xiw_tx_run - send what can be sent
 * @qp: queue pair, attached and locked (see Locking)
 * @budget: bytes to stage at most, rounded up to whole batches; each request costs a minimum. If
 *	the carrier has a budget, that one is used instead
 *
 * Alternates between Responses to the peer and the send queue. Gathers as many FPDUs as fit in one
 * call into TCP. Completes the requests that need no answer. When no work is left, it asks the
 * process for doorbells, or for a later one while requests gather (gather.h), unless a worker keeps
 * watching the ring. Does nothing if it is called from inside itself, since TCP may process
 * received segments while it sends.
 *
 * If memory is short, a worker tries again after a pause.
 *
 * Context: process or softirq; does not sleep.
 * Return: true if work is left for which no event will come. The caller has to call again, or queue
 * @qp to a worker.
 */
bool xiw_tx_run(struct xiw_qp *qp, size_t budget);

/**
 * xiw_tx_drive - lock what drives a queue pair, and send
 * @qp: queue pair
 * @budget: see xiw_tx_run()
 * @by: how the run is counted: XIW_STAT_TX_INLINE or XIW_STAT_TX_WORKER
 *
 * If the connection has ended, this flushes the posted requests.
 *
 * Context: process; sleeps.
 * Return: as xiw_tx_run().
 */
bool xiw_tx_drive(struct xiw_qp *qp, size_t budget, enum xiw_stat by);

/**
 * enum xiw_tx_result - what xiw_tx_drive_now() has left
 * @XIW_TX_DONE: nothing that no event would come for
 * @XIW_TX_MORE: work for which no event will come, as xiw_tx_run()
 * @XIW_TX_LOCKED_OUT: everything, see XIW_QP_LOCKED_OUT
 */
enum xiw_tx_result {
	XIW_TX_DONE,
	XIW_TX_MORE,
	XIW_TX_LOCKED_OUT,
};

/**
 * xiw_tx_drive_now - as xiw_tx_drive(), but do not wait if the socket is locked
 * @qp: queue pair
 * @budget: see xiw_tx_run()
 * @by: see xiw_tx_drive()
 *
 * Return: what is left.
 */
enum xiw_tx_result xiw_tx_drive_now(struct xiw_qp *qp, size_t budget, enum xiw_stat by);

/**
 * xiw_tx_wants - whether a run would find something to send
 * @qp: queue pair that a worker watches; no lock is needed
 *
 * Return: true if it might.
 */
bool xiw_tx_wants(const struct xiw_qp *qp);

/**
 * xiw_tx_opening - stage the message that opens a peer-to-peer stream (RFC 6581 section 9.2)
 * @qp: queue pair of the initiator, just attached, locked (see Locking)
 * @rtr: XIW_RTR_WRITE or XIW_RTR_READ
 *
 * Until now @qp has held back what the process posted. From here on it may send.
 *
 * Return: 0 or -ENOMEM.
 */
int xiw_tx_opening(struct xiw_qp *qp, u8 rtr);

/**
 * xiw_tx_terminate - stage a Terminate behind what is staged already
 * @qp: the queue pair whose stream ends
 * @batch: where to stage it; the caller makes sure that an entry is free
 * @cause: why the stream ends
 * @fault: headers of the faulty FPDU, or NULL
 * @framing: framing of the stream
 *
 * Return: 0 or -ENOMEM.
 */
int xiw_tx_terminate(const struct xiw_qp *qp, struct xiw_batch *batch, enum xiw_cause cause,
		     const struct xiw_headers *fault, struct xiw_framing *framing);

#endif /* XIW_TX_H */
