// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_post_send_test.cpp - ibv_post_send(), with a ring in plain memory */

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "deferred_doorbell.hpp"
#include "provider_post.hpp"
#include "queue_pair.hpp"
#include "work_queue.hpp"

using xiw::DeferredDoorbellList;
using xiw::Doorbell;
using xiw::QueuePair;
using xiw::SendQueue;

namespace
{

constexpr uint32_t max_inline = 400; /* bytes */

struct PostSend : PostTest {
	PostSend() { open(false); }

	void open(bool signal_all)
	{
		queue.open(ring(), { .max_sge = XIW_MAX_SGE,
				     .max_inline = max_inline,
				     .signal_all = signal_all });
		queue.defer_doorbell_to(send_cq_doorbells, recv_cq_doorbells);
		queue.doorbell().connect(&owner, Doorbell::Queue::send);
	}

	int post(ibv_send_wr &wr) { return queue.post(&wr, &bad); }

	/* Expects that post() refuses @wr with @err, and neither fills a slot nor rings. */
	void expect_refused(ibv_send_wr &wr, int err)
	{
		bad = nullptr;
		EXPECT_EQ(post(wr), err);
		EXPECT_EQ(bad, &wr);
		EXPECT_EQ(ctl.produced, 0u);
		EXPECT_TRUE(is_untouched(0));
		EXPECT_FALSE(kernel.was_rung());
	}

	const xiw_send_slot &header(uint32_t n)
	{
		return *reinterpret_cast<const xiw_send_slot *>(slot(n));
	}

	DeferredDoorbellList send_cq_doorbells, recv_cq_doorbells;
	SendQueue queue;
	ibv_send_wr *bad = nullptr;
	std::array<ibv_sge, XIW_MAX_SGE + 1> sges = {};
};

ibv_send_wr request(uint32_t opcode, ibv_sge *sges = nullptr, int num_sge = 0,
		    unsigned int flags = 0)
{
	ibv_send_wr wr = {};

	wr.wr_id = 0x1020304050607080;
	std::memcpy(&wr.opcode, &opcode, sizeof(opcode));
	wr.send_flags = flags;
	wr.sg_list = sges;
	wr.num_sge = num_sge;
	return wr;
}

TEST_F(PostSend, post__bind_mw)
{
	ibv_mr region = {};
	ibv_send_wr wr = request(IBV_WR_BIND_MW, nullptr, 0, IBV_SEND_SIGNALED);

	region.lkey = 17;
	wr.bind_mw.rkey = 98;
	wr.bind_mw.bind_info = { .mr = &region,
				 .addr = 0x7000,
				 .length = 0x123456789,
				 .mw_access_flags = IBV_ACCESS_REMOTE_READ };
	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).opcode, XIW_OP_BIND_MW);
	EXPECT_EQ(header(0).num_sge, 0);
	EXPECT_EQ(header(0).rkey, 98u);
	EXPECT_EQ(header(0).bind.addr, 0x7000u);
	EXPECT_EQ(header(0).bind.length, 0x123456789u);
	EXPECT_EQ(header(0).bind.lkey, 17u);
	EXPECT_EQ(header(0).bind.access, unsigned(IBV_ACCESS_REMOTE_READ));
}

TEST_F(PostSend, post__bind_mw_without_a_region)
{
	ibv_send_wr wr = request(IBV_WR_BIND_MW);

	wr.bind_mw.bind_info.length = 5;
	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).bind.length, 0u);
	EXPECT_EQ(header(0).bind.lkey, 0u);
}

