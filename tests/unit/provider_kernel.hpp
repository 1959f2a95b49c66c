/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* provider_kernel.hpp - receives doorbells: the write() of one, and libibverbs' post functions */
#ifndef XIW_TEST_PROVIDER_KERNEL_HPP
#define XIW_TEST_PROVIDER_KERNEL_HPP

#include <cstdint>
#include <functional>

#include "rdma_core.hpp"

/* What a doorbell writes to the device file. */
struct DoorbellCommand {
	ib_uverbs_cmd_hdr hdr;
	uint64_t response;
	uint32_t handle;
	uint32_t wr_count;
	uint32_t sge_count;
	uint32_t wqe_size;
};

/*
 * FakeKernel - a pipe in place of the device file, and ibv_cmd_post_send(), _recv() and _srq_recv()
 *
 * Only one may exist at a time, because these functions find it by a global pointer.
 */
class FakeKernel
{
public:
	FakeKernel();
	~FakeKernel();
	FakeKernel(const FakeKernel &) = delete;
	FakeKernel &operator=(const FakeKernel &) = delete;

	/* Takes one doorbell out of the pipe. Returns false if there is none. */
	bool was_rung(DoorbellCommand *command = nullptr);

	/* The write() of each doorbell that is connected after this fails. */
	void refuse_write() { context.cmd_fd = -1; }

	ibv_context context = {};

	/* How often each of libibverbs' functions was called, and what they return. */
	int send_calls = 0;
	int recv_calls = 0;
	int srq_recv_calls = 0;
	int result = 0;

	/* Called by ibv_cmd_post_send(). */
	std::function<void()> on_send;

private:
	int ends_[2] = { -1, -1 };
};

#endif /* XIW_TEST_PROVIDER_KERNEL_HPP */
