/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* retired.hpp - up to where requests are over */
#ifndef XIW_RETIRED_HPP
#define XIW_RETIRED_HPP

#include <cstdint>

#include "ring.hpp"

namespace xiw
{

/*
 * RetiredCount - how many requests of one send or receive queue are over
 *
 * A send request is over when its completion, or a later one of its queue, has been
 * polled (xiw_cqe.sq_count); a receive request when its own has, for each has one and
 * they come in order. Polling writes the count, with the lock of the completion
 * queue held; posting reads it, with that of the queue. So it has a cache line of its
 * own.
 */
class alignas(64) RetiredCount
{
public:
	void open(std::uint32_t qpn) noexcept { qpn_ = qpn; }

	SharedWord word() noexcept { return SharedWord(count_); }

	/*
	 * Never back: a reset retires everything at once, and completions from
	 * before it may still come.
	 */
	void advance(std::uint32_t count) noexcept
	{
		if (static_cast<std::int32_t>(count - count_) > 0)
			word().store(count, std::memory_order_release);
	}

	/* One more, of a receive queue. */
	void advance() noexcept { word().store(count_ + 1, std::memory_order_release); }

private:
	friend class RetiredCounts;

	std::uint32_t count_ = 0;
	std::uint32_t qpn_ = 0;
	RetiredCount *next_ = nullptr; /* in its chain */
};

/*
 * RetiredCounts - those of all send queues, or of all receive queues, of one completion queue
 *
 * A hash table by number of the queue pair. The kernel gives numbers out in
 * turn, so their low bits spread them over the chains, and none comes back
 * before 2^24 others.
 *
 * It is the completion queue's, and not the device's, since whoever polls holds
 * that one's lock already: under it a queue pair is found, and taken out before
 * it is freed. Completions that it leaves behind find nothing.
 */
class RetiredCounts
{
public:
	RetiredCounts() = default;
	~RetiredCounts();
	RetiredCounts(const RetiredCounts &) = delete; /* chains_ may point to one_ */
	RetiredCounts &operator=(const RetiredCounts &) = delete;

	void add(RetiredCount &retired) noexcept;
	void remove(const RetiredCount &retired) noexcept;

	/* All requests of @qpn before @count are over. */
	void advance(std::uint32_t qpn, std::uint32_t count) noexcept
	{
		if (RetiredCount *of = known(qpn)) [[likely]]
			of->advance(count);
	}

	/* One more request of @qpn is over. */
	void advance(std::uint32_t qpn) noexcept
	{
		if (RetiredCount *of = known(qpn)) [[likely]]
			of->advance();
	}

private:
	/* nullptr for a queue pair that is gone, or has no such queue. */
	RetiredCount *known(std::uint32_t qpn) noexcept
	{
		if (!last_ || last_->qpn_ != qpn)
			last_ = find(qpn);
		return last_;
	}

	RetiredCount **chain(std::uint32_t qpn) noexcept { return &chains_[qpn & mask_]; }
	RetiredCount *find(std::uint32_t qpn) noexcept;
	void push(RetiredCount &retired) noexcept;
	void grow() noexcept;

	RetiredCount *last_ = nullptr; /* whom a completion came for last, if it is known */
	RetiredCount **chains_ = &one_;
	std::uint32_t mask_ = 0; /* number of chains, a power of two, minus 1 */
	std::uint32_t count_ = 0;
	RetiredCount *one_ = nullptr; /* the first chain, until there are more */
};

} /* namespace xiw */

#endif /* XIW_RETIRED_HPP */
