// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* place.c - acts on one FPDU: places its payload in memory or in a receive request */

#include <net/tcp.h>

#include "mem/mem.h"
#include "pause.h"
#include "stream/complete.h"
#include "stream/fault.h"
#include "stream/place.h"
#include "stream/rx.h"
#include "trace.h"
#include "wire/atomic.h"
#include "wire/opcode.h"

/* Copies the next @len bytes of the stream. A memory fault gets the cause of a tagged segment. */
static enum xiw_cause place_copy(struct xiw_qp *qp, struct xiw_cursor *from, u32 stag, u64 addr,
				 u32 len, int access)
{
	enum xiw_cause cause = XIW_OK;
	enum xiw_mem_fault fault;
	struct xiw_mr *mr;
	size_t n;
	void *to;

	fault = xiw_mr_get(&mr, &qp->rx_accessor, stag, addr, len, access);
	if (unlikely(fault))
		return xiw_fault_tagged(fault);
	for (; len && !cause; len -= n, addr += n) {
		n = len;
		to = xiw_mr_span(mr, addr, &n);
		if (unlikely(xiw_fails("place_copy") || xiw_cursor_copy(from, to, n)))
			cause = XIW_UNREADABLE;	/* without CRCs this is the first read */
	}
	xiw_mr_put(mr);
	return cause;
}

/*
 * Tagged
 */

/*
 * The segments of a Write may come in any order and are placed where they say (RFC 5041 section
 * 5.3). Immediate Data reports a length, which is known only if the Write came in one piece.
 */
static void place_note_write(struct xiw_write *write, u32 stag, u64 to, u32 len, bool last)
{
	if (!write->open)
		*write = (struct xiw_write){};
	if (len) {	/* STag and TO of an empty segment mean nothing */
		if (write->len && unlikely(stag != write->stag || to != write->next))
			write->torn = true;
		write->stag = stag;
		write->next = to + len;
		write->len += len;
	}
	write->open = !last;
}

static enum xiw_cause place_write(struct xiw_qp *qp, const struct xiw_headers *hdr, u32 len,
				  struct xiw_cursor *payload)
{
	u32 stag = be32_to_cpu(hdr->tagged.stag);
	u64 to = be64_to_cpu(hdr->tagged.to);
	enum xiw_cause cause = XIW_OK;

	if (len)	/* STag and TO of an empty one must not be checked, RFC 5041 section 5.2 */
		cause = place_copy(qp, payload, stag, to, len, IB_ACCESS_REMOTE_WRITE);
	if (likely(!cause))
		place_note_write(&qp->rx.write, stag, to, len, hdr->ctrl.ddp & DDP_LAST);
	return cause;
}

/* Sets the status of the Read's work request. The caller ends the stream. */
static void place_read_failed(struct xiw_qp *qp, const struct xiw_read *read,
			      enum ib_wc_status status)
{
	struct xiw_send_wr *wr = xiw_qp_wr(qp, read->wr);

	if (read->opening)
		return;
	wr->status = status;
	wr->done = true;
}

/* The oldest Read or Atomic has its answer: complete it, and the requests that waited for it. */
static enum xiw_cause place_read_done(struct xiw_qp *qp, const struct xiw_read *read)
{
	if (read->invalidate && xiw_mr_invalidate(&qp->ibqp, read->sink.lkey, false)) {
		place_read_failed(qp, read, IB_WC_LOC_PROT_ERR);
		return XIW_LOCAL_FAULT;
	}
	if (!read->opening)
		xiw_qp_wr(qp, read->wr)->done = true;
	xiw_fifo_pop(&qp->reads);
	xiw_qp_retire(qp);
	/* A run may have found itself blocked before TCP, which it called, brought this. */
	if (qp->tx.blocked || qp->tx.run != XIW_TX_NO_RUN) {
		WRITE_ONCE(qp->tx.blocked, false);
		qp->rx.kick = true;
	}
	return XIW_OK;
}

/*
 * A Read Response is the only way for the peer to reach the sink of a Read, so the sink needs local
 * rights only. Each segment must start at the next byte that is due. When the last segment comes,
 * each byte has come exactly once.
 */
