/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* ring.h - contract of the rings shared with user space */
#ifndef XIW_RING_H
#define XIW_RING_H

#include <linux/limits.h>
#include <linux/log2.h>
#include <linux/types.h>
#include <asm/barrier.h>
#include <rdma/xiw-abi.h>

/*
 * Kernel side of the contract that heads xiw-abi.h. Each word has one writer:
 *
 *   produced           process (or a kernel consumer under its post lock)
 *   consumed, flags    kernel, by whoever owns the ring (see Locking in qp.h)
 *
 * What pairs with what:
 *
 *   smp_load_acquire(&ctl->produced)    release store by the process: the slot
 *                                       is filled before it is counted
 *   smp_store_release(&ctl->consumed)   acquire load by the process: the slot
 *                                       is read before it may be filled again
 *   smp_mb() after flags is set         full barrier between the process's
 *                                       store of produced and its load of flags
 *
 * What is believed from user space: nothing. The kernel never reads back a word
 * that it wrote; the count of slots that wait is checked against the room that
 * those which were taken leave, so a counter that goes back is found as well as
 * one that runs ahead; a slot is copied once and the copy is judged.
 */

/**
 * struct xiw_ring - kernel side of a send, receive or shared receive queue
 * @ctl: shared control words
 * @slots: shared slots
 * @entries: number of slots, a power of two
 * @slot_shift: log2 of the size of a slot in octets
 * @taken: slots ever copied out by the kernel
 * @returned: slots ever given back, the kernel's own copy of ctl->consumed
 * @posted: slots ever filled by a kernel consumer, the own copy of ctl->produced
 */
struct xiw_ring {
	struct xiw_queue_ctl	*ctl;
	void			*slots;
	u32			entries;
	u8			slot_shift;
	u32			taken;
	u32			returned;
	u32			posted;
};

#define XIW_RING_BROKEN	U32_MAX

/**
 * xiw_ring_ready - how many slots wait to be taken
 * @ring: the ring
 *
 * Return: their number, or XIW_RING_BROKEN if the process wrote nonsense.
 */
static inline u32 xiw_ring_ready(const struct xiw_ring *ring)
{
	/* pairs with the poster's release: the slots are filled before they are counted */
	u32 ready = smp_load_acquire(&ring->ctl->produced) - ring->taken;

	if (unlikely(ready > ring->entries - (ring->taken - ring->returned)))
		return XIW_RING_BROKEN;
	return ready;
}

/* The slot of count @count; shared memory, copy before use. */
static inline void *xiw_ring_slot(const struct xiw_ring *ring, u32 count)
{
	return ring->slots + ((size_t)(count & (ring->entries - 1)) << ring->slot_shift);
}

/* Gives @n slots back to whoever fills the ring. */
static inline void xiw_ring_return(struct xiw_ring *ring, u32 n)
{
	ring->returned += n;
	/* pairs with the poster's acquire: the slots are read before they are filled again */
	smp_store_release(&ring->ctl->consumed, ring->returned);
}

/* From here on the process posts without a system call. */
static inline void xiw_ring_watch(struct xiw_ring *ring)
{
	WRITE_ONCE(ring->ctl->flags, 0);
}

/* A worker looks before long; the process may hurry it when it waits (XIW_DOORBELL_LATER). */
static inline void xiw_ring_defer(struct xiw_ring *ring)
{
	WRITE_ONCE(ring->ctl->flags, XIW_DOORBELL_LATER);
}

/**
 * xiw_ring_unwatch - ask for doorbells, before the kernel stops looking
 * @ring: the ring
 *
 * Return: slots that came meanwhile and for which no doorbell may come, as
 * xiw_ring_ready() says it: the caller must look at them.
 */
static inline u32 xiw_ring_unwatch(struct xiw_ring *ring)
{
	WRITE_ONCE(ring->ctl->flags, XIW_NEED_DOORBELL);
	smp_mb();	/* pairs with the barrier of the poster before it reads flags */
	return xiw_ring_ready(ring);
}

/**
 * xiw_ring_init - put a ring on fresh shared memory
 * @ring: the ring
 * @ctl: zeroed control words
 * @slots: zeroed slots
 * @entries: number of slots, a power of two
 * @slot_size: octets, a power of two
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
