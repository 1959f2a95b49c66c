// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_kernel.cpp - receives doorbells: the write() of one, and libibverbs' post functions */

#include "provider_kernel.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

static FakeKernel *kernel;

FakeKernel::FakeKernel()
{
	EXPECT_EQ(kernel, nullptr);
	EXPECT_EQ(pipe2(ends_, O_NONBLOCK), 0);
	context.cmd_fd = ends_[1];
	kernel = this;
}

FakeKernel::~FakeKernel()
{
	close(ends_[0]);
	close(ends_[1]);
	kernel = nullptr;
}

bool FakeKernel::was_rung(DoorbellCommand *command)
{
	DoorbellCommand one;

	if (read(ends_[0], &one, sizeof(one)) != sizeof(one))
		return false;
	if (command)
		*command = one;
	return true;
}

int ibv_cmd_post_send(ibv_qp *, ibv_send_wr *wr, ibv_send_wr **)
{
	EXPECT_EQ(wr, nullptr);
	kernel->send_calls++;
	if (kernel->on_send)
		kernel->on_send();
	return kernel->result;
}

int ibv_cmd_post_recv(ibv_qp *, ibv_recv_wr *wr, ibv_recv_wr **)
{
	EXPECT_EQ(wr, nullptr);
	kernel->recv_calls++;
	return kernel->result;
}

int ibv_cmd_post_srq_recv(ibv_srq *, ibv_recv_wr *wr, ibv_recv_wr **)
{
	EXPECT_EQ(wr, nullptr);
	kernel->srq_recv_calls++;
	return kernel->result;
}