static enum xiw_cause place_read_resp(struct xiw_qp *qp, const struct xiw_headers *hdr, u32 len,
				      struct xiw_cursor *payload)
{
	bool last = hdr->ctrl.ddp & DDP_LAST;
	struct xiw_read *read;
	enum xiw_cause cause;
	u64 due;

	if (!qp->reads.used)
		return XIW_UNEXPECTED_RESPONSE;
	read = &qp->read_slots[qp->reads.head];
	if (read->atomic)
		return XIW_UNEXPECTED_RESPONSE;
	if (len > read->sink.length - read->placed ||
	    (last && len != read->sink.length - read->placed))
		return XIW_BAD_BOUNDS;
	if (len) {
		if (be32_to_cpu(hdr->tagged.stag) != read->sink.lkey)
			return XIW_BAD_STAG;
		due = read->sink.addr + read->placed;
		if (be64_to_cpu(hdr->tagged.to) != due)
			return XIW_BAD_BOUNDS;
		cause = place_copy(qp, payload, read->sink.lkey, due, len, IB_ACCESS_LOCAL_WRITE);
		if (unlikely(cause))
			return cause;
		read->placed += len;
	}
	return last ? place_read_done(qp, read) : XIW_OK;
}

/*
 * Untagged
 */

static enum xiw_slot_result place_look(struct xiw_qp *qp)
{
	if (xiw_fails("place_look"))	/* as if the request were posted a moment later */
		return XIW_SLOT_NONE;
	return xiw_slot_take_recv(qp->rx.recv, &qp->rq, qp->cap.max_recv_sge);
}

/* Asks the process for doorbells while the queue is empty and a Send waits. */
static enum xiw_slot_result place_take_own(struct xiw_qp *qp)
{
	bool asked = qp->rx.waits & XIW_WAIT_RECEIVE;
	enum xiw_slot_result result = place_look(qp);

	if (unlikely(result == XIW_SLOT_NONE) && xiw_ring_unwatch(&qp->rq)) {
		asked = true;
		result = xiw_slot_take_recv(qp->rx.recv, &qp->rq, qp->cap.max_recv_sge);
	}
	if (result != XIW_SLOT_NONE && unlikely(asked))
		xiw_ring_watch(&qp->rq);
	return result;
}

static enum xiw_slot_result place_take_shared(struct xiw_qp *qp, struct xiw_srq *srq)
{
	qp->srq_waiter.again = qp->rx.waits & XIW_WAIT_RECEIVE;
	qp->srq_waiter.urgent = !xiw_rx_patient(qp);
	return xiw_srq_take(srq, &qp->srq_waiter, qp->rx.recv);
}

/* Takes a receive request for a new Send; a Send under way has one. */
static enum xiw_cause place_find_recv(struct xiw_qp *qp)
{
	struct xiw_srq *srq = xiw_qp_srq(qp);
	enum xiw_slot_result result;

	if (qp->rx.recv_busy)
		return XIW_OK;
	result = srq ? place_take_shared(qp, srq) : place_take_own(qp);
	if (result == XIW_SLOT_NONE)
		return XIW_NO_RECEIVE;
	qp->rx.waits &= ~XIW_WAIT_RECEIVE;
	qp->rx.recv_busy = result == XIW_SLOT_GOOD;
	return qp->rx.recv_busy ? XIW_OK : XIW_LOCAL_FAULT;
}

/* Copies the payload of one segment to the SGEs, starting at byte @mo of the message. */
static enum xiw_cause place_scatter(struct xiw_qp *qp, u64 mo, u32 len,
				    struct xiw_cursor *payload)
{
	const struct xiw_sge *sge = qp->rx.recv->sge;
	enum xiw_cause cause;
	u32 n;

	while (len) {
		sge = xiw_sge_seek(sge, &mo);
		n = min(len, sge->length - mo);
		cause = place_copy(qp, payload, sge->lkey, sge->addr + mo, n,
				   IB_ACCESS_LOCAL_WRITE);
		if (unlikely(cause))
			return cause;
		len -= n;
		mo += n;
	}
	return XIW_OK;
}

