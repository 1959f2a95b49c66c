// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* batch.c - stages FPDUs in pages and hands the pages to TCP */

#include <linux/gfp.h>
#include <linux/memcontrol.h>
#include <linux/percpu.h>
#include <linux/sizes.h>
#include <linux/workqueue.h>
#include <net/tcp.h>

#include "carrier/batch.h"
#include "carrier/sock_lock.h"

/*
 * FPDUs are staged in chunks of pages, and TCP takes the pages by reference. An FPDU never spans
 * two chunks. The payload is copied only once, the CRC is computed over the copy that is sent, and
 * the caller's buffer may be reused as soon as its data is staged.
 *
 * Fresh pages are the largest part of the cost, because most kernels zero them. A full chunk is
 * therefore kept in a circle of chunks and filled again once nobody else refers to its pages: the
 * peer has then acknowledged the data. A circle grows with the data in flight. A delayed work item
 * cuts all of them back to one chunk.
 *
 * All queue pairs that send from one CPU share their chunks, which are parked in spare_chunks
 * between two runs. Each CPU has two circles: one for runs in process context, and one for softirqs
 * that interrupt such a run. With both queue pairs on one host, a Read Response is staged while its
 * request is being sent. The struct xiw_chunk is at the start of the chunk's pages.
 */

/**
 * struct xiw_chunk - pages that are filled with FPDUs
 * @next: next chunk of the circle; for the chunk being filled, the oldest one
 * @size: size of the pages in bytes
 * @used: bytes in use, including this struct
 * @num: number of chunks in the circle; valid in the chunk being filled
 */
struct xiw_chunk {
	struct xiw_chunk	*next;
	u32			size;
	u32			used;
	u32			num;
};

#define CHUNK_ORDER	PAGE_ALLOC_COSTLY_ORDER
#define CHUNK_SIZE	(PAGE_SIZE << CHUNK_ORDER)
#define CHUNK_ALIGN	16	/* applied between runs only: the FPDUs of one run stay adjacent */
#define CHUNK_START	ALIGN(sizeof(struct xiw_chunk), CHUNK_ALIGN)

static_assert(PAGE_SIZE - CHUNK_START >= XIW_STAGE_MIN);

/*
 * A circle with 2 MiB holds what is in flight in a local network. Over an MTU of 1500, ib_write_bw
 * -s 65536 made 271 MiB/s, and 180 MiB/s without any circle. A second later it is cut.
 */
#define CHUNKS_MAX	(SZ_2M / CHUNK_SIZE)
#define CHUNKS_CUT_MS	1000

/*
 * A memory cgroup that exceeds its limit by more than 1/BATCH_CREDIT of that limit is far over it.
 * A socket that it pays for gets no more data while BATCH_UNPAID bytes, one batch, are queued.
 */
#define BATCH_UNPAID	SZ_64K
#define BATCH_CREDIT	8

static DEFINE_PER_CPU(struct xiw_chunk *, spare_chunks[2]);

static void spare_cut_to_one(struct work_struct *work);
static DECLARE_DELAYED_WORK(spare_cut_work, spare_cut_to_one);

static struct xiw_chunk *chunk_alloc(void)
{
	const gfp_t gfp = GFP_ATOMIC | __GFP_NOMEMALLOC | __GFP_NOWARN;
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
	chunk->next = chunk;
	chunk->size = PAGE_SIZE << order;
	chunk->used = CHUNK_START;
	chunk->num = 1;
	return chunk;
}

static void chunk_free(struct xiw_chunk *chunk)
{
	put_page(virt_to_page(chunk));
}

/*
 * Whether @chunk may be filled again. Single pages, used when memory is short, are not.
 */
static bool chunk_reusable(const struct xiw_chunk *chunk)
{
	return chunk->size == CHUNK_SIZE && page_ref_count(virt_to_page(chunk)) == 1;
}

/*
 * Circles of chunks. Whoever takes one from where it is parked owns it. Parking places are changed
 * with atomic exchanges only, so any CPU may access any of them.
 */

/* Return: the chunk to fill after @last, or NULL without memory, with the circle still intact. */
static struct xiw_chunk *chunks_advance(struct xiw_chunk *last)
{
	struct xiw_chunk *oldest = last->next;
	struct xiw_chunk *chunk;

