// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* request.c - turns a work request into segments, or executes it if it is local */

#include "carrier/segment.h"
#include "mem/mem.h"
#include "queue/slot.h"
#include "stream/request.h"
#include "trace.h"
#include "wire/atomic.h"

/*
 * The STag in the message that opens a stream. The message is empty, so any STag will do (RFC 6581
 * section 9.2), but some adapters refuse 0. No region of this device gets index 0.
 */
#define REQUEST_OPENING_STAG	1

/*
 * The request under way fails with its own error, which also ends the stream. Return:
 * XIW_SEGMENT_NONE, which the caller can return as well.
 */
static enum xiw_segment_result request_failed(struct xiw_qp *qp, enum ib_wc_status status)
{
	struct xiw_send_wr *wr = xiw_qp_wr(qp, qp->sq.taken - 1);

	wr->status = status;
	wr->cause = XIW_LOCAL_FAULT;
	wr->done = true;
	qp->tx.request.state = XIW_REQUEST_NONE;
	xiw_qp_fail(qp, XIW_LOCAL_FAULT, NULL);
	return XIW_SEGMENT_NONE;
}

/*
 * Return: bytes of payload left. If the carrier works by reference, a segment takes its payload
 * from one region, so it is what is left of the current SGE.
 */
static u32 request_payload_left(const struct xiw_qp *qp)
{
	u32 left = qp->tx.request.len - qp->tx.request.sent;
	u64 from = qp->tx.request.sent;
	const struct xiw_sge *sge;

	if (!qp->carrier->by_reference || !left || (qp->tx.request.slot->flags & XIW_SEND_INLINE))
		return left;
	sge = xiw_sge_seek(xiw_slot_sges(qp->tx.request.slot), &from);
	return sge->length - from;
}

/* Adds @len bytes of the payload to an FPDU, starting at byte @from. */
static enum xiw_mem_fault request_gather(struct xiw_run *run, struct xiw_fpdu *fpdu, u64 from,
					 u32 len)
{
	const struct xiw_send_slot *cur = run->qp->tx.request.slot;
	const struct xiw_sge *sge = xiw_slot_sges(cur);
	enum xiw_mem_fault bad;
	u32 n;

	if (cur->flags & XIW_SEND_INLINE) {
		xiw_segment_add_data(run, fpdu, xiw_slot_data(cur) + from, len);
		return XIW_MEM_OK;
	}
	while (len) {
		sge = xiw_sge_seek(sge, &from);
		n = min(len, sge->length - from);
		bad = xiw_segment_add(run, fpdu, sge->lkey, sge->addr + from, n, 0);
		if (unlikely(bad))
			return bad;
		len -= n;
		from += n;
		run->turns += !!len;	/* to look up another region takes as long as a request */
	}
	return XIW_MEM_OK;
}

static u8 request_send_opcode(const struct xiw_send_slot *cur)
{
	bool se = cur->flags & XIW_SEND_SOLICITED;

	if (cur->opcode == XIW_OP_SEND_INV)
		return se ? RDMAP_SEND_SE_INV : RDMAP_SEND_INV;
	return se ? RDMAP_SEND_SE : RDMAP_SEND;
}

static void request_staged(struct xiw_qp *qp)
{
	xiw_qp_wr(qp, qp->sq.taken - 1)->done = true;
	qp->tx.request.state = XIW_REQUEST_NONE;
}

/* The Immediate Data that follows a Write is a message by itself (RFC 7306 section 6). */
static enum xiw_segment_result request_stage_imm(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	const struct xiw_send_slot *cur = qp->tx.request.slot;
	struct xiw_imm_data imm = { .imm = (__force __be32)cur->imm_inv };
	u8 opcode = cur->flags & XIW_SEND_SOLICITED ? RDMAP_IMM_SE : RDMAP_IMM;
	enum xiw_segment_result result = xiw_segment_message(run, opcode, &imm, sizeof(imm));

	if (result == XIW_SEGMENT_STAGED)
		request_staged(qp);
	return result;
}

