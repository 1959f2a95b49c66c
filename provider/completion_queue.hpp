/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* completion_queue.hpp - a completion queue: its mapping and its ring */
#ifndef XIW_COMPLETION_QUEUE_HPP
#define XIW_COMPLETION_QUEUE_HPP

#include <cstdint>
#include <mutex>
#include <optional>

#include "deferred_doorbell.hpp"
#include "domain.hpp"
#include "finished_count.hpp"
#include "lock.hpp"
#include "mapping.hpp"
#include "moved_ring.hpp"
#include "rdma_core.hpp"
#include "ring.hpp"

namespace xiw
{

class CompletionQueue
{
public:
	static CompletionQueue &from(ibv_cq *cq) noexcept
	{
		return *reinterpret_cast<CompletionQueue *>(cq);
	}

	static CompletionQueue &from(ibv_cq_ex *cq) noexcept
	{
		return *reinterpret_cast<CompletionQueue *>(cq);
	}

	static ibv_cq *create(ibv_context *context, int cqe, ibv_comp_channel *channel,
			      int comp_vector) noexcept;
	static ibv_cq_ex *create_extended(ibv_context *context, ibv_cq_init_attr_ex *attr) noexcept;
	static int destroy(ibv_cq *cq) noexcept;

	void open(const CompletionRing &ring) noexcept { ring_ = ring; }

	/* From now on completions finish requests of that send or receive queue. */
	void attach_sends(FinishedCount &finished) noexcept
	{
		std::lock_guard guard(lock_);
		sends_.add(finished);
	}

	void attach_receives(FinishedCount &finished) noexcept
	{
		std::lock_guard guard(lock_);
		receives_.add(finished);
	}

	/* After this no thread that polls touches the count, so the caller may free it. */
	void detach_sends(const FinishedCount &finished) noexcept
	{
		std::lock_guard guard(lock_);
		sends_.remove(finished);
	}

	void detach_receives(const FinishedCount &finished) noexcept
	{
		std::lock_guard guard(lock_);
		receives_.remove(finished);
	}

	/* After this no thread that polls rings, or is ringing, this doorbell. */
	void remove_doorbell(const DeferredDoorbell &deferred) noexcept
	{
		std::lock_guard guard(lock_);
		deferred_doorbells_.remove(deferred);
	}

	/* The kernel has destroyed the queue pair. Removes its completions. */
	void remove_queue_pair(std::uint32_t qpn) noexcept
	{
		std::lock_guard guard(lock_);
		discard(qpn);
	}

	/*
	 * The kernel has reset the queue pair. Removes its completions, and finishes the @count
	 * requests that were posted to one of its queues.
	 */
	void reset_queue_pair(std::uint32_t qpn, FinishedCount &finished,
			      std::uint32_t count) noexcept
	{
		std::lock_guard guard(lock_);
		discard(qpn);
		finished.advance_to(count);
	}

	DeferredDoorbellList &deferred_doorbells() noexcept { return deferred_doorbells_; }

	int resize(int cqe) noexcept;
	int request_notification(bool solicited_only) noexcept;

	/* in poll.cpp */
	int poll(int max, ibv_wc *wc) noexcept;

	/* in extended_poll.cpp */
	void fill_extended_poll_ops() noexcept;
	int start_poll(const ibv_poll_cq_attr *attr) noexcept;
	int next_poll() noexcept;
	void end_poll() noexcept;

private:
	int take(int max, ibv_wc *wc) noexcept;
	bool read_next() noexcept;

	/*
	 * Consumes the oldest entry and finishes its requests. The entry is given back first:
	 * another thread may post as soon as the requests have finished, and the new request
	 * needs a free entry.
	 */
	void consume_entry(std::uint32_t qpn, std::uint16_t opcode, std::uint32_t sq_count) noexcept
	{
		static_assert(XIW_WC_RECV_IMM & XIW_WC_RECV, "all receives have this bit");
		ring_.consume();
		ring_.publish();
		if (opcode & XIW_WC_RECV)
			receives_.advance_by_one(qpn);
		else
			sends_.advance_to(qpn, sq_count);
	}

	/* The caller holds the lock. Returns 0 or a positive errno. */
	int map_moved_ring() noexcept
	{
		return xiw::map_moved_ring(vcq_.cq.context, moved_, mapping_, ring_);
	}

	/*
	 * Takes out the completions of @qpn that have not been polled. The caller holds the lock.
	 */
	void discard(std::uint32_t qpn) noexcept
	{
		map_moved_ring(); /* some may be in memory that there was no room to map */
		ring_.discard(qpn);
	}

	/* The ring is empty. Does what may bring completions; returns whether to look again. */
	bool make_progress() noexcept
	{
		const bool mapped = moved_ && !map_moved_ring();

		if (deferred_doorbells_.is_awaited()) [[unlikely]]
			deferred_doorbells_.set_awaited(ring_.is_armed());
		return deferred_doorbells_.ring_all() || mapped;
	}

	int map(const xiw_create_cq_resp &granted) noexcept;

	verbs_cq vcq_ = {};
	Mapping mapping_;
	PollLock lock_;
	CompletionRing ring_;
	FinishedCountTable sends_;
	FinishedCountTable receives_;
	DeferredDoorbellList deferred_doorbells_;
	std::optional<xiw_create_cq_resp> moved_; /* where the ring is now, if not mapped yet */
	ParentDomainRef parent_domain_;
	xiw_cqe current_ = {}; /* completion that ibv_wc_read_*() read */
};

static_assert(std::is_standard_layout_v<CompletionQueue>, "starts with its ibv_cq");

} /* namespace xiw */

#endif /* XIW_COMPLETION_QUEUE_HPP */
