/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* ring.hpp - the process's side of the rings that it shares with the kernel */
#ifndef XIW_RING_HPP
#define XIW_RING_HPP

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <rdma/xiw-abi.h>

/*
 * This is the process's side of the contract in xiw-abi.h; kernel/queue/ring.h is the kernel's side.
 * The caller of any function here holds the lock of the queue, so each word of the process has
 * one writer.
 *
 * What pairs with what:
 *
 *   store of produced, release        acquire load by the kernel
 *   load of consumed, acquire         release store by the kernel
 *   full barrier before flags is read full barrier after the kernel set it
 *   load of gen, acquire              release store by the kernel
 *   full barrier after arm is stored  full barrier before the kernel reads it
 *
 * and within the process, for the queues of a queue pair (finished_count.hpp):
 *
 *   store of the finished count,      acquire load when a request is posted
 *   release, when it is polled
 *
 * The kernel gives a slot back before it stores gen of the completion that finishes the request.
 * The thread that polls has seen gen, and it stores the finished count after that. So a thread
 * that finds the request finished may fill the slot, and the finished count never gets ahead of
 * consumed.
 *
 * The thread that polls also gives the entry back to the kernel before it stores the finished
 * count. So a completion queue with one entry for each outstanding request never overflows.
 *
 * The kernel stores fired before it notifies, so a thread that was notified sees the new value. If
 * another thread sees the old one, a notification is on its way.
 */
namespace xiw
{

using SharedWord = std::atomic_ref<std::uint32_t>;

/*
 * WorkRing - fills the slots of a send, receive or shared receive queue
 *
 * The producer index is kept here, and the kernel reads a copy in the mapping. If the process
 * overwrites the copy by mistake, the next post restores it. If the kernel has read the wrong value
 * before that, it may execute old slots as well, and ends the queue pair if it finds the counts
 * impossible.
 *
 * freed_ is the last value read of the counter of free slots. Another CPU writes to the cache
 * line of that counter, so it is read again only when the ring looks full.
 */
class WorkRing
{
public:
	using Control = xiw_queue_ctl;
	using Slot = std::byte;

	WorkRing() = default;

	/* @depth: how many work requests may be outstanding; the number of slots also limits it */
	WorkRing(xiw_queue_ctl *ctl, std::byte *slots, std::uint32_t entries,
		 std::uint32_t slot_size, std::uint32_t depth) noexcept
		: ctl_(ctl), slots_(slots), mask_(entries - 1), slot_size_(slot_size),
		  depth_(std::min(entries, depth))
	{
	}

	/* The kernel has moved all requests that wait to other memory, of another size. */
	void move(xiw_queue_ctl *ctl, std::byte *slots, std::uint32_t entries) noexcept
	{
		ctl_ = ctl;
		slots_ = slots;
		mask_ = entries - 1;
		depth_ = entries;
	}

	/* False before the ring has memory. Call nothing else then. */
	bool is_open() const noexcept { return ctl_; }

	/* Producer index: slots filled and published since the ring was made. */
	std::uint32_t produced() const noexcept { return produced_; }

	/* Consumer index: slots that the kernel has given back since the ring was made. */
	SharedWord consumed() const noexcept { return SharedWord(ctl_->consumed); }

	/*
	 * Returns whether the slot of count @produced may be filled. @freed counts the slots that
	 * may be filled again: consumed(), or a finished count, which never gets ahead of it. The
	 * caller always passes the same one.
	 */
	bool has_room(std::uint32_t produced, SharedWord freed) noexcept
	{
		if (produced - freed_ < depth_) [[likely]]
			return true;
		freed_ = freed.load(std::memory_order_acquire);
		return produced - freed_ < depth_;
	}

	std::byte *slot(std::uint32_t count) const noexcept
	{
		return slots_ + static_cast<std::size_t>(count & mask_) * slot_size_;
	}

	/*
	 * Lets the kernel see all slots before @produced. Returns flags(), but does not let more
	 * than half of the ring gather: it asks for a doorbell when a half of the ring is full. A
	 * list may fill both. A ring of one slot has no halves, and nothing gathers there.
	 */
	std::uint32_t publish(std::uint32_t produced) noexcept
	{
		const bool next_half = (produced ^ produced_) >= (mask_ + 1) / 2;

		produced_ = produced;
		SharedWord(ctl_->produced).store(produced, std::memory_order_release);
		std::atomic_thread_fence(std::memory_order_seq_cst);
		const std::uint32_t asked = flags();
		return next_half && (asked & XIW_DOORBELL_GATHER) ? XIW_NEED_DOORBELL : asked;
	}

