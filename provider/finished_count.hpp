/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* finished_count.hpp - how many requests of a work queue have finished */
#ifndef XIW_FINISHED_COUNT_HPP
#define XIW_FINISHED_COUNT_HPP

#include <cstdint>

#include "ring.hpp"

namespace xiw
{

/*
 * FinishedCount - how many requests of one send or receive queue have finished
 *
 * A send request has finished when the process has polled its completion or a later completion of
 * the same queue (xiw_cqe.sq_count). A receive request has finished when the process has polled its
 * completion: each receive request has one, and they arrive in order.
 *
 * A thread that polls writes the count under the lock of the completion queue. A thread that posts
 * reads it under the lock of the work queue. The count has its own cache line because the two are
 * often different threads.
 */
class alignas(64) FinishedCount
{
public:
	void set_qpn(std::uint32_t qpn) noexcept { qpn_ = qpn; }

	SharedWord word() noexcept { return SharedWord(count_); }

	/*
	 * All requests before @count have finished. The count never goes back: a reset finishes all
	 * requests, and a completion from before the reset may still be polled after it.
	 */
	void advance_to(std::uint32_t count) noexcept
	{
		if (static_cast<std::int32_t>(count - count_) > 0)
			word().store(count, std::memory_order_release);
	}

	/* One more request of a receive queue has finished. */
	void advance_by_one() noexcept { word().store(count_ + 1, std::memory_order_release); }

private:
	friend class FinishedCountTable;

	std::uint32_t count_ = 0;
	std::uint32_t qpn_ = 0;
	FinishedCount *next_ = nullptr; /* in its chain of the table */
};

/*
 * FinishedCountTable - finds the count of a queue pair for the thread that polls
 *
 * A completion queue has one table for send queues and one for receive queues. A table is hashed by
 * the low bits of the queue pair's number. The kernel hands numbers out one after another, so these
 * bits spread the queue pairs evenly, and it reuses a number only after 2^24 others.
 *
 * The table belongs to the completion queue, not to the device, because a thread that polls holds
 * the lock of the completion queue anyway. A queue pair is taken out under that lock before its
 * memory is freed, and its remaining completions find nothing.
 */
class FinishedCountTable
{
public:
	FinishedCountTable() = default;
	~FinishedCountTable();
	FinishedCountTable(const FinishedCountTable &) = delete; /* chains_ may be &first_chain_ */
	FinishedCountTable &operator=(const FinishedCountTable &) = delete;

	void add(FinishedCount &count) noexcept;
	void remove(const FinishedCount &count) noexcept;

	/* All requests of @qpn before @count have finished. */
	void advance_to(std::uint32_t qpn, std::uint32_t count) noexcept
	{
		if (FinishedCount *finished = find_cached(qpn)) [[likely]]
			finished->advance_to(count);
	}

	/* One more request of @qpn has finished. */
	void advance_by_one(std::uint32_t qpn) noexcept
	{
		if (FinishedCount *finished = find_cached(qpn)) [[likely]]
			finished->advance_by_one();
	}

private:
	/* Returns nullptr if the queue pair was destroyed or has no such queue. */
	FinishedCount *find_cached(std::uint32_t qpn) noexcept
	{
		if (!last_ || last_->qpn_ != qpn)
			last_ = find(qpn);
		return last_;
	}

	FinishedCount **chain(std::uint32_t qpn) noexcept { return &chains_[qpn & mask_]; }
	FinishedCount *find(std::uint32_t qpn) noexcept;
	void insert(FinishedCount &count) noexcept;
	void grow() noexcept;

	FinishedCount *last_ = nullptr; /* result of the last find() */
	FinishedCount **chains_ = &first_chain_;
	std::uint32_t mask_ = 0; /* number of chains, a power of two, minus 1 */
	std::uint32_t size_ = 0;
	FinishedCount *first_chain_ = nullptr; /* the only chain of a small table */
};

} /* namespace xiw */

#endif /* XIW_FINISHED_COUNT_HPP */