/* The receive request cannot hold its message: complete it with an error. The stream ends. */
static enum xiw_cause place_recv_failed(struct xiw_qp *qp, enum ib_wc_status status,
					enum xiw_cause cause)
{
	struct xiw_cqe cqe = {
		.wr_id = qp->rx.recv->wr_id,
		.status = status,
		.opcode = XIW_WC_RECV,
		.vendor_err = cause,
	};

	qp->rx.recv_busy = false;
	xiw_qp_complete_recv(qp, &cqe);
	return cause;
}

/* RFC 5040 section 5.3: the STag must be invalid before the message is delivered. */
static enum xiw_cause place_invalidate(struct xiw_qp *qp, u32 stag)
{
	switch (xiw_mr_invalidate(&qp->ibqp, stag, true)) {
	case XIW_MEM_OK:
		return XIW_OK;
	case XIW_MEM_BAD_PD:
		return XIW_INV_BAD_PD;
	default:
		return XIW_INV_BAD_STAG;
	}
}

/* The message is complete, so its receive request completes. */
static void place_delivered(struct xiw_qp *qp, struct xiw_cqe *cqe)
{
	qp->rx.msn[DDP_QN_SEND]++;
	qp->rx.recv_busy = false;
	qp->rx.mo = 0;
	if (!qp->rx.write.open)
		qp->rx.write = (struct xiw_write){};
	xiw_qp_complete_recv(qp, cqe);
}

static enum xiw_cause place_deliver(struct xiw_qp *qp, const struct xiw_rdmap_op *op,
				    const struct xiw_headers *hdr)
{
	struct xiw_cqe cqe = {
		.wr_id = qp->rx.recv->wr_id,
		.status = IB_WC_SUCCESS,
		.opcode = XIW_WC_RECV,
		.byte_len = qp->rx.mo,
		.solicited = op->solicited,
	};
	enum xiw_cause cause;

	if (op->invalidates) {
		cqe.imm_inv = be32_to_cpu(hdr->untagged.inv_stag);
		cqe.flags = XIW_WC_WITH_INV;
		cause = place_invalidate(qp, cqe.imm_inv);
		if (cause)
			return cause;
	}
	place_delivered(qp, &cqe);
	return XIW_OK;
}

/* The payload was not placed. If the memory of the request is at fault, the request says so. */
static enum xiw_cause place_send_fault(struct xiw_qp *qp, enum xiw_cause cause)
{
	if (cause == XIW_NOT_YET || cause == XIW_UNREADABLE)
		return cause;
	return place_recv_failed(qp, IB_WC_LOC_PROT_ERR, XIW_LOCAL_FAULT);
}

/*
 * RFC 5041 section 5.3 lets the segments of a message come in any order. No known sender reorders
 * them, and TCP keeps their order, so each segment has to start where the previous one ended. Then
 * a message is complete when its last segment has come, and no record of gaps is needed.
 */
static enum xiw_cause place_send(struct xiw_qp *qp, const struct xiw_rdmap_op *op,
				 const struct xiw_headers *hdr, u32 len,
				 struct xiw_cursor *payload)
{
	u64 mo = qp->rx.mo;
	enum xiw_cause cause;

	if (be32_to_cpu(hdr->untagged.msn) != qp->rx.msn[DDP_QN_SEND])
		return XIW_BAD_MSN;
	if (unlikely(be32_to_cpu(hdr->untagged.mo) != mo))
		return XIW_BAD_MO;
	cause = place_find_recv(qp);
	if (unlikely(cause))
		return cause;
	if (unlikely(mo + len > qp->rx.recv->length))
		return place_recv_failed(qp, IB_WC_LOC_LEN_ERR, XIW_MESSAGE_TOO_LONG);
	cause = place_scatter(qp, mo, len, payload);
	if (unlikely(cause))
		return place_send_fault(qp, cause);
	qp->rx.mo += len;
	return hdr->ctrl.ddp & DDP_LAST ? place_deliver(qp, op, hdr) : XIW_OK;
}

