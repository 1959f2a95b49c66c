// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* tx.c - from a work request to octets in the socket */

#include <net/tcp.h>

#include "atomic.h"
#include "ep.h"
#include "loop.h"
#include "marker.h"
#include "mem.h"
#include "opcode.h"
#include "pause.h"
#include "place.h"
#include "post.h"
#include "segment.h"
#include "tx.h"
#include "worker.h"
#include "trace.h"

/* The longest FPDU of a run goes to TCP with others up to about this many octets. */
#define TX_BATCH_BYTES	(64 * 1024)

/* To a peer on this host: of one run, and of all the answers to it, as softirqs are off. */
#define TX_LOOP_BUDGET	(128 * 1024)

/* Each turn counts for so many octets at least, for it takes time, whether it stages any or not. */
#define TX_TURN_WEIGHT	128

/*
 * What the message that opens a stream names. It is empty, so any STag will do (RFC 6581 section
 * 9.2), but some adapters refuse 0. Index 0 is given to no region here.
 */
#define TX_OPENING_STAG	1

/*
 * Whether @payload octets are all that is left of a message, and its last segment carries them. On
 * one host that which ends the validity of an STag carries nothing: the peer will wait until nobody
 * accesses what it stands for, which may be the source of these octets.
 */
static bool tx_is_last(const struct xiw_qp *qp, u32 payload, u32 left, bool invalidates)
{
	return payload == left && !(qp->loop && invalidates && payload);
}

/*
 * Responses to Reads and Atomics of the peer
 */

/* Whether a Read that the peer asked for will end the validity of its sink. */
static bool tx_read_invalidates(const struct xiw_qp *qp)
{
	const struct xiw_qp *peer = qp->loop ? xiw_loop_peer(qp) : NULL;

	return peer && peer->reads.used && peer->read_slots[peer->reads.head].invalidate;
}

/* The Read Request as it would be if it asked for what is still to be sent (RFC 5040 4.8). */
static void tx_read_fault_header(struct xiw_headers *hdr, const struct xiw_irq_entry *irq)
{
	*hdr = (struct xiw_headers){
		.mpa.ulpdu_len = cpu_to_be16(sizeof(hdr->untagged) + sizeof(hdr->read)),
		.untagged = {
			.ctrl.ddp = DDP_LAST | DDP_VERSION,
			.ctrl.rdmap = RDMAP_VERSION | RDMAP_READ_REQ,
			.qn = cpu_to_be32(DDP_QN_READ),
			.msn = cpu_to_be32(irq->msn),
		},
		.read = {
			.sink_stag = cpu_to_be32(irq->sink_stag),
			.sink_to = cpu_to_be64(irq->sink_to + irq->sent),
			.size = cpu_to_be32(irq->size - irq->sent),
			.src_stag = cpu_to_be32(irq->src_stag),
			.src_to = cpu_to_be64(irq->src_to + irq->sent),
		},
	};
}

static int tx_stage_atomic_resp(struct xiw_run *run, const struct xiw_irq_entry *irq)
{
	struct xiw_atomic_resp resp = {
		.request_id = cpu_to_be32(irq->request_id),
		.original = cpu_to_be64(irq->original),
	};
	int ret = xiw_segment_message(run, RDMAP_ATOMIC_RESP, &resp, sizeof(resp));

	if (ret == TX_STAGED)
		xiw_fifo_pop(&run->qp->irq);
	return ret;
}

/* Stages the next FPDU of a Read Response. */
static int tx_stage_read_resp(struct xiw_run *run, struct xiw_irq_entry *irq)
{
	struct xiw_qp *qp = run->qp;
	u32 payload = irq->size - irq->sent;
	struct xiw_headers fault;
	struct xiw_fpdu fpdu;
	enum xiw_mem_fault bad;
	bool last;
	int ret;

	ret = xiw_segment_begin(run, &fpdu, sizeof(struct xiw_ddp_tagged), &payload);
	if (ret != TX_STAGED)
		return ret;
	last = tx_is_last(qp, payload, irq->size - irq->sent, tx_read_invalidates(qp));
	xiw_fpdu_put_tagged(&fpdu, RDMAP_READ_RESP, last, irq->sink_stag,
			    irq->sink_to + irq->sent);
	bad = xiw_segment_add(run, &fpdu, irq->src_stag, irq->src_to + irq->sent, payload,
			      IB_ACCESS_REMOTE_READ);
	if (unlikely(bad == XIW_MEM_ABSENT))
		return TX_NOTHING;
	if (unlikely(bad)) {
		tx_read_fault_header(&fault, irq);
		xiw_qp_fail(qp, xiw_source_fault(bad), &fault);
		return TX_NOTHING;
	}
	ret = xiw_segment_end(run, &fpdu);
	if (ret != TX_STAGED)
		return ret;
	irq->sent += payload;
	if (last)
		xiw_fifo_pop(&qp->irq);
	return TX_STAGED;
}

