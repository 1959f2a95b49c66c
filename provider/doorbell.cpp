// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* doorbell.cpp - asks the kernel to look at a ring */

#include "doorbell.hpp"

#include <cerrno>
#include <cstddef>

#include <sys/syscall.h>
#include <unistd.h>

#include "cancel_guard.hpp"

namespace xiw
{

static_assert(sizeof(ib_uverbs_post_send) == sizeof(ib_uverbs_post_recv));
static_assert(sizeof(ib_uverbs_post_send) == sizeof(ib_uverbs_post_srq_recv));
static_assert(offsetof(ib_uverbs_post_send, qp_handle) == 8);
static_assert(offsetof(ib_uverbs_post_recv, qp_handle) == 8);
static_assert(offsetof(ib_uverbs_post_srq_recv, srq_handle) == 8);
static_assert(offsetof(ib_uverbs_post_send, wqe_size) == 20);
static_assert(offsetof(ib_uverbs_post_recv, wqe_size) == 20);
static_assert(offsetof(ib_uverbs_post_srq_recv, wqe_size) == 20);

void Doorbell::connect(ibv_qp *qp, Queue queue) noexcept
{
	owner_ = qp;
	queue_ = queue;
	connect(qp->context,
		queue == Queue::send ? IB_USER_VERBS_CMD_POST_SEND : IB_USER_VERBS_CMD_POST_RECV,
		qp->handle);
}

void Doorbell::connect(ibv_srq *srq) noexcept
{
	owner_ = srq;
	queue_ = Queue::shared_recv;
	connect(srq->context, IB_USER_VERBS_CMD_POST_SRQ_RECV, srq->handle);
}

void Doorbell::connect(ibv_context *context, std::uint32_t command, std::uint32_t handle) noexcept
{
	static_assert(sizeof(Command) == sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_post_send));
	constexpr std::uint32_t send_size = sizeof(ib_uverbs_send_wr);
	constexpr std::uint32_t recv_size = sizeof(ib_uverbs_recv_wr);

	fd_ = context->cmd_fd;
	command_ = {
		.hdr = { .command = command,
			 .in_words = sizeof(command_) / 4,
			 .out_words = sizeof(response_) / 4 },
		.response = reinterpret_cast<std::uintptr_t>(&response_),
		.handle = handle,
		.wr_count = 0,
		.sge_count = 0,
		.wqe_size = queue_ == Queue::send ? send_size : recv_size,
	};
}

int Doorbell::ring_slowly() noexcept
{
	CancelGuard no_cancel;
	ibv_send_wr *bad_send;
	ibv_recv_wr *bad_recv;

	switch (queue_) {
	case Queue::send:
		return ibv_cmd_post_send(static_cast<ibv_qp *>(owner_), nullptr, &bad_send);
	case Queue::recv:
		return ibv_cmd_post_recv(static_cast<ibv_qp *>(owner_), nullptr, &bad_recv);
	case Queue::shared_recv:
		return ibv_cmd_post_srq_recv(static_cast<ibv_srq *>(owner_), nullptr, &bad_recv);
	}
	return EINVAL;
}

int Doorbell::ring() noexcept
{
	constexpr long size = sizeof(command_);

	/* write() is a cancellation point, and the caller may hold the lock of a queue */
	if (syscall(SYS_write, fd_, &command_, size) == size) [[likely]]
		return 0;
	return ring_slowly();
}

} /* namespace xiw */
