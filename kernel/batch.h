/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* batch.h - page memory in which FPDUs are staged, and its way into TCP */
#ifndef XIW_BATCH_H
#define XIW_BATCH_H

#include <linux/bvec.h>
#include <linux/types.h>

struct sock;
struct xiw_chunk;

#define XIW_TX_PIECES	4	/* page runs of one call into TCP; one more for a Terminate */

/**
 * struct xiw_batch - octets on their way to TCP
 * @vec: page runs, each with a page reference
 * @num: used entries of @vec
 * @len: octets in all
 */
struct xiw_batch {
	struct bio_vec	vec[XIW_TX_PIECES + 1];
	unsigned int	num;
	size_t		len;
};

/**
 * struct xiw_stage - where one transmit run writes its FPDUs
 * @chunk: pages under way, in a ring with others, or NULL
 */
struct xiw_stage {
	struct xiw_chunk *chunk;
};

/* batch.c APIs */

/* A run begins and ends; in between it may be preempted but owns its ring of chunks. */
void xiw_stage_begin(struct xiw_stage *stage);
void xiw_stage_end(struct xiw_stage *stage);

#define XIW_STAGE_MIN	(PAGE_SIZE - 32)

/**
 * xiw_stage_room - find room for one FPDU, in one piece
 * @stage: of this run
 * @prefer: octets for less than which new pages are begun
 * @want: in: octets wanted, at least @prefer; out: octets that are there. Short of memory they
 *	may be fewer than @prefer, but not fewer than XIW_STAGE_MIN
 *
 * Return: where to write, or NULL without memory.
 */
void *xiw_stage_room(struct xiw_stage *stage, u32 prefer, u32 *want);

/**
 * xiw_stage_commit - add what was written to a batch
 * @stage: of this run, after xiw_stage_room()
 * @batch: where to
 * @len: octets written
 *
 * Return: false, with nothing changed, if @batch has no free entry.
 */
bool xiw_stage_commit(struct xiw_stage *stage, struct xiw_batch *batch, u32 len);

/**
 * xiw_batch_push - give a batch to TCP, as much as it takes now
 * @batch: the batch; what was taken is gone from it
 * @sk: the socket, locked
 *
 * Context: does not sleep.
 * Return: 0 if all was taken; -EAGAIN if the socket is full (its write_space callback comes);
 * or another negative errno after which the stream is dead.
 */
int xiw_batch_push(struct xiw_batch *batch, struct sock *sk);

/**
 * xiw_batch_has_to_wait - whether a socket may give TCP no more for now, because nobody pays for it
 * @sk: the socket, locked
 *
 * TCP charges what it takes to a control group without waiting. If that is far over its limit, a
 * connection gets a little ahead of its peer and no further.
 *
 * Return: true if it has to wait: acknowledgements bring its write_space callback, which asks
 * again.
 */
bool xiw_batch_has_to_wait(struct sock *sk);

/* Drops the octets that are left in @batch. */
void xiw_batch_drop(struct xiw_batch *batch);

void xiw_batch_exit(void);

#endif /* XIW_BATCH_H */
