// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_poll_test.cpp - from entries of a ring in plain memory to ibv_wc */

#include <array>

#include <gtest/gtest.h>

#include "provider_completions.hpp"
#include "provider_kernel.hpp"

namespace
{

struct Poll : Completions {
	int poll(int max) { return cq.poll(max, wc.data()); }

	std::array<ibv_wc, 16> wc = {};
};

TEST_F(Poll, poll__empty)
{
	EXPECT_EQ(poll(4), 0);
	EXPECT_EQ(ctl.consumed, 0u);
}

TEST_F(Poll, poll__empty_rings_for_latecomers)
{
	FakeKernel kernel;
	ibv_qp qp = {};
	xiw::Latecomer late;

	qp.context = &kernel.context;
	late.doorbell.connect(&qp, xiw::Doorbell::Queue::send);
	cq.latecomers().add(late);
	complete(1);
	EXPECT_EQ(poll(4), 1);
	EXPECT_FALSE(kernel.heard()) << "there was other work";
	EXPECT_EQ(poll(4), 0);
	EXPECT_TRUE(kernel.heard());
	EXPECT_EQ(poll(4), 0);
	EXPECT_FALSE(kernel.heard());
}

TEST_F(Poll, poll__every_field)
{
	wc[0].src_qp = wc[0].pkey_index = wc[0].slid = wc[0].sl = wc[0].dlid_path_bits = 0xff;
	complete(xiw_cqe{
		.wr_id = 0x1122334455667788,
		.qpn = 77,
		.byte_len = 4096,
		.imm_inv = 0x01020304,
		.vendor_err = 9,
		.status = IBV_WC_REM_ACCESS_ERR,
		.opcode = XIW_WC_RECV_IMM,
		.flags = XIW_WC_WITH_IMM,
	});
	ASSERT_EQ(poll(1), 1);
	EXPECT_EQ(wc[0].wr_id, 0x1122334455667788u);
	EXPECT_EQ(wc[0].qp_num, 77u);
	EXPECT_EQ(wc[0].byte_len, 4096u);
	EXPECT_EQ(wc[0].imm_data, 0x01020304u);
	EXPECT_EQ(wc[0].vendor_err, 9u);
	EXPECT_EQ(wc[0].status, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(wc[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQ(wc[0].wc_flags, unsigned(IBV_WC_WITH_IMM));
	EXPECT_EQ(wc[0].src_qp, 0u);
	EXPECT_EQ(wc[0].pkey_index, 0u);
	EXPECT_EQ(wc[0].slid, 0u);
	EXPECT_EQ(wc[0].sl, 0u);
	EXPECT_EQ(wc[0].dlid_path_bits, 0u);
}

TEST_F(Poll, poll__the_key_that_the_peer_invalidated)
{
	complete(xiw_cqe{ .imm_inv = 0xabcd01, .opcode = XIW_WC_RECV, .flags = XIW_WC_WITH_INV });
	ASSERT_EQ(poll(1), 1);
	EXPECT_EQ(wc[0].opcode, IBV_WC_RECV);
	EXPECT_EQ(wc[0].wc_flags, unsigned(IBV_WC_WITH_INV));
	EXPECT_EQ(wc[0].invalidated_rkey, 0xabcd01u);
}

TEST_F(Poll, poll__no_more_than_asked_for)
{
	for (uint64_t i = 0; i < 5; i++)
		complete(i);
	ASSERT_EQ(poll(3), 3);
	EXPECT_EQ(ctl.consumed, 3u);
	EXPECT_EQ(wc[2].wr_id, 2u);
	ASSERT_EQ(poll(3), 2);
	EXPECT_EQ(ctl.consumed, 5u);
	EXPECT_EQ(wc[0].wr_id, 3u);
	EXPECT_EQ(wc[1].wr_id, 4u);
	EXPECT_EQ(poll(3), 0);
}

TEST_F(Poll, poll__nothing_asked_for)
{
	complete(1);
	EXPECT_EQ(poll(0), 0);
	EXPECT_EQ(ctl.consumed, 0u);
}

TEST_F(Poll, poll__goes_round_the_ring)
{
	for (uint64_t lap = 0; lap < 5; lap++) {
		for (uint64_t i = 0; i < entries; i++)
			complete(lap * entries + i);
		ASSERT_EQ(poll(16), int(entries));
		EXPECT_EQ(wc[0].wr_id, lap * entries);
		EXPECT_EQ(wc[7].wr_id, lap * entries + 7);
	}
	EXPECT_EQ(ctl.consumed, 5 * entries);
}

} /* namespace */