/* Stages the next FPDU of a Send or Write. */
static enum xiw_segment_result request_stage_payload(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	struct xiw_tx *tx = &qp->tx;
	const struct xiw_send_slot *cur = tx->request.slot;
	bool tagged = cur->opcode == XIW_OP_WRITE || cur->opcode == XIW_OP_WRITE_IMM;
	u32 payload = request_payload_left(qp);
	enum xiw_segment_result result;
	struct xiw_fpdu fpdu;
	enum xiw_mem_fault bad;
	bool last;

	result = xiw_segment_begin(run, &fpdu, tagged ? sizeof(struct xiw_ddp_tagged) :
				   sizeof(struct xiw_ddp_untagged), &payload);
	if (result != XIW_SEGMENT_STAGED)
		return result;
	last = xiw_segment_is_last(qp, payload, tx->request.len - tx->request.sent,
			  cur->opcode == XIW_OP_SEND_INV);
	if (tagged)
		xiw_fpdu_put_tagged(&fpdu, RDMAP_WRITE, last, cur->rkey,
				    cur->remote_addr + tx->request.sent);
	else
		xiw_fpdu_put_untagged(&fpdu, request_send_opcode(cur), last,
				      cur->opcode == XIW_OP_SEND_INV ? cur->imm_inv : 0,
				      tx->msn[DDP_QN_SEND], tx->request.sent);
	bad = request_gather(run, &fpdu, tx->request.sent, payload);
	if (unlikely(bad == XIW_MEM_ABSENT))
		return XIW_SEGMENT_NONE;
	if (unlikely(bad))
		return request_failed(qp, IB_WC_LOC_PROT_ERR);
	if (!xiw_segment_end(run, &fpdu))
		return XIW_SEGMENT_NONE;

	tx->request.sent += payload;
	if (last) {
		if (!tagged)
			tx->msn[DDP_QN_SEND]++;
		if (cur->opcode == XIW_OP_WRITE_IMM)
			tx->request.state = XIW_REQUEST_IMM_DUE;
		else
			request_staged(qp);
	}
	return XIW_SEGMENT_STAGED;
}

/*
 * Whether a Read or Atomic may be sent now. If as many are in flight as the peer allows (ORD), it
 * waits until the oldest is answered. With an ORD of 0 it could never be sent, so it fails.
 */
static bool request_may_ask(struct xiw_qp *qp, const struct xiw_sge *sink)
{
	if (!qp->reads.size) {
		request_failed(qp, IB_WC_LOC_QP_OP_ERR);
		return false;
	}
	if (qp->reads.used == qp->reads.size)
		return false;
	if (sink->length && xiw_mr_judge(&qp->ibqp, sink->lkey, sink->addr, sink->length,
					 IB_ACCESS_LOCAL_WRITE)) {
		request_failed(qp, IB_WC_LOC_PROT_ERR);
		return false;
	}
	return true;
}

/* Appends @read to the Reads and Atomics that wait for their Response. */
static void request_expect_response(struct xiw_qp *qp, const struct xiw_read *read)
{
	qp->read_slots[xiw_fifo_at(&qp->reads, qp->reads.used++)] = *read;
}

static enum xiw_segment_result request_stage_read_req(struct xiw_run *run,
						      const struct xiw_read *read, u32 src_stag,
						      u64 src_to)
{
	struct xiw_read_req req = {
		.sink_stag = cpu_to_be32(read->sink.lkey),
		.sink_to = cpu_to_be64(read->sink.addr),
		.size = cpu_to_be32(read->sink.length),
		.src_stag = cpu_to_be32(src_stag),
		.src_to = cpu_to_be64(src_to),
	};
	enum xiw_segment_result result;

	result = xiw_segment_message(run, RDMAP_READ_REQ, &req, sizeof(req));
	if (result == XIW_SEGMENT_STAGED)
		request_expect_response(run->qp, read);
	return result;
}

static enum xiw_segment_result request_stage_read(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	const struct xiw_send_slot *cur = qp->tx.request.slot;
	struct xiw_read read = {
		.wr = qp->sq.taken - 1,
		.invalidate = cur->opcode == XIW_OP_READ_INV,
	};
	enum xiw_segment_result result;

	if (cur->num_sge)
		read.sink = *xiw_slot_sges(cur);
	if (!request_may_ask(qp, &read.sink))
		return XIW_SEGMENT_NONE;
	result = request_stage_read_req(run, &read, cur->rkey, cur->remote_addr);
	if (result == XIW_SEGMENT_STAGED)
		qp->tx.request.state = XIW_REQUEST_NONE;
	return result;
}

static enum xiw_segment_result request_stage_atomic(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	const struct xiw_send_slot *cur = qp->tx.request.slot;
	struct xiw_read read = {
		.wr = qp->sq.taken - 1,
		.sink = *xiw_slot_sges(cur),
		.atomic = true,
		.request_id = qp->tx.msn[DDP_QN_READ],
	};
	enum xiw_segment_result result;
	struct xiw_atomic_req req;

	if (!request_may_ask(qp, &read.sink))
		return XIW_SEGMENT_NONE;
	xiw_atomic_build(&req, cur, read.request_id);
	result = xiw_segment_message(run, RDMAP_ATOMIC_REQ, &req, sizeof(req));
	if (result == XIW_SEGMENT_STAGED) {
		request_expect_response(qp, &read);
		qp->tx.request.state = XIW_REQUEST_NONE;
	}
	return result;
}

