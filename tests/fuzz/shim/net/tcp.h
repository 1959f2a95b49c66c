/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* net/tcp.h - what a socket has received, and its memory, without the socket */
#ifndef XIW_FUZZ_NET_TCP_H
#define XIW_FUZZ_NET_TCP_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <linux/crc32c.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define min_t(type, a, b)	min((type)(a), (type)(b))
#define max_t(type, a, b)	max((type)(a), (type)(b))

#define lockdep_assert(condition)
#define lockdep_sock_is_held(sk)	true

/* Each combination of flags that a caller may ask for stands out. */
#define GFP_ATOMIC		1u
#define __GFP_ACCOUNT		2u
#define __GFP_NOMEMALLOC	4u
#define __GFP_NOWARN		8u

typedef unsigned int gfp_t;

typedef struct {
	int	counter;
} atomic_t;

static inline int atomic_read(const atomic_t *v)
{
	return v->counter;
}

/*
 * Its bytes are on the heap, in two pieces, so that ASan sees the end of each. If it was allocated,
 * the first piece is what lies outside of pages.
 */
struct sk_buff {
	struct sk_buff	*next;
	u32		seq;
	u32		len;
	u32		data_len;
	u32		split;
	u8		*pieces[2];
	bool		allocated;	/* not by TCP, so it is in no queue */
};

struct sk_buff_head {
	struct sk_buff	*first;
};

struct sock {
	struct sk_buff_head	sk_receive_queue;
	struct {
		int		len;
	}			sk_backlog;
	int			sk_rcvbuf;
	atomic_t		sk_rmem_alloc;
	struct {
		u8		pending;
		u16		rcv_mss;
	}			icsk_ack;
	struct {
		u8		rcv_wscale;
	}			rx_opt;
	u32			copied_seq;
	u32			rcv_nxt;
	struct mem_cgroup	*payer;
	u32			closed;	/* how often all was read while the peer was stopped */
};

#define ICSK_ACK_NOMEM			32

#define TCP_SKB_CB(skb)			(skb)
#define tcp_sk(sk)			(sk)
#define inet_csk(sk)			(sk)
#define sock_owned_by_user(sk)		false
#define skb_queue_next(queue, skb)	((skb)->next)

/* In the kernel, an skb outside of the queue has no neighbour to go on with. */
static inline bool skb_queue_is_last(const struct sk_buff_head *queue, const struct sk_buff *skb)
{
	if (skb->allocated)
		abort();
	return !skb->next;
}

static inline u32 tcp_inq(const struct sock *sk)
{
	return sk->rcv_nxt - sk->copied_seq;
}

/* All space is window, so that a test can say how much there is. */
static inline int tcp_win_from_space(const struct sock *sk, int space)
{
	return space;
}

static inline int tcp_full_space(const struct sock *sk)
{
	return sk->sk_rcvbuf;
}

struct sk_buff *tcp_recv_skb(struct sock *sk, u32 seq, u32 *offset);
void tcp_read_done(struct sock *sk, size_t len);
int skb_copy_bits(const struct sk_buff *skb, int offset, void *to, int len);
int skb_store_bits(struct sk_buff *skb, int offset, const void *from, int len);

/*
 * Memory
 */

/* struct fuzz_memory - what allocations find and leave */
struct fuzz_memory {
	bool			fails;
	bool			tcp_is_out;	/* TCP uses all that it may */
	struct mem_cgroup	*active;	/* pays instead of the process */
	u32			asked;		/* bytes that the last one asked for */
	unsigned int		skbs;		/* that are allocated */
};

extern struct fuzz_memory fuzz_memory;

static inline long sk_prot_mem_limits(const struct sock *sk, int index)
{
	return 1000 * index;
}

static inline long sk_memory_allocated(const struct sock *sk)
{
	return sk_prot_mem_limits(sk, 2) + fuzz_memory.tcp_is_out;
}

static inline struct mem_cgroup *mem_cgroup_from_sk(const struct sock *sk)
{
	return sk->payer;
}

static inline struct mem_cgroup *set_active_memcg(struct mem_cgroup *memcg)
{
	struct mem_cgroup *before = fuzz_memory.active;

	fuzz_memory.active = memcg;
	return before;
}

struct sk_buff *alloc_skb_with_frags(unsigned long linear, unsigned long pages, int order, int *err,
				     gfp_t gfp);
void *skb_put(struct sk_buff *skb, unsigned int len);
int pskb_trim(struct sk_buff *skb, unsigned int len);
void consume_skb(struct sk_buff *skb);
void fuzz_skb_free(struct sk_buff *skb);

/*
 * Piece by piece
 */

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
