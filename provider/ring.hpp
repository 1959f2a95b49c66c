/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* ring.hpp - user side of kernel/ring.h, same names */
#ifndef XIW_RING_HPP
#define XIW_RING_HPP

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <rdma/xiw-abi.h>

/*
 * Process side of the contract that heads xiw-abi.h. All here is called with
 * the lock of the queue held, so each word of the process has one writer.
 *
 * What pairs with what:
 *
 *   store of produced, release        acquire load by the kernel
 *   load of consumed, acquire         release store by the kernel
 *   full barrier before flags is read full barrier after the kernel set it
 *   load of gen, acquire              release store by the kernel
 *   full barrier after arm is stored  full barrier before the kernel reads it
 *
 * and within the process, for the queues of a queue pair (retired.hpp):
 *
 *   store of the retired count,       acquire load when a request is posted
 *   release, when it is polled
 *
 * The kernel gives a slot back before it stores the gen of the completion that
 * retires it. So who sees it retired has the slot, by way of the thread that
 * polled, and retired counts never get ahead of consumed. The entry of that completion
 * is given back before, so a completion queue with an entry for each request that may
 * be outstanding never overflows.
 *
 * The kernel stores fired before it notifies, so who was notified sees it; to
 * anyone else an old value means that a notification is on its way.
 */
namespace xiw
{

using SharedWord = std::atomic_ref<std::uint32_t>;

/*
 * WorkRing - fills the slots of a send, receive or shared receive queue
 *
 * The own index is kept here, and only shown in the mapping: should the process
 * scribble over that, its next post tells the kernel, which ends the queue pair.
 * What was last seen of the index of those who free slots is kept here too, so
 * that the line to which they write is read only when the ring seems full.
 */
class WorkRing
{
public:
	WorkRing() = default;

	/* @depth: work requests that may be outstanding, if fewer than slots */
	WorkRing(xiw_queue_ctl *ctl, std::byte *slots, std::uint32_t entries,
		 std::uint32_t slot_size, std::uint32_t depth) noexcept
		: ctl_(ctl), slots_(slots), mask_(entries - 1), slot_size_(slot_size),
		  depth_(std::min(entries, depth))
	{
	}

	/* The kernel has moved all that waits to other memory, of another size. */
	void move(xiw_queue_ctl *ctl, std::byte *slots, std::uint32_t entries) noexcept
	{
		ctl_ = ctl;
		slots_ = slots;
		mask_ = entries - 1;
		depth_ = entries;
	}

	/* False until it is put on memory: nothing else may be called before. */
	bool is_open() const noexcept { return ctl_; }

	/* Slots ever filled and published. */
	std::uint32_t produced() const noexcept { return produced_; }

	/* Slots that the kernel ever gave back. */
	SharedWord consumed() const noexcept { return SharedWord(ctl_->consumed); }

	/*
	 * True if a slot may be filled when @produced have been. @freed counts
	 * those that may be filled again, always by the same word: consumed(),
	 * or one that lags behind it, so that the kernel needs not be asked.
	 */
	bool has_room(std::uint32_t produced, SharedWord freed) noexcept
	{
		if (produced - freed_ < depth_) [[likely]]
			return true;
		freed_ = freed.load(std::memory_order_acquire);
		return produced - freed_ < depth_;
	}

	/* The slot of count @count. */
	std::byte *slot(std::uint32_t count) const noexcept
	{
		return slots_ + static_cast<std::size_t>(count & mask_) * slot_size_;
	}

	/* Shows the kernel all slots before @produced. Returns its flags: XIW_NEED_DOORBELL... */
	std::uint32_t publish(std::uint32_t produced) noexcept
	{
		produced_ = produced;
		SharedWord(ctl_->produced).store(produced, std::memory_order_release);
		std::atomic_thread_fence(std::memory_order_seq_cst);
		return flags();
	}

