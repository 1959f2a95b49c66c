// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* complete.c - completes the requests of a queue pair in order, and flushes what is left */

#include <linux/sched.h>

#include "pause.h"
#include "queue/cq.h"
#include "queue/ring.h"
#include "stream/complete.h"
#include "stream/qp.h"
#include "stream/worker.h"
#include "trace.h"

/* Requests completed at most with interrupts off, and in one call from a softirq. */
#define COMPLETE_PIECE	256
#define COMPLETE_BURST	4096

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

/*
 * Completes the request whose slot was the last one returned. The poster is told of the slot first.
 * After one request has failed, all later ones fail as well. That includes a request that was
 * already sent while an earlier Read still waited for its Response. A request that failed by itself
 * keeps its own status.
 */
static void complete_send(struct xiw_qp *qp, struct xiw_send_wr *wr)
{
	struct xiw_cqe cqe = {
		.wr_id = wr->wr_id,
		.qpn = qp->qpn,
		.byte_len = wr->byte_len,
		.opcode = complete_wc_opcode(wr->opcode),
		.sq_count = qp->sq.returned,
	};

	if (qp->sq_failed && wr->status == IB_WC_SUCCESS)
		wr->status = IB_WC_WR_FLUSH_ERR;
	qp->sq_failed = wr->status != IB_WC_SUCCESS;
	cqe.status = wr->status;
	cqe.vendor_err = wr->cause;

	trace_xiw_send_done(qp, wr);
	WRITE_ONCE(qp->last_read, cqe.opcode == XIW_WC_READ);
	WRITE_ONCE(qp->last_cqe, READ_ONCE(xiw_qp_send_cq(qp)->produced));
	if (wr->status == IB_WC_SUCCESS && !(wr->flags & XIW_SEND_SIGNALED))
		return;
	if (READ_ONCE(qp->dying))
		return;
	xiw_ring_tell(&qp->sq);
	if (xiw_cq_push(xiw_qp_send_cq(qp), &cqe) && xiw_qp_attached(qp))
		xiw_qp_fail(qp, XIW_LOCAL_FAULT, NULL);
}

/*
 * The poster is told of the slot before the completion is written: once it sees the completion, it
 * expects to have room to post again. It is told of all others at the end. Many requests may have
 * waited for one Read. If they are too many for one softirq, a worker completes the rest.
 */
void xiw_qp_retire(struct xiw_qp *qp)
{
	unsigned int room = COMPLETE_BURST;
	struct xiw_send_wr *wr;

	xiw_qp_assert_locked(qp);

	while (qp->sq.returned != qp->sq.taken) {
		wr = xiw_qp_wr(qp, qp->sq.returned);
		if (!wr->done)
			break;
		if (!room--) {
			xiw_worker_queue(qp);
			break;
		}
		xiw_ring_return_silently(&qp->sq, 1);
		complete_send(qp, wr);
	}
	xiw_pause("retire");
	xiw_ring_tell(&qp->sq);
}

void xiw_qp_complete_recv(struct xiw_qp *qp, struct xiw_cqe *cqe)
{
	xiw_qp_assert_owned(qp);

	cqe->qpn = qp->qpn;
	if (READ_ONCE(qp->dying))
		return;
	trace_xiw_recv_done(qp, cqe);
	if (xiw_cq_push(xiw_qp_recv_cq(qp), cqe) && xiw_qp_attached(qp))
		xiw_qp_fail(qp, XIW_LOCAL_FAULT, NULL);
}

void xiw_qp_fire(struct xiw_qp *qp)
{
	xiw_cq_fire(xiw_qp_send_cq(qp));
	if (qp->ibqp.recv_cq != qp->ibqp.send_cq)
		xiw_cq_fire(xiw_qp_recv_cq(qp));
}

/*
 * Flushing
 */

/* Where a flush ends: at what was posted when it began. A later post rings a doorbell. */
struct flush {
	u32	sq_end;
	u32	rq_end;
};

/* Whether qp->lock alone guards the rings, and what is in them has to be flushed. */
static bool complete_may_flush(const struct xiw_qp *qp)
{
	lockdep_assert_held(&qp->lock);
	return qp->state == XIW_QP_ERROR && !xiw_qp_attached(qp) && !qp->dying;
}

static u32 complete_posted(struct xiw_ring *ring)
{
	u32 ready = xiw_ring_unwatch(ring);

	return ring->taken + (ready == XIW_RING_BROKEN ? 0 : ready);
}

/* The receive request of an unfinished Send was taken first, so it completes first. */
static void complete_begin_flush(struct xiw_qp *qp, struct flush *flush)
{
	struct xiw_cqe cqe = { .status = IB_WC_WR_FLUSH_ERR, .opcode = XIW_WC_RECV };

	flush->sq_end = complete_posted(&qp->sq);
	if (qp->rx.recv_busy) {
		qp->rx.recv_busy = false;
		cqe.wr_id = qp->rx.recv->wr_id;
		xiw_qp_complete_recv(qp, &cqe);
	}
	if (qp->rq.entries)
		flush->rq_end = complete_posted(&qp->rq);
}

/*
 * A request that was taken out of the ring and is done completes with its own status. Any other is
 * flushed, including those that were only posted.
 */
static void complete_flush_send(struct xiw_qp *qp)
{
	struct xiw_ring *sq = &qp->sq;
	struct xiw_send_wr *wr = xiw_qp_wr(qp, sq->returned);

	if (sq->returned == sq->taken) {
		const struct xiw_send_slot *slot = xiw_ring_slot(sq, xiw_ring_take(sq, 1));

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

static void complete_flush_recv(struct xiw_qp *qp)
{
	struct xiw_cqe cqe = { .status = IB_WC_WR_FLUSH_ERR, .opcode = XIW_WC_RECV };
	const struct xiw_recv_slot *slot = xiw_ring_slot(&qp->rq, xiw_ring_take(&qp->rq, 1));

	cqe.wr_id = READ_ONCE(slot->wr_id);
	xiw_ring_return(&qp->rq, 1);
	xiw_qp_complete_recv(qp, &cqe);
}

/*
 * Another thread may have flushed some of these requests meanwhile, or even later ones. Return:
 * whether more is left to flush.
 */
static bool complete_flush_piece(struct xiw_qp *qp, const struct flush *flush)
{
	unsigned int room = COMPLETE_PIECE;

	for (; (s32)(flush->sq_end - qp->sq.returned) > 0; room--) {
		if (!room)
			return true;
		complete_flush_send(qp);
	}
	for (; qp->rq.entries && (s32)(flush->rq_end - qp->rq.taken) > 0; room--) {
		if (!room)
			return true;
		complete_flush_recv(qp);
	}
	return false;
}

/*
 * Interrupts are off while qp->lock is held, so the flush works in pieces and drops the lock in
 * between. If two threads flush at once, they take turns on the same rings, which keeps the order.
 */
void xiw_qp_flush(struct xiw_qp *qp)
{
	struct flush flush;
	bool more;

	might_sleep();
	spin_lock_irq(&qp->lock);
	more = complete_may_flush(qp);
	if (more)
		complete_begin_flush(qp, &flush);
	while (more) {
		more = complete_flush_piece(qp, &flush);
		spin_unlock_irq(&qp->lock);
		cond_resched();
		xiw_pause("flush");
		spin_lock_irq(&qp->lock);
		more = more && complete_may_flush(qp);
	}
	spin_unlock_irq(&qp->lock);
	xiw_qp_fire(qp);
}
