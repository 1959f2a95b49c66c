// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_extended_poll_test.cpp - from entries of a ring in plain memory to ibv_start_poll() */

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <future>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "provider_completions.hpp"
#include "provider_kernel.hpp"
#include "provider_latecomer.hpp"

using xiw::RetiredCount;

namespace
{

struct ExtendedPoll : Completions {
	ExtendedPoll() { cq.offer_extended_poll(); }

	int start() { return ibv_start_poll(of, &attr); }

	ibv_cq_ex *of = reinterpret_cast<ibv_cq_ex *>(&cq);
	ibv_poll_cq_attr attr = {};
};

TEST_F(ExtendedPoll, start_poll__empty)
{
	EXPECT_EQ(start(), ENOENT);
	EXPECT_EQ(ctl.consumed, 0u);
	complete(1);
	EXPECT_EQ(start(), 0) << "the queue was left unlocked";
	ibv_end_poll(of);
}

/* Who finds nothing has nothing else to do: that is when they are rung for. */
TEST_F(ExtendedPoll, start_poll__empty_rings_for_latecomers)
{
	FakeKernel kernel;
	Late late(kernel);

	late.list(cq);
	complete(1);
	EXPECT_EQ(start(), 0);
	EXPECT_EQ(ibv_next_poll(of), ENOENT);
	ibv_end_poll(of);
	EXPECT_FALSE(kernel.heard()) << "there was something to do";
	EXPECT_EQ(start(), ENOENT);
	EXPECT_TRUE(kernel.heard());
	EXPECT_EQ(start(), ENOENT);
	EXPECT_FALSE(kernel.heard()) << "it was late once";
}

TEST_F(ExtendedPoll, start_poll__unknown_attributes)
{
	complete(1);
	attr.comp_mask = 1;
	EXPECT_EQ(start(), EINVAL);
	EXPECT_EQ(ctl.consumed, 0u);
}

TEST_F(ExtendedPoll, every_field)
{
	complete(xiw_cqe{
		.wr_id = 0x1122334455667788,
		.timestamp = 123456789,
		.qpn = 77,
		.byte_len = 4096,
		.imm_inv = 0x01020304,
		.vendor_err = 9,
		.status = IBV_WC_REM_ACCESS_ERR,
		.opcode = XIW_WC_RECV_IMM,
		.flags = XIW_WC_WITH_IMM,
	});
	ASSERT_EQ(start(), 0);
	EXPECT_EQ(of->wr_id, 0x1122334455667788u);
	EXPECT_EQ(of->status, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(ibv_wc_read_opcode(of), IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQ(ibv_wc_read_vendor_err(of), 9u);
	EXPECT_EQ(ibv_wc_read_byte_len(of), 4096u);
	EXPECT_EQ(ibv_wc_read_imm_data(of), 0x01020304u);
	EXPECT_EQ(ibv_wc_read_qp_num(of), 77u);
	EXPECT_EQ(ibv_wc_read_wc_flags(of), unsigned(IBV_WC_WITH_IMM));
	EXPECT_EQ(ibv_wc_read_completion_ts(of), 123456789u);
	EXPECT_EQ(ibv_wc_read_src_qp(of), 0u);
	EXPECT_EQ(ibv_wc_read_slid(of), 0u);
	EXPECT_EQ(ibv_wc_read_sl(of), 0u);
	EXPECT_EQ(ibv_wc_read_dlid_path_bits(of), 0u);
	ibv_end_poll(of);
}

TEST_F(ExtendedPoll, the_key_that_the_peer_invalidated)
{
	complete(xiw_cqe{ .imm_inv = 0xabcd01, .opcode = XIW_WC_RECV, .flags = XIW_WC_WITH_INV });
	ASSERT_EQ(start(), 0);
	EXPECT_EQ(ibv_wc_read_invalidated_rkey(of), 0xabcd01u);
	EXPECT_EQ(ibv_wc_read_wc_flags(of), unsigned(IBV_WC_WITH_INV));
	ibv_end_poll(of);
}

/* Who polls is alone with the queue until end_poll(), also if the process had one thread before. */
TEST_F(ExtendedPoll, start_poll__keeps_threads_out_that_start_meanwhile)
{
	std::promise<uint64_t> seen;
	auto seen_by_other = seen.get_future();

	complete(1);
	complete(2);
	ASSERT_EQ(start(), 0);

	std::thread other([&] {
		EXPECT_EQ(start(), 0);
		seen.set_value(of->wr_id);
		ibv_end_poll(of);
	});

	EXPECT_EQ(seen_by_other.wait_for(std::chrono::milliseconds(100)),
		  std::future_status::timeout);
	ibv_end_poll(of);
	EXPECT_EQ(seen_by_other.get(), 2u);
	other.join();
}

/* A completion of two seconds ago, by both clocks. */
TEST_F(ExtendedPoll, wallclock)
{
	constexpr uint64_t second = 1'000'000'000;
	auto clock = [](clockid_t id) {
		timespec now;

		clock_gettime(id, &now);
		return now.tv_sec * second + now.tv_nsec;
	};
	const uint64_t stamp = clock(CLOCK_MONOTONIC_RAW) - 2 * second;
	const uint64_t expected = clock(CLOCK_REALTIME) - 2 * second;

	complete(xiw_cqe{ .timestamp = stamp });
	ASSERT_EQ(start(), 0);
	const int64_t off = ibv_wc_read_completion_wallclock_ns(of) - expected;
	EXPECT_LT(std::abs(off), int64_t(second / 2));
	ibv_end_poll(of);
}

/* What is seen is given back at once: who posts again needs the place before end_poll(). */
TEST_F(ExtendedPoll, next_poll__through_all)
{
	for (uint64_t i = 0; i < 3; i++)
		complete(i);
	ASSERT_EQ(start(), 0);
	EXPECT_EQ(of->wr_id, 0u);
	EXPECT_EQ(ibv_next_poll(of), 0);
	EXPECT_EQ(of->wr_id, 1u);
	EXPECT_EQ(ibv_next_poll(of), 0);
	EXPECT_EQ(of->wr_id, 2u);
	EXPECT_EQ(ctl.consumed, 3u);
	EXPECT_EQ(ibv_next_poll(of), ENOENT);
	EXPECT_EQ(ibv_next_poll(of), ENOENT);
	complete(3);
	EXPECT_EQ(ibv_next_poll(of), 0) << "one that has come meanwhile";
	EXPECT_EQ(of->wr_id, 3u);
	ibv_end_poll(of);
	EXPECT_EQ(ctl.consumed, 4u);
	EXPECT_EQ(start(), ENOENT);
}

TEST_F(ExtendedPoll, end_poll__after_some)
{
	for (uint64_t lap = 0; lap < 20; lap++) {
		for (uint64_t i = 0; i < 3; i++)
			complete(3 * lap + i);
		ASSERT_EQ(start(), 0);
		EXPECT_EQ(of->wr_id, 3 * lap);
		EXPECT_EQ(ibv_next_poll(of), 0);
		ibv_end_poll(of);
		EXPECT_EQ(ctl.consumed, 3 * lap + 2);
		ASSERT_EQ(start(), 0);
		EXPECT_EQ(of->wr_id, 3 * lap + 2);
		ibv_end_poll(of);
	}
}

/* Completions of send requests free their places, those of receives say nothing of these. */
TEST_F(ExtendedPoll, retires_send_requests)
{
	RetiredCount retired;

	retired.open(5);
	cq.attach_sends(retired);
	complete(xiw_cqe{ .qpn = 5, .opcode = XIW_WC_READ, .sq_count = 3 });
	complete(xiw_cqe{ .qpn = 5, .opcode = XIW_WC_RECV, .sq_count = 9 });
	ASSERT_EQ(start(), 0);
	EXPECT_EQ(retired.word().load(), 3u);
	EXPECT_EQ(ibv_next_poll(of), 0);
	EXPECT_EQ(retired.word().load(), 3u);
	ibv_end_poll(of);
	cq.detach_sends(retired);
}

TEST_F(ExtendedPoll, retires_receive_requests)
{
	RetiredCount retired;

	retired.open(5);
	cq.attach_receives(retired);
	for (uint16_t opcode : { XIW_WC_RECV, XIW_WC_SEND, XIW_WC_RECV_IMM })
		complete(xiw_cqe{ .qpn = 5, .opcode = opcode });
	complete(xiw_cqe{ .qpn = 6, .opcode = XIW_WC_RECV });
	ASSERT_EQ(start(), 0);
	EXPECT_EQ(retired.word().load(), 1u);
	while (!ibv_next_poll(of))
		;
	EXPECT_EQ(retired.word().load(), 2u);
	ibv_end_poll(of);
	cq.detach_receives(retired);
}

/*
 * While it goes through completions a thread may do all else to the queue: it would wait for
 * itself. What it looks at stays as it was, even if it belongs to a queue pair that is destroyed.
 */
TEST_F(ExtendedPoll, start_poll__lets_its_thread_do_all_else)
{
	auto done = std::make_shared<std::promise<void>>();
	auto in_time = done->get_future();
	RetiredCount retired;

	retired.open(5);
	complete(xiw_cqe{ .wr_id = 1, .qpn = 5 });
	complete(xiw_cqe{ .wr_id = 2, .qpn = 6 });
	complete(xiw_cqe{ .wr_id = 3, .qpn = 5 });
	std::thread([&, done] {
		xiw::Latecomer never;

		EXPECT_EQ(start(), 0);
		cq.attach_sends(retired);
		cq.detach_sends(retired);
		cq.forget(5, never);
		EXPECT_EQ(of->wr_id, 1u);
		EXPECT_EQ(ibv_wc_read_qp_num(of), 5u);
		EXPECT_EQ(ibv_next_poll(of), 0);
		EXPECT_EQ(of->wr_id, 2u);
		EXPECT_EQ(ibv_next_poll(of), ENOENT);
		ibv_end_poll(of);
		done->set_value();
	}).detach();
	ASSERT_EQ(in_time.wait_for(std::chrono::seconds(10)), std::future_status::ready)
		<< "it waits for itself";
	EXPECT_EQ(start(), ENOENT) << "it is unlocked for others";
}

} /* namespace */
