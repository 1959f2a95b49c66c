/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* ring.h - contract of the rings shared with user space */
#ifndef XIW_RING_H
#define XIW_RING_H

#include <linux/limits.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/types.h>
#include <asm/barrier.h>
#include <rdma/xiw-abi.h>

/*
 * The kernel's side of the contract at the top of xiw-abi.h. Each word has one writer:
 *
 *   produced           the process, or a kernel consumer under its post lock
 *   consumed, flags    the kernel: the context that owns the ring (see Locking in qp.h). A
 *                      doorbell may set the flags, too (xiw_ring_defer()), if a worker writes
 *                      them after that. So may the timer of gather.c.
 *
 * Pairs of barriers:
 *
 *   smp_load_acquire(&ctl->produced)    release store by the process: it fills
 *                                       the slot before it counts it
 *   smp_store_release(&ctl->consumed)   acquire load by the process: the kernel reads
 *                                       the slot before it may be filled again
 *   smp_mb() after flags is set         full barrier of the process between its
 *                                       store of produced and its load of flags
 *
 * The kernel trusts nothing that user space writes. It never reads back a word that it wrote
 * itself. It checks the number of waiting slots against the room that is left by slots taken but
 * not yet returned. This detects a counter that goes back as well as one that runs ahead. Slots
 * that were counted once may be taken even if the process changes the counter afterwards. The
 * kernel copies a slot once and checks the copy.
 *
 * While a process posts as fast as it can, each access to a word of the other side moves a cache
 * line from one CPU to the other. So the kernel reads produced once for all slots that it finds.
 * It writes consumed for each completion, and once for all slots that it returns without one.
 */

/**
 * struct xiw_ring - the kernel's side of a send, receive or shared receive queue
 * @ctl: shared control words
 * @slots: shared slots
 * @entries: number of slots, a power of two
 * @slot_shift: log2 of the size of a slot in bytes
 * @taken: number of slots ever copied out by the kernel
 * @known: number of slots that were counted, but are not taken yet
 * @returned: number of slots ever given back
 * @told: the last value of @returned that the poster was told; the kernel's copy of ctl->consumed
 * @posted: number of slots ever filled by a kernel consumer; its own copy of ctl->produced
 */
struct xiw_ring {
	struct xiw_queue_ctl	*ctl;
	void			*slots;
	u32			entries;
	u8			slot_shift;
	u32			taken;
	u32			known;
	u32			returned;
	u32			told;
	u32			posted;
};

#define XIW_RING_BROKEN	U32_MAX

/**
 * xiw_ring_ready - number of slots that wait to be taken
 * @ring: the ring
 *
 * Return: their number, or XIW_RING_BROKEN if the process wrote an impossible count.
 */
static inline u32 xiw_ring_ready(const struct xiw_ring *ring)
{
	/* pairs with the poster's release: the slots are filled before they are counted */
	u32 ready = smp_load_acquire(&ring->ctl->produced) - ring->taken;

	if (unlikely(ready > ring->entries - (ring->taken - ring->returned)))
		return XIW_RING_BROKEN;
	return ready;
}

/*
 * Whether slots seem to wait. The caller need not own the ring, so this is out of date at once: ask
 * xiw_ring_ready() before taking any. Not for a ring that can be resized, which moves @ctl.
 */
static inline bool xiw_ring_waits(const struct xiw_ring *ring)
{
	return READ_ONCE(ring->ctl->produced) != READ_ONCE(ring->taken);
}

/*
 * As xiw_ring_ready(), but counts again only when all slots that were counted the last time have
 * been taken.
 */
static inline u32 xiw_ring_look(struct xiw_ring *ring)
{
	u32 ready;

	if (ring->known)
		return ring->known;
	ready = xiw_ring_ready(ring);
	if (likely(ready != XIW_RING_BROKEN))
		ring->known = ready;
	return ready;
}

