// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* receive_queue.c - TCP's receive queue, and segments inside and outside of it */

#include <net/tcp.h>

struct fuzz_memory fuzz_memory;

/*
 * The queue
 */

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

	if (len > tcp_inq(sk))
		abort();
	sk->copied_seq += len;
	if (!tcp_inq(sk) && sk->icsk_ack.pending & ICSK_ACK_NOMEM)
		sk->closed++;
	while (*first && (int)((*first)->seq + (*first)->len - sk->copied_seq) <= 0) {
		skb = *first;
		*first = skb->next;
		fuzz_skb_free(skb);
	}
}

/*
 * The octets of a segment
 */

/* The octet at @offset, and in @len how many lie behind it in the same piece. */
static u8 *skb_piece(const struct sk_buff *skb, u32 offset, u32 *len)
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

int skb_store_bits(struct sk_buff *skb, int offset, const void *from, int len)
{
	u8 *to;
	u32 n;

	if (offset < 0 || len < 0 || offset + len > (int)skb->len)
		return -EFAULT;
	while (len) {
		to = skb_piece(skb, offset, &n);
		n = min_t(u32, n, len);
		memcpy(to, from, n);
		from += n;
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
 * Segments of one's own
 */

/* As in the kernel, @pages octets have no place in skb->len yet. A charge needs one who pays. */
struct sk_buff *alloc_skb_with_frags(unsigned long linear, unsigned long pages, int order, int *err,
				     gfp_t gfp)
{
	struct sk_buff *skb;

	fuzz_memory.asked = linear + pages;
	if (!(gfp & __GFP_ACCOUNT) != !fuzz_memory.active)
		abort();
	if (fuzz_memory.fails) {
		*err = -ENOBUFS;
		return NULL;
	}
	skb = calloc(1, sizeof(*skb));
	skb->split = linear;
	skb->pieces[0] = malloc(linear);
	skb->pieces[1] = malloc(pages);
	skb->allocated = true;
	fuzz_memory.skbs++;
	return skb;
}

void *skb_put(struct sk_buff *skb, unsigned int len)
{
	void *at = skb->pieces[0] + skb->len;

	skb->len += len;
	if (skb->len > skb->split)
		abort();
	return at;
}

/* Gives back what is cut off, so ASan sees who still reads or writes it. */
int pskb_trim(struct sk_buff *skb, unsigned int len)
{
	if (len >= skb->len)
		return 0;
	skb->len = len;
	skb->split = min(skb->split, len);
	skb->data_len = len - skb->split;
	skb->pieces[0] = realloc(skb->pieces[0], skb->split);
	skb->pieces[1] = realloc(skb->pieces[1], max(skb->data_len, 1u));
	return 0;
}

void fuzz_skb_free(struct sk_buff *skb)
{
	free(skb->pieces[0]);
	free(skb->pieces[1]);
	free(skb);
}

void consume_skb(struct sk_buff *skb)
{
	if (!skb)
		return;
	fuzz_memory.skbs--;
	fuzz_skb_free(skb);
}
