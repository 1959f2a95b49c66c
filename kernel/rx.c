// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* rx.c - from octets in the socket to whole FPDUs */

#include <linux/crc32c.h>
#include <linux/sched.h>
#include <net/tcp.h>

#include "ep.h"
#include "loop.h"
#include "mem.h"
#include "place.h"
#include "rx.h"
#include "srq.h"
#include "tx.h"
#include "worker.h"
#include "trace.h"

/* How long a Send may wait for a receive request to be posted. */
#define RX_PATIENCE_MS	1000

/* FPDUs that are looked at in one go. */
#define RX_BURST	4096

/* How much of the receive buffer a backlog may take before others go on sending, as a divisor. */
#define RX_BACKLOG_SHARE	8

/*
 * A walk over the receive queue
 */

typedef int (*rx_step_fn)(void *arg, struct sk_buff *skb, u32 offset, u32 len);

/* Calls @step for each run of the next @len octets; segments may overlap in the queue. */
static int rx_walk(struct xiw_cursor *cur, size_t len, rx_step_fn step, void *arg)
{
	u32 offset, n;
	int ret;

	while (len) {
		offset = cur->seq - TCP_SKB_CB(cur->skb)->seq;
		if (offset >= cur->skb->len) {
			if (skb_queue_is_last(&cur->sk->sk_receive_queue, cur->skb))
				return -EFAULT;
			cur->skb = skb_queue_next(&cur->sk->sk_receive_queue, cur->skb);
			continue;
		}
		n = min_t(size_t, len, cur->skb->len - offset);
		ret = step(arg, cur->skb, offset, n);
		if (unlikely(ret))
			return ret;
		cur->seq += n;
		len -= n;
	}
	return 0;
}

static int rx_step_copy(void *arg, struct sk_buff *skb, u32 offset, u32 len)
{
	void **to = arg;
	int ret = skb_copy_bits(skb, offset, *to, len);

	*to += len;
	return ret;
}

int xiw_cursor_copy(struct xiw_cursor *cur, void *to, size_t len)
{
	if (cur->sk)
		return rx_walk(cur, len, rx_step_copy, &to);
	if (cur->mr) {
		xiw_mr_read(cur->mr, cur->addr, to, len);
		cur->addr += len;
	} else {
		memcpy(to, cur->data, len);
		cur->data += len;
	}
	return 0;
}

static int rx_step_crc(void *arg, struct sk_buff *skb, u32 offset, u32 len)
{
	struct skb_seq_state st;
	const u8 *data;
	u32 *crc = arg;
	u32 done = 0;
	u32 n;

	skb_prepare_seq_read(skb, offset, offset + len, &st);
	while (done < len) {
		n = skb_seq_read(done, &data, &st);
		if (!n)
			break;
		n = min(n, len - done);
		*crc = crc32c(*crc, data, n);
		done += n;
	}
	skb_abort_seq_read(&st);
	return done == len ? 0 : -EFAULT;
}

/*
 * One FPDU
 */

static int rx_crc_good(struct xiw_cursor cur, u32 fpdu_len, bool *good)
{
	u32 crc = ~0;
	__le32 sum;
	int ret;

	ret = rx_walk(&cur, fpdu_len - MPA_CRC_LEN, rx_step_crc, &crc);
	if (!ret)
		ret = xiw_cursor_copy(&cur, &sum, MPA_CRC_LEN);
	*good = !ret && le32_to_cpu(sum) == (u32)~crc;
	return ret;
}

/* The first valid FPDU lets a responder send (RFC 5044 section 7.1.2). */
static void rx_opened(struct xiw_qp *qp)
{
	qp->rx.first = false;
	if (!qp->tx.hold)
		return;
	qp->tx.hold = false;
	WRITE_ONCE(qp->tx.blocked, false);
	qp->rx.kick = true;
	xiw_ep_wake(qp->ep, XIW_EP_EV_OPENED);
}

/*
 * A Send for which no receive is posted ends the stream (RFC 5041 section 7.1), but a consumer
 * that is about to post one gets a moment: the Send waits in the socket, and TCP tells the peer.
 */
bool xiw_rx_patient(const struct xiw_qp *qp)
{
	return !qp->rx.starved ||
	       time_before_eq(jiffies, qp->rx.starved_since + msecs_to_jiffies(RX_PATIENCE_MS));
}

static bool rx_may_wait(struct xiw_qp *qp)
{
	if (!qp->rx.starved) {
		qp->rx.starved = true;
		qp->rx.starved_since = jiffies;
		xiw_ep_retry_rx(qp->ep, RX_PATIENCE_MS + 1);
	}
	return xiw_rx_patient(qp);
}

static bool rx_is_response(const struct xiw_headers *hdr)
{
	u8 opcode = hdr->ctrl.rdmap & RDMAP_OPCODE_MASK;

	return opcode == RDMAP_READ_RESP || opcode == RDMAP_ATOMIC_RESP;
}

/*
 * Whether an FPDU stays where it is for now, for want of a receive request or of pages. On one host
 * those of Responses and the others pass each other.
 */
static bool rx_waits(struct xiw_qp *qp, const struct xiw_headers *hdr, enum xiw_cause cause)
{
	u8 who = rx_is_response(hdr) ? XIW_RX_RESPONSE : XIW_RX_REQUEST;

	if (cause == XIW_NO_RECEIVE)
		return rx_may_wait(qp);
	qp->rx.paging &= ~who;
	if (cause != XIW_NOT_YET)
		return false;
	qp->rx.paging |= who;
	return true;
}

int xiw_rx_segment(struct xiw_qp *qp, const struct xiw_headers *hdr, u32 ulpdu_len,
		   struct xiw_cursor *payload)
{
	enum xiw_cause cause;

