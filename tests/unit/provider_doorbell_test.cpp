// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_doorbell_test.cpp - the command that wakes the kernel */

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

	/* Expects a command that posts nothing to @handle. */
	void expect_command(const Rung &rung, uint32_t command, uint32_t wqe_size)
	{
		EXPECT_EQ(rung.hdr.command, command);
		EXPECT_EQ(rung.hdr.in_words * 4, sizeof(rung));
		EXPECT_EQ(rung.hdr.out_words * 4, sizeof(ib_uverbs_post_send_resp));
		EXPECT_NE(rung.response, 0u);
		EXPECT_EQ(rung.handle, handle);
		EXPECT_EQ(rung.wr_count, 0u);
		EXPECT_EQ(rung.sge_count, 0u);
		EXPECT_EQ(rung.wqe_size, wqe_size);
	}

	FakeKernel kernel;
	Doorbell doorbell;
	Rung rung = {};
};

TEST_F(DoorbellTest, ring__send_queue)
{
	ibv_qp owner = qp();

	doorbell.connect(&owner, Doorbell::Queue::send);
	EXPECT_EQ(doorbell.ring(), 0);
	ASSERT_TRUE(kernel.heard(&rung));
	expect_command(rung, IB_USER_VERBS_CMD_POST_SEND, sizeof(ib_uverbs_send_wr));
	EXPECT_EQ(kernel.send_calls, 0);
}

TEST_F(DoorbellTest, ring__receive_queue)
{
	ibv_qp owner = qp();

	doorbell.connect(&owner, Doorbell::Queue::recv);
	EXPECT_EQ(doorbell.ring(), 0);
	ASSERT_TRUE(kernel.heard(&rung));
	expect_command(rung, IB_USER_VERBS_CMD_POST_RECV, sizeof(ib_uverbs_recv_wr));
}

TEST_F(DoorbellTest, ring__shared_receive_queue)
{
	ibv_srq owner = srq();

	doorbell.connect(&owner);
	EXPECT_EQ(doorbell.ring(), 0);
	ASSERT_TRUE(kernel.heard(&rung));
	expect_command(rung, IB_USER_VERBS_CMD_POST_SRQ_RECV, sizeof(ib_uverbs_recv_wr));
}

TEST_F(DoorbellTest, ring__a_refused_write_goes_the_general_way)
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

TEST_F(DoorbellTest, ring__says_what_the_general_way_says)
{
	ibv_qp owner = qp();

	kernel.refuse_write();
	kernel.answer = EIO;
	doorbell.connect(&owner, Doorbell::Queue::send);
	EXPECT_EQ(doorbell.ring(), EIO);
}

} /* namespace */
