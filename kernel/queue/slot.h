/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* slot.h - copies work requests out of a ring and checks them, or posts them for the kernel */
#ifndef XIW_SLOT_H
#define XIW_SLOT_H

#include <linux/log2.h>
#include <linux/minmax.h>
#include <rdma/ib_verbs.h>
#include <rdma/xiw-abi.h>

#include "queue/ring.h"

/* The data after the header of a send slot. A slot may be larger than its type. */
static inline void *xiw_slot_data(const struct xiw_send_slot *slot)
{
	return (void *)slot + XIW_SLOT_HEADER;
}

static inline bool xiw_slot_atomic(const struct xiw_send_slot *slot)
{
	return slot->opcode == XIW_OP_CMP_SWP || slot->opcode == XIW_OP_FETCH_ADD;
}

static inline struct xiw_sge *xiw_slot_sges(const struct xiw_send_slot *slot)
{
	return xiw_slot_data(slot) +
	       (xiw_slot_atomic(slot) ? sizeof(struct xiw_atomic_operands) : 0);
}

/* The core's SGEs, which are laid out as ours. */
static inline const struct xiw_sge *xiw_sges(const struct ib_sge *sges)
{
	static_assert(sizeof(struct ib_sge) == sizeof(struct xiw_sge));
	static_assert(offsetof(struct ib_sge, addr) == offsetof(struct xiw_sge, addr));
	static_assert(offsetof(struct ib_sge, length) == offsetof(struct xiw_sge, length));
	static_assert(offsetof(struct ib_sge, lkey) == offsetof(struct xiw_sge, lkey));

	return (const void *)sges;
}

static inline u64 xiw_sges_length(const struct xiw_sge *sges, u32 num)
{
	u64 len = 0;
	u32 i;

	for (i = 0; i < num; i++)
		len += sges[i].length;
	return len;
}

/*
 * Finds the SGE that byte *@at lies in, counted from the start of @sge, which others follow. Then
 * *@at counts from the start of that SGE. The caller knows that there is such a byte.
 */
static inline const struct xiw_sge *xiw_sge_seek(const struct xiw_sge *sge, u64 *at)
{
	for (; *at >= sge->length; sge++)
		*at -= sge->length;
	return sge;
}

/**
 * struct xiw_recv - a receive request that was taken out of its ring and checked
 * @wr_id: value that the consumer posted
 * @num_sge: 0 to XIW_MAX_SGE
 * @length: sum of the lengths of @sge, limited to the longest possible message
 * @sge: memory that the message goes to
 */
struct xiw_recv {
	u64		wr_id;
	u32		num_sge;
	u64		length;
	struct xiw_sge	sge[XIW_MAX_SGE];
};

/* Size in bytes of a slot that holds @max_sge SGEs: a power of two. */
static inline u32 xiw_recv_slot_size(u32 max_sge)
{
	return roundup_pow_of_two(offsetof(struct xiw_recv_slot, sge) +
				  max(max_sge, 1u) * sizeof(struct xiw_sge));
}

/* The SGEs of a slot. Its type declares only the first one. */
static inline void *xiw_recv_slot_sges(void *slot)
{
	return slot + offsetof(struct xiw_recv_slot, sge);
}

/**
 * enum xiw_slot_result - what was found where the next request of a ring should be
 * @XIW_SLOT_GOOD: a request that can be executed
 * @XIW_SLOT_MALFORMED: a request that cannot be executed
 * @XIW_SLOT_TOO_LONG: a request whose payload or inline data is too long
 * @XIW_SLOT_NONE: no request
 * @XIW_SLOT_BROKEN: counters that are impossible
 */
enum xiw_slot_result {
	XIW_SLOT_GOOD,
	XIW_SLOT_MALFORMED,
	XIW_SLOT_TOO_LONG,
	XIW_SLOT_NONE,
	XIW_SLOT_BROKEN,
};

/* slot.c APIs */

/**
 * xiw_slot_judge_send - check the header of a send request
 * @cur: the request, in memory that user space cannot change
 * @cap: limits of the queue pair
 * @data: result: number of bytes that follow the header
 *
 * Return: XIW_SLOT_GOOD, XIW_SLOT_MALFORMED or XIW_SLOT_TOO_LONG.
 */
enum xiw_slot_result xiw_slot_judge_send(const struct xiw_send_slot *cur,
					 const struct ib_qp_cap *cap, u32 *data);

/* Checks whether @cur may have a payload of @len bytes. Return: as xiw_slot_judge_send(). */
enum xiw_slot_result xiw_slot_judge_payload(const struct xiw_send_slot *cur, u64 len);

/**
 * xiw_slot_take_send - take the next work request out of a send ring
 * @cur: buffer for the copy, as large as a slot
 * @ring: the ring; the caller holds the lock that guards it
 * @cap: limits of the queue pair
 * @payload: result: number of bytes of payload
 *
 * The slot is copied once, and the copy is checked.
 *
 * Return: XIW_SLOT_NONE; XIW_SLOT_BROKEN; else the request is taken, and its header is in @cur.
 */
enum xiw_slot_result xiw_slot_take_send(struct xiw_send_slot *cur, struct xiw_ring *ring,
					const struct ib_qp_cap *cap, u32 *payload);

/**
 * xiw_slot_take_recv - take the next receive request out of a ring
 * @recv: result
 * @ring: ring of a receive or shared receive queue; the caller holds the lock that guards it
 * @max_sge: maximum number of SGEs of a request
 *
 * Copies the slot once, checks the copy, and gives the slot back.
 *
 * Return: XIW_SLOT_NONE; XIW_SLOT_BROKEN; XIW_SLOT_GOOD; or XIW_SLOT_MALFORMED, and the request is
 * taken, with its wr_id and no SGEs.
 */
enum xiw_slot_result xiw_slot_take_recv(struct xiw_recv *recv, struct xiw_ring *ring, u32 max_sge);

/**
 * xiw_slot_post_recv - post receive requests of a kernel consumer
 * @ring: the ring; the caller holds the lock that guards its producing side
 * @max_wr: maximum number of waiting requests
 * @max_sge: maximum number of SGEs of a request
 * @wr: list of requests
 * @bad_wr: set to the first request that was refused; those before it are posted
 *
 * Return: 0, -ENOMEM if the ring is full, or -EINVAL for too many SGEs.
 */
int xiw_slot_post_recv(struct xiw_ring *ring, u32 max_wr, u32 max_sge, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad_wr);

#endif /* XIW_SLOT_H */