TEST_F(PostSend, post__rdma_write)
{
	sges[0] = { .addr = 0x7000, .length = 100, .lkey = 11 };
	sges[1] = { .addr = 0x8000, .length = 200, .lkey = 12 };
	ibv_send_wr wr =
		request(IBV_WR_RDMA_WRITE, sges.data(), 2, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
	wr.wr.rdma.remote_addr = 0x123456789abc;
	wr.wr.rdma.rkey = 99;

	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(ctl.produced, 1u);
	EXPECT_EQ(header(0).wr_id, 0x1020304050607080u);
	EXPECT_EQ(header(0).opcode, XIW_OP_WRITE);
	EXPECT_EQ(header(0).flags, XIW_SEND_SIGNALED | XIW_SEND_FENCE);
	EXPECT_EQ(header(0).num_sge, 2u);
	EXPECT_EQ(header(0).reserved, 0u);
	EXPECT_EQ(header(0).inline_len, 0u);
	EXPECT_EQ(header(0).remote_addr, 0x123456789abcu);
	EXPECT_EQ(header(0).rkey, 99u);
	EXPECT_EQ(header(0).imm_inv, 0u);
	EXPECT_EQ(header(0).sge[0].addr, 0x7000u);
	EXPECT_EQ(header(0).sge[0].length, 100u);
	EXPECT_EQ(header(0).sge[0].lkey, 11u);
	EXPECT_EQ(header(0).sge[1].addr, 0x8000u);
	EXPECT_TRUE(is_untouched(1));
}

TEST_F(PostSend, post__rdma_write_with_imm)
{
	ibv_send_wr wr = request(IBV_WR_RDMA_WRITE_WITH_IMM);
	wr.imm_data = 0x04030201;
	wr.wr.rdma.rkey = 5;

	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).opcode, XIW_OP_WRITE_IMM);
	EXPECT_EQ(header(0).imm_inv, 0x04030201u);
	EXPECT_EQ(header(0).rkey, 5u);
	EXPECT_EQ(header(0).num_sge, 0u);
}

TEST_F(PostSend, post__send_clears_the_unused_fields)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).remote_addr, 0u);
	EXPECT_EQ(header(0).rkey, 0u);
	EXPECT_EQ(header(0).imm_inv, 0u);
}

TEST_F(PostSend, post__send_with_inv)
{
	ibv_send_wr wr = request(IBV_WR_SEND_WITH_INV, nullptr, 0, IBV_SEND_SOLICITED);
	wr.invalidate_rkey = 0xabc01;

	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).opcode, XIW_OP_SEND_INV);
	EXPECT_EQ(header(0).flags, XIW_SEND_SOLICITED);
	EXPECT_EQ(header(0).imm_inv, 0xabc01u);
}

TEST_F(PostSend, post__local_inv)
{
	ibv_send_wr wr = request(IBV_WR_LOCAL_INV);
	wr.invalidate_rkey = 0xabc02;

	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).opcode, XIW_OP_LOCAL_INV);
	EXPECT_EQ(header(0).rkey, 0xabc02u);
}

TEST_F(PostSend, post__rdma_read)
{
	sges[0] = { .addr = 0x9000, .length = 0xffffffff, .lkey = 3 };
	ibv_send_wr wr = request(IBV_WR_RDMA_READ, sges.data(), 1);
	wr.wr.rdma.remote_addr = 0x4000;
	wr.wr.rdma.rkey = 8;

	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).opcode, XIW_OP_READ);
	EXPECT_EQ(header(0).remote_addr, 0x4000u);
	EXPECT_EQ(header(0).sge[0].length, 0xffffffffu);
}

TEST_F(PostSend, post__atomic_cmp_and_swp)
{
	sges[0] = { .addr = 0x9000, .length = 8, .lkey = 3 };
	ibv_send_wr wr = request(IBV_WR_ATOMIC_CMP_AND_SWP, sges.data(), 1);
	wr.wr.atomic = { .remote_addr = 0x4008, .compare_add = 17, .swap = 18, .rkey = 9 };

	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).opcode, XIW_OP_CMP_SWP);
	EXPECT_EQ(header(0).remote_addr, 0x4008u);
	EXPECT_EQ(header(0).rkey, 9u);
	EXPECT_EQ(header(0).atomic.compare_add, 17u);
	EXPECT_EQ(header(0).atomic.swap, 18u);
	EXPECT_EQ(header(0).sge[1].addr, 0x9000u) << "the SGE follows the operands";
}

TEST_F(PostSend, post__sixteen_sges_stay_within_the_slot)
{
	for (size_t i = 0; i < sges.size(); i++)
		sges[i] = { .addr = 0x1000 * i, .length = 1, .lkey = uint32_t(i) };
	ibv_send_wr wr = request(IBV_WR_SEND, sges.data(), XIW_MAX_SGE);

	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).num_sge, XIW_MAX_SGE);
	EXPECT_EQ(std::memcmp(slot(0) + XIW_SLOT_HEADER, sges.data(), 16 * sizeof(ibv_sge)), 0);
	EXPECT_TRUE(is_untouched(1));
}

