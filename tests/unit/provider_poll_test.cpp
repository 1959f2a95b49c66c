// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_poll_test.cpp - ibv_poll_cq(), with a ring in plain memory */

#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include <pthread.h>

#include <gtest/gtest.h>

#include "provider_completions.hpp"
#include "provider_deferred_doorbell.hpp"
#include "provider_kernel.hpp"
#include "provider_yields.hpp"

namespace
{

struct Poll : Completions {
	int poll(int max) { return cq.poll(max, wc.data()); }

	std::array<ibv_wc, 16> wc = {};
};

TEST_F(Poll, poll__finds_nothing)
{
	EXPECT_EQ(poll(4), 0);
	EXPECT_EQ(ctl.consumed, 0u);
}

TEST_F(Poll, poll__rings_deferred_doorbells_if_it_finds_nothing)
{
	FakeKernel kernel;
	DeferredSendQueue sq(kernel);

	sq.defer_to(cq);
	complete(1);
	EXPECT_EQ(poll(4), 1);
	EXPECT_FALSE(kernel.was_rung()) << "poll() found a completion";
	EXPECT_EQ(poll(4), 0);
	EXPECT_TRUE(kernel.was_rung());
	EXPECT_EQ(poll(4), 0);
	EXPECT_FALSE(kernel.was_rung());
}

/* The process that armed the queue may sleep until the event comes. */
TEST_F(Poll, poll__tells_when_no_event_is_awaited_any_more)
{
	cq.deferred_doorbells().set_awaited(true);
	ctl.arm = XIW_ARM_STEP;
	EXPECT_EQ(poll(4), 0);
	EXPECT_TRUE(cq.deferred_doorbells().is_awaited());
	ctl.fired = ctl.arm;
	complete(1);
	EXPECT_EQ(poll(4), 1);
	EXPECT_EQ(poll(4), 0);
	EXPECT_FALSE(cq.deferred_doorbells().is_awaited());
}

TEST_F(Poll, poll__fills_every_field)
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

TEST_F(Poll, poll__returns_the_rkey_that_the_peer_has_invalidated)
{
	complete(xiw_cqe{ .imm_inv = 0xabcd01, .opcode = XIW_WC_RECV, .flags = XIW_WC_WITH_INV });
	ASSERT_EQ(poll(1), 1);
	EXPECT_EQ(wc[0].opcode, IBV_WC_RECV);
	EXPECT_EQ(wc[0].wc_flags, unsigned(IBV_WC_WITH_INV));
	EXPECT_EQ(wc[0].invalidated_rkey, 0xabcd01u);
}

TEST_F(Poll, poll__returns_no_more_than_max)
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

TEST_F(Poll, poll__consumes_nothing_if_max_is_zero)
{
	complete(1);
	EXPECT_EQ(poll(0), 0);
	EXPECT_EQ(ctl.consumed, 0u);
}

TEST_F(Poll, poll__wraps_around_the_ring)
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

/* The other thread polled the other completion queue of the queue pair. */
TEST_F(Poll, poll__does_not_ring_what_another_thread_has_rung)
{
	FakeKernel kernel;
	DeferredSendQueue sq(kernel);

	sq.defer_to(cq);
	sq.pending = false;
	EXPECT_EQ(poll(4), 0);
	EXPECT_FALSE(kernel.was_rung());
}

/*
 * If a thread is cancelled while it rings with the queue locked, it must unlock the queue first.
 * The second round rings through libibverbs, whose functions are cancellation points.
 */
TEST_F(Poll, poll__unlocks_the_queue_if_the_thread_is_cancelled)
{
	for (const bool slowly : { false, true }) {
		FakeKernel kernel;
		kernel.on_send = [] { pthread_testcancel(); };
		if (slowly)
			kernel.refuse_write();
		DeferredSendQueue sq(kernel);

		sq.defer_to(cq);
		std::promise<void> ready, go;
		std::thread cancelled([&] {
			pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
			ready.set_value();
			go.get_future().wait();
			pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
			cq.poll(1, wc.data()); /* may be cancelled in it or after it */
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

/* Whoever brings a completion may need the CPU of the thread that waits for it. */
struct ImpatientPoll : Poll {
	void poll_in_vain(unsigned int times = polls_per_look)
	{
		for (unsigned int i = 0; i < times; i++)
			EXPECT_EQ(poll(4), 0);
	}

	static constexpr unsigned int polls_per_look = xiw::Patience::polls_per_look;
	static constexpr int64_t limit_ns = xiw::Patience::limit_ns;

	Yields yields;
};

TEST_F(ImpatientPoll, poll__yields_after_some_time)
{
	for (unsigned int i = 0; i < 3; i++) {
		poll_in_vain(); /* sees when it begins */
		yields.now_ns += limit_ns - 1;
		poll_in_vain();
		EXPECT_EQ(yields.count, i);
		yields.now_ns += 1;
		poll_in_vain();
		EXPECT_EQ(yields.count, i + 1);
	}
}

/* The clock costs more than a poll. */
TEST_F(ImpatientPoll, poll__looks_at_the_clock_now_and_then)
{
	poll_in_vain();
	yields.now_ns += limit_ns;
	poll_in_vain(polls_per_look - 1);
	EXPECT_EQ(yields.count, 0u);
	poll_in_vain(1);
	EXPECT_EQ(yields.count, 1u);
	poll_in_vain(10 * polls_per_look);
	EXPECT_EQ(yields.count, 1u) << "the time counts from now";
}

/* Programs poll one queue for sends and one for receives in turn. */
TEST_F(ImpatientPoll, poll__counts_empty_polls_of_all_queues)
{
	PolledQueue others[2];

	for (unsigned int i = 0; i < 2 * polls_per_look; i++) {
		EXPECT_EQ(yields.count, 0u);
		EXPECT_EQ((i % 3 ? others[i % 3 - 1].cq : cq).poll(1, wc.data()), 0);
		if (i == polls_per_look)
			yields.now_ns += limit_ns;
	}
	EXPECT_EQ(yields.count, 1u);
}

TEST_F(ImpatientPoll, poll__begins_anew_after_a_completion)
{
	PolledQueue other;

	poll_in_vain(2 * polls_per_look - 1);
	yields.now_ns += limit_ns;
	other.complete(1);
	EXPECT_EQ(other.cq.poll(1, wc.data()), 1) << "of any queue";
	poll_in_vain(polls_per_look - 1);
	EXPECT_EQ(yields.count, 0u) << "the number of polls begins anew";
	poll_in_vain(1);
	EXPECT_EQ(yields.count, 0u) << "the time begins anew";
	yields.now_ns += limit_ns;
	poll_in_vain(polls_per_look - 1);
	EXPECT_EQ(yields.count, 0u);
	poll_in_vain(1);
	EXPECT_EQ(yields.count, 1u);
}

TEST_F(ImpatientPoll, poll__counts_for_each_thread)
{
	poll_in_vain();
	yields.now_ns += limit_ns;
	std::thread([this] { poll_in_vain(2 * polls_per_look); }).join();
	EXPECT_EQ(yields.count, 0u);
	poll_in_vain();
	EXPECT_EQ(yields.count, 1u);
}

TEST_F(ImpatientPoll, poll__yields_under_a_policy_that_shares_the_cpu)
{
	for (int policy : { SCHED_FIFO, SCHED_RR, SCHED_DEADLINE, SCHED_BATCH, SCHED_OTHER }) {
		bool shares = policy == SCHED_BATCH || policy == SCHED_OTHER;

		yields.policy = policy | SCHED_RESET_ON_FORK;
		yields.count = 0;
		poll_in_vain();
		yields.now_ns += limit_ns;
		poll_in_vain();
		EXPECT_EQ(yields.count, shares ? 1u : 0u) << policy;
	}
}

/* The thread is not the only one of its process, or it would not lock the queue. */
TEST_F(ImpatientPoll, poll__yields_with_the_queue_unlocked)
{
	auto other = std::make_shared<std::promise<void>>();
	auto polled = other->get_future();

	yields.on_yield = [&] {
		std::thread([this, other] {
			cq.poll(1, wc.data());
			other->set_value();
		}).detach();
		EXPECT_EQ(polled.wait_for(std::chrono::seconds(10)), std::future_status::ready)
			<< "the queue is locked";
	};
	std::thread([this] {
		poll_in_vain();
		yields.now_ns += limit_ns;
		poll_in_vain();
	}).join();
	EXPECT_EQ(yields.count, 1u);
}

struct RemoveQueuePair : Poll {
	void complete_of(uint32_t qpn, uint64_t wr_id)
	{
		complete(xiw_cqe{ .wr_id = wr_id, .qpn = qpn });
	}

	void destroy(uint32_t qpn) { cq.remove_queue_pair(qpn); }
};

TEST_F(RemoveQueuePair, takes_only_its_completions)
{
	for (uint64_t i = 0; i < 6; i++)
		complete_of(i % 2 ? 7 : 9, i);
	destroy(7);
	EXPECT_EQ(ctl.consumed, 3u) << "the removed entries are given back";
	ASSERT_EQ(poll(16), 3);
	for (uint64_t i = 0; i < 3; i++)
		EXPECT_EQ(wc[i].wr_id, 2 * i);
	EXPECT_EQ(ctl.consumed, 6u);
}

TEST_F(RemoveQueuePair, takes_all_or_none)
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

/* The kernel adds entries between the removal and the poll, at each position of the ring. */
TEST_F(RemoveQueuePair, keeps_the_order_of_the_other_completions)
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