/* Takes the next @n slots, which are ready. Return: the count of the first of them. */
static inline u32 xiw_ring_take(struct xiw_ring *ring, u32 n)
{
	u32 first = ring->taken;

	WRITE_ONCE(ring->taken, first + n);	/* xiw_ring_waits() reads it */
	ring->known -= min(ring->known, n);
	return first;
}

/* The slot of count @count. It is in shared memory: copy it before use. */
static inline void *xiw_ring_slot(const struct xiw_ring *ring, u32 count)
{
	return ring->slots + ((size_t)(count & (ring->entries - 1)) << ring->slot_shift);
}

/* Gives @n slots back to the poster, which xiw_ring_tell() tells later. */
static inline void xiw_ring_return_silently(struct xiw_ring *ring, u32 n)
{
	ring->returned += n;
}

/* Gives @n slots back to the poster, and tells it: it may fill them again. */
static inline void xiw_ring_return(struct xiw_ring *ring, u32 n)
{
	xiw_ring_return_silently(ring, n);
	ring->told = ring->returned;
	/* pairs with the poster's acquire: the slots are read before they are filled again */
	smp_store_release(&ring->ctl->consumed, ring->told);
}

/* Tells the poster of the slots that were given back since it was told the last time. */
static inline void xiw_ring_tell(struct xiw_ring *ring)
{
	if (ring->told != ring->returned)
		xiw_ring_return(ring, 0);
}

/* Tells the process that it can post without a system call from now on. */
static inline void xiw_ring_watch(struct xiw_ring *ring)
{
	WRITE_ONCE(ring->ctl->flags, 0);
}

/*
 * Tells the process that a worker will look soon, and that it may ring if it cannot wait that long
 * (XIW_DOORBELL_LATER). The caller does not own the ring. The worker, which does, writes the flags
 * after this.
 */
static inline void xiw_ring_defer(struct xiw_ring *ring)
{
	WRITE_ONCE(ring->ctl->flags, XIW_DOORBELL_LATER);
}

/* Asks for doorbells. The caller looks for slots after this. It need not own the ring. */
static inline void xiw_ring_ask(struct xiw_ring *ring)
{
	WRITE_ONCE(ring->ctl->flags, XIW_NEED_DOORBELL);
	smp_mb();	/* pairs with the barrier of the poster before it reads flags */
}

/**
 * xiw_ring_unwatch - ask for doorbells before the kernel stops looking at the ring
 * @ring: the ring
 *
 * Return: number of slots that were posted meanwhile, as xiw_ring_ready(). A doorbell may never
 * come for them, so the caller must look at them.
 */
static inline u32 xiw_ring_unwatch(struct xiw_ring *ring)
{
	xiw_ring_ask(ring);
	return xiw_ring_ready(ring);
}

/*
 * As xiw_ring_unwatch(), but asks the process to ring when it has nothing else to do
 * (XIW_DOORBELL_GATHER). The caller makes sure that a worker looks if it never rings.
 */
static inline u32 xiw_ring_gather(struct xiw_ring *ring)
{
	WRITE_ONCE(ring->ctl->flags, XIW_DOORBELL_LATER | XIW_DOORBELL_GATHER);
	smp_mb();	/* pairs with the barrier of the poster before it reads flags */
	return xiw_ring_ready(ring);
}

/**
 * xiw_ring_init - set up a ring on new shared memory
 * @ring: the ring
 * @ctl: zeroed control words
 * @slots: zeroed slots
 * @entries: number of slots, a power of two
 * @slot_size: size of a slot in bytes, a power of two
 */
static inline void xiw_ring_init(struct xiw_ring *ring, struct xiw_queue_ctl *ctl, void *slots,
				 u32 entries, u32 slot_size)
{
	*ring = (struct xiw_ring){
		.ctl = ctl,
		.slots = slots,
		.entries = entries,
		.slot_shift = ilog2(slot_size),
	};
	WRITE_ONCE(ctl->flags, XIW_NEED_DOORBELL);
}

#endif /* XIW_RING_H */
