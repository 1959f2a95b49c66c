/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* batch.h - stages FPDUs in pages and hands the pages to TCP */
#ifndef XIW_BATCH_H
#define XIW_BATCH_H

#include <linux/bvec.h>
#include <linux/types.h>

struct sock;
struct xiw_chunk;

#define XIW_TX_PIECES	4	/* page runs per call into TCP; a Terminate may add one */

/**
 * struct xiw_batch - bytes that wait to be given to TCP
 * @vec: page runs, each with a reference to its pages
 * @num: entries of @vec in use
 * @len: total number of bytes
 */
struct xiw_batch {
	struct bio_vec	vec[XIW_TX_PIECES + 1];
	unsigned int	num;
	size_t		len;
};

/**
 * struct xiw_stage - where one transmit run writes its FPDUs
 * @chunk: chunk being filled, in a circle with others, or NULL
 */
struct xiw_stage {
	struct xiw_chunk *chunk;
};

/* batch.c APIs */

/* Begin and end a transmit run. In between the run owns its chunks and may be preempted. */
void xiw_stage_begin(struct xiw_stage *stage);
void xiw_stage_end(struct xiw_stage *stage);

#define XIW_STAGE_MIN	(PAGE_SIZE - 32)

/**
 * xiw_stage_room - find contiguous room for one FPDU
 * @stage: stage of this run
 * @prefer: start a new chunk if fewer bytes than this are left in the current one
 * @want: in: bytes wanted, at least @prefer; out: bytes available. When memory is short this may
 *	be less than @prefer, but never less than XIW_STAGE_MIN
 *
 * Return: where to write, or NULL without memory.
 */
void *xiw_stage_room(struct xiw_stage *stage, u32 prefer, u32 *want);

/**
 * xiw_stage_commit - add what was written to a batch
 * @stage: stage of this run, after xiw_stage_room()
 * @batch: batch to add to
 * @len: bytes written
 *
 * Return: false, with nothing changed, if @batch has no free entry.
 */
bool xiw_stage_commit(struct xiw_stage *stage, struct xiw_batch *batch, u32 len);

/**
 * xiw_batch_push - give TCP as much of a batch as it takes now
 * @batch: the batch; what TCP took is removed from it
 * @sk: the socket, locked
 *
 * Context: does not sleep.
 * Return: 0 if TCP took everything; -EAGAIN if the socket is full, and its write_space callback
 * will run; or another negative errno if the stream can no longer be used.
 */
int xiw_batch_push(struct xiw_batch *batch, struct sock *sk);

/*
 * Whether the memory cgroup that pays for a socket, or one of its ancestors, is far over its limit.
 * A small excess is normal: the page cache fills a group up to its limit, and shrinks when a
 * process of the group allocates.
 */
bool xiw_batch_payer_owes(const struct sock *sk);

/**
 * xiw_batch_has_to_wait - whether a socket must wait because its cgroup is far over its limit
 * @sk: the socket, locked
 *
 * TCP charges data to a memory cgroup without waiting. If the group is far over its limit, a
 * connection may get only a little ahead of its peer.
 *
 * Return: true if it has to wait. Acknowledgements then trigger the socket's write_space callback,
 * which checks again.
 */
bool xiw_batch_has_to_wait(struct sock *sk);

/* Drops all bytes that are left in @batch. */
void xiw_batch_drop(struct xiw_batch *batch);

void xiw_batch_exit(void);

#endif /* XIW_BATCH_H */
