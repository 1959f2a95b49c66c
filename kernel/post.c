// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* post.c - from a posted work request to a judged copy of it */

#include <linux/sched/clock.h>

#include "mem.h"
#include "post.h"
#include "tx.h"
#include "worker.h"

/* This many doorbells in a row without an answer, each this soon after the last: a stream. */
#define POST_STREAM_DOORBELLS	4
#define POST_STREAM_NS		(200 * NSEC_PER_USEC)

/*
 * Taking
 */

static bool post_reads(u8 opcode)
{
	return opcode == XIW_OP_READ || opcode == XIW_OP_READ_INV;
}

static int post_judge_inline(const struct xiw_qp *qp, const struct xiw_send_slot *cur)
{
	if (post_reads(cur->opcode) || xiw_slot_atomic(cur) || cur->num_sge)
		return -EINVAL;
	return cur->inline_len > qp->cap.max_inline_data ? -EMSGSIZE : 0;
}

static int post_judge_sges(const struct xiw_qp *qp, const struct xiw_send_slot *cur)
{
	u32 limit = post_reads(cur->opcode) ? XIW_MAX_SGE_RD : qp->cap.max_send_sge;

	if (xiw_slot_atomic(cur))
		return cur->num_sge != 1 || cur->inline_len ? -EINVAL : 0;
	return cur->num_sge > limit || cur->inline_len ? -EINVAL : 0;
}

/* Judges the header of the private copy; on success says how much data belongs to it. */
static int post_judge_header(const struct xiw_qp *qp, const struct xiw_send_slot *cur, u32 *data)
{
	int ret;

	switch (cur->opcode) {
	case XIW_OP_WRITE:
	case XIW_OP_WRITE_IMM:
	case XIW_OP_SEND:
	case XIW_OP_SEND_INV:
	case XIW_OP_READ:
	case XIW_OP_READ_INV:
	case XIW_OP_CMP_SWP:
	case XIW_OP_FETCH_ADD:
		break;
	case XIW_OP_REG_MR:
		if (!rdma_is_kernel_res(&qp->ibqp.res))
			return -EINVAL;
		fallthrough;
	case XIW_OP_LOCAL_INV:
	case XIW_OP_BIND_MW:
		*data = cur->opcode == XIW_OP_BIND_MW ? sizeof(struct xiw_bind) : 0;
		return cur->num_sge || cur->inline_len ? -EINVAL : 0;
	default:
		return -EINVAL;
	}
	if (cur->flags & XIW_SEND_INLINE) {
		ret = post_judge_inline(qp, cur);
		*data = cur->inline_len;
	} else {
		ret = post_judge_sges(qp, cur);
		*data = (void *)(xiw_slot_sges(cur) + cur->num_sge) - xiw_slot_data(cur);
	}
	return ret;
}

static u64 post_payload(const struct xiw_send_slot *cur)
{
	const struct xiw_sge *sges = xiw_slot_sges(cur);
	u64 len = cur->inline_len;
	unsigned int i;

	for (i = 0; i < cur->num_sge; i++)
		len += sges[i].length;
	return len;
}

static int post_judge_payload(const struct xiw_send_slot *cur, u64 len)
{
	if (len > XIW_MAX_MESSAGE)
		return -EMSGSIZE;
	return xiw_slot_atomic(cur) && len != sizeof(u64) ? -EINVAL : 0;
}

int xiw_send_take(struct xiw_qp *qp)
{
	struct xiw_send_slot *cur = qp->tx.cur;
	u32 ready = xiw_ring_ready(&qp->sq);
	struct xiw_send_wr *wr;
	const void *slot;
	u64 payload;
	u32 data;
	int ret;

	if (!ready)
		return -ENOENT;
	if (ready == XIW_RING_BROKEN)
		return -EPROTO;
	slot = xiw_ring_slot(&qp->sq, qp->sq.taken);
	memcpy(cur, slot, XIW_SLOT_HEADER);
	barrier();	/* judge the copy, never the slot */
	wr = xiw_qp_wr(qp, qp->sq.taken++);
	*wr = (struct xiw_send_wr){
		.wr_id = cur->wr_id,
		.opcode = cur->opcode,
		.flags = cur->flags | (qp->sig_all ? XIW_SEND_SIGNALED : 0),
	};
	ret = post_judge_header(qp, cur, &data);
	if (ret)
		return ret;
	memcpy(xiw_slot_data(cur), slot + XIW_SLOT_HEADER, data);
	barrier();
	payload = post_payload(cur);
	ret = post_judge_payload(cur, payload);
	if (ret)
		return ret;
	qp->tx.cur_len = payload;
	qp->tx.cur_sent = 0;
	wr->byte_len = payload;
	return 0;
}

/*
 * Doorbells
 */

/*
 * Whether the caller had better go on posting while a worker sends: it does not wait for answers.
 * On one host a Read is over when its doorbell returns. A process that posts the next one without
 * having looked at the completion of the last, or without having asked for one, would gain from
 * sending both at once.
 */
