/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* completion_queue.hpp - a completion queue: one mapping, one ring */
#ifndef XIW_COMPLETION_QUEUE_HPP
#define XIW_COMPLETION_QUEUE_HPP

#include <mutex>

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

	/* From here on completions retire requests of that send queue. */
	void attach(RetiredCount &retired) noexcept
	{
		std::lock_guard guard(lock_);
		retired_.add(retired);
	}

	/* Whoever polls does not touch them any more, whatever is left to be polled. */
	void detach(const RetiredCount &retired, const Latecomer &latecomer) noexcept
	{
		std::lock_guard guard(lock_);
		retired_.remove(retired);
		latecomers_.remove(latecomer);
	}

	Latecomers &latecomers() noexcept { return latecomers_; }

	/* Retires requests whose completions will not be polled. */
	void retire(RetiredCount &retired, std::uint32_t count) noexcept
	{
		std::lock_guard guard(lock_);
		retired.advance(count);
	}

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

	/* A completion is over for its requests once it is seen. */
	void retire(const xiw_cqe &cqe) noexcept
	{
		static_assert(XIW_WC_RECV_IMM & XIW_WC_RECV, "a bit that all receives have");
		if (!(cqe.opcode & XIW_WC_RECV))
			retired_.advance(cqe.qpn, cqe.sq_count);
	}

	int map(const xiw_create_cq_resp &granted) noexcept;

	verbs_cq vcq_ = {};
	Mapping mapping_;
	Lock lock_;
	CompletionRing ring_;
	RetiredCounts retired_;
	Latecomers latecomers_;
	const xiw_cqe *shown_ = nullptr; /* between start_poll() and end_poll() */
};

static_assert(std::is_standard_layout_v<CompletionQueue>, "starts with its ibv_cq");

} /* namespace xiw */

#endif /* XIW_COMPLETION_QUEUE_HPP */