/* Stages the next FPDU of the oldest Response that is due. */
static int tx_stage_response(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	struct xiw_irq_entry *irq;

	if (!qp->irq.used)
		return TX_NOTHING;
	irq = &qp->irq_slots[qp->irq.head];
	return irq->atomic ? tx_stage_atomic_resp(run, irq) : tx_stage_read_resp(run, irq);
}

/*
 * Work requests
 */

/* The request under way ends with an error of its own, and with it the stream. */
static int tx_request_failed(struct xiw_qp *qp, enum ib_wc_status status)
{
	struct xiw_send_wr *wr = xiw_qp_wr(qp, qp->sq.taken - 1);

	wr->status = status;
	wr->cause = XIW_LOCAL_FAULT;
	wr->done = true;
	qp->tx.busy = false;
	xiw_qp_fail(qp, XIW_LOCAL_FAULT, NULL);
	return TX_NOTHING;
}

/* What is left of the payload; to a peer on this host, of the region in which it goes on. */
static u32 tx_payload_left(const struct xiw_qp *qp)
{
	const struct xiw_sge *sge = xiw_slot_sges(qp->tx.cur);
	u32 left = qp->tx.cur_len - qp->tx.cur_sent;
	u32 from = qp->tx.cur_sent;

	if (!qp->loop || !left || (qp->tx.cur->flags & XIW_SEND_INLINE))
		return left;
	for (; from >= sge->length; sge++)
		from -= sge->length;
	return sge->length - from;
}

/* Adds @len octets of the payload, from octet @from on, to an FPDU. */
static enum xiw_mem_fault tx_gather(struct xiw_run *run, struct xiw_fpdu *fpdu, u32 from, u32 len)
{
	const struct xiw_send_slot *cur = run->qp->tx.cur;
	const struct xiw_sge *sge = xiw_slot_sges(cur);
	enum xiw_mem_fault bad;
	u32 n;

	if (cur->flags & XIW_SEND_INLINE) {
		xiw_segment_add_data(run, fpdu, xiw_slot_data(cur) + from, len);
		return XIW_MEM_OK;
	}
	for (; len; sge++) {
		if (from >= sge->length) {
			from -= sge->length;
			continue;
		}
		n = min(len, sge->length - from);
		bad = xiw_segment_add(run, fpdu, sge->lkey, sge->addr + from, n, 0);
		if (unlikely(bad))
			return bad;
		len -= n;
		from = 0;
		run->turns += !!len;	/* to find another region takes as long as a request */
	}
	return XIW_MEM_OK;
}

static u8 tx_send_opcode(const struct xiw_send_slot *cur)
{
	bool se = cur->flags & XIW_SEND_SOLICITED;

	if (cur->opcode == XIW_OP_SEND_INV)
		return se ? RDMAP_SEND_SE_INV : RDMAP_SEND_INV;
	return se ? RDMAP_SEND_SE : RDMAP_SEND;
}

static void tx_request_staged(struct xiw_qp *qp)
{
	xiw_qp_wr(qp, qp->sq.taken - 1)->done = true;
	qp->tx.busy = false;
}

/* What follows a Write with immediate: a message of its own (RFC 7306 section 6). */
static int tx_stage_imm(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	const struct xiw_send_slot *cur = qp->tx.cur;
	struct xiw_imm_data imm = { .imm = (__force __be32)cur->imm_inv };
	int ret;

	ret = xiw_segment_message(run, cur->flags & XIW_SEND_SOLICITED ? RDMAP_IMM_SE : RDMAP_IMM,
				  &imm, sizeof(imm));
	if (ret == TX_STAGED) {
		qp->tx.imm_due = false;
		tx_request_staged(qp);
	}
	return ret;
}