static bool post_streams(struct xiw_qp *qp)
{
	bool close = local_clock() - qp->doorbell_ns < POST_STREAM_NS;

	WRITE_ONCE(qp->doorbells, close ? READ_ONCE(qp->doorbells) + 1 : 0);
	if (!close || num_online_cpus() == 1)
		return false;
	return READ_ONCE(qp->doorbells) >= POST_STREAM_DOORBELLS ||
	       READ_ONCE(qp->reads.used) > 1 ||
	       (READ_ONCE(qp->last_read) && !xiw_cq_seen(xiw_qp_send_cq(qp), qp->last_cqe));
}

static void post_doorbell(struct xiw_qp *qp)
{
	bool more;

	if (!test_and_clear_bit(XIW_WORKER_DEFERRED, &qp->worker_flags) && post_streams(qp)) {
		xiw_stat_inc(qp->dev, XIW_STAT_DOORBELLS);
		set_bit(XIW_WORKER_DEFERRED, &qp->worker_flags);
		xiw_ring_defer(&qp->sq);
		xiw_worker_queue(qp);	/* after it: the worker puts the flags right in the end */
		return;
	}
	more = xiw_tx_drive(qp, XIW_TX_BUDGET_INLINE, XIW_STAT_TX_INLINE);
	qp->doorbell_ns = local_clock();
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

/* Inline data of a kernel consumer lies at plain kernel addresses. */
static void post_fill_inline(struct xiw_send_slot *slot, const struct ib_send_wr *wr)
{
	void *to = xiw_slot_data(slot);
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		memcpy(to, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
}

static void post_fill_sges(struct xiw_send_slot *slot, const struct ib_send_wr *wr)
{
	struct xiw_sge *sges = xiw_slot_sges(slot);
	int i;

	for (i = 0; i < wr->num_sge; i++)
		sges[i] = (struct xiw_sge){
			.addr = wr->sg_list[i].addr,
			.length = wr->sg_list[i].length,
			.lkey = wr->sg_list[i].lkey,
		};
}

/* What the header takes from the opcode's part of a request. */
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

/* Exact: num_sge has been compared with what the queue pair allows. */
static u64 post_length(const struct ib_send_wr *wr)
{
	u64 len = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		len += wr->sg_list[i].length;
	return len;
}

/* A request is refused by the same judgement as one of a process that is found in the ring. */
static int post_fill(const struct xiw_qp *qp, struct xiw_send_slot *slot,
		     const struct ib_send_wr *wr)
{
	bool is_inline = wr->send_flags & IB_SEND_INLINE;
	int opcode = post_opcode(wr->opcode);
	u32 data;
	u64 len;
	int ret;

	if (opcode < 0)
		return opcode;
	if (wr->num_sge > qp->cap.max_send_sge)
		return -EINVAL;
	len = post_length(wr);
	memset(slot, 0, XIW_SLOT_HEADER);
	slot->wr_id = wr->wr_id;
	slot->opcode = opcode;
	slot->flags = post_flags(wr->send_flags);
	slot->num_sge = is_inline ? 0 : wr->num_sge;
	slot->inline_len = is_inline ? len : 0;
	post_fill_target(slot, wr);
	ret = post_judge_header(qp, slot, &data);
	if (!ret)
		ret = post_judge_payload(slot, len);
	if (ret)
		return ret;
	if (xiw_slot_atomic(slot)) {
		slot->atomic.compare_add = atomic_wr(wr)->compare_add;
		slot->atomic.swap = atomic_wr(wr)->swap;
	}
	if (is_inline)
		post_fill_inline(slot, wr);
	else
		post_fill_sges(slot, wr);
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
		/* pairs with xiw_ring_return(): the slot is read before it is filled again */
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

	smp_mb();	/* pairs with the barrier in xiw_ring_unwatch() */
	if (READ_ONCE(sq->ctl->flags) & XIW_NEED_DOORBELL)
		xiw_worker_queue(qp);
	return ret;
}

/**
 * xiw_post_send - ib_post_send(); for a process: its doorbell
 * @ibqp: the queue pair
 * @wr: requests of a kernel consumer; NULL for a process, whose requests are in the ring
 * @bad_wr: names the first that was refused; those before it are posted
 *
 * Context: any for kernel consumers, whose requests are sent by a worker; a process may sleep.
 * Return: 0; -ENOMEM if the queue is full; -EINVAL, -EMSGSIZE or -EOPNOTSUPP for a request that
 * cannot be.
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
 * xiw_post_recv - ib_post_recv(); for a process: its doorbell, while a Send waits for a request and
 * after the connection has ended
 * @ibqp: the queue pair
 * @wr: requests of a kernel consumer; NULL for a process
 * @bad_wr: names the first that was refused; those before it are posted
 *
 * Context: any. A kernel consumer is never called back from here, but by a worker.
 * Return: 0; -ENOMEM if the queue is full; -EINVAL for a request that cannot be, or with a shared
 * receive queue.
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
		ret = xiw_recv_post(&qp->rq, qp->cap.max_recv_wr, qp->cap.max_recv_sge, wr,
				    bad_wr);
		spin_unlock_irqrestore(&qp->rq_post_lock, flags);
		smp_mb();	/* pairs with the barrier in xiw_ring_unwatch() */
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