	trace_xiw_rx_fpdu(qp->qpn, hdr, xiw_fpdu_len(ulpdu_len));
	cause = xiw_place(qp, hdr, ulpdu_len, payload);
	if (unlikely(rx_waits(qp, hdr, cause)))
		return -EAGAIN;
	if (unlikely(cause)) {
		xiw_qp_fail(qp, cause, hdr);
		return -EPROTO;
	}
	if (qp->rx.first)
		rx_opened(qp);
	return 0;
}

/**
 * rx_fpdu - process the FPDU at a place in the stream if all of it is there
 * @qp: the queue pair
 * @cur: where it starts; advanced behind it on success
 * @avail: octets that are there from @cur on
 *
 * Return: its length; 0 if more octets are needed; -EPROTO if the stream has ended.
 */
static int rx_fpdu(struct xiw_qp *qp, struct xiw_cursor *cur, u32 avail)
{
	struct xiw_cursor at = *cur;
	struct xiw_headers hdr;
	u32 ulpdu_len, fpdu_len;
	bool good = true;
	int ret;

	if (avail < sizeof(hdr.mpa))
		return 0;
	if (xiw_cursor_copy(&at, &hdr.mpa, sizeof(hdr.mpa)))
		goto unreadable;
	ulpdu_len = be16_to_cpu(hdr.mpa.ulpdu_len);
	fpdu_len = xiw_fpdu_len(ulpdu_len);
	if (avail < fpdu_len) {
		qp->rx.need = fpdu_len;
		return 0;
	}
	if (qp->rx.crc && rx_crc_good(*cur, fpdu_len, &good))
		goto unreadable;
	if (unlikely(!good)) {
		xiw_qp_fail(qp, XIW_BAD_CRC, NULL);
		return -EPROTO;
	}
	at = *cur;
	hdr.ctrl = (struct xiw_ddp_ctrl){};		/* should it be too short for one */
	if (xiw_cursor_copy(&at, &hdr, min_t(u32, sizeof(hdr), sizeof(hdr.mpa) + ulpdu_len)))
		goto unreadable;

	ret = xiw_rx_segment(qp, &hdr, ulpdu_len, cur);
	if (unlikely(ret == -EAGAIN)) {
		qp->rx.need = fpdu_len;
		return 0;
	}
	return ret ?: fpdu_len;

unreadable:
	xiw_qp_fail(qp, XIW_UNREADABLE, NULL);
	return -EPROTO;
}

/*
 * A run
 */

/*
 * A Send that waited may have a receive buffer full of small FPDUs behind it. Process context,
 * which sees to them all before it looks for the end of the stream, goes on with those.
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

/* Return: octets that were processed. */
static u32 rx_drain(struct xiw_qp *qp, struct sock *sk)
{
	u32 start = tcp_sk(sk)->copied_seq;
	u32 avail = tcp_inq(sk);
	struct xiw_cursor cur = { .sk = sk, .seq = start };
	struct xiw_cursor next;
	u32 done = 0, offset;
	u32 fpdus = 0;
	int len;

	cur.skb = tcp_recv_skb(sk, start, &offset);
	while (cur.skb && xiw_qp_open(qp)) {
		if (unlikely(++fpdus % RX_BURST == 0) && rx_yields(qp))
			break;
		next = cur;
		len = rx_fpdu(qp, &next, avail - done);
		if (len <= 0)
			break;
		done += len;
		/* The segment is kept: the next FPDU mostly starts in the one where this ended. */
		cur.skb = next.skb;
		cur.seq += len;
		xiw_qp_count(qp, XIW_STAT_RX_FPDUS, 1);
	}
	return done;
}

/*
 * Sends what may be sent now. Who works through the backlog of a socket that he has locked could
 * go on for ever: on one host the Response to a Read that is sent from here is in the backlog at
 * once. TCP counts all of that as used until the end, and closes the window. So a worker takes over
 * in time.
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
	if (xiw_tx_run(qp, sk, XIW_TX_BUDGET_RX))
		xiw_worker_queue(qp);
}

/* A segment of a peer on this host could not be placed: a worker has the peer send it again. */
static void rx_resume_loop(struct xiw_qp *qp)
{
	if (xiw_loop_peer(qp)) {
		/* Its peer may never send it again, for want of pages of its own. */
		if (qp->ibqp.srq && !xiw_rx_patient(qp))
			xiw_srq_leave(xiw_qp_srq(qp), qp);
		xiw_worker_queue(qp);
	} else {
		qp->rx.starved = false;
		qp->rx.paging = 0;
		if (qp->ibqp.srq)
			xiw_srq_leave(xiw_qp_srq(qp), qp);	/* it takes no more: others may */
	}
}

static void rx_run(struct xiw_qp *qp, struct sock *sk)
{
	u32 done;

	if (!xiw_qp_open(qp))
		return;
	if (qp->loop && (qp->rx.starved || qp->rx.paging))
		rx_resume_loop(qp);
	if (tcp_inq(sk) < qp->rx.need)
		return;
	qp->rx.need = 0;
	WRITE_ONCE(qp->doorbells, 0);
	done = rx_drain(qp, sk);
	if (done) {
		tcp_read_done(sk, done);
		xiw_qp_count(qp, XIW_STAT_RX_BATCHES, 1);
		xiw_qp_count(qp, XIW_STAT_RX_BYTES, done);
	}
	if (qp->rx.kick)
		rx_kick(qp, sk);
	xiw_qp_fire(qp);
}

void xiw_rx_run(struct xiw_qp *qp, struct sock *sk)
{
	struct xiw_loop *loop;

	lockdep_assert(lockdep_sock_is_held(sk));

	loop = xiw_loop_enter(qp);
	rx_run(qp, sk);
	xiw_loop_leave(loop);
}