/* Stages the next FPDU of a Send or Write. */
static int tx_stage_payload(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	struct xiw_tx *tx = &qp->tx;
	const struct xiw_send_slot *cur = tx->cur;
	bool tagged = cur->opcode == XIW_OP_WRITE || cur->opcode == XIW_OP_WRITE_IMM;
	u32 payload = tx_payload_left(qp);
	struct xiw_fpdu fpdu;
	enum xiw_mem_fault bad;
	bool last;
	int ret;

	ret = xiw_segment_begin(run, &fpdu, tagged ? sizeof(struct xiw_ddp_tagged) :
				sizeof(struct xiw_ddp_untagged), &payload);
	if (ret != TX_STAGED)
		return ret;
	last = tx_is_last(qp, payload, tx->cur_len - tx->cur_sent,
			  cur->opcode == XIW_OP_SEND_INV);
	if (tagged)
		xiw_fpdu_put_tagged(&fpdu, RDMAP_WRITE, last, cur->rkey,
				    cur->remote_addr + tx->cur_sent);
	else
		xiw_fpdu_put_untagged(&fpdu, tx_send_opcode(cur), last,
				      cur->opcode == XIW_OP_SEND_INV ? cur->imm_inv : 0,
				      tx->msn[DDP_QN_SEND], tx->cur_sent);
	bad = tx_gather(run, &fpdu, tx->cur_sent, payload);
	if (unlikely(bad == XIW_MEM_ABSENT))
		return TX_NOTHING;
	if (unlikely(bad))
		return tx_request_failed(qp, IB_WC_LOC_PROT_ERR);
	ret = xiw_segment_end(run, &fpdu);
	if (ret != TX_STAGED)
		return ret;

	tx->cur_sent += payload;
	if (last) {
		if (!tagged)
			tx->msn[DDP_QN_SEND]++;
		tx->imm_due = cur->opcode == XIW_OP_WRITE_IMM;
		if (!tx->imm_due)
			tx_request_staged(qp);
	}
	return TX_STAGED;
}

/*
 * Whether a Read or Atomic may go now: not before one of those under way is answered if they are as
 * many as the peer allows. If it allows none (ORD 0), none of ours is ever sent.
 */
static int tx_may_ask(struct xiw_qp *qp, const struct xiw_sge *sink)
{
	if (!qp->reads.size)
		return tx_request_failed(qp, IB_WC_LOC_QP_OP_ERR);
	if (qp->reads.used == qp->reads.size)
		return TX_NOTHING;
	if (sink->length && xiw_mr_judge(&qp->ibqp, sink->lkey, sink->addr, sink->length,
					 IB_ACCESS_LOCAL_WRITE))
		return tx_request_failed(qp, IB_WC_LOC_PROT_ERR);
	return TX_STAGED;
}

/* @read becomes the youngest of those that wait for their Response. */
static void tx_expect_response(struct xiw_qp *qp, const struct xiw_read *read)
{
	qp->read_slots[xiw_fifo_at(&qp->reads, qp->reads.used++)] = *read;
}

static int tx_stage_read_req(struct xiw_run *run, const struct xiw_read *read, u32 src_stag,
			     u64 src_to)
{
	struct xiw_read_req req = {
		.sink_stag = cpu_to_be32(read->sink.lkey),
		.sink_to = cpu_to_be64(read->sink.addr),
		.size = cpu_to_be32(read->sink.length),
		.src_stag = cpu_to_be32(src_stag),
		.src_to = cpu_to_be64(src_to),
	};
	int ret = xiw_segment_message(run, RDMAP_READ_REQ, &req, sizeof(req));

	if (ret == TX_STAGED)
		tx_expect_response(run->qp, read);
	return ret;
}

static int tx_stage_read(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	const struct xiw_send_slot *cur = qp->tx.cur;
	struct xiw_read read = {
		.wr = qp->sq.taken - 1,
		.invalidate = cur->opcode == XIW_OP_READ_INV,
	};
	int ret;

	if (cur->num_sge)
		read.sink = *xiw_slot_sges(cur);
	ret = tx_may_ask(qp, &read.sink);
	if (ret != TX_STAGED)
		return ret;
	ret = tx_stage_read_req(run, &read, cur->rkey, cur->remote_addr);
	if (ret == TX_STAGED)
		qp->tx.busy = false;
	return ret;
}

