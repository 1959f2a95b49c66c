/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* latecomers.hpp - doorbells that are rung when the process has nothing else to do */
#ifndef XIW_LATECOMERS_HPP
#define XIW_LATECOMERS_HPP

#include <atomic>

#include "doorbell.hpp"

namespace xiw
{

/*
 * Latecomer - a send queue's doorbell, and whether it is to be rung later
 *
 * The kernel may ask for that (XIW_DOORBELL_LATER): a worker of its own will
 * look at the ring, but sending all at once when the process has run out of
 * other work costs less than being sent piece by piece beside it.
 */
struct Latecomer {
	Doorbell doorbell;
	std::atomic<bool> listed = false;
	Latecomer *next = nullptr; /* in the list of its completion queue */
};

/*
 * Latecomers - those of all send queues of one completion queue
 *
 * Posting adds to the list without a lock. Taking from it needs the lock of
 * the completion queue.
 */
class Latecomers
{
public:
	void add(Latecomer &one) noexcept
	{
		if (one.listed.load(std::memory_order_relaxed) || one.listed.exchange(true))
			return;
		one.next = head_.load(std::memory_order_relaxed);
		while (!head_.compare_exchange_weak(one.next, &one, std::memory_order_release))
			;
	}

	/* Rings for all. False if there was none. */
	bool ring() noexcept
	{
		if (!head_.load(std::memory_order_relaxed)) [[likely]]
			return false;
		for (Latecomer *one = take(); one;) {
			Latecomer &now = *one;

			one = one->next;
			now.listed.store(false);
			now.doorbell.ring(); /* of a device that is gone nobody hears more */
		}
		return true;
	}

	/* Takes one out that nobody posts to any more. */
	void remove(const Latecomer &gone) noexcept
	{
		for (Latecomer *one = take(); one;) {
			Latecomer &now = *one;

			one = one->next;
			now.listed.store(false);
			if (&now != &gone)
				add(now);
		}
	}

private:
	Latecomer *take() noexcept { return head_.exchange(nullptr, std::memory_order_acquire); }

	std::atomic<Latecomer *> head_ = nullptr;
};

} /* namespace xiw */

#endif /* XIW_LATECOMERS_HPP */
