/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* doorbell.hpp - asks the kernel to look at a ring */
#ifndef XIW_DOORBELL_HPP
#define XIW_DOORBELL_HPP

#include <cstdint>

#include "rdma_core.hpp"

namespace xiw
{

/*
 * Doorbell - a post verb without work requests, sent the cheapest way
 *
 * The cheapest way is one write() of a command that is prepared once. The kernel refuses write()
 * from a process that has changed its credentials since it opened the device. If write() fails,
 * for this or any other reason, ring() falls back on libibverbs' function for the verb and
 * returns its result. ring() is not a cancellation point either way.
 */
class Doorbell
{
public:
	enum class Queue { send, recv, shared_recv };

	Doorbell() = default;
	Doorbell(const Doorbell &) = delete; /* command_ has the address of response_ */
	Doorbell &operator=(const Doorbell &) = delete;

	void connect(ibv_qp *qp, Queue queue) noexcept;
	void connect(ibv_srq *srq) noexcept;

	/* Returns 0 or a positive errno. */
	int ring() noexcept;

private:
	/*
	 * The common start of ib_uverbs_post_send, ib_uverbs_post_recv and
	 * ib_uverbs_post_srq_recv.
	 */
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
	void *owner_ = nullptr; /* an ibv_srq if queue_ is shared_recv, else an ibv_qp */
	Command command_ = {};
	std::uint32_t response_ = 0;
};

} /* namespace xiw */

#endif /* XIW_DOORBELL_HPP */