static int tx_stage_atomic(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	const struct xiw_send_slot *cur = qp->tx.cur;
	struct xiw_read read = {
		.wr = qp->sq.taken - 1,
		.sink = *xiw_slot_sges(cur),
		.atomic = true,
		.request_id = qp->tx.msn[DDP_QN_READ],
	};
	struct xiw_atomic_req req;
	int ret;

	ret = tx_may_ask(qp, &read.sink);
	if (ret != TX_STAGED)
		return ret;
	xiw_atomic_build(&req, cur, read.request_id);
	ret = xiw_segment_message(run, RDMAP_ATOMIC_REQ, &req, sizeof(req));
	if (ret == TX_STAGED) {
		tx_expect_response(qp, &read);
		qp->tx.busy = false;
	}
	return ret;
}

/* Requests that are done here and now. */
static int tx_do_local(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	const struct xiw_send_slot *cur = qp->tx.cur;
	enum xiw_mem_fault bad;

	if (cur->opcode == XIW_OP_REG_MR)
		bad = xiw_mr_register(&qp->ibqp, cur->rkey, cur->imm_inv);
	else if (cur->opcode == XIW_OP_BIND_MW)
		bad = xiw_mw_bind(&qp->ibqp, cur->rkey, xiw_slot_data(cur));
	else
		bad = xiw_mr_invalidate(&qp->ibqp, cur->rkey, false);
	if (bad)
		return tx_request_failed(qp, cur->opcode == XIW_OP_BIND_MW ? IB_WC_MW_BIND_ERR :
					 IB_WC_LOC_PROT_ERR);
	tx_request_staged(qp);
	return TX_STAGED;
}

static int tx_stage_request(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	struct xiw_tx *tx = &qp->tx;
	int ret;

	if (!tx->busy) {
		ret = xiw_send_take(qp);
		if (ret == -ENOENT)
			return TX_NOTHING;
		if (ret == -EPROTO) {
			xiw_qp_fail(qp, XIW_LOCAL_FAULT, NULL);
			return TX_NOTHING;
		}
		if (ret)
			return tx_request_failed(qp, ret == -EMSGSIZE ? IB_WC_LOC_LEN_ERR :
						 IB_WC_LOC_QP_OP_ERR);
		tx->busy = true;
		xiw_qp_count(qp, XIW_STAT_TX_WRS, 1);
	}
	if ((tx->cur->flags & XIW_SEND_FENCE) && qp->reads.used)
		return TX_NOTHING;
	switch (tx->cur->opcode) {
	case XIW_OP_READ:
	case XIW_OP_READ_INV:
		return tx_stage_read(run);
	case XIW_OP_CMP_SWP:
	case XIW_OP_FETCH_ADD:
		return tx_stage_atomic(run);
	case XIW_OP_LOCAL_INV:
	case XIW_OP_REG_MR:
	case XIW_OP_BIND_MW:
		return tx_do_local(run);
	default:
		return tx->imm_due ? tx_stage_imm(run) : tx_stage_payload(run);
	}
}

/*
 * A run
 */

/* Responses and requests take turns, so neither side can starve the other. */
static int tx_stage_next(struct xiw_run *run)
{
	struct xiw_tx *tx = &run->qp->tx;
	int ret;

	tx->responses = !tx->responses;
	ret = tx->responses ? tx_stage_response(run) : tx_stage_request(run);
	if (ret != TX_NOTHING)
		return ret;
	return tx->responses ? tx_stage_request(run) : tx_stage_response(run);
}

/*
 * Whether the run has taken its turns. They are counted beside octets: another thread can fill the
 * ring again and again with requests that stage nothing.
 */
static bool tx_tired(const struct xiw_run *run)
{
	return run->turns >= run->budget / TX_TURN_WEIGHT;
}

/* Whether the run has taken its share. */
static bool tx_spent(const struct xiw_run *run)
{
	return run->staged >= run->budget || tx_tired(run);
}

/*
 * Whether it is time to push, if it can be with full segments only, or to make way. What was begun
 * to be staged for TCP goes on to a full batch.
 */
static bool tx_full(const struct xiw_run *run)
{
	const struct xiw_tx *tx = &run->qp->tx;

	return run->qp->loop ? tx_spent(run) : tx_tired(run) ||
	       tx->batch.len >= TX_BATCH_BYTES + (tx->phase ? tx->full_fpdu : 0);
}