/* Checks a message of one segment: it must be the next one of its queue. */
static enum xiw_cause place_judge_whole(const struct xiw_qp *qp, const struct xiw_headers *hdr,
					u32 qn)
{
	if (be32_to_cpu(hdr->untagged.msn) != qp->rx.msn[qn])
		return XIW_BAD_MSN;
	if (hdr->untagged.mo)
		return XIW_BAD_MO;
	return hdr->ctrl.ddp & DDP_LAST ? XIW_OK : XIW_BAD_LENGTH;
}

/* Whether all bytes of the Write came in order, so that Immediate Data can report its length. */
static bool place_write_whole(const struct xiw_write *write)
{
	return !write->open && !write->torn && write->len <= U32_MAX;
}

/*
 * Immediate Data is numbered like a Send and takes a receive request, but places nothing in it. Of
 * its 8 octets the first 4 are those of the verbs; the last 4 are ignored. The verbs treat it as
 * part of a Write: the Write that came last.
 */
static enum xiw_cause place_imm(struct xiw_qp *qp, const struct xiw_rdmap_op *op,
				const struct xiw_headers *hdr)
{
	struct xiw_cqe cqe = {
		.status = IB_WC_SUCCESS,
		.opcode = XIW_WC_RECV_IMM,
		.byte_len = qp->rx.write.len,
		.imm_inv = (__force u32)hdr->imm.imm,
		.flags = XIW_WC_WITH_IMM,
		.solicited = op->solicited,
	};
	enum xiw_cause cause;

	/* The MSN is in use by a Send whose last segment has not come. */
	cause = qp->rx.recv_busy ? XIW_BAD_MSN : place_judge_whole(qp, hdr, DDP_QN_SEND);
	if (!cause && unlikely(!place_write_whole(&qp->rx.write)))
		cause = XIW_TORN_WRITE;
	if (!cause)
		cause = place_find_recv(qp);
	if (unlikely(cause))
		return cause;
	cqe.wr_id = qp->rx.recv->wr_id;
	place_delivered(qp, &cqe);
	return XIW_OK;
}

/* RFC 5040 section 5.2.1: check the whole range before anything is answered. */
static enum xiw_cause place_judge_source(struct xiw_qp *qp, const struct xiw_inbound_read *inbound)
{
	if (!inbound->size)
		return XIW_OK;
	return xiw_fault_source(xiw_mr_judge(&qp->ibqp, inbound->src_stag, inbound->src_to,
					     inbound->size, IB_ACCESS_REMOTE_READ));
}

/* Checks what Read and Atomic Requests have in common: their queue and their number. */
static enum xiw_cause place_judge_request(struct xiw_qp *qp, const struct xiw_headers *hdr)
{
	enum xiw_cause cause = place_judge_whole(qp, hdr, DDP_QN_READ);

	if (!cause && qp->inbound.used == qp->inbound.size)
		cause = XIW_IRD_EXCEEDED;
	return cause;
}

/* The request is valid: queue its Response. */
static void place_accept_request(struct xiw_qp *qp, const struct xiw_inbound_read *inbound)
{
	qp->rx.msn[DDP_QN_READ]++;
	qp->inbound_slots[xiw_fifo_at(&qp->inbound, qp->inbound.used++)] = *inbound;
	WRITE_ONCE(qp->tx.blocked, false);
	qp->rx.kick = true;
}

static enum xiw_cause place_read_req(struct xiw_qp *qp, const struct xiw_headers *hdr)
{
	const struct xiw_read_req *req = &hdr->read;
	struct xiw_inbound_read inbound = {
		.msn = be32_to_cpu(hdr->untagged.msn),
		.sink_stag = be32_to_cpu(req->sink_stag),
		.sink_to = be64_to_cpu(req->sink_to),
		.size = be32_to_cpu(req->size),
		.src_stag = be32_to_cpu(req->src_stag),
		.src_to = be64_to_cpu(req->src_to),
	};
	enum xiw_cause cause;

	cause = place_judge_request(qp, hdr);
	if (!cause)
		cause = place_judge_source(qp, &inbound);
	if (!cause)
		place_accept_request(qp, &inbound);
	return cause;
}

/*
 * Atomic against other connections and against threads of the process: all of them use atomic
 * instructions of the CPU on this memory. Return: the value before.
 */
