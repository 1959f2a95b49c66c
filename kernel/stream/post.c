// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* post.c - posting by kernel consumers, and doorbells of processes */

#include <linux/sched/clock.h>
#include <linux/sched/rt.h>

#include "stream/complete.h"
#include "stream/gather.h"
#include "stream/post.h"
#include "stream/tx.h"
#include "stream/worker.h"
#include "trace.h"

/*
 * A process sends a stream if it rings this many doorbells in a row without an answer, each of them
 * within this time after the last. A ping-pong has an answer between any two of its doorbells: it
 * never counts to 4 and keeps sending by itself, which is faster for it.
 */
#define POST_STREAM_DOORBELLS	4
#define POST_STREAM_NS		(200 * NSEC_PER_USEC)

/*
 * Doorbells
 */

/*
 * Whether the process sends a stream: it does not wait for answers. Then it pays to send many
 * requests at once, and to have a worker do so while the process goes on posting. Within one host
 * a Read is done when its doorbell returns. If the process posts the next Read without having seen
 * the completion of the last one, or if it asked for none, it gains from having both sent at once.
 *
 * The queue pair is not locked, so what is read here may be out of date. A wrong guess only decides
 * which thread sends, and how soon.
 */
static bool post_streams(struct xiw_qp *qp)
{
	/* The clock of this CPU may be behind that of the last doorbell. */
	bool close = (s64)(local_clock() - READ_ONCE(qp->doorbell_ns)) < POST_STREAM_NS;

	WRITE_ONCE(qp->doorbells, close ? READ_ONCE(qp->doorbells) + 1 : 0);
	if (!close)
		return false;
	return READ_ONCE(qp->doorbells) >= POST_STREAM_DOORBELLS ||
	       data_race(qp->reads.used) > 1 ||		/* a guess, see above */
	       (READ_ONCE(qp->last_read) &&
		!xiw_cq_seen(xiw_qp_send_cq(qp), READ_ONCE(qp->last_cqe)));
}

/*
 * Whether the requests of a stream may gather. Not if the process waits for an event: it may sleep,
 * and then it does not ring. Nor in a real-time task: if it does not ring either, no worker ever
 * gets its CPU.
 */
static bool post_may_gather(struct xiw_qp *qp)
{
	return xiw_gather_works(qp) && !rt_or_dl_task(current) &&
	       !xiw_cq_awaited(xiw_qp_send_cq(qp)) && !xiw_cq_awaited(xiw_qp_recv_cq(qp));
}

/* Says before a run on the only CPU how the process is asked to ring after it. */
static void post_alone(struct xiw_qp *qp, bool streams)
{
	if (!post_may_gather(qp))
		xiw_gather_nothing(qp);
	else if (streams)
		xiw_gather(qp);
}

static void post_doorbell(struct xiw_qp *qp)
{
	bool streams = !xiw_worker_take(qp, XIW_WORKER_DEFERRED) && post_streams(qp);
	bool alone = xiw_worker_shares_cpu();
	bool more;

	if (streams && !alone) {
		xiw_stat_inc(qp->dev, XIW_STAT_DOORBELLS);
		trace_xiw_doorbell(qp, true);
		set_bit(XIW_WORKER_DEFERRED, &qp->worker_flags);
		xiw_ring_defer(&qp->sq);
		smp_mb__before_atomic();	/* the worker writes the flags as well, and last */
		xiw_worker_queue(qp);
		return;
	}
	if (alone)
		post_alone(qp, streams);
	trace_xiw_doorbell(qp, false);
	more = xiw_tx_drive(qp, XIW_TX_BUDGET_INLINE, XIW_STAT_TX_INLINE);
	if (alone)
		xiw_gather_settle(qp);
	WRITE_ONCE(qp->doorbell_ns, local_clock());
	if (more)
		xiw_worker_queue(qp);
}

/*
 * Posting by kernel consumers
 */

