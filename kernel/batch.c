// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* batch.c - page memory in which FPDUs are staged, and its way into TCP */

#include <linux/gfp.h>
#include <linux/memcontrol.h>
#include <linux/percpu.h>
#include <linux/sizes.h>
#include <linux/workqueue.h>
#include <net/tcp.h>

#include "batch.h"
#include "sock.h"

/*
 * FPDUs are staged in chunks of pages, each FPDU in one piece, and the pages are
 * given to TCP by reference. So the payload is copied once, its CRC is computed
 * over the copy that is sent, and a buffer may be reused as soon as it is staged.
 *
 * Fresh pages cost more than all the rest of it, for most kernels clear them. So
 * a chunk that is full stays, in a ring with those that were filled before and
 * after it, and is filled again when nobody but the ring refers to its pages:
 * the peer has acknowledged what was in them. Rings grow with what is on its way
 * and are cut down to one chunk every now and then.
 *
 * A ring is shared by all queue pairs that send from one CPU, and parked in
 * spare_rings between two runs; one for runs of processes and one for those of
 * softirqs that interrupt them: the Response to a Read on the same host is
 * staged while its request is being sent. The record of a chunk is at its start.
 */

/**
 * struct xiw_chunk - pages that are filled with FPDUs
 * @next: in the ring; of the one under way, the oldest
 * @size: octets of the pages
 * @used: octets that are taken, with this record
 * @num: chunks of the ring, if this is the one under way
 */
struct xiw_chunk {
	struct xiw_chunk	*next;
	u32			size;
	u32			used;
	u32			num;
};

#define CHUNK_ORDER	PAGE_ALLOC_COSTLY_ORDER
#define CHUNK_SIZE	(PAGE_SIZE << CHUNK_ORDER)
#define CHUNK_ALIGN	16	/* FPDUs of one send stay adjacent all the same */
#define CHUNK_START	ALIGN(sizeof(struct xiw_chunk), CHUNK_ALIGN)

static_assert(PAGE_SIZE - CHUNK_START >= XIW_STAGE_MIN);

#define RING_CHUNKS	(SZ_2M / CHUNK_SIZE)
#define RING_CUT_MS	1000

/*
 * What a socket may hold for its peer while the control group that pays is over its limit by more
 * than such a part of it.
 */
#define BATCH_UNPAID	SZ_64K
#define BATCH_CREDIT	8

static DEFINE_PER_CPU(struct xiw_chunk *, spare_rings[2]);

static void rings_cut_to_one(struct work_struct *work);
static DECLARE_DELAYED_WORK(rings_cut_work, rings_cut_to_one);

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

/* Whether it may be filled again; the small ones of times short of memory had better go. */
static bool chunk_reusable(const struct xiw_chunk *chunk)
{
	return chunk->size == CHUNK_SIZE && page_ref_count(virt_to_page(chunk)) == 1;
}

/*
 * The rings. Taking one from its place is owning it, so places are taken and given with atomic
 * exchanges, and any CPU may do so.
 */

/* Return: the chunk to fill after @last, or NULL without memory; the ring is good then, too. */
static struct xiw_chunk *ring_advance(struct xiw_chunk *last)
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
	if (last->num < RING_CHUNKS) {
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

/* Leaves nothing but @last, the one under way. */
static void ring_cut(struct xiw_chunk *last)
{
	struct xiw_chunk *chunk, *next;

	for (chunk = last->next; chunk != last; chunk = next) {
		next = chunk->next;
		chunk_free(chunk);
	}
	last->next = last;
	last->num = 1;
}

static void ring_park(struct xiw_chunk **place, struct xiw_chunk *last)
{
	if (!cmpxchg(place, NULL, last))
		return;
	ring_cut(last);
	chunk_free(last);
}

static void rings_cut(bool to_none)
{
	struct xiw_chunk **place, *last;
	int cpu, i;

	for_each_possible_cpu(cpu) {
		for (i = 0; i < ARRAY_SIZE(spare_rings); i++) {
			place = per_cpu_ptr(&spare_rings[i], cpu);
			last = xchg(place, NULL);
			if (!last)
				continue;
			ring_cut(last);
			if (to_none)
				chunk_free(last);
			else
				ring_park(place, last);
		}
	}
}

static void rings_cut_to_one(struct work_struct *work)
{
	rings_cut(false);
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
		chunk = ring_advance(chunk);
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

/* The place for the ring of this context on this CPU. */
static struct xiw_chunk **stage_place(void)
{
	return raw_cpu_ptr(&spare_rings[!!in_serving_softirq()]);
}

void xiw_stage_begin(struct xiw_stage *stage)
{
	stage->chunk = xchg(stage_place(), NULL);
}

void xiw_stage_end(struct xiw_stage *stage)
{
	struct xiw_chunk *last = stage->chunk;

	if (!last)
		return;
	last->used = min(ALIGN(last->used, CHUNK_ALIGN), last->size);
	if (last->num > 1 && !delayed_work_pending(&rings_cut_work))
		schedule_delayed_work(&rings_cut_work, msecs_to_jiffies(RING_CUT_MS));
	ring_park(stage_place(), last);
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

/*
 * Whether the control group that pays for a socket, or one above it, is far over its limit. A
 * little is usual: what files have in memory takes all that there is, and goes when a process
 * allocates.
 */
static bool batch_payer_owes(const struct sock *sk)
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
	if (sk->sk_wmem_queued < BATCH_UNPAID || !batch_payer_owes(sk))
		return false;
	set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	return true;
}

/* Gives TCP what it takes. Return: how many octets that is, or a negative errno. */
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
	cancel_delayed_work_sync(&rings_cut_work);
	rings_cut(true);
}
