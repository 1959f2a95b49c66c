/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* latecomers.hpp - doorbells that are rung when the process has nothing else to do */
#ifndef XIW_LATECOMERS_HPP
#define XIW_LATECOMERS_HPP

#include <atomic>

#include "doorbell.hpp"

namespace xiw
{

class Latecomers;

/*
 * Latecomer - a send queue whose doorbell is to be rung later
 *
 * The kernel may ask for that (XIW_DOORBELL_LATER): a worker of its own will
 * look at the ring, but sending all at once when the process has run out of
 * other work costs less than being sent piece by piece beside it. It is listed at both
 * completion queues of the queue pair, as a process that waits for an answer may poll
 * the one of receives only. Whoever finds either empty first rings, so @late is one for both.
 */
struct Latecomer {
	Doorbell *doorbell = nullptr;
	std::atomic<bool> *late = nullptr;
	std::atomic<bool> listed = false;
	Latecomer *next = nullptr; /* in the list of its completion queue */
	Latecomers *list = nullptr;

	/* Before the first defer(). */
	void join(Latecomers &of_cq, Doorbell &its_doorbell, std::atomic<bool> &is_late) noexcept
	{
		list = &of_cq;
		doorbell = &its_doorbell;
		late = &is_late;
	}

	/* @late has been set: it is listed, if it has joined. */
	inline void defer() noexcept;
};

/*
 * Latecomers - those of all queue pairs of one completion queue
 *
 * Posting adds to the list without a lock. Taking from it needs the lock of
 * the completion queue.
 */
class Latecomers
{
public:
	void add(Latecomer &one) noexcept
	{
		if (one.listed.load() || one.listed.exchange(true))
			return;
		one.next = head_.load(std::memory_order_relaxed);
		while (!head_.compare_exchange_weak(one.next, &one, std::memory_order_release))
			;
	}

	/* Rings for all whom nobody has rung for. False if there was none. */
	bool ring() noexcept
	{
		if (!head_.load(std::memory_order_relaxed)) [[likely]]
			return false;
		bool rung = false;
		for (Latecomer *one = take(); one;) {
			Latecomer &now = *one;

			one = one->next;
			/* In this order: whoever still finds it listed has set @late before. */
			now.listed.store(false);
			if (!now.late->exchange(false))
				continue;
			now.doorbell->ring(); /* of a device that is gone nobody hears more */
			rung = true;
		}
		return rung;
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

inline void Latecomer::defer() noexcept
{
	if (list)
		list->add(*this);
}

} /* namespace xiw */

#endif /* XIW_LATECOMERS_HPP */
