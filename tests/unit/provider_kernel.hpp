/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* provider_kernel.hpp - what a doorbell reaches: a pipe, and libibverbs' general calls */
#ifndef XIW_TEST_PROVIDER_KERNEL_HPP
#define XIW_TEST_PROVIDER_KERNEL_HPP

#include <cstdint>
#include <functional>

#include "rdma_core.hpp"

/* What write() of a doorbell sends. */
struct Rung {
	ib_uverbs_cmd_hdr hdr;
	uint64_t response;
	uint32_t handle;
	uint32_t wr_count;
	uint32_t sge_count;
	uint32_t wqe_size;
};

/* One at a time: the general calls find it by a global pointer. */
class FakeKernel
{
public:
	FakeKernel();
	~FakeKernel();
	FakeKernel(const FakeKernel &) = delete;
	FakeKernel &operator=(const FakeKernel &) = delete;

	/* True if a doorbell has come by write() since the last call. */
	bool heard(Rung *rung = nullptr);

	/* To be put before a doorbell is connected: its write() will fail. */
	void refuse_write() { context.cmd_fd = -1; }

	ibv_context context = {};

	/* The general calls: how often each came, and what they answer. */
	int send_calls = 0;
	int recv_calls = 0;
	int srq_recv_calls = 0;
	int answer = 0;

	/* What else the general call of a send queue does. */
	std::function<void()> on_send;

private:
	int ends_[2] = { -1, -1 };
};

#endif /* XIW_TEST_PROVIDER_KERNEL_HPP */
