/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* shared_receive.hpp - a shared receive queue: one mapping, one receive queue */
#ifndef XIW_SHARED_RECEIVE_HPP
#define XIW_SHARED_RECEIVE_HPP

#include <atomic>
#include <optional>

#include "domain.hpp"
#include "mapping.hpp"
#include "rdma_core.hpp"
#include "work_queue.hpp"

namespace xiw
{

class SharedReceive
{
public:
	static SharedReceive &from(ibv_srq *srq) noexcept
	{
		return *reinterpret_cast<SharedReceive *>(srq);
	}

	static ibv_srq *create(ibv_pd *pd, ibv_srq_init_attr *attr) noexcept;
	static int destroy(ibv_srq *srq) noexcept;

	int modify(ibv_srq_attr *attr, int mask) noexcept;
	int query(ibv_srq_attr *attr) noexcept;

	int post_recv(ibv_recv_wr *wr, ibv_recv_wr **bad) noexcept;

private:
	int open(const xiw_create_srq_resp &granted, const ibv_srq_attr &attr) noexcept;
	int follow() noexcept;

	/* Before it is posted to. Returns 0 or a positive errno. */
	int follow_if_moved() noexcept;

	verbs_srq vsrq_ = {};
	Mapping mapping_;
	ReceiveQueue queue_;
	DomainUse domain_;
	/* where the ring is, if it is not mapped yet; guarded by the lock of the queue */
	std::optional<xiw_create_srq_resp> moved_;
	std::atomic<bool> has_moved_ = false; /* for a look without the lock */
};

static_assert(std::is_standard_layout_v<SharedReceive>, "starts with its ibv_srq");

} /* namespace xiw */

#endif /* XIW_SHARED_RECEIVE_HPP */
