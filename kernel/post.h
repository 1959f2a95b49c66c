/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* post.h - from a posted work request to a judged copy of it */
#ifndef XIW_POST_H
#define XIW_POST_H

#include "qp.h"

/* What follows the header of a send slot; the slot may be larger than its type says. */
static inline void *xiw_slot_data(const struct xiw_send_slot *slot)
{
	return (void *)slot + XIW_SLOT_HEADER;
}

static inline bool xiw_slot_atomic(const struct xiw_send_slot *slot)
{
	return slot->opcode == XIW_OP_CMP_SWP || slot->opcode == XIW_OP_FETCH_ADD;
}

static inline struct xiw_sge *xiw_slot_sges(const struct xiw_send_slot *slot)
{
	return xiw_slot_data(slot) +
	       (xiw_slot_atomic(slot) ? sizeof(struct xiw_atomic_operands) : 0);
}

/* post.c APIs */

/**
 * xiw_send_take - take the next work request out of the send ring
 * @qp: queue pair; its socket lock is held, no request is under way
 *
 * Copies the slot once to qp->tx.cur, judges the copy, and fills in the record in qp->sq_wrs.
 *
 * Return: 0; -ENOENT if the ring is empty; -EPROTO if the ring is nonsense; or, with the request
 * taken: -EINVAL if it is nonsense, -EMSGSIZE if it is too long.
 */
int xiw_send_take(struct xiw_qp *qp);

/* Verbs, as struct ib_device_ops wants them; kernel-doc is in post.c. */
int xiw_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		  const struct ib_send_wr **bad_wr);
int xiw_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad_wr);

#endif /* XIW_POST_H */
