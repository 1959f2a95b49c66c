// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* receive_kernel.c - the kernel's receiving end of a stream of FPDUs, for a caller in C++ */

#include <stdlib.h>
#include <net/tcp.h>

#include "carrier/batch.h"
#include "carrier/cursor.h"
#include "stream/keep.h"
#include "stream/place.h"
#include "stream/rx.h"
#include "stream_kernel.h"
#include "wire/opcode.h"

struct kernel_receiver {
	struct xiw_qp	qp;
	struct sock	sk;
	u32		start;
};

bool fuzz_softirq;
bool fuzz_worker;

static const struct xiw_carrier carrier;
static bool process_owes;

void fuzz_other_side(void)
{
}

/* struct xiw_ep is the queue pair itself here. */
void xiw_ep_wake(struct xiw_ep *ep, int event)
{
	struct xiw_qp *qp = (void *)ep;

	if (event == XIW_EP_EV_OPENED)
		qp->opened++;
	else
		qp->looks_again++;
}

void xiw_ep_look_later(struct xiw_ep *ep, unsigned int ms)
{
	struct xiw_qp *qp = (void *)ep;

	qp->looks_again++;
}

bool xiw_batch_payer_owes(const struct sock *sk)
{
	return process_owes;
}

/* As xiw_place(), for whatever the messages would do. */
enum xiw_cause xiw_place(struct xiw_qp *qp, const struct xiw_headers *hdr, u32 ulpdu_len,
			 struct xiw_cursor *at)
{
	bool terminate = ulpdu_len >= sizeof(hdr->ctrl) &&
			 (hdr->ctrl.rdmap & RDMAP_OPCODE_MASK) == RDMAP_TERMINATE;
	struct xiw_cursor payload = *at;
	const struct xiw_rdmap_op *op;
	enum xiw_cause cause;
	u32 hdr_len, len;
	void *copy;

	op = xiw_ddp_check(hdr, ulpdu_len, &cause);
	if (!op && !terminate)
		return cause;
	if (!op) {
		xiw_qp_lost(qp);
		return XIW_OK;
	}
	hdr_len = op->tagged ? sizeof(hdr->tagged) : sizeof(hdr->untagged);
	payload.seq += sizeof(hdr->mpa) + hdr_len;
	len = ulpdu_len - hdr_len;
	copy = malloc(len);
	cause = XIW_UNREADABLE;
	if (!xiw_cursor_copy(&payload, copy, len))
		cause = fuzz_place(hdr, ulpdu_len, copy, len);
	free(copy);
	if (cause)
		return cause;
	qp->rx.waits &= ~XIW_WAIT_RECEIVE;
	if (terminate)
		xiw_qp_lost(qp);
	*at = payload;
	return XIW_OK;
}

struct kernel_receiver *kernel_receiver_new(bool crc, __u32 seq)
{
	struct kernel_receiver *rx = calloc(1, sizeof(*rx));

	rx->start = seq;
	rx->sk.copied_seq = seq;
	rx->sk.rcv_nxt = seq;
	rx->sk.sk_rcvbuf = KERNEL_BUFFER;
	rx->sk.icsk_ack.rcv_mss = 536;
	rx->sk.rx_opt.rcv_wscale = __builtin_ctz(KERNEL_WINDOW_STEP);
	rx->qp.sk = &rx->sk;
	rx->qp.open = true;
	rx->qp.carrier = &carrier;
	rx->qp.ep = (void *)&rx->qp;
	rx->qp.tx.hold = true;
	rx->qp.rx.crc = crc;
	return rx;
}

void kernel_receiver_free(struct kernel_receiver *rx)
{
	xiw_keep_drop(&rx->qp);
	tcp_read_done(&rx->sk, tcp_inq(&rx->sk));
	free(rx);
}

void kernel_arrive(struct kernel_receiver *rx, const __u8 *octets, __u32 len, __u32 again)
{
	struct sk_buff **last = &rx->sk.sk_receive_queue.first;
	struct sk_buff *skb = calloc(1, sizeof(*skb));

	skb->seq = rx->sk.rcv_nxt - again;
	skb->len = again + len;
	skb->split = skb->len / 3;
	skb->pieces[0] = malloc(skb->split);
	skb->pieces[1] = malloc(skb->len - skb->split);
	memcpy(skb->pieces[0], octets - again, skb->split);
	memcpy(skb->pieces[1], octets - again + skb->split, skb->len - skb->split);
	while (*last)
		last = &(*last)->next;
	*last = skb;
	rx->sk.rcv_nxt += len;
}

void kernel_change(struct kernel_receiver *rx, __u32 offset, __u8 octet)
{
	struct sk_buff *skb = tcp_recv_skb(&rx->sk, rx->start + offset, &offset);

	skb_store_bits(skb, offset, &octet, 1);
}

void kernel_receive(struct kernel_receiver *rx, const struct kernel_look *look)
{
	char group;

	rx->sk.sk_rmem_alloc.counter = look->used;
	rx->sk.icsk_ack.pending = look->refused ? ICSK_ACK_NOMEM : 0;
	rx->sk.payer = look->payer ? (void *)&group : NULL;
	fuzz_memory.fails = look->fails;
	fuzz_memory.tcp_is_out = look->tcp_is_out;
	fuzz_softirq = look->softirq;
	fuzz_worker = look->worker;
	process_owes = look->owes;
	rx->qp.looks_again = 0;
	xiw_rx_run(&rx->qp, &rx->sk);
	if (fuzz_memory.active)		/* others would pay for what this thread does next */
		abort();
}

void kernel_allow_worker(struct kernel_receiver *rx)
{
	rx->qp.worker_may = true;
}

bool kernel_worker_asked(const struct kernel_receiver *rx)
{
	return rx->qp.worker_asked;
}

bool kernel_work(struct kernel_receiver *rx, bool locked)
{
	fuzz_softirq = false;
	fuzz_worker = true;
	rx->qp.worker_asked = false;
	rx->qp.lock = locked ? XIW_QP_LOCKED_OUT : XIW_QP_LOCKED;
	return xiw_rx_drive_now(&rx->qp);
}

__u32 kernel_consumed(const struct kernel_receiver *rx)
{
	return rx->sk.copied_seq - rx->start;
}

__u32 kernel_kept(const struct kernel_receiver *rx)
{
	return rx->qp.rx.kept ? rx->qp.rx.kept_len : 0;
}

__u32 kernel_kept_room(const struct kernel_receiver *rx)
{
	return rx->qp.rx.kept ? rx->qp.rx.kept->len : 0;
}

__u32 kernel_last_asked(void)
{
	return fuzz_memory.asked;
}

unsigned int kernel_skbs(void)
{
	return fuzz_memory.skbs;
}

bool kernel_looks_again(const struct kernel_receiver *rx)
{
	return rx->qp.looks_again;
}

bool kernel_refuses(const struct kernel_receiver *rx)
{
	return rx->sk.icsk_ack.pending & ICSK_ACK_NOMEM;
}

__u32 kernel_left_closed(const struct kernel_receiver *rx)
{
	return rx->sk.closed;
}

bool kernel_open(const struct kernel_receiver *rx)
{
	return rx->qp.open;
}

bool kernel_holds(const struct kernel_receiver *rx)
{
	return rx->qp.tx.hold;
}

int kernel_cause(const struct kernel_receiver *rx)
{
	return rx->qp.cause;
}
