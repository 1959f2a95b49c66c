/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* shared_receive_queue.hpp - a shared receive queue: its mapping and its receive queue */
#ifndef XIW_SHARED_RECEIVE_QUEUE_HPP
#define XIW_SHARED_RECEIVE_QUEUE_HPP

#include <atomic>
#include <optional>

#include "domain.hpp"
#include "mapping.hpp"
#include "rdma_core.hpp"
#include "work_queue.hpp"

namespace xiw
{

class SharedReceiveQueue
{
public:
	static SharedReceiveQueue &from(ibv_srq *srq) noexcept
	{
		return *reinterpret_cast<SharedReceiveQueue *>(srq);
	}

	static ibv_srq *create(ibv_pd *pd, ibv_srq_init_attr *attr) noexcept;
	static int destroy(ibv_srq *srq) noexcept;

	int modify(ibv_srq_attr *attr, int mask) noexcept;
	int query(ibv_srq_attr *attr) noexcept;

	int post_recv(ibv_recv_wr *wr, ibv_recv_wr **bad) noexcept;

private:
	int open(const xiw_create_srq_resp &granted, const ibv_srq_attr &attr) noexcept;
	int map_moved_ring() noexcept;

	/* Call it before each post. Returns 0 or a positive errno. */
	int map_if_moved() noexcept;

	verbs_srq vsrq_ = {};
	Mapping mapping_;
	ReceiveQueue queue_;
	ParentDomainRef parent_domain_;
	/* where the ring is now, if it is not mapped yet; guarded by the lock of the queue */
	std::optional<xiw_create_srq_resp> moved_;
	std::atomic<bool> has_moved_ = false; /* moved_.has_value(), to be read without the lock */
};

static_assert(std::is_standard_layout_v<SharedReceiveQueue>, "starts with its ibv_srq");

} /* namespace xiw */

#endif /* XIW_SHARED_RECEIVE_QUEUE_HPP */