static u64 place_execute(const struct xiw_atomic_req *req, u64 *target)
{
	u64 old = READ_ONCE(*target);
	u64 new;

	while (xiw_atomic_compute(req, old, &new) && !try_cmpxchg64(target, &old, new))
		;
	return old;
}

/*
 * An Atomic is executed when it comes, which keeps it in order with everything that came before it
 * on this stream. Only its Response waits for the Responses of earlier Reads (RFC 7306 section 5).
 */
static enum xiw_cause place_atomic_req(struct xiw_qp *qp, const struct xiw_headers *hdr)
{
	const struct xiw_atomic_req *req = &hdr->atomic;
	struct xiw_inbound_read inbound = {
		.msn = be32_to_cpu(hdr->untagged.msn),
		.atomic = true,
		.request_id = be32_to_cpu(req->request_id),
	};
	u64 to = be64_to_cpu(req->to);
	size_t len = sizeof(u64);
	enum xiw_mem_fault fault;
	enum xiw_cause cause;
	struct xiw_mr *mr;
	u64 *target;

	cause = place_judge_request(qp, hdr);
	if (cause)
		return cause;
	if (!xiw_atomic_known(req))
		return XIW_BAD_OPCODE;
	fault = xiw_mr_get(&mr, &qp->rx_accessor, be32_to_cpu(req->stag), to, len,
			   IB_ACCESS_REMOTE_ATOMIC);
	if (fault)
		return xiw_fault_source(fault);
	target = xiw_mr_span(mr, to, &len);
	if (IS_ALIGNED((uintptr_t)target, sizeof(*target)))
		inbound.original = place_execute(req, target);
	else
		cause = XIW_ATOMIC_UNALIGNED;
	xiw_mr_put(mr);
	if (!cause)
		place_accept_request(qp, &inbound);
	return cause;
}

static enum xiw_cause place_atomic_resp(struct xiw_qp *qp, const struct xiw_headers *hdr)
{
	u64 original = be64_to_cpu(hdr->atomic_resp.original);
	enum xiw_mem_fault fault;
	enum xiw_cause cause;
	struct xiw_read *read;
	struct xiw_mr *mr;

	if (!qp->reads.used)
		return XIW_UNEXPECTED_RESPONSE;
	read = &qp->read_slots[qp->reads.head];
	if (!read->atomic || be32_to_cpu(hdr->atomic_resp.request_id) != read->request_id)
		return XIW_UNEXPECTED_RESPONSE;
	cause = place_judge_whole(qp, hdr, DDP_QN_ATOMIC_RESP);
	if (cause)
		return cause;
	fault = xiw_mr_get(&mr, &qp->rx_accessor, read->sink.lkey, read->sink.addr,
			   sizeof(original), IB_ACCESS_LOCAL_WRITE);
	if (fault == XIW_MEM_ABSENT)
		return XIW_NOT_YET;
	if (fault) {	/* the consumer may have deregistered the sink: not the peer's fault */
		place_read_failed(qp, read, IB_WC_LOC_PROT_ERR);
		return XIW_LOCAL_FAULT;
	}
	xiw_mr_write(mr, read->sink.addr, &original, sizeof(original));
	xiw_mr_put(mr);
	qp->rx.msn[DDP_QN_ATOMIC_RESP]++;
	return place_read_done(qp, read);
}

/* Return: the Read or Atomic that the Terminate names by its MSN, or NULL. */
static struct xiw_read *place_named(struct xiw_qp *qp, const struct xiw_ddp_untagged *ddp)
{
	u32 oldest = qp->tx.msn[DDP_QN_READ] - qp->reads.used;
	u32 nth = be32_to_cpu(ddp->msn) - oldest;

	if ((ddp->ctrl.ddp & DDP_TAGGED) || be32_to_cpu(ddp->qn) != DDP_QN_READ ||
	    nth >= qp->reads.used)
		return NULL;
	return &qp->read_slots[xiw_fifo_at(&qp->reads, nth)];
}

/*
 * The request that a Terminate blames completes with the reason instead of a flush error. If the
 * Terminate names none and the oldest request is an Atomic, that one is blamed: siw does not know
 * Atomics, and its Terminate does not name them.
 */
