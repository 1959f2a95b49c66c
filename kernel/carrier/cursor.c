// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* cursor.c - reads payload from a position in a receive queue or in a local peer's memory */

#include <linux/crc32c.h>
#include <net/tcp.h>

#include "carrier/cursor.h"
#include "mem/mem.h"

typedef int (*cursor_step_fn)(void *arg, struct sk_buff *skb, u32 offset, u32 len);

/* Calls @step for each contiguous run of the next @len bytes. Segments in the queue may overlap. */
static int cursor_walk(struct xiw_cursor *cur, size_t len, cursor_step_fn step, void *arg)
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

static int cursor_step_copy(void *arg, struct sk_buff *skb, u32 offset, u32 len)
{
	void **to = arg;
	int ret = skb_copy_bits(skb, offset, *to, len);

	*to += len;
	return ret;
}

/* Kernel-doc of the functions that other files call is in cursor.h. */
int xiw_cursor_copy(struct xiw_cursor *cur, void *to, size_t len)
{
	if (cur->sk)
		return cursor_walk(cur, len, cursor_step_copy, &to);
	if (cur->mr) {
		xiw_mr_read(cur->mr, cur->addr, to, len);
		cur->addr += len;
	} else {
		memcpy(to, cur->data, len);
		cur->data += len;
	}
	return 0;
}

typedef int (*cursor_piece_fn)(void *arg, const u8 *data, u32 len);

/* Calls @each for each piece of @len bytes that is mapped at a time. */
static int cursor_each_piece(struct sk_buff *skb, u32 offset, u32 len, cursor_piece_fn each,
			     void *arg)
{
	struct skb_seq_state st;
	const u8 *data;
	u32 done = 0;
	int ret = 0;
	u32 n;

	skb_prepare_seq_read(skb, offset, offset + len, &st);
	while (done < len && !ret) {
		n = skb_seq_read(done, &data, &st);
		if (!n)
			break;
		n = min(n, len - done);
		ret = each(arg, data, n);
		done += n;
	}
	skb_abort_seq_read(&st);
	return done == len ? ret : -EFAULT;
}

static int cursor_piece_crc(void *arg, const u8 *data, u32 len)
{
	u32 *crc = arg;

	*crc = crc32c(*crc, data, len);
	return 0;
}

static int cursor_step_crc(void *arg, struct sk_buff *skb, u32 offset, u32 len)
{
	return cursor_each_piece(skb, offset, len, cursor_piece_crc, arg);
}

int xiw_cursor_crc(struct xiw_cursor *cur, size_t len, u32 *crc)
{
	return cursor_walk(cur, len, cursor_step_crc, crc);
}

/* struct cursor_store - where xiw_cursor_store() goes on */
struct cursor_store {
	struct sk_buff	*skb;
	u32		offset;
};

static int cursor_piece_store(void *arg, const u8 *data, u32 len)
{
	struct cursor_store *to = arg;
	int ret = skb_store_bits(to->skb, to->offset, data, len);

	to->offset += len;
	return ret;
}

static int cursor_step_store(void *arg, struct sk_buff *skb, u32 offset, u32 len)
{
	return cursor_each_piece(skb, offset, len, cursor_piece_store, arg);
}

int xiw_cursor_store(struct xiw_cursor *cur, struct sk_buff *skb, u32 offset, size_t len)
{
	struct cursor_store to = { .skb = skb, .offset = offset };

	return cursor_walk(cur, len, cursor_step_store, &to);
}
