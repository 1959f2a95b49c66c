// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* tx.c - runs that turn work requests and Responses into segments, and have them carried */

#include "carrier/segment.h"
#include "conn/ep.h"
#include "pause.h"
#include "stream/complete.h"
#include "stream/gather.h"
#include "stream/request.h"
#include "stream/response.h"
#include "stream/tx.h"
#include "stream/worker.h"
#include "trace.h"
#include "wire/marker.h"

/* A turn takes time even if it stages nothing, so each one counts for at least this many bytes. */
#define TX_TURN_WEIGHT	128

/*
 * A run
 */

/**
 * enum tx_end - why a run ends
 * @TX_END_IDLE: no work is left, or what is left waits for an event
 * @TX_END_BUDGET: the budget is used up before that
 * @TX_END_FULL: the carrier takes no more; a callback of the socket will run
 * @TX_END_NO_MEMORY: no event will tell when to try again
 * @TX_END_LOST: the carrier cannot carry the stream any more
 */
enum tx_end {
	TX_END_IDLE,
	TX_END_BUDGET,
	TX_END_FULL,
	TX_END_NO_MEMORY,
	TX_END_LOST,
};

/* Responses and requests take turns, so that neither can starve the other. */
static enum xiw_segment_result tx_stage_next(struct xiw_run *run)
{
	struct xiw_tx *tx = &run->qp->tx;
	enum xiw_segment_result result;

	tx->responses = !tx->responses;
	result = tx->responses ? xiw_response_stage(run) : xiw_request_stage(run);
	if (result != XIW_SEGMENT_NONE)
		return result;
	return tx->responses ? xiw_request_stage(run) : xiw_response_stage(run);
}

/*
 * Whether the run has used up its turns. Counting bytes is not enough: another thread of the
 * process can keep filling the ring with requests that stage nothing.
 */
static bool tx_tired(const struct xiw_run *run)
{
	return run->turns >= run->budget / TX_TURN_WEIGHT;
}

/* Whether the run has used up its budget. */
static bool tx_spent(const struct xiw_run *run)
{
	return run->staged >= run->budget || tx_tired(run);
}

/*
 * Stages until the carrier has enough. A batch that was begun is filled even if the budget of bytes
 * is used up. Return: what became of the last segment.
 */
static enum xiw_segment_result tx_fill(struct xiw_run *run)
{
	enum xiw_segment_result result = XIW_SEGMENT_STAGED;
	struct xiw_qp *qp = run->qp;
	const struct xiw_carrier *carrier = qp->carrier;

	if (carrier->prepare)
		carrier->prepare(run);
	while (result == XIW_SEGMENT_STAGED && !tx_tired(run) && !carrier->full(run) &&
	       xiw_qp_open(qp)) {
		run->turns++;
		result = tx_stage_next(run);
	}
	return result;
}

/* Return: TX_END_IDLE if all that was staged is pushed; or why it is not. */
static enum tx_end tx_push(struct xiw_run *run)
{
	const struct xiw_carrier *carrier = run->qp->carrier;

	switch (carrier->push ? carrier->push(run) : 0) {
	case 0:
		return TX_END_IDLE;
	case -EAGAIN:
		return TX_END_FULL;
	case -ENOMEM:
		return TX_END_NO_MEMORY;
	default:
		return TX_END_LOST;
	}
}

static enum tx_end tx_drain(struct xiw_run *run)
{
	enum xiw_segment_result last = XIW_SEGMENT_STAGED;
	enum tx_end end;

	do {
		end = tx_push(run);
		if (end != TX_END_IDLE)
			return end;
		xiw_qp_retire(run->qp);
		if (last == XIW_SEGMENT_NONE || !xiw_qp_open(run->qp))
			return TX_END_IDLE;
		if (tx_spent(run))
			return TX_END_BUDGET;
		last = tx_fill(run);
	} while (last != XIW_SEGMENT_NO_MEMORY);
	tx_push(run);
	return TX_END_NO_MEMORY;
}

/*
 * Asks for doorbells, since no work is left. Return: true if a request was posted before the
 * process could see that; then no doorbell may come for it, or only a late one.
 */
static bool tx_idle(struct xiw_qp *qp)
{
	if (qp->tx.request.state || !xiw_qp_open(qp) || xiw_worker_watches(qp))
		return false;
	if (!xiw_gather_asks(qp))
		return false;
	xiw_ring_watch(&qp->sq);
	return true;
}

/* What has come may not be processed yet, so the endpoint ends the stream when it has been. */
static void tx_lost(struct xiw_qp *qp)
{
	qp->tx.lost = true;
	xiw_ep_wake(qp->ep, XIW_EP_EV_SOCKET);
}

/* Acts on the end of a run. Return: whether the caller should continue at once. */
static bool tx_judge(struct xiw_qp *qp, enum tx_end end)
{
	WRITE_ONCE(qp->tx.blocked, end == TX_END_FULL || end == TX_END_NO_MEMORY ||
		   end == TX_END_LOST || (end == TX_END_IDLE && qp->tx.request.state) ||
		   !xiw_qp_open(qp));
	if (unlikely(end == TX_END_NO_MEMORY))
		xiw_worker_retry(qp);
	else
		qp->retry_after = 0;
	if (unlikely(end == TX_END_LOST))
		tx_lost(qp);
	return end == TX_END_BUDGET;
}

