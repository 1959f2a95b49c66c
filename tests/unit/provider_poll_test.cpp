// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_poll_test.cpp - from entries of a ring in plain memory to ibv_wc */

#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "provider_completions.hpp"
#include "provider_kernel.hpp"
#include "provider_latecomer.hpp"

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
	Late late(kernel);

	late.list(cq);
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

/* A thread that polls its other completion queue was faster. */
TEST_F(Poll, poll__rings_for_nobody_whom_another_has_rung_for)
{
	FakeKernel kernel;
	Late late(kernel);

	late.list(cq);
	late.late = false;
	EXPECT_EQ(poll(4), 0);
	EXPECT_FALSE(kernel.heard());
}

/*
 * A thread that is cancelled while it rings, with the queue locked, goes on until the queue is
 * unlocked. The doorbell goes the general way here, whose write() is a cancellation point.
 */
TEST_F(Poll, a_cancelled_thread_leaves_the_queue_unlocked)
{
	for (const bool slowly : { false, true }) {
		FakeKernel kernel;
		kernel.on_send = [] { pthread_testcancel(); };
		if (slowly)
			kernel.refuse_write();
		Late late(kernel);

		late.list(cq);
		std::promise<void> ready, go;
		std::thread cancelled([&] {
			pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
			ready.set_value();
			go.get_future().wait();
			pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
			cq.poll(1, wc.data()); /* it is the end, or comes back */
		});

		ready.get_future().wait();
		pthread_cancel(cancelled.native_handle());
		go.set_value();
		cancelled.join();

		auto other = std::make_shared<std::promise<void>>();
		auto polled = other->get_future();
		std::thread([this, other] {
			cq.poll(1, wc.data());
			other->set_value();
		}).detach();
		ASSERT_EQ(polled.wait_for(std::chrono::seconds(10)), std::future_status::ready)
			<< "the queue was left locked";
	}
}

struct Discard : Poll {
	void complete_of(uint32_t qpn, uint64_t wr_id)
	{
		complete(xiw_cqe{ .wr_id = wr_id, .qpn = qpn });
	}

	void destroy(uint32_t qpn)
	{
		xiw::Latecomer never;

		cq.forget(qpn, never);
	}
};

TEST_F(Discard, forget__only_those_of_that_queue_pair)
{
	for (uint64_t i = 0; i < 6; i++)
		complete_of(i % 2 ? 7 : 9, i);
	destroy(7);
	EXPECT_EQ(ctl.consumed, 3u) << "their places are given back";
	ASSERT_EQ(poll(16), 3);
	for (uint64_t i = 0; i < 3; i++)
		EXPECT_EQ(wc[i].wr_id, 2 * i);
	EXPECT_EQ(ctl.consumed, 6u);
}

TEST_F(Discard, forget__all_or_none)
{
	for (uint64_t i = 0; i < entries; i++)
		complete_of(7, i);
	destroy(9);
	EXPECT_EQ(ctl.consumed, 0u);
	destroy(7);
	EXPECT_EQ(ctl.consumed, entries);
	EXPECT_EQ(poll(16), 0);
	destroy(7);
	EXPECT_EQ(ctl.consumed, entries);
}

/* At each place of the ring, and with the kernel adding more behind, entries stay what they are. */
TEST_F(Discard, forget__wherever_the_ring_stands)
{
	uint64_t next = 0, expected = 0;

	for (uint32_t round = 0; round < 10 * entries; round++) {
		for (uint32_t qpn : { 9, 7, 7, 9, 7 })
			complete_of(qpn, qpn == 9 ? next++ : ~uint64_t{ 0 });
		destroy(7);
		complete_of(9, next++);
		const int n = poll(16);
		ASSERT_EQ(n, 3);
		for (int i = 0; i < n; i++)
			EXPECT_EQ(wc[i].wr_id, expected++);
	}
}

} /* namespace */
