// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* rx.c - finds whole FPDUs in the bytes of the socket */

#include <linux/sched.h>
#include <net/tcp.h>

#include "carrier/carrier.h"
#include "conn/ep.h"
#include "queue/srq.h"
#include "stream/complete.h"
#include "stream/keep.h"
#include "stream/place.h"
#include "stream/rx.h"
#include "stream/tx.h"
#include "stream/worker.h"
#include "trace.h"

/* Bytes processed before the loop yields. Each FPDU counts for a minimum. */
#define RX_BURST		(1024 * 1024)
#define RX_BURST_WEIGHT		256

/*
 * If the socket's backlog takes more than this share of the receive buffer, a worker sends. The
 * share is 1 / RX_BACKLOG_SHARE. Without this, ib_read_bw -s 64 stood still several times a second,
 * until TCP probed the window that the backlog had closed: 14 000 Reads/s became 43 000 and more.
 */
#define RX_BACKLOG_SHARE	8

/*
 * A softirq leaves at least this much to a worker. Between two namespaces of one host it runs on
 * the CPU that sends, and that CPU would do all the copying while the others look on. If the worker
 * does not come, because other tasks keep it from its CPU, the softirq takes over when the share
 * 1 / RX_LATE_SHARE of the receive buffer is used.
 */
#define RX_WORKER_MIN		(32 * 1024)
#define RX_LATE_SHARE		4

/* Nothing tells that a worker does not come, so an endpoint looks after this time. */
#define RX_WORKER_LATE_MS	20

/*
 * Bytes processed in one turn of a worker, which then serves others. Each FPDU counts for a
 * minimum.
 */
#define RX_TURN			(256 * 1024)
#define RX_FPDU_WEIGHT		128

/*
 * One FPDU
 */

static enum xiw_cause rx_check_crc(struct xiw_cursor cur, u32 fpdu_len)
{
	u32 crc = ~0;
	__le32 sum;

	if (xiw_cursor_crc(&cur, fpdu_len - MPA_CRC_LEN, &crc) ||
	    xiw_cursor_copy(&cur, &sum, MPA_CRC_LEN))
		return XIW_UNREADABLE;
	return le32_to_cpu(sum) == (u32)~crc ? XIW_OK : XIW_BAD_CRC;
}

/* The first valid FPDU allows a responder to send (RFC 5044 section 7.1.2). */
static void rx_opened(struct xiw_qp *qp)
{
	qp->tx.hold = false;
	WRITE_ONCE(qp->tx.blocked, false);
	qp->rx.kick = true;
	xiw_ep_wake(qp->ep, XIW_EP_EV_OPENED);
}

/*
 * A Send without a posted receive ends the stream (RFC 5041 section 7.1). But the consumer may be
 * about to post one, so the Send waits in the socket for a moment. TCP makes the peer wait too.
 */
static bool rx_may_wait(struct xiw_qp *qp)
{
	long left;

	if (!(qp->rx.waits & XIW_WAIT_RECEIVE)) {
		qp->rx.waits |= XIW_WAIT_RECEIVE;
		qp->rx.starved_since = jiffies;
	}
	left = xiw_rx_patience_ends(qp) - jiffies;
	if (left < 0)
		return false;
	xiw_ep_look_later(qp->ep, jiffies_to_msecs(left) + 1);
	return true;
}

static bool rx_is_response(const struct xiw_headers *hdr)
{
	u8 opcode = hdr->ctrl.rdmap & RDMAP_OPCODE_MASK;

	return opcode == RDMAP_READ_RESP || opcode == RDMAP_ATOMIC_RESP;
}

/* Whether an FPDU has to wait where it is, because a receive request or pages are missing. */
static bool rx_waits(struct xiw_qp *qp, const struct xiw_headers *hdr, enum xiw_cause cause)
{
	u8 pages = rx_is_response(hdr) ? XIW_WAIT_RESPONSE_PAGES : XIW_WAIT_PAGES;

	if (cause == XIW_NO_RECEIVE)
		return rx_may_wait(qp);
	qp->rx.waits &= ~pages;
	if (cause != XIW_NOT_YET)
		return false;
	qp->rx.waits |= pages;
	return true;
}

enum xiw_cause xiw_rx_segment(struct xiw_qp *qp, const struct xiw_headers *hdr, u32 ulpdu_len,
			      struct xiw_cursor *payload)
{
	enum xiw_cause cause;

	trace_xiw_rx_fpdu(qp, hdr, ulpdu_len);
	cause = xiw_place(qp, hdr, ulpdu_len, payload);
	if (unlikely(rx_waits(qp, hdr, cause)))
		return XIW_NOT_YET;
	if (unlikely(cause))
		xiw_qp_fail(qp, cause, hdr);
	else if (unlikely(qp->tx.hold))
		rx_opened(qp);
	return cause;
}

