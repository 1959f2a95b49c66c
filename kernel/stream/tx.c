// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* tx.c - runs that turn work requests and Responses into segments, and have them carried */

#include "carrier/segment.h"
#include "pause.h"
#include "stream/complete.h"
#include "stream/request.h"
#include "stream/response.h"
#include "stream/tx.h"
#include "stream/worker.h"
#include "wire/marker.h"

/* A turn takes time even if it stages nothing, so each one counts for at least this many bytes. */
#define TX_TURN_WEIGHT	128

/*
 * A run
 */

/* Responses and requests take turns, so that neither can starve the other. */
static int tx_stage_next(struct xiw_run *run)
{
	struct xiw_tx *tx = &run->qp->tx;
	int ret;

	tx->responses = !tx->responses;
	ret = tx->responses ? xiw_response_stage(run) : xiw_request_stage(run);
	if (ret != TX_NOTHING)
		return ret;
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
 * is used up. Return: 1 if there may be more work, 0 if there is none now, or -ENOMEM.
 */
static int tx_fill(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	const struct xiw_carrier *carrier = qp->carrier;
	int ret = TX_STAGED;

	if (carrier->prepare)
		carrier->prepare(run);
	while (ret == TX_STAGED && !tx_tired(run) && !carrier->full(run) && xiw_qp_open(qp)) {
		run->turns++;
		ret = tx_stage_next(run);
	}
	return ret < 0 ? ret : ret != TX_NOTHING && xiw_qp_open(qp);
}

static int tx_push(struct xiw_run *run)
{
	const struct xiw_carrier *carrier = run->qp->carrier;

	return carrier->push ? carrier->push(run) : 0;
}

/*
 * Return: 0 if no work is left, 1 if the budget is used up before that, -EAGAIN if the socket is
 * full, or another errno.
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

/*
 * Asks for doorbells, since no work is left. Return: true if a request was posted before the
 * process could see that; then no doorbell may come for it.
 */
static bool tx_idle(struct xiw_qp *qp)
{
	if (qp->tx.request.state || !xiw_qp_open(qp) || xiw_worker_watches(qp))
		return false;
	if (!xiw_ring_unwatch(&qp->sq))
		return false;
	xiw_ring_watch(&qp->sq);
	return true;
}

/* Acts on the result of a run. Return: whether the caller should continue at once. */
static bool tx_judge(struct xiw_qp *qp, int ret)
{
	WRITE_ONCE(qp->tx.blocked, ret == -EAGAIN || ret == -ENOMEM ||
		   (!ret && qp->tx.request.state) || !xiw_qp_open(qp));
	if (unlikely(ret == -ENOMEM))
		xiw_worker_retry(qp);
	else
		qp->retry_after = 0;
	if (ret < 0 && ret != -EAGAIN && ret != -ENOMEM)
		xiw_qp_lost(qp);
	return ret == 1;
}

/*
 * Subtracts the cost of the run from @budget. Every round has a cost, so neither the peer nor the
 * process can keep the run going forever.
 */
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
	more = tx_judge(qp, ret);
	tx->running = false;
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
		if (tx_run(peer, peer->sk, &budget))
			xiw_worker_queue(peer);
		swap(qp, peer);
	}
	if (peer->rx.kick)
		xiw_worker_queue(peer);
	xiw_qp_fire(peer);
}

bool xiw_tx_run(struct xiw_qp *qp, struct sock *sk, size_t budget)
{
	struct xiw_qp *peer;
	bool more;

	xiw_qp_assert_locked(qp);

	if (qp->carrier->budget)
		budget = qp->carrier->budget;
	more = tx_run(qp, sk, &budget);
	peer = xiw_carrier_peer(qp);
	if (peer)
		tx_answer(qp, peer);
	return more;
}

/* @sk is the result of xiw_qp_lock() or xiw_qp_lock_now(). */
static bool tx_drive(struct xiw_qp *qp, struct sock *sk, size_t budget, enum xiw_stat by)
{
	bool more;

	if (!sk) {
		xiw_qp_flush(qp);
		return false;
	}
	xiw_qp_count(qp, by, 1);
	more = xiw_tx_run(qp, sk, budget);
	xiw_qp_unlock(qp);
	return more;
}

bool xiw_tx_drive(struct xiw_qp *qp, size_t budget, enum xiw_stat by)
{
	return tx_drive(qp, xiw_qp_lock(qp), budget, by);
}

int xiw_tx_drive_now(struct xiw_qp *qp, size_t budget, enum xiw_stat by)
{
	struct sock *sk = xiw_qp_lock_now(qp);

	return IS_ERR(sk) ? PTR_ERR(sk) : tx_drive(qp, sk, budget, by);
}

bool xiw_tx_wants(const struct xiw_qp *qp)
{
	return READ_ONCE(qp->state) == XIW_QP_RTS && !READ_ONCE(qp->tx.blocked) &&
	       xiw_ring_ready(&qp->sq);
}

int xiw_tx_opening(struct xiw_qp *qp, struct sock *sk, u8 rtr)
{
	struct xiw_run run = { .qp = qp, .sk = sk };
	int ret;

	if (qp->carrier->prepare)
		qp->carrier->prepare(&run);
	xiw_stage_begin(&run.stage);
	ret = xiw_fails("tx_opening") ? -ENOMEM : xiw_request_stage_opening(&run, rtr);
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