TEST_F(PostSend, post__inline_gathers_the_data)
{
	char text[] = "gathered";
	sges[0] = { .addr = uintptr_t(text), .length = 3, .lkey = 0 };
	sges[1] = { .addr = 0, .length = 0, .lkey = 0 };
	sges[2] = { .addr = uintptr_t(text + 3), .length = 5, .lkey = 0 };
	ibv_send_wr wr = request(IBV_WR_SEND, sges.data(), 3, IBV_SEND_INLINE);

	ASSERT_EQ(post(wr), 0);
	std::memset(text, 0, sizeof(text)); /* the caller may reuse the buffer at once */
	EXPECT_EQ(header(0).flags, XIW_SEND_INLINE);
	EXPECT_EQ(header(0).num_sge, 0u);
	EXPECT_EQ(header(0).inline_len, 8u);
	EXPECT_EQ(std::memcmp(header(0).data, "gathered", 8), 0);
}

TEST_F(PostSend, post__inline_without_data)
{
	ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, nullptr, 0, IBV_SEND_INLINE);

	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).inline_len, 0u);
}

TEST_F(PostSend, post__inline_up_to_the_granted_length)
{
	std::vector<uint8_t> data(max_inline + 1, 7);
	sges[0] = { .addr = uintptr_t(data.data()), .length = max_inline + 1, .lkey = 0 };
	ibv_send_wr wr = request(IBV_WR_SEND, sges.data(), 1, IBV_SEND_INLINE);

	expect_refused(wr, EINVAL);
	sges[0].length = max_inline;
	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).inline_len, max_inline);
	EXPECT_EQ(slot(0)[XIW_SLOT_HEADER + max_inline - 1], std::byte(7));
}

TEST_F(PostSend, post__signals_all_if_the_queue_pair_asks_for_it)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	open(true);
	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).flags, XIW_SEND_SIGNALED);
}

TEST_F(PostSend, refuse__unsupported_opcodes)
{
	ibv_send_wr with_imm = request(IBV_WR_SEND_WITH_IMM);
	ibv_send_wr tso = request(IBV_WR_TSO);
	ibv_send_wr unknown = request(31);

	expect_refused(with_imm, EOPNOTSUPP);
	expect_refused(tso, EINVAL);
	expect_refused(unknown, EINVAL);
}

TEST_F(PostSend, refuse__unknown_flags)
{
	ibv_send_wr wr = request(IBV_WR_SEND, nullptr, 0, IBV_SEND_IP_CSUM);

	expect_refused(wr, EINVAL);
}

TEST_F(PostSend, refuse__too_many_sges)
{
	ibv_send_wr send = request(IBV_WR_SEND, sges.data(), XIW_MAX_SGE + 1);
	ibv_send_wr read = request(IBV_WR_RDMA_READ, sges.data(), 2);
	ibv_send_wr invalidate = request(IBV_WR_LOCAL_INV, sges.data(), 1);
	ibv_send_wr negative = request(IBV_WR_SEND, sges.data(), -1);

	expect_refused(send, EINVAL);
	expect_refused(read, EINVAL);
	expect_refused(invalidate, EINVAL);
	expect_refused(negative, EINVAL);
}

TEST_F(PostSend, refuse__more_sges_than_granted)
{
	ibv_send_wr wr = request(IBV_WR_SEND, sges.data(), 2);

	queue.open(ring(), { .max_sge = 1 });
	expect_refused(wr, EINVAL);
}

TEST_F(PostSend, refuse__four_gibibytes)
{
	sges[0].length = 0xffffffff;
	sges[1].length = 1;
	ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, sges.data(), 2);

	expect_refused(wr, EINVAL);
}

