/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* complete.h - completes the requests of a queue pair in order, and flushes what is left */
#ifndef XIW_COMPLETE_H
#define XIW_COMPLETE_H

#include "stream/qp.h"

/* complete.c APIs */

/**
 * xiw_qp_retire - complete all send requests that are done, in the order of their posting
 * @qp: the queue pair, locked (see Locking)
 *
 * A worker continues if there are very many. This does not notify the consumer: xiw_qp_fire() does.
 */
void xiw_qp_retire(struct xiw_qp *qp);

/**
 * xiw_qp_complete_recv - complete a receive request
 * @qp: the queue pair; its progress is owned by the caller, see Locking
 * @cqe: wr_id, opcode, status, byte_len, flags and imm_inv; the rest is filled in here
 */
void xiw_qp_complete_recv(struct xiw_qp *qp, struct xiw_cqe *cqe);

/* Notifies the consumers of both completion queues of new completions. */
void xiw_qp_fire(struct xiw_qp *qp);

/**
 * xiw_qp_flush - complete as flushed what is posted after the connection ended
 * @qp: the queue pair
 *
 * Does nothing unless the state is ERROR and no socket is attached. Does nothing either while the
 * queue pair is being destroyed. Requests that are done keep their own status. Notifies the
 * consumers.
 *
 * Context: process; sleeps. The caller holds no lock that keeps other threads from running.
 */
void xiw_qp_flush(struct xiw_qp *qp);

#endif /* XIW_COMPLETE_H */