/* Fills the batch. Return: 0 if there is no more work now, 1 if there may be, or -ENOMEM. */
static int tx_fill(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	int ret = TX_STAGED;

	xiw_segment_measure(&qp->tx, run->sk);
	while (ret == TX_STAGED && !tx_full(run) && xiw_qp_open(qp)) {
		run->turns++;
		ret = tx_stage_next(run);
	}
	return ret < 0 ? ret : ret != TX_NOTHING && xiw_qp_open(qp);
}

static int tx_push(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	size_t len = qp->tx.batch.len;
	int ret;

	if (!len)
		return 0;
	xiw_pause("tx_push");
	ret = xiw_batch_push(&qp->tx.batch, run->sk);
	xiw_qp_count(qp, XIW_STAT_TX_SENDS, 1);
	xiw_qp_count(qp, XIW_STAT_TX_BYTES, len - qp->tx.batch.len);
	return ret;
}

/*
 * Return: 0 without more work, 1 with more than the budget allows, -EAGAIN if the
 * socket is full, or another errno.
 */
static int tx_drain(struct xiw_run *run)
{
	int more = 1;
	int ret;

	do {
		ret = tx_push(run);
		if (ret)
			return ret;
		xiw_qp_retire(run->qp);
		if (!more || !xiw_qp_open(run->qp))
			return 0;
		if (tx_spent(run))
			return 1;
		more = tx_fill(run);
	} while (more >= 0);
	tx_push(run);
	return more;
}

/* Nothing is left. Return: true if something came before the poster saw that we stop looking. */
static bool tx_idle(struct xiw_qp *qp)
{
	if (qp->tx.busy || !xiw_qp_open(qp) || xiw_worker_watches(qp))
		return false;
	if (!xiw_ring_unwatch(&qp->sq))
		return false;
	xiw_ring_watch(&qp->sq);
	return true;
}

/* There is no memory, here or in TCP, and nothing is on its way that would tell of some. */
static bool tx_is_short(const struct sock *sk, int ret)
{
	return ret == -ENOMEM || (ret == -EAGAIN && tcp_rtx_and_write_queues_empty(sk));
}

/* The run is over. Return: whether to go on at once. */
static bool tx_judge(struct xiw_qp *qp, struct sock *sk, int ret)
{
	bool lacks = tx_is_short(sk, ret);

	WRITE_ONCE(qp->tx.blocked, ret == -EAGAIN || lacks || (!ret && qp->tx.busy) ||
		   !xiw_qp_open(qp));
	if (unlikely(lacks))
		xiw_worker_retry(qp);
	else
		qp->retry_after = 0;
	if (ret < 0 && ret != -EAGAIN && ret != -ENOMEM)
		xiw_qp_lost(qp);
	return ret == 1;
}

/* Takes what it costs from @budget. Each round of it costs, so nobody can keep it going. */
static bool tx_run(struct xiw_qp *qp, struct sock *sk, size_t *budget)
{
	struct xiw_tx *tx = &qp->tx;
	struct xiw_run run = { .qp = qp, .sk = sk, .budget = *budget };
	bool more;
	int ret;

	tx->again = true;
	if (tx->running || tx->hold || !xiw_qp_open(qp))
		return false;
	tx->running = true;
	clear_bit(XIW_WORKER_DEFERRED, &qp->worker_flags);
	xiw_stage_begin(&run.stage);
	xiw_ring_watch(&qp->sq);
	do {
		tx->again = false;
		run.turns++;
		ret = tx_drain(&run);
	} while (!ret && (tx->again || tx_idle(qp)));
	xiw_stage_end(&run.stage);
	more = tx_judge(qp, sk, ret);
	tx->running = false;
	xiw_qp_retire(qp);
	xiw_qp_fire(qp);
	*budget -= min(*budget, max(run.staged, run.turns * TX_TURN_WEIGHT));
	return more;
}

