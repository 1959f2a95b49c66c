/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* completion_queue.hpp - a completion queue: one mapping, one ring */
#ifndef XIW_COMPLETION_QUEUE_HPP
#define XIW_COMPLETION_QUEUE_HPP

#include <mutex>
#include <optional>

#include "domain.hpp"
#include "latecomers.hpp"
#include "lock.hpp"
#include "mapping.hpp"
#include "rdma_core.hpp"
#include "retired.hpp"
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
	static ibv_cq_ex *create_extended(ibv_context *context,
					  const ibv_cq_init_attr_ex &attr) noexcept;
	static int destroy(ibv_cq *cq) noexcept;

	void open(const CompletionRing &ring) noexcept { ring_ = ring; }

	/* From here on completions retire requests of that send queue, or receive queue. */
	void attach_sends(RetiredCount &retired) noexcept
	{
		std::lock_guard guard(lock_);
		sends_.add(retired);
	}

	void attach_receives(RetiredCount &retired) noexcept
	{
		std::lock_guard guard(lock_);
		receives_.add(retired);
	}

	/* Whoever polls does not touch it any more. */
	void detach_sends(const RetiredCount &retired) noexcept
	{
		std::lock_guard guard(lock_);
		sends_.remove(retired);
	}

	void detach_receives(const RetiredCount &retired) noexcept
	{
		std::lock_guard guard(lock_);
		receives_.remove(retired);
	}

	/* The queue pair is destroyed: nothing is left that comes from it or leads to it. */
	void forget(std::uint32_t qpn, const Latecomer &latecomer) noexcept
	{
		std::lock_guard guard(lock_);
		follow(); /* what there is to discard may be in memory that had no room before */
		ring_.discard(qpn);
		latecomers_.remove(latecomer);
	}

	/* The queue pair is reset: its completions go, and all requests of the queue are over. */
	void reset(std::uint32_t qpn, RetiredCount &retired, std::uint32_t count) noexcept
	{
		std::lock_guard guard(lock_);
		follow(); /* what there is to discard may be in memory that had no room before */
		ring_.discard(qpn);
		retired.advance(count);
	}

	Latecomers &latecomers() noexcept { return latecomers_; }

	int resize(int cqe) noexcept;
	int request_notification(bool solicited_only) noexcept;

	/* in poll.cpp */
	int poll(int max, ibv_wc *wc) noexcept;

	/* in extended_poll.cpp: ibv_start_poll() and its kin */
	void offer_extended_poll() noexcept;
	int start_poll(const ibv_poll_cq_attr *attr) noexcept;
	int next_poll() noexcept;
	void end_poll() noexcept;

private:
	bool show_next() noexcept;

	/*
	 * The requests of the entry that is consumed are over. The entry is given back first: who
	 * posts again at once needs a place for what completes then.
	 */
	void retire(std::uint32_t qpn, std::uint16_t opcode, std::uint32_t sq_count) noexcept
	{
		static_assert(XIW_WC_RECV_IMM & XIW_WC_RECV, "a bit that all receives have");
		ring_.consume();
		ring_.publish();
		if (opcode & XIW_WC_RECV)
			receives_.advance(qpn);
		else
			sends_.advance(qpn, sq_count);
	}

	/*
	 * Maps the memory to which the kernel has moved the queue. If there is no room for it
	 * now, all that needs it tries again; meanwhile nothing is lost, but nothing can be polled.
	 */
	int follow() noexcept
	{
		Mapping mapping;

		if (!moved_)
			return 0;
		if (int err = mapping.map(vcq_.cq.context->cmd_fd, moved_->map_key,
					  moved_->map_len)) {
			ring_.close();
			return err;
		}
		ring_.move(mapping.at<xiw_cq_ctl>(0), mapping.at<xiw_cqe>(moved_->slots_offset),
			   moved_->entries);
		mapping_ = std::move(mapping);
		moved_.reset();
		return 0;
	}

	/* Nothing is there: does what may change that. True if it is worth another look. */
	bool stir() noexcept
	{
		const bool followed = moved_ && !follow();

		return latecomers_.ring() || followed;
	}

	int map(const xiw_create_cq_resp &granted) noexcept;

	verbs_cq vcq_ = {};
	Mapping mapping_;
	PollLock lock_;
	CompletionRing ring_;
	RetiredCounts sends_;
	RetiredCounts receives_;
	Latecomers latecomers_;
	std::optional<xiw_create_cq_resp> moved_; /* where the ring is, if it is not mapped yet */
	DomainUse parent_;
	xiw_cqe shown_ = {}; /* between start_poll() and end_poll() */
};

static_assert(std::is_standard_layout_v<CompletionQueue>, "starts with its ibv_cq");

} /* namespace xiw */

#endif /* XIW_COMPLETION_QUEUE_HPP */