	/* What the kernel asks for: XIW_NEED_DOORBELL, XIW_DOORBELL_LATER and GATHER, or 0. */
	std::uint32_t flags() const noexcept
	{
		return SharedWord(ctl_->flags).load(std::memory_order_relaxed);
	}

	/* The memory cannot be mapped: has_room() is false until move(). */
	void close() noexcept { depth_ = 0; }

private:
	xiw_queue_ctl *ctl_ = nullptr;
	std::byte *slots_ = nullptr;
	std::uint32_t mask_ = 0;
	std::uint32_t slot_size_ = 0;
	std::uint32_t depth_ = 0;
	std::uint32_t produced_ = 0;
	std::uint32_t freed_ = 0;
};

/* CompletionRing - reads and arms a completion queue */
class CompletionRing
{
public:
	using Control = xiw_cq_ctl;
	using Slot = xiw_cqe;

	CompletionRing() = default;

	CompletionRing(xiw_cq_ctl *ctl, xiw_cqe *slots, std::uint32_t entries) noexcept
		: ctl_(ctl), slots_(slots), entries_(entries)
	{
	}

	/* The kernel has moved all entries that have not been consumed to other memory. */
	void move(xiw_cq_ctl *ctl, xiw_cqe *slots, std::uint32_t entries) noexcept
	{
		ctl_ = ctl;
		slots_ = slots;
		entries_ = entries;
	}

	/* The memory cannot be mapped: peek() finds nothing until move(). */
	void close() noexcept
	{
		static xiw_cqe none = {};

		slots_ = &none;
		entries_ = 1;
	}

	/* Returns the oldest entry that has not been consumed, or nullptr. */
	const xiw_cqe *peek() const noexcept
	{
		xiw_cqe &oldest = slot(consumed_);

		return is_valid(oldest, consumed_) ? &oldest : nullptr;
	}

	void consume() noexcept { consumed_++; }

	/* Whether a notification is still to come. */
	bool is_armed() const noexcept
	{
		return SharedWord(ctl_->fired).load(std::memory_order_relaxed) !=
		       SharedWord(ctl_->arm).load(std::memory_order_relaxed);
	}

	/* Gives all consumed entries back to the kernel. */
	void publish() noexcept
	{
		SharedWord(ctl_->consumed).store(consumed_, std::memory_order_release);
	}

	/*
	 * Removes all entries of queue pair @qpn that have not been consumed, and gives their
	 * slots back. The kernel may add entries of other queue pairs meanwhile, behind the
	 * newest one, so the remaining entries move towards the newest. The caller makes sure
	 * that the kernel adds no more entries of @qpn.
	 */
	void discard(std::uint32_t qpn) noexcept
	{
		std::uint32_t discarded = 0;
		std::uint32_t end = consumed_;

		while (is_valid(slot(end), end))
			end++;
		for (std::uint32_t n = end; n != consumed_;) {
			n--;
			if (slot(n).qpn == qpn)
				discarded++;
			else if (discarded)
				move_entry(n, n + discarded);
		}
		consumed_ += discarded;
		publish();
	}

	/*
	 * Asks for one notification. If an earlier request is still pending and covers this one, it
	 * stays: a request for solicited completions must not replace a request for any completion,
	 * and there is no need to use up a sequence number.
	 */
	void arm(bool solicited_only) noexcept
	{
		SharedWord arm(ctl_->arm);
		auto last = arm.load(std::memory_order_relaxed);

		if (is_armed() && (solicited_only || !(last & XIW_ARM_SOLICITED)))
			return;

		auto next = (last & ~XIW_ARM_SOLICITED) + XIW_ARM_STEP;
		if (solicited_only)
			next |= XIW_ARM_SOLICITED;
		arm.store(next, std::memory_order_relaxed);
		std::atomic_thread_fence(std::memory_order_seq_cst);
	}

private:
	xiw_cqe &slot(std::uint32_t count) const noexcept { return slots_[count & (entries_ - 1)]; }

	/* Returns whether the kernel has written the entry of count @count to @entry. */
	bool is_valid(xiw_cqe &entry, std::uint32_t count) const noexcept
	{
		return SharedWord(entry.gen).load(std::memory_order_acquire) ==
		       xiw_cqe_gen(count, entries_);
	}

	void move_entry(std::uint32_t from, std::uint32_t to) noexcept
	{
		xiw_cqe &entry = slot(to);

		entry = slot(from);
		entry.gen = xiw_cqe_gen(to, entries_);
	}

	xiw_cq_ctl *ctl_ = nullptr;
	xiw_cqe *slots_ = nullptr;
	std::uint32_t entries_ = 0;
	std::uint32_t consumed_ = 0; /* the shared copy follows in publish() */
};

} /* namespace xiw */

#endif /* XIW_RING_HPP */