/**
 * rx_fpdu - process the next FPDU of the stream if it is complete
 * @qp: the queue pair
 * @cur: where the FPDU starts; advanced behind it on success
 * @avail: bytes available from @cur on
 *
 * Return: its length; 0 if it is incomplete or has to wait, or if it has ended the stream.
 */
static u32 rx_fpdu(struct xiw_qp *qp, struct xiw_cursor *cur, u32 avail)
{
	enum xiw_cause cause = XIW_UNREADABLE;
	struct xiw_cursor at = *cur;
	struct xiw_headers hdr;
	u32 ulpdu_len, fpdu_len;

	if (avail < sizeof(hdr.mpa)) {
		qp->rx.need = avail ? sizeof(hdr.mpa) : 0;
		return 0;
	}
	if (xiw_cursor_copy(&at, &hdr.mpa, sizeof(hdr.mpa)))
		goto failed;
	ulpdu_len = be16_to_cpu(hdr.mpa.ulpdu_len);
	fpdu_len = xiw_fpdu_len(ulpdu_len);
	if (avail < fpdu_len) {
		qp->rx.need = fpdu_len;
		return 0;
	}
	cause = qp->rx.crc && !qp->rx.checked ? rx_check_crc(*cur, fpdu_len) : XIW_OK;
	if (unlikely(cause))
		goto failed;
	at = *cur;
	hdr.ctrl = (struct xiw_ddp_ctrl){};		/* in case the FPDU is too short for one */
	cause = XIW_UNREADABLE;
	if (xiw_cursor_copy(&at, &hdr, min_t(u32, sizeof(hdr), sizeof(hdr.mpa) + ulpdu_len)))
		goto failed;

	cause = xiw_rx_segment(qp, &hdr, ulpdu_len, cur);
	qp->rx.checked = cause == XIW_NOT_YET;
	if (unlikely(cause == XIW_NOT_YET))
		qp->rx.need = fpdu_len;
	return likely(!cause) ? fpdu_len : 0;

failed:
	xiw_qp_fail(qp, cause, NULL);
	return 0;
}

/*
 * A run
 */

/* Counts an FPDU. Return: whether the turn of the worker is over, in which the caller runs. */
static bool rx_ends_turn(struct xiw_qp *qp, u32 len)
{
	qp->rx.spent += max_t(u32, len, RX_FPDU_WEIGHT);
	if (qp->rx.spent < RX_TURN)
		return false;
	xiw_worker_receive_again(qp);
	return true;
}

/*
 * The receive buffer may be full of FPDUs behind a Send that waited. A softirq stops after RX_BURST
 * bytes of them and wakes the endpoint to continue in process context. The endpoint processes
 * all FPDUs before it looks for the end of the stream.
 */
static bool rx_yields(struct xiw_qp *qp)
{
	if (!in_softirq()) {
		cond_resched();
		return false;
	}
	xiw_ep_wake(qp->ep, XIW_EP_EV_SOCKET);
	return true;
}

/*
 * Processes an FPDU that was taken out of the socket. Return: whether the next one is in the
 * socket.
 */
static bool rx_finish_kept(struct xiw_qp *qp, struct sock *sk)
{
	struct xiw_cursor cur = { .sk = sk, .skb = qp->rx.kept };

	if (!rx_fpdu(qp, &cur, qp->rx.kept->len)) {
		qp->rx.need = 0;
		return false;
	}
	xiw_qp_count(qp, XIW_STAT_RX_FPDUS, 1);
	xiw_keep_drop(qp);
	return true;
}

/* Return: bytes processed. */
static u32 rx_drain(struct xiw_qp *qp, struct sock *sk)
{
	u32 start = tcp_sk(sk)->copied_seq;
	u32 avail = tcp_inq(sk);
	struct xiw_cursor cur = { .sk = sk, .seq = start };
	const bool in_worker = xiw_worker_is_current();
	struct xiw_cursor next;
	u32 done = 0, burst = 0, offset;
	u32 len;

	if (unlikely(qp->rx.kept) && !rx_finish_kept(qp, sk))
		return 0;
	cur.skb = tcp_recv_skb(sk, start, &offset);
	while (cur.skb && xiw_qp_open(qp)) {
		if (unlikely(burst >= RX_BURST)) {
			if (rx_yields(qp))
				break;
			burst = 0;
		}
		next = cur;
		len = rx_fpdu(qp, &next, avail - done);
		if (!len)
			break;
		done += len;
		burst += max_t(u32, len, RX_BURST_WEIGHT);
		/* Keep the skb: the next FPDU mostly starts in the one where this FPDU ended. */
		cur.skb = next.skb;
		cur.seq += len;
		xiw_qp_count(qp, XIW_STAT_RX_FPDUS, 1);
		if (in_worker && rx_ends_turn(qp, len))
			break;
	}
	return done;
}

