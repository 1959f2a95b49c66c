/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* doorbell.hpp - tells the kernel to look at a ring */
#ifndef XIW_DOORBELL_HPP
#define XIW_DOORBELL_HPP

#include "rdma_core.hpp"

namespace xiw
{

/*
 * Doorbell - a verb that posts no work requests, in the cheapest form there is
 *
 * That is write() of a command made once. The kernel refuses it to a process
 * that changed its credentials after it had opened the device; then, and
 * whatever else is wrong, libibverbs' general form of the same verb decides.
 * Neither is a cancellation point.
 */
class Doorbell
{
public:
	enum class Queue { send, recv, shared_recv };

	Doorbell() = default;
	Doorbell(const Doorbell &) = delete; /* the kernel has the address of answer_ */
	Doorbell &operator=(const Doorbell &) = delete;

	void connect(ibv_qp *qp, Queue queue) noexcept;
	void connect(ibv_srq *srq) noexcept;

	/* Returns 0 or a positive errno. */
	int ring() noexcept;

private:
	/* struct ib_uverbs_post_send, post_recv or post_srq_recv: they agree so far */
	struct Command {
		ib_uverbs_cmd_hdr hdr;
		__aligned_u64 response;
		std::uint32_t handle;
		std::uint32_t wr_count;
		std::uint32_t sge_count;
		std::uint32_t wqe_size;
	};

	void connect(ibv_context *context, std::uint32_t command, std::uint32_t handle) noexcept;
	int ring_slowly() noexcept;

	int fd_ = -1;
	Queue queue_ = Queue::send;
	void *owner_ = nullptr; /* ibv_srq if queue_ is shared_recv, else ibv_qp */
	Command command_ = {};
	std::uint32_t answer_ = 0;
};

} /* namespace xiw */

#endif /* XIW_DOORBELL_HPP */
