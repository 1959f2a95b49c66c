// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_doorbell_test.cpp - the command that a doorbell sends to the kernel */

#include <cerrno>

#include <gtest/gtest.h>

#include "doorbell.hpp"
#include "provider_kernel.hpp"

using xiw::Doorbell;

namespace
{

constexpr uint32_t handle = 0x1234;

struct DoorbellTest : testing::Test {
	ibv_qp qp()
	{
		ibv_qp qp = {};

		qp.context = &kernel.context;
		qp.handle = handle;
		return qp;
	}

	ibv_srq srq()
	{
		ibv_srq srq = {};

		srq.context = &kernel.context;
		srq.handle = handle;
		return srq;
	}

	/* Expects @command to post to @handle, without work requests. */
	void expect_command(const DoorbellCommand &command, uint32_t opcode, uint32_t wqe_size)
	{
		EXPECT_EQ(command.hdr.command, opcode);
		EXPECT_EQ(command.hdr.in_words * 4, sizeof(command));
		EXPECT_EQ(command.hdr.out_words * 4, sizeof(ib_uverbs_post_send_resp));
		EXPECT_NE(command.response, 0u);
		EXPECT_EQ(command.handle, handle);
		EXPECT_EQ(command.wr_count, 0u);
		EXPECT_EQ(command.sge_count, 0u);
		EXPECT_EQ(command.wqe_size, wqe_size);
	}

	FakeKernel kernel;
	Doorbell doorbell;
	DoorbellCommand command = {};
};

TEST_F(DoorbellTest, ring__writes_the_command_of_a_send_queue)
{
	ibv_qp owner = qp();

	doorbell.connect(&owner, Doorbell::Queue::send);
	EXPECT_EQ(doorbell.ring(), 0);
	ASSERT_TRUE(kernel.was_rung(&command));
	expect_command(command, IB_USER_VERBS_CMD_POST_SEND, sizeof(ib_uverbs_send_wr));
	EXPECT_EQ(kernel.send_calls, 0);
}

TEST_F(DoorbellTest, ring__writes_the_command_of_a_receive_queue)
{
	ibv_qp owner = qp();

	doorbell.connect(&owner, Doorbell::Queue::recv);
	EXPECT_EQ(doorbell.ring(), 0);
	ASSERT_TRUE(kernel.was_rung(&command));
	expect_command(command, IB_USER_VERBS_CMD_POST_RECV, sizeof(ib_uverbs_recv_wr));
}

TEST_F(DoorbellTest, ring__writes_the_command_of_a_shared_receive_queue)
{
	ibv_srq owner = srq();

	doorbell.connect(&owner);
	EXPECT_EQ(doorbell.ring(), 0);
	ASSERT_TRUE(kernel.was_rung(&command));
	expect_command(command, IB_USER_VERBS_CMD_POST_SRQ_RECV, sizeof(ib_uverbs_recv_wr));
}

TEST_F(DoorbellTest, ring__falls_back_on_libibverbs_if_write_fails)
{
	ibv_qp sender = qp();
	ibv_qp receiver = qp();
	ibv_srq shared = srq();
	Doorbell recv_doorbell, srq_doorbell;

	kernel.refuse_write();
	doorbell.connect(&sender, Doorbell::Queue::send);
	recv_doorbell.connect(&receiver, Doorbell::Queue::recv);
	srq_doorbell.connect(&shared);

	EXPECT_EQ(doorbell.ring(), 0);
	EXPECT_EQ(recv_doorbell.ring(), 0);
	EXPECT_EQ(srq_doorbell.ring(), 0);
	EXPECT_EQ(kernel.send_calls, 1);
	EXPECT_EQ(kernel.recv_calls, 1);
	EXPECT_EQ(kernel.srq_recv_calls, 1);
}

TEST_F(DoorbellTest, ring__returns_the_result_of_libibverbs)
{
	ibv_qp owner = qp();

	kernel.refuse_write();
	kernel.result = EIO;
	doorbell.connect(&owner, Doorbell::Queue::send);
	EXPECT_EQ(doorbell.ring(), EIO);
}

} /* namespace */
