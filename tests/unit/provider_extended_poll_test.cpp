// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_extended_poll_test.cpp - ibv_start_poll() and the rest, with a ring in plain memory */

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <future>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "provider_completions.hpp"
#include "provider_deferred_doorbell.hpp"
#include "provider_kernel.hpp"
#include "provider_yields.hpp"

using xiw::FinishedCount;

namespace
{

struct ExtendedPoll : Completions {
	ExtendedPoll() { cq.fill_extended_poll_ops(); }

	int start() { return ibv_start_poll(cq_ex, &attr); }

	ibv_cq_ex *cq_ex = reinterpret_cast<ibv_cq_ex *>(&cq);
	ibv_poll_cq_attr attr = {};
};

TEST_F(ExtendedPoll, start_poll__finds_nothing_and_unlocks)
{
	EXPECT_EQ(start(), ENOENT);
	EXPECT_EQ(ctl.consumed, 0u);
	complete(1);
	EXPECT_EQ(start(), 0) << "the failed call leaves the queue unlocked";
	ibv_end_poll(cq_ex);
}

/* A program that finds nothing to poll has no other work, so this is the time to ring. */
TEST_F(ExtendedPoll, start_poll__rings_deferred_doorbells_if_it_finds_nothing)
{
	FakeKernel kernel;
	DeferredSendQueue sq(kernel);

	sq.defer_to(cq);
	complete(1);
	EXPECT_EQ(start(), 0);
	EXPECT_EQ(ibv_next_poll(cq_ex), ENOENT);
	ibv_end_poll(cq_ex);
	EXPECT_FALSE(kernel.was_rung()) << "start_poll() found a completion";
	EXPECT_EQ(start(), ENOENT);
	EXPECT_TRUE(kernel.was_rung());
	EXPECT_EQ(start(), ENOENT);
	EXPECT_FALSE(kernel.was_rung()) << "the doorbell was deferred once";
}

TEST_F(ExtendedPoll, start_poll__refuses_unknown_attributes)
{
	complete(1);
	attr.comp_mask = 1;
	EXPECT_EQ(start(), EINVAL);
	EXPECT_EQ(ctl.consumed, 0u);
}

/* Whoever brings a completion may need the CPU of the thread that waits for it. */
struct ImpatientExtendedPoll : ExtendedPoll {
	void start_in_vain(unsigned int times = polls_per_look)
	{
		for (unsigned int i = 0; i < times; i++)
			EXPECT_EQ(start(), ENOENT);
	}

	static constexpr unsigned int polls_per_look = xiw::Patience::polls_per_look;
	static constexpr int64_t limit_ns = xiw::Patience::limit_ns;