/* Executes a request that sends nothing. */
static enum xiw_segment_result request_do_local(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	const struct xiw_send_slot *cur = qp->tx.request.slot;
	enum xiw_mem_fault bad;

	if (cur->opcode == XIW_OP_REG_MR)
		bad = xiw_mr_validate(&qp->ibqp, cur->rkey, cur->imm_inv);
	else if (cur->opcode == XIW_OP_BIND_MW)
		bad = xiw_mw_bind(&qp->ibqp, cur->rkey, xiw_slot_data(cur));
	else
		bad = xiw_mr_invalidate(&qp->ibqp, cur->rkey, false);
	if (bad)
		return request_failed(qp, cur->opcode == XIW_OP_BIND_MW ? IB_WC_MW_BIND_ERR :
					 IB_WC_LOC_PROT_ERR);
	request_staged(qp);
	return XIW_SEGMENT_STAGED;
}

/* Only a consumer in the kernel can have a region for fast registration. */
static bool request_is_allowed(const struct xiw_qp *qp, const struct xiw_send_slot *cur)
{
	return likely(cur->opcode != XIW_OP_REG_MR) || rdma_is_kernel_res(&qp->ibqp.res);
}

/* Takes the next request from the ring and starts a record. Return: as xiw_slot_take_send(). */
static enum xiw_slot_result request_take(struct xiw_qp *qp)
{
	struct xiw_send_slot *cur = qp->tx.request.slot;
	enum xiw_slot_result result;
	struct xiw_send_wr *wr;
	u32 payload = 0;

	result = xiw_slot_take_send(cur, &qp->sq, &qp->cap, &payload);
	if (result == XIW_SLOT_NONE || result == XIW_SLOT_BROKEN)
		return result;
	if (!request_is_allowed(qp, cur))
		result = XIW_SLOT_MALFORMED;
	wr = xiw_qp_wr(qp, qp->sq.taken - 1);
	*wr = (struct xiw_send_wr){
		.wr_id = cur->wr_id,
		.byte_len = payload,
		.opcode = cur->opcode,
		.flags = cur->flags | (qp->sig_all ? XIW_SEND_SIGNALED : 0),
	};
	qp->tx.request.len = payload;
	qp->tx.request.sent = 0;
	return result;
}

/*
 * Begins the next request. Return: false if there is none, or if it has failed, which ends the
 * stream.
 */
static bool request_begin(struct xiw_qp *qp)
{
	switch (request_take(qp)) {
	case XIW_SLOT_GOOD:
		qp->tx.request.state = XIW_REQUEST_UNDER_WAY;
		xiw_qp_count(qp, XIW_STAT_TX_WRS, 1);
		trace_xiw_request(qp, &qp->tx.request);
		return true;
	case XIW_SLOT_MALFORMED:
		request_failed(qp, IB_WC_LOC_QP_OP_ERR);
		break;
	case XIW_SLOT_TOO_LONG:
		request_failed(qp, IB_WC_LOC_LEN_ERR);
		break;
	case XIW_SLOT_BROKEN:
		xiw_qp_fail(qp, XIW_LOCAL_FAULT, NULL);
		break;
	case XIW_SLOT_NONE:
		break;
	}
	return false;
}

/* Kernel-doc of the functions that other files call is in request.h. */
enum xiw_segment_result xiw_request_stage(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	struct xiw_tx *tx = &qp->tx;

	xiw_qp_assert_locked(qp);

	if (tx->request.state == XIW_REQUEST_NONE && !request_begin(qp))
		return XIW_SEGMENT_NONE;
	if ((tx->request.slot->flags & XIW_SEND_FENCE) && qp->reads.used)
		return XIW_SEGMENT_NONE;
	switch (tx->request.slot->opcode) {
	case XIW_OP_READ:
	case XIW_OP_READ_INV:
		return request_stage_read(run);
	case XIW_OP_CMP_SWP:
	case XIW_OP_FETCH_ADD:
		return request_stage_atomic(run);
	case XIW_OP_LOCAL_INV:
	case XIW_OP_REG_MR:
	case XIW_OP_BIND_MW:
		return request_do_local(run);
	default:
		if (tx->request.state == XIW_REQUEST_IMM_DUE)
			return request_stage_imm(run);
		return request_stage_payload(run);
	}
}

enum xiw_segment_result xiw_request_stage_opening(struct xiw_run *run, u8 rtr)
{
	struct xiw_read read = { .sink.lkey = REQUEST_OPENING_STAG, .opening = true };
	enum xiw_segment_result result;
	struct xiw_fpdu fpdu;
	u32 payload = 0;

	if (rtr == XIW_RTR_READ)
		return request_stage_read_req(run, &read, REQUEST_OPENING_STAG, 0);
	result = xiw_segment_begin(run, &fpdu, sizeof(struct xiw_ddp_tagged), &payload);
	if (result != XIW_SEGMENT_STAGED)
		return result;
	xiw_fpdu_put_tagged(&fpdu, RDMAP_WRITE, true, REQUEST_OPENING_STAG, 0);
	return xiw_segment_end(run, &fpdu) ? XIW_SEGMENT_STAGED : XIW_SEGMENT_NONE;
}