/*
 * Subtracts the cost of the run from @budget. Every round has a cost, so neither the peer nor the
 * process can keep the run going forever.
 */
static bool tx_run(struct xiw_qp *qp, size_t *budget)
{
	struct xiw_tx *tx = &qp->tx;
	struct xiw_run run = { .qp = qp, .sk = qp->sk, .budget = *budget };
	enum tx_end end;
	bool more;

	if (tx->run != XIW_TX_NO_RUN) {
		tx->run = XIW_TX_RUN_AGAIN;
		return false;
	}
	if (tx->hold || !xiw_qp_open(qp))
		return false;
	xiw_worker_take(qp, XIW_WORKER_DEFERRED);
	xiw_stage_begin(&run.stage);
	xiw_ring_watch(&qp->sq);
	do {
		tx->run = XIW_TX_RUN;
		run.turns++;
		end = tx_drain(&run);
	} while (end == TX_END_IDLE && (tx->run == XIW_TX_RUN_AGAIN || tx_idle(qp)));
	xiw_stage_end(&run.stage);
	more = tx_judge(qp, end);
	tx->run = XIW_TX_NO_RUN;
	xiw_qp_retire(qp);
	xiw_qp_fire(qp);
	*budget -= min(*budget, max(run.staged, run.turns * TX_TURN_WEIGHT));
	return more;
}

/* After a run the peer may have something to send, and then this end may have, and so on. */
static void tx_answer(struct xiw_qp *qp, struct xiw_qp *peer)
{
	size_t budget = qp->carrier->budget;

	if (qp->rx.waits)	/* its segment may fit by now */
		peer->rx.kick = true;
	while (peer->rx.kick && budget) {
		peer->rx.kick = false;
		xiw_qp_count(peer, XIW_STAT_TX_RX, 1);
		if (tx_run(peer, &budget))
			xiw_worker_queue(peer);
		swap(qp, peer);
	}
	if (peer->rx.kick)
		xiw_worker_queue(peer);
	xiw_qp_fire(peer);
}

bool xiw_tx_run(struct xiw_qp *qp, size_t budget)
{
	struct xiw_qp *peer;
	bool more;

	xiw_qp_assert_locked(qp);

	if (qp->carrier->budget)
		budget = qp->carrier->budget;
	more = tx_run(qp, &budget);
	peer = xiw_carrier_peer(qp);
	if (peer)
		tx_answer(qp, peer);
	return more;
}

/* Sends, and unlocks the queue pair, which the caller has locked. Return: as xiw_tx_run(). */
static bool tx_run_and_unlock(struct xiw_qp *qp, size_t budget, enum xiw_stat by)
{
	bool more;

	xiw_qp_count(qp, by, 1);
	more = xiw_tx_run(qp, budget);
	xiw_qp_unlock(qp);
	return more;
}

bool xiw_tx_drive(struct xiw_qp *qp, size_t budget, enum xiw_stat by)
{
	if (xiw_qp_lock(qp))
		return tx_run_and_unlock(qp, budget, by);
	xiw_qp_flush(qp);
	return false;
}

enum xiw_tx_result xiw_tx_drive_now(struct xiw_qp *qp, size_t budget, enum xiw_stat by)
{
	switch (xiw_qp_lock_now(qp)) {
	case XIW_QP_LOCKED:
		return tx_run_and_unlock(qp, budget, by) ? XIW_TX_MORE : XIW_TX_DONE;
	case XIW_QP_LOCKED_OUT:
		return XIW_TX_LOCKED_OUT;
	case XIW_QP_NO_SOCKET:
		xiw_qp_flush(qp);
		break;
	}
	return XIW_TX_DONE;
}

bool xiw_tx_wants(const struct xiw_qp *qp)
{
	return READ_ONCE(qp->state) == XIW_QP_RTS && !READ_ONCE(qp->tx.blocked) &&
	       xiw_ring_waits(&qp->sq);
}

int xiw_tx_opening(struct xiw_qp *qp, u8 rtr)
{
	struct xiw_run run = { .qp = qp, .sk = qp->sk };
	enum xiw_segment_result result;

	xiw_qp_assert_locked(qp);

	if (qp->carrier->prepare)
		qp->carrier->prepare(&run);
	xiw_stage_begin(&run.stage);
	result = xiw_fails("tx_opening") ? XIW_SEGMENT_NO_MEMORY :
					   xiw_request_stage_opening(&run, rtr);
	xiw_stage_end(&run.stage);
	if (result == XIW_SEGMENT_NO_MEMORY)
		return -ENOMEM;
	qp->tx.hold = false;
	WRITE_ONCE(qp->tx.blocked, false);
	return 0;
}

int xiw_tx_terminate(const struct xiw_qp *qp, struct xiw_batch *batch, enum xiw_cause cause,
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
		trace_xiw_tx_terminate(qp, fpdu.start);
		if (xiw_fpdu_finish(&stage, batch, &fpdu, framing))
			ret = 0;
	}
	xiw_stage_end(&stage);
	return ret;
}