TEST_F(PostSend, refuse__inline_for_opcodes_that_send_no_data)
{
	sges[0].length = 8;
	ibv_send_wr read = request(IBV_WR_RDMA_READ, sges.data(), 1, IBV_SEND_INLINE);
	ibv_send_wr fetch = request(IBV_WR_ATOMIC_FETCH_AND_ADD, sges.data(), 1, IBV_SEND_INLINE);

	expect_refused(read, EINVAL);
	expect_refused(fetch, EINVAL);
}

TEST_F(PostSend, refuse__atomics_of_a_wrong_size)
{
	sges[0].length = 4;
	ibv_send_wr half = request(IBV_WR_ATOMIC_CMP_AND_SWP, sges.data(), 1);
	ibv_send_wr none = request(IBV_WR_ATOMIC_FETCH_AND_ADD);

	expect_refused(half, EINVAL);
	expect_refused(none, EINVAL);
}

TEST_F(PostSend, list__is_posted_up_to_the_bad_request)
{
	ibv_send_wr third = request(IBV_WR_SEND_WITH_IMM);
	ibv_send_wr second = request(IBV_WR_SEND);
	ibv_send_wr first = request(IBV_WR_RDMA_WRITE);
	first.next = &second;
	second.next = &third;

	EXPECT_EQ(post(first), EOPNOTSUPP);
	EXPECT_EQ(bad, &third);
	EXPECT_EQ(ctl.produced, 2u);
	EXPECT_EQ(header(0).opcode, XIW_OP_WRITE);
	EXPECT_EQ(header(1).opcode, XIW_OP_SEND);
	EXPECT_TRUE(is_untouched(2));
	EXPECT_TRUE(kernel.was_rung()) << "the good requests are posted";
}

TEST_F(PostSend, list__rings_once)
{
	ibv_send_wr second = request(IBV_WR_SEND);
	ibv_send_wr first = request(IBV_WR_SEND);
	first.next = &second;

	EXPECT_EQ(post(first), 0);
	EXPECT_TRUE(kernel.was_rung());
	EXPECT_FALSE(kernel.was_rung());
}

TEST_F(PostSend, doorbell__is_not_rung_while_the_kernel_looks)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	ctl.flags = 0;
	EXPECT_EQ(post(wr), 0);
	EXPECT_EQ(ctl.produced, 1u);
	EXPECT_FALSE(kernel.was_rung());
}

TEST_F(PostSend, doorbell__is_deferred_once_for_many_posts)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	ctl.flags = XIW_DOORBELL_LATER;
	EXPECT_EQ(post(wr), 0);
	EXPECT_EQ(post(wr), 0);
	EXPECT_FALSE(kernel.was_rung());
	EXPECT_TRUE(send_cq_doorbells.ring_all());
	EXPECT_TRUE(kernel.was_rung());
	EXPECT_FALSE(kernel.was_rung());
	EXPECT_FALSE(send_cq_doorbells.ring_all());

	EXPECT_EQ(post(wr), 0);
	EXPECT_TRUE(send_cq_doorbells.ring_all()) << "it can be deferred again";
	EXPECT_TRUE(kernel.was_rung());
}

TEST_F(PostSend, doorbell__is_not_rung_after_the_queue_is_removed)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	ctl.flags = XIW_DOORBELL_LATER;
	EXPECT_EQ(post(wr), 0);
	send_cq_doorbells.remove(queue.deferred_on_send_cq());
	recv_cq_doorbells.remove(queue.deferred_on_recv_cq());
	EXPECT_FALSE(send_cq_doorbells.ring_all());
	EXPECT_FALSE(recv_cq_doorbells.ring_all());
	EXPECT_FALSE(kernel.was_rung());
}

/* The kernel sets the flag while it handles the doorbell, so post() must read the flags again. */
TEST_F(PostSend, doorbell__is_deferred_after_it_was_rung)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	kernel.refuse_write();
	kernel.on_send = [this] { ctl.flags = XIW_DOORBELL_LATER; };
	queue.doorbell().connect(&owner, Doorbell::Queue::send);
	EXPECT_EQ(post(wr), 0);
	EXPECT_EQ(kernel.send_calls, 1);
	EXPECT_TRUE(send_cq_doorbells.ring_all()) << "a thread that polls rings again";
	EXPECT_EQ(kernel.send_calls, 2);
}