static void place_blame(struct xiw_qp *qp, const struct xiw_headers *hdr, u32 ulpdu_len)
{
	const struct xiw_terminate_untagged *fault = &hdr->term_untagged;
	bool protection = fault->term.layer_etype == (TERM_RDMAP << 4 | TERM_PROTECTION);
	struct xiw_read *read = &qp->read_slots[qp->reads.head];

	if (!(fault->term.hdrct & RDMAP_TERM_D)) {
		if (qp->reads.used && read->atomic)
			place_read_failed(qp, read, IB_WC_REM_OP_ERR);
		return;
	}
	if (ulpdu_len < sizeof(hdr->untagged) + sizeof(*fault))
		return;
	read = place_named(qp, &fault->ddp);
	if (read)
		place_read_failed(qp, read,
				  protection ? IB_WC_REM_ACCESS_ERR : IB_WC_REM_INV_REQ_ERR);
}

/* The peer has ended the stream. No Terminate is sent back (RFC 5040 section 5.4). */
static enum xiw_cause place_terminate(struct xiw_qp *qp, const struct xiw_headers *hdr,
				      u32 ulpdu_len)
{
	place_blame(qp, hdr, ulpdu_len);
	trace_xiw_rx_terminate(qp, hdr);
	xiw_stat_inc(qp->dev, XIW_STAT_RX_TERMINATES);
	xiw_qp_lost(qp, hdr);
	xiw_qp_report(qp, hdr->term.layer_etype >> 4, hdr->term.layer_etype & 0xf);
	return XIW_OK;
}

static bool place_is_terminate(const struct xiw_headers *hdr, u32 ulpdu_len)
{
	return ulpdu_len >= sizeof(hdr->ctrl) &&
	       (hdr->ctrl.rdmap & RDMAP_OPCODE_MASK) == RDMAP_TERMINATE;
}

enum xiw_cause xiw_place(struct xiw_qp *qp, const struct xiw_headers *hdr, u32 ulpdu_len,
			 struct xiw_cursor *at)
{
	const struct xiw_rdmap_op *op;
	struct xiw_cursor payload = *at;
	enum xiw_cause cause;
	u32 hdr_len;

	xiw_qp_assert_locked(qp);

	op = xiw_ddp_check(hdr, ulpdu_len, &cause);
	if (unlikely(!op)) {
		if (!place_is_terminate(hdr, ulpdu_len))
			return cause;
		xiw_qp_lost(qp, NULL);	/* malformed, but it ends the stream all the same */
		return XIW_OK;
	}
	hdr_len = op->tagged ? sizeof(hdr->tagged) : sizeof(hdr->untagged);
	payload.seq += sizeof(hdr->mpa) + hdr_len;
	switch (hdr->ctrl.rdmap & RDMAP_OPCODE_MASK) {
	case RDMAP_WRITE:
		cause = place_write(qp, hdr, ulpdu_len - hdr_len, &payload);
		break;
	case RDMAP_READ_RESP:
		cause = place_read_resp(qp, hdr, ulpdu_len - hdr_len, &payload);
		break;
	case RDMAP_READ_REQ:
		cause = place_read_req(qp, hdr);
		break;
	case RDMAP_ATOMIC_REQ:
		cause = place_atomic_req(qp, hdr);
		break;
	case RDMAP_ATOMIC_RESP:
		cause = place_atomic_resp(qp, hdr);
		break;
	case RDMAP_TERMINATE:
		cause = place_terminate(qp, hdr, ulpdu_len);
		break;
	case RDMAP_SEND:
	case RDMAP_SEND_SE:
	case RDMAP_SEND_INV:
	case RDMAP_SEND_SE_INV:
		cause = place_send(qp, op, hdr, ulpdu_len - hdr_len, &payload);
		break;
	case RDMAP_IMM:
	case RDMAP_IMM_SE:
		cause = place_imm(qp, op, hdr);
		break;
	default:	/* not reached: xiw_ddp_check() refuses other opcodes */
		return XIW_BAD_OPCODE;
	}
	*at = payload;
	return cause;
}
