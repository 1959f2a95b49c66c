/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* net/tcp.h - a socket's receive queue, without the socket */
#ifndef XIW_FUZZ_NET_TCP_H
#define XIW_FUZZ_NET_TCP_H

#include <errno.h>
#include <stddef.h>
#include <linux/crc32c.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define min_t(type, a, b)	min((type)(a), (type)(b))

#define lockdep_assert(condition)
#define lockdep_sock_is_held(sk)	true

/* Its bytes are on the heap, in two pieces, so that ASan sees the end of each. */
struct sk_buff {
	struct sk_buff	*next;
	u32		seq;
	u32		len;
	u32		split;
	u8		*pieces[2];
};

struct sk_buff_head {
	struct sk_buff	*first;
};

struct sock {
	struct sk_buff_head	sk_receive_queue;
	struct {
		u32		len;
	}			sk_backlog;
	u32			sk_rcvbuf;
	u32			copied_seq;
	u32			rcv_nxt;
};

#define TCP_SKB_CB(skb)			(skb)
#define tcp_sk(sk)			(sk)
#define sock_owned_by_user(sk)		false
#define skb_queue_is_last(queue, skb)	(!(skb)->next)
#define skb_queue_next(queue, skb)	((skb)->next)

static inline u32 tcp_inq(const struct sock *sk)
{
	return sk->rcv_nxt - sk->copied_seq;
}

struct sk_buff *tcp_recv_skb(struct sock *sk, u32 seq, u32 *offset);
void tcp_read_done(struct sock *sk, size_t len);
int skb_copy_bits(const struct sk_buff *skb, int offset, void *to, int len);

struct skb_seq_state {
	const struct sk_buff	*skb;
	u32			from;
	u32			to;
};

void skb_prepare_seq_read(struct sk_buff *skb, u32 from, u32 to, struct skb_seq_state *st);
u32 skb_seq_read(u32 done, const u8 **data, struct skb_seq_state *st);
static inline void skb_abort_seq_read(struct skb_seq_state *st)
{
}

#endif /* XIW_FUZZ_NET_TCP_H */