/* Without a worker, the doorbell that was rung has sent all that was posted. */
TEST_F(PostSend, doorbell__is_not_deferred_after_it_was_rung_if_requests_gather)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	kernel.refuse_write();
	kernel.on_send = [this] { ctl.flags = XIW_DOORBELL_LATER | XIW_DOORBELL_GATHER; };
	queue.doorbell().connect(&owner, Doorbell::Queue::send);
	EXPECT_EQ(post(wr), 0);
	EXPECT_EQ(kernel.send_calls, 1);
	EXPECT_FALSE(send_cq_doorbells.ring_all());
	EXPECT_EQ(kernel.send_calls, 1);
}

/* The process may sleep until the event comes. If a worker looks soon, it need not ring. */
TEST_F(PostSend, doorbell__of_gathered_requests_is_rung_at_once_while_an_event_is_awaited)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	for (DeferredDoorbellList *list : { &send_cq_doorbells, &recv_cq_doorbells }) {
		list->set_awaited(true);
		ctl.flags = XIW_DOORBELL_LATER | XIW_DOORBELL_GATHER;
		EXPECT_EQ(post(wr), 0);
		EXPECT_NE(ctl.produced % (entries / 2), 0u) << "no half of the ring is full";
		EXPECT_TRUE(kernel.was_rung());
		EXPECT_FALSE(send_cq_doorbells.ring_all()) << "it was rung already";
		ctl.flags = XIW_DOORBELL_LATER;
		EXPECT_EQ(post(wr), 0);
		EXPECT_FALSE(kernel.was_rung());
		EXPECT_TRUE(send_cq_doorbells.ring_all());
		EXPECT_TRUE(kernel.was_rung());
		list->set_awaited(false);
	}
}

/* A thread that waits for an answer may poll the recv_cq only. */
TEST_F(PostSend, doorbell__is_rung_from_the_recv_cq)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	ctl.flags = XIW_DOORBELL_LATER;
	EXPECT_EQ(post(wr), 0);
	EXPECT_TRUE(recv_cq_doorbells.ring_all());
	EXPECT_TRUE(kernel.was_rung());
	EXPECT_FALSE(send_cq_doorbells.ring_all()) << "the doorbell was rung already";
	EXPECT_FALSE(kernel.was_rung());
}

TEST_F(PostSend, doorbell__is_rung_again_from_the_list_where_it_still_is)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	ctl.flags = XIW_DOORBELL_LATER;
	EXPECT_EQ(post(wr), 0);
	EXPECT_TRUE(recv_cq_doorbells.ring_all());
	EXPECT_TRUE(kernel.was_rung());
	EXPECT_EQ(post(wr), 0);
	EXPECT_TRUE(send_cq_doorbells.ring_all());
	EXPECT_TRUE(kernel.was_rung());
}

TEST_F(PostSend, doorbell__fails_the_whole_list_if_it_fails)
{
	ibv_send_wr second = request(IBV_WR_TSO);
	ibv_send_wr first = request(IBV_WR_SEND);
	first.next = &second;

	kernel.refuse_write();
	kernel.result = EIO;
	queue.doorbell().connect(&owner, Doorbell::Queue::send);
	EXPECT_EQ(post(first), EIO);
	EXPECT_EQ(bad, &first);
}

TEST_F(PostSend, full__until_completions_are_polled)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	for (uint32_t i = 0; i < entries; i++)
		ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(post(wr), ENOMEM);
	EXPECT_EQ(bad, &wr);
	EXPECT_EQ(ctl.produced, entries);

	ctl.consumed = 3;
	EXPECT_EQ(post(wr), ENOMEM) << "given back by the kernel but not polled";
	queue.finished().advance_to(1);
	wr.wr_id = 5;
	EXPECT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).wr_id, 5u);
	EXPECT_EQ(post(wr), ENOMEM);
}

TEST(QueuePairState, post_send__is_refused_in_reset)
{
	QueuePair qp; /* a new queue pair is in RESET */
	ibv_send_wr wr = request(IBV_WR_SEND);
	ibv_send_wr *bad = nullptr;

	EXPECT_EQ(qp.post_send(&wr, &bad), EINVAL);
	EXPECT_EQ(bad, &wr);
}

} /* namespace */