static int post_opcode(enum ib_wr_opcode opcode)
{
	switch (opcode) {
	case IB_WR_RDMA_WRITE:
		return XIW_OP_WRITE;
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return XIW_OP_WRITE_IMM;
	case IB_WR_SEND:
		return XIW_OP_SEND;
	case IB_WR_SEND_WITH_INV:
		return XIW_OP_SEND_INV;
	case IB_WR_RDMA_READ:
		return XIW_OP_READ;
	case IB_WR_RDMA_READ_WITH_INV:
		return XIW_OP_READ_INV;
	case IB_WR_ATOMIC_CMP_AND_SWP:
		return XIW_OP_CMP_SWP;
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return XIW_OP_FETCH_ADD;
	case IB_WR_LOCAL_INV:
		return XIW_OP_LOCAL_INV;
	case IB_WR_REG_MR:
		return XIW_OP_REG_MR;
	default:
		return -EOPNOTSUPP;
	}
}

static u8 post_flags(int flags)
{
	return (flags & IB_SEND_FENCE ? XIW_SEND_FENCE : 0) |
	       (flags & IB_SEND_SIGNALED ? XIW_SEND_SIGNALED : 0) |
	       (flags & IB_SEND_SOLICITED ? XIW_SEND_SOLICITED : 0) |
	       (flags & IB_SEND_INLINE ? XIW_SEND_INLINE : 0);
}

/* Inline data of a kernel consumer is at plain kernel addresses. */
static void post_fill_inline(struct xiw_send_slot *slot, const struct ib_send_wr *wr)
{
	void *to = xiw_slot_data(slot);
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		memcpy(to, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
}

/* Fills in the header fields that depend on the opcode. */
static void post_fill_target(struct xiw_send_slot *slot, const struct ib_send_wr *wr)
{
	switch (wr->opcode) {
	case IB_WR_RDMA_WRITE_WITH_IMM:
		slot->imm_inv = (__force u32)wr->ex.imm_data;
		fallthrough;
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_READ:
	case IB_WR_RDMA_READ_WITH_INV:
		slot->remote_addr = rdma_wr(wr)->remote_addr;
		slot->rkey = rdma_wr(wr)->rkey;
		break;
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		slot->remote_addr = atomic_wr(wr)->remote_addr;
		slot->rkey = atomic_wr(wr)->rkey;
		break;
	case IB_WR_SEND_WITH_INV:
		slot->imm_inv = wr->ex.invalidate_rkey;
		break;
	case IB_WR_LOCAL_INV:
		slot->rkey = wr->ex.invalidate_rkey;
		break;
	case IB_WR_REG_MR:
		slot->rkey = reg_wr(wr)->key;
		slot->imm_inv = reg_wr(wr)->access;
		break;
	default:
		break;
	}
}

/* Applies the same checks as to a request that a process has put in its ring. */
static int post_fill(const struct xiw_qp *qp, struct xiw_send_slot *slot,
		     const struct ib_send_wr *wr)
{
	bool is_inline = wr->send_flags & IB_SEND_INLINE;
	int opcode = post_opcode(wr->opcode);
	enum xiw_slot_result result;
	u32 data;
	u64 len;

	if (opcode < 0)
		return opcode;
	if (wr->num_sge > qp->cap.max_send_sge)
		return -EINVAL;
	len = xiw_sges_length(xiw_sges(wr->sg_list), wr->num_sge);
	memset(slot, 0, XIW_SLOT_HEADER);
	slot->wr_id = wr->wr_id;
	slot->opcode = opcode;
	slot->flags = post_flags(wr->send_flags);
	slot->num_sge = is_inline ? 0 : wr->num_sge;
	slot->inline_len = is_inline ? len : 0;
	post_fill_target(slot, wr);
	result = xiw_slot_judge_send(slot, &qp->cap, &data);
	if (result == XIW_SLOT_GOOD)
		result = xiw_slot_judge_payload(slot, len);
	if (result != XIW_SLOT_GOOD)
		return result == XIW_SLOT_TOO_LONG ? -EMSGSIZE : -EINVAL;
	if (xiw_slot_atomic(slot)) {
		slot->atomic.compare_add = atomic_wr(wr)->compare_add;
		slot->atomic.swap = atomic_wr(wr)->swap;
	}
	if (is_inline)
		post_fill_inline(slot, wr);
	else
		memcpy(xiw_slot_sges(slot), xiw_sges(wr->sg_list),
		       wr->num_sge * sizeof(struct xiw_sge));
	return 0;
}

static int post_send_kernel(struct xiw_qp *qp, const struct ib_send_wr *wr,
			    const struct ib_send_wr **bad_wr)
{
	struct xiw_ring *sq = &qp->sq;
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&qp->sq_post_lock, flags);
	for (; wr; wr = wr->next) {
		/* pairs with xiw_ring_return(): the kernel has read the slot before we refill it */
		if (sq->posted - smp_load_acquire(&sq->ctl->consumed) >= qp->cap.max_send_wr)
			ret = -ENOMEM;
		else
			ret = post_fill(qp, xiw_ring_slot(sq, sq->posted), wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
		/* pairs with the acquire in xiw_ring_ready() */
		smp_store_release(&sq->ctl->produced, ++sq->posted);
	}
	spin_unlock_irqrestore(&qp->sq_post_lock, flags);

	smp_mb();	/* pairs with the barrier in xiw_ring_ask() */
	if (READ_ONCE(sq->ctl->flags) & XIW_NEED_DOORBELL)
		xiw_worker_queue(qp);
	return ret;
}

/**
 * xiw_post_send - ib_post_send(); for a process: its doorbell
 * @ibqp: the queue pair
 * @wr: requests of a kernel consumer; NULL for a process, whose requests are in the ring
 * @bad_wr: result: the first request that was refused; those before it are posted
 *
 * Context: any for kernel consumers, whose requests are sent by a worker; a process may sleep.
 * Return: 0; -ENOMEM if the queue is full; -EINVAL, -EMSGSIZE or -EOPNOTSUPP for an invalid
 * request.
 */
int xiw_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		  const struct ib_send_wr **bad_wr)
{
	struct xiw_qp *qp = to_xiw_qp(ibqp);

	if (rdma_is_kernel_res(&ibqp->res))
		return post_send_kernel(qp, wr, bad_wr);
	*bad_wr = wr;
	if (wr)
		return -EINVAL;
	post_doorbell(qp);
	return 0;
}