	if (chunk_reusable(oldest)) {
		oldest->used = CHUNK_START;
		oldest->num = last->num;
		return oldest;
	}
	chunk = chunk_alloc();
	if (!chunk)
		return NULL;
	if (last->num < CHUNKS_MAX) {
		chunk->num = last->num + 1;
		chunk->next = oldest;
	} else {
		chunk->num = last->num;
		chunk->next = oldest->next;
		chunk_free(oldest);
	}
	last->next = chunk;
	return chunk;
}

/* Frees all chunks of a circle except @last, the one being filled. */
static void chunks_cut(struct xiw_chunk *last)
{
	struct xiw_chunk *chunk, *next;

	for (chunk = last->next; chunk != last; chunk = next) {
		next = chunk->next;
		chunk_free(chunk);
	}
	last->next = last;
	last->num = 1;
}

static void chunks_park(struct xiw_chunk **parked, struct xiw_chunk *last)
{
	if (!cmpxchg(parked, NULL, last))
		return;
	chunks_cut(last);
	chunk_free(last);
}

static void spare_cut(bool to_none)
{
	struct xiw_chunk **parked, *last;
	int cpu, i;

	for_each_possible_cpu(cpu) {
		for (i = 0; i < ARRAY_SIZE(spare_chunks); i++) {
			parked = per_cpu_ptr(&spare_chunks[i], cpu);
			last = xchg(parked, NULL);
			if (!last)
				continue;
			chunks_cut(last);
			if (to_none)
				chunk_free(last);
			else
				chunks_park(parked, last);
		}
	}
}

static void spare_cut_to_one(struct work_struct *work)
{
	spare_cut(false);
}

/*
 * Stages and batches
 */

void *xiw_stage_room(struct xiw_stage *stage, u32 prefer, u32 *want)
{
	struct xiw_chunk *chunk = stage->chunk;

	if (!chunk)
		chunk = chunk_alloc();
	else if (chunk->size - chunk->used < prefer)
		chunk = chunks_advance(chunk);
	if (!chunk)
		return NULL;
	stage->chunk = chunk;
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

/* Where this CPU parks the chunks of the current context, process or softirq. */
static struct xiw_chunk **stage_parked(void)
{
	return raw_cpu_ptr(&spare_chunks[!!in_serving_softirq()]);
}

void xiw_stage_begin(struct xiw_stage *stage)
{
	stage->chunk = xchg(stage_parked(), NULL);
}

void xiw_stage_end(struct xiw_stage *stage)
{
	struct xiw_chunk *last = stage->chunk;

	if (!last)
		return;
	last->used = min(ALIGN(last->used, CHUNK_ALIGN), last->size);
	if (last->num > 1 && !delayed_work_pending(&spare_cut_work))
		schedule_delayed_work(&spare_cut_work, msecs_to_jiffies(CHUNKS_CUT_MS));
	chunks_park(stage_parked(), last);
	stage->chunk = NULL;
}

/* Removes the first @taken bytes from @batch. */
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

bool xiw_batch_payer_owes(const struct sock *sk)
{
#ifdef CONFIG_MEMCG
	struct mem_cgroup *payer;
	unsigned long max;

	for (payer = mem_cgroup_from_sk(sk); payer; payer = parent_mem_cgroup(payer)) {
		max = READ_ONCE(payer->memory.max);
		if (page_counter_read(&payer->memory) > max + max / BATCH_CREDIT)
			return true;
	}
#endif
	return false;
}

bool xiw_batch_has_to_wait(struct sock *sk)
{
	if (sk->sk_wmem_queued < BATCH_UNPAID || !xiw_batch_payer_owes(sk))
		return false;
	set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	return true;
}

/*
 * Gives TCP as much of @batch as it takes. Return: the number of bytes taken, or a negative errno.
 */
static int batch_send(const struct xiw_batch *batch, struct sock *sk)
{
	struct msghdr msg = {
		.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_SPLICE_PAGES | MSG_NO_SHARED_FRAGS,
	};
	unsigned int before;
	int ret;

	if (xiw_batch_has_to_wait(sk))
		return -EAGAIN;
	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, batch->vec, batch->num, batch->len);
	before = xiw_nowait_begin(sk);
	ret = tcp_sendmsg_locked(sk, &msg, batch->len);
	xiw_nowait_end(before);
	return ret;
}

int xiw_batch_push(struct xiw_batch *batch, struct sock *sk)
{
	int ret;

	lockdep_assert(lockdep_sock_is_held(sk));

	while (batch->len) {
		ret = batch_send(batch, sk);
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
	cancel_delayed_work_sync(&spare_cut_work);
	spare_cut(true);
}
