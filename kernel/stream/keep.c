// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* keep.c - takes the start of an FPDU out of a socket that has no room for the rest */

#include <net/proto_memory.h>
#include <net/tcp.h>

#include "carrier/batch.h"
#include "carrier/cursor.h"
#include "conn/ep.h"
#include "device.h"
#include "stream/keep.h"

/* Without memory, how long to wait before another try. */
#define KEEP_RETRY_MS	100

/*
 * Bytes outside of pages. The rest of the longest FPDU needs one page less then, because
 * alloc_skb_with_frags() may leave the last place for a page empty.
 */
#define KEEP_LINEAR	1024U

/*
 * Whether the receive buffer has no room for the rest of the FPDU. TCP closes the window a little
 * earlier, and opens it in steps (__tcp_select_window()). The backlog does not count, as in
 * tcp_space(), because a thread may be working through it just now.
 */
static bool keep_buffer_is_full(const struct xiw_qp *qp, struct sock *sk)
{
	int space = READ_ONCE(sk->sk_rcvbuf) - atomic_read(&sk->sk_rmem_alloc);
	int spare = max(tcp_full_space(sk) >> 4, (int)inet_csk(sk)->icsk_ack.rcv_mss) +
		    (1 << tcp_sk(sk)->rx_opt.rcv_wscale);

	return (int)(qp->rx.need - tcp_inq(sk)) + spare > tcp_win_from_space(sk, space);
}

/*
 * Room for an FPDU, charged to the process. XIW_GFP_ATOMIC may exceed the limit of its control
 * group, which is no worse than what TCP does for each segment, and what is kept leaves TCP.
 */
static struct sk_buff *keep_alloc(const struct sock *sk, u32 len)
{
	const u32 linear = min(len, KEEP_LINEAR);
	struct mem_cgroup *payer = mem_cgroup_from_sk(sk);
	struct mem_cgroup *before = set_active_memcg(payer);
	struct sk_buff *kept;
	int err;

	/* Without a payer this thread would pay, which may be anybody's. */
	kept = alloc_skb_with_frags(linear, len - linear, 0, &err,
				    payer ? XIW_GFP_ATOMIC : XIW_GFP_ATOMIC & ~__GFP_ACCOUNT);
	set_active_memcg(before);
	if (!kept)
		return NULL;
	skb_put(kept, linear);
	kept->data_len += len - linear;
	kept->len += len - linear;
	return kept;
}

/* Kernel-doc of the functions that other files call is in keep.h. */
/*
 * TCP notes that it has no memory for a segment that has just come, calls us, and then drops it
 * unless its queue is empty. While the note stands, each acknowledgment tells the peer to stop, and
 * what is read later tells it to go on. If nothing is left to be read, the peer has to go on now.
 */
void xiw_keep_done(struct xiw_qp *qp, struct sock *sk, u32 len)
{
	lockdep_assert(lockdep_sock_is_held(sk));

	if (unlikely(qp->rx.refused) && len == tcp_inq(sk)) {
		qp->rx.refused = false;
		inet_csk(sk)->icsk_ack.pending &= ~ICSK_ACK_NOMEM;
	}
	tcp_read_done(sk, len);
	xiw_qp_count(qp, XIW_STAT_RX_BYTES, len);
}

/* Takes what there is of the next qp->rx.need bytes. Return: false if it cannot be read. */
static bool keep_take(struct xiw_qp *qp, struct sock *sk)
{
	u32 len = min_t(u32, tcp_inq(sk), qp->rx.need);
	struct xiw_cursor cur = { .sk = sk, .seq = tcp_sk(sk)->copied_seq };
	u32 offset;

	cur.skb = tcp_recv_skb(sk, cur.seq, &offset);
	if (!cur.skb || !len)
		return true;
	if (xiw_cursor_store(&cur, qp->rx.kept, qp->rx.kept_len, len))
		return false;
	qp->rx.kept_len += len;
	qp->rx.need -= len;
	xiw_keep_done(qp, sk, len);
	return true;
}

/*
 * The length has come. It is read from the copy: where it was before, a peer on this host may
 * change it at any time, if it sent the pages of a file.
 */
static bool keep_learn_length(struct xiw_qp *qp)
{
	struct sk_buff *kept = qp->rx.kept;
	struct xiw_fpdu_head head;
	u32 len;

	if (skb_copy_bits(kept, 0, &head, sizeof(head)))
		return false;
	len = xiw_fpdu_len(be16_to_cpu(head.ulpdu_len));
	if (len > kept->len)
		return false;
	qp->rx.need = len - sizeof(head);
	return !pskb_trim(kept, len);
}

void xiw_keep_add(struct xiw_qp *qp, struct sock *sk)
{
	bool good;

	lockdep_assert(lockdep_sock_is_held(sk));

	good = keep_take(qp, sk);
	if (good && !qp->rx.need && qp->rx.kept_len == sizeof(struct xiw_fpdu_head))
		good = keep_learn_length(qp) && keep_take(qp, sk);
	if (!good)
		xiw_qp_fail(qp, XIW_UNREADABLE, NULL);
}

/*
 * A process has to give back memory before its streams go on. But if TCP is out of memory, others
 * may wait for what it has in its queues.
 */
static bool keep_must_wait(const struct sock *sk)
{
	return xiw_batch_payer_owes(sk) && sk_memory_allocated(sk) <= sk_prot_mem_limits(sk, 2);
}

static void keep_begin(struct xiw_qp *qp, struct sock *sk)
{
	const bool has_length = qp->rx.need > sizeof(struct xiw_fpdu_head);
	const u32 room = has_length ? qp->rx.need : xiw_fpdu_len(U16_MAX);

	qp->rx.kept = keep_must_wait(sk) ? NULL : keep_alloc(sk, room);
	if (!qp->rx.kept) {
		xiw_ep_look_later(qp->ep, KEEP_RETRY_MS);
		return;
	}
	qp->rx.kept_len = 0;
	qp->rx.need = sizeof(struct xiw_fpdu_head);
	xiw_qp_count(qp, XIW_STAT_RX_KEPT, 1);
	xiw_keep_add(qp, sk);
}

void xiw_keep_look(struct xiw_qp *qp, struct sock *sk)
{
	lockdep_assert(lockdep_sock_is_held(sk));

	if (!tcp_inq(sk))	/* TCP takes the next segment in any case */
		return;
	if (!qp->rx.refused && !keep_buffer_is_full(qp, sk))
		return;
	if (in_task())	/* an interrupted task may be charging for another group */
		keep_begin(qp, sk);
	else
		xiw_ep_wake(qp->ep, XIW_EP_EV_SOCKET);
}

void xiw_keep_drop(struct xiw_qp *qp)
{
	consume_skb(qp->rx.kept);
	qp->rx.kept = NULL;
}
