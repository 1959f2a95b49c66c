// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* receive_kernel.c - the kernel's receiving end of a stream of FPDUs, for a caller in C++ */

#include <stdlib.h>
#include <net/tcp.h>

#include "carrier/cursor.h"
#include "stream/place.h"
#include "stream/rx.h"
#include "stream_kernel.h"
#include "wire/opcode.h"

struct kernel_receiver {
	struct xiw_qp	qp;
	struct sock	sk;
	u32		start;
};

static const struct xiw_carrier carrier;

void fuzz_other_side(void)
{
}

/* struct xiw_ep is the queue pair itself here. */
void xiw_ep_wake(struct xiw_ep *ep, int event)
{
	struct xiw_qp *qp = (void *)ep;

	qp->opened += event == XIW_EP_EV_OPENED;
}

/*
 * TCP's receive queue
 */

static void skb_free(struct sk_buff *skb)
{
	free(skb->pieces[0]);
	free(skb->pieces[1]);
	free(skb);
}

struct sk_buff *tcp_recv_skb(struct sock *sk, u32 seq, u32 *offset)
{
	struct sk_buff *skb;

	for (skb = sk->sk_receive_queue.first; skb; skb = skb->next) {
		*offset = seq - skb->seq;
		if (*offset < skb->len)
			return skb;
	}
	return NULL;
}

/* What was read is freed at once, so ASan sees who still reads it. */
void tcp_read_done(struct sock *sk, size_t len)
{
	struct sk_buff **first = &sk->sk_receive_queue.first;
	struct sk_buff *skb;

	sk->copied_seq += len;
	while (*first && (int)((*first)->seq + (*first)->len - sk->copied_seq) <= 0) {
		skb = *first;
		*first = skb->next;
		skb_free(skb);
	}
}

/* The octet at @offset, and in @len how many lie behind it in the same piece. */
static const u8 *skb_piece(const struct sk_buff *skb, u32 offset, u32 *len)
{
	if (offset < skb->split) {
		*len = skb->split - offset;
		return skb->pieces[0] + offset;
	}
	*len = skb->len - offset;
	return skb->pieces[1] + offset - skb->split;
}

int skb_copy_bits(const struct sk_buff *skb, int offset, void *to, int len)
{
	const u8 *from;
	u32 n;

	if (offset < 0 || len < 0 || offset + len > (int)skb->len)
		return -EFAULT;
	while (len) {
		from = skb_piece(skb, offset, &n);
		n = min_t(u32, n, len);
		memcpy(to, from, n);
		to += n;
		offset += n;
		len -= n;
	}
	return 0;
}

void skb_prepare_seq_read(struct sk_buff *skb, u32 from, u32 to, struct skb_seq_state *st)
{
	*st = (struct skb_seq_state){ .skb = skb, .from = from, .to = to };
}

/* As the kernel's, it may give more than was asked for. */
u32 skb_seq_read(u32 done, const u8 **data, struct skb_seq_state *st)
{
	u32 len;

	if (st->from + done >= st->to)
		return 0;
	*data = skb_piece(st->skb, st->from + done, &len);
	return len;
}

/*
 * The receiver
 */

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
	rx->qp.open = true;
	rx->qp.carrier = &carrier;
	rx->qp.ep = (void *)&rx->qp;
	rx->qp.tx.hold = true;
	rx->qp.rx.crc = crc;
	return rx;
}

void kernel_receiver_free(struct kernel_receiver *rx)
{
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

void kernel_receive(struct kernel_receiver *rx)
{
	xiw_rx_run(&rx->qp, &rx->sk);
}

__u32 kernel_consumed(const struct kernel_receiver *rx)
{
	return rx->sk.copied_seq - rx->start;
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
