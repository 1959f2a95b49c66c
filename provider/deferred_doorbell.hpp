/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* deferred_doorbell.hpp - doorbells that wait until the process finds nothing to poll */
#ifndef XIW_DEFERRED_DOORBELL_HPP
#define XIW_DEFERRED_DOORBELL_HPP

#include <atomic>

#include "doorbell.hpp"

namespace xiw
{

class DeferredDoorbellList;

/*
 * DeferredDoorbell - puts the doorbell of one send queue on the list of one completion queue
 *
 * The kernel may ask the process to ring later (XIW_DOORBELL_LATER). A worker of the kernel will
 * look at the ring soon, or the process has the only CPU (XIW_DOORBELL_GATHER). Sending
 * everything at once is cheaper than sending it piece by piece while the process still posts. So
 * the process rings when it has nothing else to do, which is when it finds a completion queue
 * empty.
 *
 * A process that waits for an answer may poll its recv_cq only. So a send queue has one
 * DeferredDoorbell for the send_cq and one for the recv_cq of its queue pair. The two share
 * @pending, and the first thread that finds either completion queue empty rings.
 */
struct DeferredDoorbell {
	DeferredDoorbellList *list = nullptr;
	Doorbell *doorbell = nullptr;
	std::atomic<bool> *pending = nullptr; /* the doorbell still has to be rung */
	std::atomic<bool> listed = false;
	DeferredDoorbell *next = nullptr; /* on the list */

	/* Call it before the first defer(). */
	void connect(DeferredDoorbellList &to, Doorbell &of, std::atomic<bool> &is_pending) noexcept
	{
		list = &to;
		doorbell = &of;
		pending = &is_pending;
	}

	/*
	 * Puts it on its list, if it has one. The caller has set @pending. Returns whether an event
	 * of that completion queue is awaited.
	 */
	inline bool defer() noexcept;
};

/*
 * DeferredDoorbellList - the deferred doorbells of all queue pairs of one completion queue
 *
 * add() and is_awaited() need no lock. The caller of any other method holds the lock of the
 * completion queue.
 */
class DeferredDoorbellList
{
public:
	void add(DeferredDoorbell &deferred) noexcept
	{
		if (deferred.listed.load() || deferred.listed.exchange(true))
			return;
		deferred.next = head_.load(std::memory_order_relaxed);
		while (!head_.compare_exchange_weak(deferred.next, &deferred,
						    std::memory_order_seq_cst))
			;
	}

	/*
	 * A process that has armed the completion queue may sleep without finding it empty. It sets
	 * this before it calls ring_all(), and a thread that posts calls add() before it reads
	 * this. So one of the two rings.
	 *
	 * That is true for the thread that puts the doorbell on the list. Another one that posts to
	 * the same queue leaves it to that thread as soon as @listed is set. If that thread loses
	 * its CPU before the doorbell is on the list, nobody rings for what the other one has
	 * posted until it goes on. Or the kernel's timer ends before that.
	 */
	void set_awaited(bool awaited) noexcept { awaited_.store(awaited); }
	bool is_awaited() const noexcept { return awaited_.load(); }

	/* Empties the list and rings the pending doorbells. Returns whether there were any. */
	bool ring_all() noexcept
	{
		if (!head_.load()) [[likely]]
			return false;
		bool rung = false;
		for (DeferredDoorbell *next = take_all(); next;) {
			DeferredDoorbell &deferred = *next;

			next = deferred.next;
			/*
			 * A thread that posts sets @pending and then reads @listed. Here the
			 * order is the other way round, so if that thread still finds @listed
			 * set, this one sees @pending set. All four accesses are sequentially
			 * consistent.
			 */
			deferred.listed.store(false);
			if (!deferred.pending->exchange(false))
				continue;
			deferred.doorbell->ring(); /* fails only if the device was removed */
			rung = true;
		}
		return rung;
	}

	/* Removes @removed from the list. The caller ensures that no thread posts to its queue. */
	void remove(const DeferredDoorbell &removed) noexcept
	{
		for (DeferredDoorbell *next = take_all(); next;) {
			DeferredDoorbell &deferred = *next;

			next = deferred.next;
			deferred.listed.store(false);
			if (&deferred != &removed)
				add(deferred);
		}
	}

private:
	/* Acquire pairs with the store in add(). */
	DeferredDoorbell *take_all() noexcept
	{
		return head_.exchange(nullptr, std::memory_order_acquire);
	}

	std::atomic<DeferredDoorbell *> head_ = nullptr;
	std::atomic<bool> awaited_ = false;
};

inline bool DeferredDoorbell::defer() noexcept
{
	if (!list)
		return false;
	list->add(*this);
	return list->is_awaited();
}

} /* namespace xiw */

#endif /* XIW_DEFERRED_DOORBELL_HPP */
