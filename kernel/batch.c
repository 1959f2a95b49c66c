// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* batch.c - page memory in which FPDUs are staged, and its way into TCP */

#include <linux/gfp.h>
#include <linux/percpu.h>
#include <net/tcp.h>

#include "batch.h"

/*
 * FPDUs are staged in chunks of pages, each FPDU in one piece, and the pages are
 * given to TCP by reference. So the payload is copied once, its CRC is computed
 * over the copy that is sent, and a buffer may be reused as soon as it is staged.
 * A chunk is shared by all queue pairs that send from one CPU; its free part is
 * parked in chunk_spare between two runs, one for runs of processes and one for
 * those of softirqs that interrupt them: the Response to a Read on the same host
 * is staged while its request is being sent, and fresh pages cost more than all
 * the rest of it. The record of a chunk is at its start.
 */
struct xiw_chunk {
	u32	size;
	u32	used;
};

#define CHUNK_ORDER	PAGE_ALLOC_COSTLY_ORDER
#define CHUNK_ALIGN	16	/* FPDUs of one send stay adjacent all the same */

static DEFINE_PER_CPU(struct xiw_chunk *, chunk_spare[2]);

static struct xiw_chunk *chunk_alloc(void)
{
	const gfp_t gfp = GFP_ATOMIC | __GFP_NOWARN;
	struct xiw_chunk *chunk;
	unsigned int order = CHUNK_ORDER;
	struct page *page;

	page = alloc_pages(gfp | __GFP_COMP | __GFP_NORETRY, order);
	if (!page) {
		order = 0;
		page = alloc_page(gfp);
		if (!page)
			return NULL;
	}
	chunk = page_address(page);
	chunk->size = PAGE_SIZE << order;
	chunk->used = ALIGN(sizeof(*chunk), CHUNK_ALIGN);
	return chunk;
}

static void chunk_free(struct xiw_chunk *chunk)
{
	put_page(virt_to_page(chunk));
}

void *xiw_stage_room(struct xiw_stage *stage, u32 prefer, u32 *want)
{
	struct xiw_chunk *chunk = stage->chunk;

	if (chunk && chunk->size - chunk->used < prefer) {
		chunk_free(chunk);
		chunk = NULL;
	}
	if (!chunk) {
		chunk = chunk_alloc();
		stage->chunk = chunk;
		if (!chunk)
			return NULL;
	}
	*want = min(*want, chunk->size - chunk->used);
	return (void *)chunk + chunk->used;
}

bool xiw_stage_commit(struct xiw_stage *stage, struct xiw_batch *batch, u32 len)
{
	struct xiw_chunk *chunk = stage->chunk;
	struct page *page = virt_to_page(chunk);
	struct bio_vec *last = batch->num ? &batch->vec[batch->num - 1] : NULL;

	if (last && last->bv_page == page && last->bv_offset + last->bv_len == chunk->used) {
		last->bv_len += len;
	} else {
		if (batch->num == ARRAY_SIZE(batch->vec))
			return false;
		get_page(page);
		bvec_set_page(&batch->vec[batch->num++], page, len, chunk->used);
	}
	chunk->used += len;
	batch->len += len;
	return true;
}

void xiw_stage_begin(struct xiw_stage *stage)
{
	stage->chunk = this_cpu_xchg(chunk_spare[!!in_serving_softirq()], NULL);
}

void xiw_stage_end(struct xiw_stage *stage)
{
	struct xiw_chunk *chunk = stage->chunk;

	if (!chunk)
		return;
	chunk->used = min(ALIGN(chunk->used, CHUNK_ALIGN), chunk->size);
	if (this_cpu_cmpxchg(chunk_spare[!!in_serving_softirq()], NULL, chunk))
		chunk_free(chunk);
	stage->chunk = NULL;
}

/* Takes @taken octets off the front of @batch. */
static void batch_advance(struct xiw_batch *batch, size_t taken)
{
	unsigned int done = 0;

	batch->len -= taken;
	while (done < batch->num && taken >= batch->vec[done].bv_len) {
		taken -= batch->vec[done].bv_len;
		put_page(batch->vec[done++].bv_page);
	}
	if (done < batch->num) {
		batch->vec[done].bv_offset += taken;
		batch->vec[done].bv_len -= taken;
	}
	batch->num -= done;
	memmove(batch->vec, batch->vec + done, batch->num * sizeof(*batch->vec));
}

int xiw_batch_push(struct xiw_batch *batch, struct sock *sk)
{
	struct msghdr msg;
	int ret;

	lockdep_assert(lockdep_sock_is_held(sk));

	while (batch->len) {
		msg = (struct msghdr){
			.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_SPLICE_PAGES |
				     MSG_NO_SHARED_FRAGS,
		};
		iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, batch->vec, batch->num, batch->len);
		ret = tcp_sendmsg_locked(sk, &msg, batch->len);
		if (ret < 0)
			return ret;
		batch_advance(batch, ret);
	}
	return 0;
}

void xiw_batch_drop(struct xiw_batch *batch)
{
	batch_advance(batch, batch->len);
}

void xiw_batch_exit(void)
{
	struct xiw_chunk *spare;
	int cpu, i;

	for_each_possible_cpu(cpu) {
		for (i = 0; i < ARRAY_SIZE(chunk_spare); i++) {
			spare = *per_cpu_ptr(&chunk_spare[i], cpu);
			if (spare)
				chunk_free(spare);
		}
	}
}