	Yields yields;
};

TEST_F(ImpatientExtendedPoll, start_poll__yields_after_some_time)
{
	for (unsigned int i = 0; i < 3; i++) {
		start_in_vain(); /* sees when it begins */
		yields.now_ns += limit_ns - 1;
		start_in_vain();
		EXPECT_EQ(yields.count, i);
		yields.now_ns += 1;
		start_in_vain();
		EXPECT_EQ(yields.count, i + 1);
	}
}

TEST_F(ImpatientExtendedPoll, start_poll__counts_empty_polls_of_all_queues)
{
	PolledQueue other;
	ibv_cq_ex *other_ex = reinterpret_cast<ibv_cq_ex *>(&other.cq);

	other.cq.fill_extended_poll_ops();
	start_in_vain(polls_per_look + polls_per_look / 2);
	yields.now_ns += limit_ns;
	for (unsigned int i = 0; i < polls_per_look / 2; i++) {
		EXPECT_EQ(yields.count, 0u);
		EXPECT_EQ(ibv_start_poll(other_ex, &attr), ENOENT);
	}
	EXPECT_EQ(yields.count, 1u);
}

/* That next_poll() finds no more is no empty poll: the program does not wait there. */
TEST_F(ImpatientExtendedPoll, start_poll__begins_anew_after_a_completion)
{
	start_in_vain(2 * polls_per_look - 1);
	yields.now_ns += limit_ns;
	complete(1);
	EXPECT_EQ(start(), 0);
	for (unsigned int i = 0; i < polls_per_look; i++)
		EXPECT_EQ(ibv_next_poll(cq_ex), ENOENT);
	ibv_end_poll(cq_ex);
	start_in_vain();
	EXPECT_EQ(yields.count, 0u);
	yields.now_ns += limit_ns;
	start_in_vain(polls_per_look - 1);
	EXPECT_EQ(yields.count, 0u);
	start_in_vain(1);
	EXPECT_EQ(yields.count, 1u);
}

TEST_F(ImpatientExtendedPoll, start_poll__yields_under_a_policy_that_shares_the_cpu)
{
	for (int policy : { SCHED_FIFO, SCHED_OTHER }) {
		yields.policy = policy;
		start_in_vain();
		yields.now_ns += limit_ns;
		start_in_vain();
		EXPECT_EQ(yields.count, policy == SCHED_OTHER ? 1u : 0u);
	}
}

TEST_F(ImpatientExtendedPoll, start_poll__yields_with_the_queue_unlocked)
{
	auto other = std::make_shared<std::promise<void>>();
	auto polled = other->get_future();

	yields.on_yield = [&] {
		std::thread([this, other] {
			EXPECT_EQ(start(), ENOENT);
			other->set_value();
		}).detach();
		EXPECT_EQ(polled.wait_for(std::chrono::seconds(10)), std::future_status::ready)
			<< "the queue is locked";
	};
	start_in_vain();
	yields.now_ns += limit_ns;
	start_in_vain();
	EXPECT_EQ(yields.count, 1u);
}

TEST_F(ExtendedPoll, read__every_field)
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
	EXPECT_EQ(cq_ex->wr_id, 0x1122334455667788u);
	EXPECT_EQ(cq_ex->status, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(ibv_wc_read_opcode(cq_ex), IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQ(ibv_wc_read_vendor_err(cq_ex), 9u);
	EXPECT_EQ(ibv_wc_read_byte_len(cq_ex), 4096u);
	EXPECT_EQ(ibv_wc_read_imm_data(cq_ex), 0x01020304u);
	EXPECT_EQ(ibv_wc_read_qp_num(cq_ex), 77u);
	EXPECT_EQ(ibv_wc_read_wc_flags(cq_ex), unsigned(IBV_WC_WITH_IMM));
	EXPECT_EQ(ibv_wc_read_completion_ts(cq_ex), 123456789u);
	EXPECT_EQ(ibv_wc_read_src_qp(cq_ex), 0u);
	EXPECT_EQ(ibv_wc_read_slid(cq_ex), 0u);
	EXPECT_EQ(ibv_wc_read_sl(cq_ex), 0u);
	EXPECT_EQ(ibv_wc_read_dlid_path_bits(cq_ex), 0u);
	ibv_end_poll(cq_ex);
}

TEST_F(ExtendedPoll, read__the_rkey_that_the_peer_has_invalidated)
{
	complete(xiw_cqe{ .imm_inv = 0xabcd01, .opcode = XIW_WC_RECV, .flags = XIW_WC_WITH_INV });
	ASSERT_EQ(start(), 0);
	EXPECT_EQ(ibv_wc_read_invalidated_rkey(cq_ex), 0xabcd01u);
	EXPECT_EQ(ibv_wc_read_wc_flags(cq_ex), unsigned(IBV_WC_WITH_INV));
	ibv_end_poll(cq_ex);
}

/* The queue is locked until end_poll() even if the process had a single thread at start_poll(). */
TEST_F(ExtendedPoll, start_poll__excludes_threads_that_start_later)
{
	std::promise<uint64_t> seen;
	auto seen_by_other = seen.get_future();

	complete(1);
	complete(2);
	ASSERT_EQ(start(), 0);

	std::thread other([&] {
		EXPECT_EQ(start(), 0);
		seen.set_value(cq_ex->wr_id);
		ibv_end_poll(cq_ex);
	});

	EXPECT_EQ(seen_by_other.wait_for(std::chrono::milliseconds(100)),
		  std::future_status::timeout);
	ibv_end_poll(cq_ex);
	EXPECT_EQ(seen_by_other.get(), 2u);
	other.join();
}

/* The completion is two seconds old by both clocks. */
TEST_F(ExtendedPoll, read__wallclock)
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
	const int64_t off = ibv_wc_read_completion_wallclock_ns(cq_ex) - expected;
	EXPECT_LT(std::abs(off), int64_t(second / 2));
	ibv_end_poll(cq_ex);
}

/* Each entry is given back at once, because a new request may need it before end_poll(). */
TEST_F(ExtendedPoll, next_poll__goes_through_all_completions)
{
	for (uint64_t i = 0; i < 3; i++)
		complete(i);
	ASSERT_EQ(start(), 0);
	EXPECT_EQ(cq_ex->wr_id, 0u);
	EXPECT_EQ(ibv_next_poll(cq_ex), 0);
	EXPECT_EQ(cq_ex->wr_id, 1u);
	EXPECT_EQ(ibv_next_poll(cq_ex), 0);
	EXPECT_EQ(cq_ex->wr_id, 2u);
	EXPECT_EQ(ctl.consumed, 3u);
	EXPECT_EQ(ibv_next_poll(cq_ex), ENOENT);
	EXPECT_EQ(ibv_next_poll(cq_ex), ENOENT);
	complete(3);
	EXPECT_EQ(ibv_next_poll(cq_ex), 0) << "a completion was added meanwhile";
	EXPECT_EQ(cq_ex->wr_id, 3u);
	ibv_end_poll(cq_ex);
	EXPECT_EQ(ctl.consumed, 4u);
	EXPECT_EQ(start(), ENOENT);
}

TEST_F(ExtendedPoll, end_poll__leaves_the_remaining_completions)
{
	for (uint64_t lap = 0; lap < 20; lap++) {
		for (uint64_t i = 0; i < 3; i++)
			complete(3 * lap + i);
		ASSERT_EQ(start(), 0);
		EXPECT_EQ(cq_ex->wr_id, 3 * lap);
		EXPECT_EQ(ibv_next_poll(cq_ex), 0);
		ibv_end_poll(cq_ex);
		EXPECT_EQ(ctl.consumed, 3 * lap + 2);
		ASSERT_EQ(start(), 0);
		EXPECT_EQ(cq_ex->wr_id, 3 * lap + 2);
		ibv_end_poll(cq_ex);
	}
}

/* A completion of a receive has no sq_count, so the send queue must ignore that field. */
TEST_F(ExtendedPoll, next_poll__finishes_send_requests)
{
	FinishedCount finished;

	finished.set_qpn(5);
	cq.attach_sends(finished);
	complete(xiw_cqe{ .qpn = 5, .opcode = XIW_WC_READ, .sq_count = 3 });
	complete(xiw_cqe{ .qpn = 5, .opcode = XIW_WC_RECV, .sq_count = 9 });
	ASSERT_EQ(start(), 0);
	EXPECT_EQ(finished.word().load(), 3u);
	EXPECT_EQ(ibv_next_poll(cq_ex), 0);
	EXPECT_EQ(finished.word().load(), 3u);
	ibv_end_poll(cq_ex);
	cq.detach_sends(finished);
}

TEST_F(ExtendedPoll, next_poll__finishes_receive_requests)
{
	FinishedCount finished;

	finished.set_qpn(5);
	cq.attach_receives(finished);
	for (uint16_t opcode : { XIW_WC_RECV, XIW_WC_SEND, XIW_WC_RECV_IMM })
		complete(xiw_cqe{ .qpn = 5, .opcode = opcode });
	complete(xiw_cqe{ .qpn = 6, .opcode = XIW_WC_RECV });
	ASSERT_EQ(start(), 0);
	EXPECT_EQ(finished.word().load(), 1u);
	while (!ibv_next_poll(cq_ex))
		;
	EXPECT_EQ(finished.word().load(), 2u);
	ibv_end_poll(cq_ex);
	cq.detach_receives(finished);
}

/*
 * Between start_poll() and end_poll() the thread may call any other function of the queue. If
 * these took the lock again, the thread would deadlock. The current completion stays readable,
 * even if its queue pair is destroyed meanwhile.
 */
TEST_F(ExtendedPoll, start_poll__lets_its_thread_use_the_queue)
{
	auto done = std::make_shared<std::promise<void>>();
	auto in_time = done->get_future();
	FinishedCount finished;

	finished.set_qpn(5);
	complete(xiw_cqe{ .wr_id = 1, .qpn = 5 });
	complete(xiw_cqe{ .wr_id = 2, .qpn = 6 });
	complete(xiw_cqe{ .wr_id = 3, .qpn = 5 });
	std::thread([&, done] {
		EXPECT_EQ(start(), 0);
		cq.attach_sends(finished);
		cq.detach_sends(finished);
		cq.remove_queue_pair(5);
		EXPECT_EQ(cq_ex->wr_id, 1u);
		EXPECT_EQ(ibv_wc_read_qp_num(cq_ex), 5u);
		EXPECT_EQ(ibv_next_poll(cq_ex), 0);
		EXPECT_EQ(cq_ex->wr_id, 2u);
		EXPECT_EQ(ibv_next_poll(cq_ex), ENOENT);
		ibv_end_poll(cq_ex);
		done->set_value();
	}).detach();
	ASSERT_EQ(in_time.wait_for(std::chrono::seconds(10)), std::future_status::ready)
		<< "the thread deadlocked";
	EXPECT_EQ(start(), ENOENT) << "the queue was left locked";
}

} /* namespace */
