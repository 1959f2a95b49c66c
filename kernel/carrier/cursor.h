/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* cursor.h - reads payload from a position in a receive queue or in a local peer's memory */
#ifndef XIW_CURSOR_H
#define XIW_CURSOR_H

#include <linux/types.h>

struct sk_buff;
struct sock;
struct xiw_mr;

/**
 * struct xiw_cursor - a position in the receive queue of a socket, or in the memory of a peer on
 *	this host
 * @sk: the socket, locked
 * @skb: segment that holds the next byte, or an earlier one; or an skb that was taken out of the
 *	queue and holds all bytes
 * @seq: TCP sequence number of the next byte
 * @mr: region, from xiw_mr_get(), or NULL
 * @addr: address of the next byte in @mr
 * @data: the next byte in kernel memory, if @sk and @mr are NULL
 */
struct xiw_cursor {
	struct sock		*sk;
	struct sk_buff		*skb;
	u32			seq;
	struct xiw_mr		*mr;
	u64			addr;
	const void		*data;
};

/* cursor.c APIs */

/**
 * xiw_cursor_copy - copy bytes and advance
 * @cur: position of the first byte; advanced past the last one
 * @to: destination
 * @len: number of bytes; the caller has checked that they are available
 *
 * Return: 0, or -EFAULT if they cannot be read.
 */
int xiw_cursor_copy(struct xiw_cursor *cur, void *to, size_t len);

/**
 * xiw_cursor_crc - add bytes in a receive queue to a CRC and advance
 * @cur: position of the first byte; advanced past the last one
 * @len: number of bytes; the caller has checked that they are available
 * @crc: in: the CRC so far; out: the CRC that includes them
 *
 * Return: 0, or -EFAULT if they cannot be read.
 */
int xiw_cursor_crc(struct xiw_cursor *cur, size_t len, u32 *crc);

/**
 * xiw_cursor_store - copy bytes in a receive queue to an skb of the caller and advance
 * @cur: position of the first byte; advanced past the last one
 * @skb: the skb, which has room for them
 * @offset: where they go in @skb
 * @len: number of bytes; the caller has checked that they are available
 *
 * Return: 0, or -EFAULT if they cannot be read.
 */
int xiw_cursor_store(struct xiw_cursor *cur, struct sk_buff *skb, u32 offset, size_t len);

#endif /* XIW_CURSOR_H */
