// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_post_recv_test.cpp - ibv_post_recv(), with a ring in plain memory */

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>

#include "provider_post.hpp"
#include "queue_pair.hpp"
#include "work_queue.hpp"

using xiw::Doorbell;
using xiw::QueuePair;
using xiw::ReceiveQueue;

namespace
{

struct PostRecv : PostTest {
	PostRecv()
	{
		queue.open(ring(), 4);
		queue.doorbell().connect(&owner, Doorbell::Queue::recv);
	}

	int post(ibv_recv_wr &wr) { return queue.post(&wr, &bad); }

	const xiw_recv_slot &header(uint32_t n)
	{
		return *reinterpret_cast<const xiw_recv_slot *>(slot(n));
	}

	ReceiveQueue queue;
	ibv_recv_wr *bad = nullptr;
	std::array<ibv_sge, 5> sges = {};
};

TEST_F(PostRecv, post__fills_the_slots_of_a_list)
{
	sges[0] = { .addr = 0x7000, .length = 100, .lkey = 11 };
	sges[1] = { .addr = 0x8000, .length = 200, .lkey = 12 };
	ibv_recv_wr second = { .wr_id = 2, .next = nullptr, .sg_list = nullptr, .num_sge = 0 };
	ibv_recv_wr first = { .wr_id = 1, .next = &second, .sg_list = sges.data(), .num_sge = 2 };

	ASSERT_EQ(post(first), 0);
	EXPECT_EQ(ctl.produced, 2u);
	EXPECT_EQ(header(0).wr_id, 1u);
	EXPECT_EQ(header(0).num_sge, 2u);
	EXPECT_EQ(header(0).reserved, 0u);
	EXPECT_EQ(std::memcmp(header(0).sge, sges.data(), 2 * sizeof(sges[0])), 0);
	EXPECT_EQ(header(1).wr_id, 2u);
	EXPECT_EQ(header(1).num_sge, 0u);

	DoorbellCommand command;
	ASSERT_TRUE(kernel.was_rung(&command));
	EXPECT_EQ(command.hdr.command, uint32_t(IB_USER_VERBS_CMD_POST_RECV));
}

TEST_F(PostRecv, refuse__too_many_sges)
{
	for (int num_sge : { 5, -1 }) {
		ibv_recv_wr wr = {
			.wr_id = 1, .next = nullptr, .sg_list = sges.data(), .num_sge = num_sge
		};
		EXPECT_EQ(post(wr), EINVAL);
		EXPECT_EQ(bad, &wr);
		EXPECT_EQ(ctl.produced, 0u);
		EXPECT_TRUE(is_untouched(0));
	}
}

TEST_F(PostRecv, refuse__four_gibibytes)
{
	sges[0].length = 0xffffffff;
	sges[3].length = 1;
	ibv_recv_wr wr = { .wr_id = 1, .next = nullptr, .sg_list = sges.data(), .num_sge = 4 };

	EXPECT_EQ(post(wr), EINVAL);
	EXPECT_EQ(ctl.produced, 0u);
}

TEST_F(PostRecv, full__until_completions_are_polled)
{
	ibv_recv_wr wr = { .wr_id = 1, .next = nullptr, .sg_list = nullptr, .num_sge = 0 };

	for (uint32_t i = 0; i < entries; i++)
		ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(post(wr), ENOMEM);
	ctl.consumed = 2;
	EXPECT_EQ(post(wr), ENOMEM) << "given back by the kernel but not polled";
	queue.finished().advance_by_one();
	EXPECT_EQ(post(wr), 0);
	EXPECT_EQ(post(wr), ENOMEM);
}

TEST_F(PostRecv, full__until_the_kernel_takes_requests_if_shared)
{
	ibv_recv_wr wr = { .wr_id = 1, .next = nullptr, .sg_list = nullptr, .num_sge = 0 };

	queue.open(ring(), 4, true);
	for (uint32_t i = 0; i < entries; i++)
		ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(post(wr), ENOMEM);
	ctl.consumed = 1;
	EXPECT_EQ(post(wr), 0);
}

TEST(QueuePairState, post_recv__is_refused_in_reset)
{
	QueuePair qp; /* a new queue pair is in RESET */
	ibv_recv_wr wr = {};
	ibv_recv_wr *bad = nullptr;

	EXPECT_EQ(qp.post_recv(&wr, &bad), EINVAL);
	EXPECT_EQ(bad, &wr);
}

TEST(QueuePairState, post_recv__is_refused_with_a_shared_receive_queue)
{
	QueuePair qp;
	ibv_recv_wr wr = {};
	ibv_recv_wr *bad = nullptr;

	reinterpret_cast<ibv_qp *>(&qp)->state = IBV_QPS_RTS;
	EXPECT_EQ(qp.post_recv(&wr, &bad), EINVAL);
	EXPECT_EQ(bad, &wr);
}

} /* namespace */