	/* What the kernel asks for now: XIW_NEED_DOORBELL... */
	std::uint32_t flags() const noexcept
	{
		return SharedWord(ctl_->flags).load(std::memory_order_relaxed);
	}

	/* Its memory is not to be had: nothing can be filled until it is moved. */
	void close() noexcept { depth_ = 0; }

private:
	xiw_queue_ctl *ctl_ = nullptr;
	std::byte *slots_ = nullptr;
	std::uint32_t mask_ = 0;
	std::uint32_t slot_size_ = 0;
	std::uint32_t depth_ = 0;
	std::uint32_t produced_ = 0;
	std::uint32_t freed_ = 0; /* as last seen */
};

/* CompletionRing - reads and arms a completion queue */
class CompletionRing
{
public:
	CompletionRing() = default;

	CompletionRing(xiw_cq_ctl *ctl, xiw_cqe *slots, std::uint32_t entries) noexcept
		: ctl_(ctl), slots_(slots), entries_(entries)
	{
	}

	/* The kernel has moved all that has not been consumed to other memory. */
	void move(xiw_cq_ctl *ctl, xiw_cqe *slots, std::uint32_t entries) noexcept
	{
		ctl_ = ctl;
		slots_ = slots;
		entries_ = entries;
	}

	/* Its memory is not to be had: it is empty until it is moved. */
	void close() noexcept
	{
		static xiw_cqe none = {};

		slots_ = &none;
		entries_ = 1;
	}

	/* The oldest entry that has not been consumed, or nullptr. */
	const xiw_cqe *peek() const noexcept
	{
		xiw_cqe &oldest = slot(consumed_);

		return is_there(oldest, consumed_) ? &oldest : nullptr;
	}

	/* Goes on to the next entry. */
	void consume() noexcept { consumed_++; }

	/* Gives all consumed entries back to the kernel. */
	void publish() noexcept
	{
		SharedWord(ctl_->consumed).store(consumed_, std::memory_order_release);
	}

	/*
	 * Takes out all entries of queue pair @qpn that have not been consumed, and gives
	 * their places back. The others close up towards the newest, for the kernel may
	 * add more behind that meanwhile. It writes none of @qpn any more.
	 */
	void discard(std::uint32_t qpn) noexcept
	{
		std::uint32_t gone = 0;
		std::uint32_t end = consumed_;

		while (is_there(slot(end), end))
			end++;
		for (std::uint32_t n = end; n != consumed_;) {
			n--;
			if (slot(n).qpn == qpn)
				gone++;
			else if (gone)
				move_entry(n, n + gone);
		}
		consumed_ += gone;
		publish();
	}

	/*
	 * Asks for one notification. A request that is still to be answered
	 * stays as it is if it asks for as much: a solicited one replaces none
	 * for any completion, and sequence numbers are not used up.
	 */
	void arm(bool solicited_only) noexcept
	{
		SharedWord arm(ctl_->arm);
		auto last = arm.load(std::memory_order_relaxed);
		bool pending = SharedWord(ctl_->fired).load(std::memory_order_relaxed) != last;

		if (pending && (solicited_only || !(last & XIW_ARM_SOLICITED)))
			return;

		auto next = (last & ~XIW_ARM_SOLICITED) + XIW_ARM_STEP;
		if (solicited_only)
			next |= XIW_ARM_SOLICITED;
		arm.store(next, std::memory_order_relaxed);
		std::atomic_thread_fence(std::memory_order_seq_cst);
	}

private:
	xiw_cqe &slot(std::uint32_t count) const noexcept { return slots_[count & (entries_ - 1)]; }

	/* Whether @entry is the one of count @count. */
	bool is_there(xiw_cqe &entry, std::uint32_t count) const noexcept
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
	std::uint32_t consumed_ = 0; /* ahead of the shared word within a batch */
};

} /* namespace xiw */

#endif /* XIW_RING_HPP */