/* What a run brought may let the peer send, and the peer's answer this end. */
static void tx_loop_answer(struct xiw_qp *qp)
{
	struct xiw_qp *peer = xiw_loop_peer(qp);
	size_t budget = TX_LOOP_BUDGET;

	if (peer && (qp->rx.starved || qp->rx.paging))	/* perhaps it need not wait any more */
		peer->rx.kick = true;
	while (peer && peer->rx.kick && budget) {
		peer->rx.kick = false;
		xiw_qp_count(peer, XIW_STAT_TX_RX, 1);
		if (tx_run(peer, peer->ep->sk, &budget))
			xiw_worker_queue(peer);
		swap(qp, peer);
	}
	if (!peer)
		return;
	if (peer->rx.kick)
		xiw_worker_queue(peer);
	xiw_qp_fire(peer);
}

bool xiw_tx_run(struct xiw_qp *qp, struct sock *sk, size_t budget)
{
	bool more;

	xiw_qp_assert_locked(qp);

	if (qp->loop)
		budget = TX_LOOP_BUDGET;
	more = tx_run(qp, sk, &budget);
	if (qp->loop)
		tx_loop_answer(qp);
	return more;
}

/* @ep is what xiw_qp_lock() returned. */
static bool tx_drive(struct xiw_qp *qp, struct xiw_ep *ep, size_t budget, enum xiw_stat by)
{
	bool more;

	if (!ep) {
		xiw_qp_flush(qp);
		return false;
	}
	xiw_qp_count(qp, by, 1);
	more = xiw_tx_run(qp, ep->sk, budget);
	xiw_qp_unlock(qp, ep);
	return more;
}

bool xiw_tx_drive(struct xiw_qp *qp, size_t budget, enum xiw_stat by)
{
	return tx_drive(qp, xiw_qp_lock(qp), budget, by);
}

int xiw_tx_drive_now(struct xiw_qp *qp, size_t budget, enum xiw_stat by)
{
	struct xiw_ep *ep = xiw_qp_lock_now(qp);

	return IS_ERR(ep) ? PTR_ERR(ep) : tx_drive(qp, ep, budget, by);
}

bool xiw_tx_wants(const struct xiw_qp *qp)
{
	return READ_ONCE(qp->state) == XIW_QP_RTS && !READ_ONCE(qp->tx.blocked) &&
	       xiw_ring_ready(&qp->sq);
}

static int tx_stage_opening(struct xiw_run *run, u8 rtr)
{
	struct xiw_read read = { .sink.lkey = TX_OPENING_STAG, .opening = true };
	struct xiw_fpdu fpdu;
	u32 payload = 0;
	int ret;

	if (rtr == XIW_RTR_READ)
		return tx_stage_read_req(run, &read, TX_OPENING_STAG, 0);
	ret = xiw_segment_begin(run, &fpdu, sizeof(struct xiw_ddp_tagged), &payload);
	if (ret != TX_STAGED)
		return ret;
	xiw_fpdu_put_tagged(&fpdu, RDMAP_WRITE, true, TX_OPENING_STAG, 0);
	return xiw_segment_end(run, &fpdu);
}

int xiw_tx_opening(struct xiw_qp *qp, struct sock *sk, u8 rtr)
{
	struct xiw_run run = { .qp = qp, .sk = sk };
	int ret;

	xiw_segment_measure(&qp->tx, sk);
	xiw_stage_begin(&run.stage);
	ret = xiw_fails("tx_opening") ? -ENOMEM : tx_stage_opening(&run, rtr);
	xiw_stage_end(&run.stage);
	if (ret < 0)
		return ret;
	qp->tx.hold = false;
	WRITE_ONCE(qp->tx.blocked, false);
	return 0;
}

int xiw_tx_terminate(struct xiw_batch *batch, enum xiw_cause cause,
		     const struct xiw_headers *fault, struct xiw_framing *framing)
{
	u32 want = xiw_fpdu_len(XIW_TERMINATE_MAX) + xiw_markers_max(XIW_TERMINATE_MAX);
	struct xiw_stage stage;
	struct xiw_fpdu fpdu;
	int ret = -ENOMEM;

	xiw_stage_begin(&stage);
	fpdu.start = xiw_stage_room(&stage, want, &want);
	if (fpdu.start) {
		fpdu.at = fpdu.start + sizeof(struct xiw_fpdu_head);
		fpdu.at += xiw_terminate_build(fpdu.at, cause, fault);
		if (xiw_fpdu_finish(&stage, batch, &fpdu, framing))
			ret = 0;
	}
	xiw_stage_end(&stage);
	return ret;
}