/*
 * Sends what may be sent now. A thread that works through the backlog of its locked socket might
 * never finish: within one host, the Response to a Read sent from here is in the backlog at once.
 * TCP counts the whole backlog as used until the thread is done, and closes the window. So a worker
 * takes over before that.
 */
static void rx_kick(struct xiw_qp *qp, struct sock *sk)
{
	qp->rx.kick = false;
	if (sock_owned_by_user(sk) &&
	    READ_ONCE(sk->sk_backlog.len) > READ_ONCE(sk->sk_rcvbuf) / RX_BACKLOG_SHARE) {
		xiw_worker_queue(qp);
		return;
	}
	xiw_qp_count(qp, XIW_STAT_TX_RX, 1);
	if (xiw_tx_run(qp, XIW_TX_BUDGET_RX))
		xiw_worker_queue(qp);
}

/* A segment that the peer sends again could not be placed. A worker makes the peer do that. */
static void rx_resume_peer(struct xiw_qp *qp)
{
	if (xiw_carrier_peer(qp)) {
		/* The peer may itself wait for pages and not send again: leave the line. */
		if (qp->ibqp.srq && !xiw_rx_patient(qp))
			xiw_srq_leave(xiw_qp_srq(qp), &qp->srq_waiter);
		xiw_worker_queue(qp);
	} else {
		qp->rx.waits = 0;
		if (qp->ibqp.srq)	/* let others have its turn */
			xiw_srq_leave(xiw_qp_srq(qp), &qp->srq_waiter);
	}
}

/*
 * Processes all FPDUs in the socket that are complete, and sends what they allow this end to send.
 */
static void rx_take(struct xiw_qp *qp, struct sock *sk)
{
	u32 done;

	qp->rx.need = 0;
	WRITE_ONCE(qp->doorbells, 0);
	done = rx_drain(qp, sk);
	if (done) {
		xiw_keep_done(qp, sk, done);
		xiw_qp_count(qp, XIW_STAT_RX_BATCHES, 1);
	}
	if (qp->rx.kick)
		rx_kick(qp, sk);
	xiw_qp_fire(qp);
}

/*
 * Whether a worker will process what is in the socket. Not if TCP has no memory: then it drops what
 * comes unless its queue is emptied at once. Nor if an FPDU waits: a worker could not do more.
 *
 * The worker itself comes here when it unlocks the socket and TCP has put more into it meanwhile.
 */
static bool rx_is_left(struct xiw_qp *qp, struct sock *sk)
{
	if (xiw_worker_is_current())
		return xiw_worker_receives(qp);
	if (!in_softirq() || tcp_inq(sk) < RX_WORKER_MIN || qp->rx.refused || qp->rx.waits)
		return false;
	if (xiw_worker_receives(qp) &&
	    atomic_read(&sk->sk_rmem_alloc) > READ_ONCE(sk->sk_rcvbuf) / RX_LATE_SHARE)
		return false;
	if (!xiw_worker_receive(qp))
		return false;
	xiw_ep_look_later(qp->ep, RX_WORKER_LATE_MS);
	return true;
}

static void rx_run(struct xiw_qp *qp, struct sock *sk)
{
	if (!xiw_qp_open(qp))
		return;
	if (unlikely(inet_csk(sk)->icsk_ack.pending & ICSK_ACK_NOMEM))
		qp->rx.refused = true;
	if (qp->carrier->resends && qp->rx.waits)
		rx_resume_peer(qp);
	if (unlikely(qp->rx.kept))
		xiw_keep_add(qp, sk);
	if (tcp_inq(sk) >= qp->rx.need && xiw_qp_open(qp)) {
		if (rx_is_left(qp, sk))
			return;
		rx_take(qp, sk);
	}
	if (tcp_inq(sk) < qp->rx.need && !qp->rx.kept && xiw_qp_open(qp))
		xiw_keep_look(qp, sk);
}

void xiw_rx_run(struct xiw_qp *qp, struct sock *sk)
{
	struct xiw_driver driver;

	lockdep_assert(lockdep_sock_is_held(sk));

	driver = xiw_carrier_enter(qp);
	rx_run(qp, sk);
	xiw_carrier_leave(&driver);
}

bool xiw_rx_drive_now(struct xiw_qp *qp)
{
	enum xiw_qp_lock_result result = xiw_qp_lock_now(qp);

	if (result == XIW_QP_LOCKED) {
		qp->rx.spent = 0;
		if (!qp->loop)
			xiw_rx_run(qp, qp->sk);
		xiw_qp_unlock(qp);
	}
	return result != XIW_QP_LOCKED_OUT;
}
