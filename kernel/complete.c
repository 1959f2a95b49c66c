// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* complete.c - completions of a queue pair's requests, in order, to the last flushed one */

#include "cq.h"
#include "qp.h"
#include "ring.h"

static enum xiw_wc_opcode complete_wc_opcode(u8 opcode)
{
	switch (opcode) {
	case XIW_OP_WRITE:
	case XIW_OP_WRITE_IMM:
		return XIW_WC_WRITE;
	case XIW_OP_READ:
	case XIW_OP_READ_INV:
		return XIW_WC_READ;
	case XIW_OP_CMP_SWP:
		return XIW_WC_CMP_SWP;
	case XIW_OP_FETCH_ADD:
		return XIW_WC_FETCH_ADD;
	case XIW_OP_LOCAL_INV:
		return XIW_WC_LOCAL_INV;
	case XIW_OP_BIND_MW:
		return XIW_WC_BIND_MW;
	case XIW_OP_REG_MR:
		return XIW_WC_REG_MR;
	default:
		return XIW_WC_SEND;
	}
}

/* Completes the request that was returned last. */
static void complete_send(struct xiw_qp *qp, const struct xiw_send_wr *wr)
{
	struct xiw_cqe cqe = {
		.wr_id = wr->wr_id,
		.qpn = qp->qpn,
		.byte_len = wr->byte_len,
		.vendor_err = wr->cause,
		.status = wr->status,
		.opcode = complete_wc_opcode(wr->opcode),
		.sq_count = qp->sq.returned,
	};

	WRITE_ONCE(qp->last_read, cqe.opcode == XIW_WC_READ);
	qp->last_cqe = READ_ONCE(xiw_qp_send_cq(qp)->produced);
	if (wr->status == IB_WC_SUCCESS && !(wr->flags & XIW_SEND_SIGNALED))
		return;
	if (xiw_cq_push(xiw_qp_send_cq(qp), &cqe) && qp->attached)
		xiw_qp_fail(qp, XIW_LOCAL_FAULT, NULL);
}

/* The slot is given back first: who sees the completion may count on posting again. */
void xiw_qp_retire(struct xiw_qp *qp)
{
	struct xiw_send_wr *wr;

	while (qp->sq.returned != qp->sq.taken) {
		wr = xiw_qp_wr(qp, qp->sq.returned);
		if (!wr->done)
			break;
		xiw_ring_return(&qp->sq, 1);
		complete_send(qp, wr);
	}
}

void xiw_qp_complete_recv(struct xiw_qp *qp, struct xiw_cqe *cqe)
{
	cqe->qpn = qp->qpn;
	if (xiw_cq_push(xiw_qp_recv_cq(qp), cqe) && qp->attached)
		xiw_qp_fail(qp, XIW_LOCAL_FAULT, NULL);
}

void xiw_qp_fire(struct xiw_qp *qp)
{
	xiw_cq_fire(xiw_qp_send_cq(qp));
	if (qp->ibqp.recv_cq != qp->ibqp.send_cq)
		xiw_cq_fire(xiw_qp_recv_cq(qp));
}

/* Requests that were taken first, then those that the process or consumer has only posted. */
static void complete_flush_sends(struct xiw_qp *qp)
{
	struct xiw_ring *sq = &qp->sq;
	u32 ready = xiw_ring_unwatch(sq);
	struct xiw_send_wr *wr;
	u32 end;

	if (ready == XIW_RING_BROKEN)
		ready = 0;
	for (end = sq->taken + ready; sq->returned != end;) {
		wr = xiw_qp_wr(qp, sq->returned);
		if (sq->returned == sq->taken) {
			const struct xiw_send_slot *slot = xiw_ring_slot(sq, sq->taken++);

			*wr = (struct xiw_send_wr){
				.wr_id = READ_ONCE(slot->wr_id),
				.opcode = READ_ONCE(slot->opcode),
			};
		}
		if (!wr->done)
			wr->status = IB_WC_WR_FLUSH_ERR;
		xiw_ring_return(sq, 1);
		complete_send(qp, wr);
	}
}

static void complete_flush_recvs(struct xiw_qp *qp)
{
	struct xiw_cqe cqe = { .status = IB_WC_WR_FLUSH_ERR, .opcode = XIW_WC_RECV };
	struct xiw_ring *rq = &qp->rq;
	u32 ready;

	if (qp->rx.recv_busy) {
		qp->rx.recv_busy = false;
		cqe.wr_id = qp->rx.recv->wr_id;
		xiw_qp_complete_recv(qp, &cqe);
	}
	if (!rq->entries) {
		xiw_srq_leave(xiw_qp_srq(qp), qp);
		return;
	}
	ready = xiw_ring_unwatch(rq);
	if (ready == XIW_RING_BROKEN)
		return;
	for (; ready; ready--) {
		const struct xiw_recv_slot *slot = xiw_ring_slot(rq, rq->taken++);

		cqe.wr_id = READ_ONCE(slot->wr_id);
		xiw_ring_return(rq, 1);
		xiw_qp_complete_recv(qp, &cqe);
	}
}

/* What came to pass before goes first; the rest is flushed. */
void xiw_qp_flush_locked(struct xiw_qp *qp)
{
	lockdep_assert_held(&qp->lock);

	xiw_qp_retire(qp);
	complete_flush_sends(qp);
	complete_flush_recvs(qp);
}

void xiw_qp_flush(struct xiw_qp *qp)
{
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	if (qp->state == XIW_QP_ERROR && !qp->attached)
		xiw_qp_flush_locked(qp);
	spin_unlock_irqrestore(&qp->lock, flags);
	xiw_qp_fire(qp);
}