/**
 * xiw_post_recv - ib_post_recv(); for a process: its doorbell, which it rings while a Send waits
 * for a request and after the connection has ended
 * @ibqp: the queue pair
 * @wr: requests of a kernel consumer; NULL for a process
 * @bad_wr: result: the first request that was refused; those before it are posted
 *
 * Context: any. This never calls a kernel consumer back: a worker does.
 * Return: 0; -ENOMEM if the queue is full; -EINVAL for an invalid request, or if the queue pair
 * uses a shared receive queue.
 */
int xiw_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad_wr)
{
	struct xiw_qp *qp = to_xiw_qp(ibqp);
	unsigned long flags;
	int ret = 0;

	*bad_wr = wr;
	if (ibqp->srq || (wr && !rdma_is_kernel_res(&ibqp->res)))
		return -EINVAL;
	if (wr) {
		spin_lock_irqsave(&qp->rq_post_lock, flags);
		ret = xiw_slot_post_recv(&qp->rq, qp->cap.max_recv_wr, qp->cap.max_recv_sge, wr,
				    bad_wr);
		spin_unlock_irqrestore(&qp->rq_post_lock, flags);
		smp_mb();	/* pairs with the barrier in xiw_ring_ask() */
	}
	if (READ_ONCE(qp->state) == XIW_QP_ERROR) {
		if (wr)
			xiw_worker_queue(qp);
		else
			xiw_qp_flush(qp);
		return ret;
	}
	if (!wr || READ_ONCE(qp->rq.ctl->flags) & XIW_NEED_DOORBELL)
		xiw_qp_wake(qp);
	return ret;
}
