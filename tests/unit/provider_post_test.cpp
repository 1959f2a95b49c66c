// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_post_test.cpp - from work requests to slots of a ring in plain memory */

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "provider_kernel.hpp"
#include "queue_pair.hpp"
#include "work_queue.hpp"

using xiw::Doorbell;
using xiw::Latecomers;
using xiw::QueuePair;
using xiw::ReceiveQueue;
using xiw::SendQueue;
using xiw::WorkRing;

namespace
{

constexpr uint32_t entries = 4;
constexpr size_t slot_size = 512; /* a header and sixteen SGEs, or 480 octets */
constexpr uint32_t max_inline = 400;
constexpr uint8_t untouched = 0xee;

struct PostTest : testing::Test {
	PostTest()
	{
		owner.context = &kernel.context;
		slots.fill(std::byte(untouched));
		ctl.flags = XIW_NEED_DOORBELL;
	}

	WorkRing ring() { return { &ctl, slots.data(), entries, slot_size, entries }; }

	std::byte *slot(uint32_t n) { return slots.data() + n * slot_size; }

	bool is_untouched(uint32_t n)
	{
		return std::all_of(slot(n), slot(n) + slot_size,
				   [](std::byte octet) { return octet == std::byte(untouched); });
	}

	FakeKernel kernel;
	ibv_qp owner = {};
	alignas(64) xiw_queue_ctl ctl = {};
	alignas(64) std::array<std::byte, entries * slot_size> slots;
};

struct Send : PostTest {
	Send() { open(false); }

	void open(bool signal_all)
	{
		queue.open(ring(), { .max_sge = XIW_MAX_SGE,
				     .max_inline = max_inline,
				     .signal_all = signal_all });
		queue.join(latecomers, recv_latecomers);
		queue.doorbell().connect(&owner, Doorbell::Queue::send);
	}

	int post(ibv_send_wr &wr) { return queue.post(&wr, &bad); }

	/* Expects that @wr is refused with @err and leaves no trace. */
	void expect_refused(ibv_send_wr &wr, int err)
	{
		bad = nullptr;
		EXPECT_EQ(post(wr), err);
		EXPECT_EQ(bad, &wr);
		EXPECT_EQ(ctl.produced, 0u);
		EXPECT_TRUE(is_untouched(0));
		EXPECT_FALSE(kernel.heard());
	}

	const xiw_send_slot &header(uint32_t n)
	{
		return *reinterpret_cast<const xiw_send_slot *>(slot(n));
	}

	Latecomers latecomers, recv_latecomers;
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

TEST_F(Send, post__bind_window)
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

TEST_F(Send, post__bind_window_to_nothing)
{
	ibv_send_wr wr = request(IBV_WR_BIND_MW);

	wr.bind_mw.bind_info.length = 5;
	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).bind.length, 0u);
	EXPECT_EQ(header(0).bind.lkey, 0u);
}

TEST_F(Send, post__write)
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

TEST_F(Send, post__write_with_immediate)
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

TEST_F(Send, post__send_leaves_nothing_of_the_slot_before)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).remote_addr, 0u);
	EXPECT_EQ(header(0).rkey, 0u);
	EXPECT_EQ(header(0).imm_inv, 0u);
}

TEST_F(Send, post__send_with_invalidate)
{
	ibv_send_wr wr = request(IBV_WR_SEND_WITH_INV, nullptr, 0, IBV_SEND_SOLICITED);
	wr.invalidate_rkey = 0xabc01;

	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).opcode, XIW_OP_SEND_INV);
	EXPECT_EQ(header(0).flags, XIW_SEND_SOLICITED);
	EXPECT_EQ(header(0).imm_inv, 0xabc01u);
}

TEST_F(Send, post__local_invalidate)
{
	ibv_send_wr wr = request(IBV_WR_LOCAL_INV);
	wr.invalidate_rkey = 0xabc02;

	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).opcode, XIW_OP_LOCAL_INV);
	EXPECT_EQ(header(0).rkey, 0xabc02u);
}

TEST_F(Send, post__read)
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

TEST_F(Send, post__compare_and_swap)
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

TEST_F(Send, post__sixteen_sges_fill_the_slot_and_no_more)
{
	for (size_t i = 0; i < sges.size(); i++)
		sges[i] = { .addr = 0x1000 * i, .length = 1, .lkey = uint32_t(i) };
	ibv_send_wr wr = request(IBV_WR_SEND, sges.data(), XIW_MAX_SGE);

	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).num_sge, XIW_MAX_SGE);
	EXPECT_EQ(std::memcmp(slot(0) + XIW_SLOT_HEADER, sges.data(), 16 * sizeof(ibv_sge)), 0);
	EXPECT_TRUE(is_untouched(1));
}

TEST_F(Send, post__inline_gathers_octets)
{
	char text[] = "gathered";
	sges[0] = { .addr = uintptr_t(text), .length = 3, .lkey = 0 };
	sges[1] = { .addr = 0, .length = 0, .lkey = 0 };
	sges[2] = { .addr = uintptr_t(text + 3), .length = 5, .lkey = 0 };
	ibv_send_wr wr = request(IBV_WR_SEND, sges.data(), 3, IBV_SEND_INLINE);

	ASSERT_EQ(post(wr), 0);
	std::memset(text, 0, sizeof(text)); /* may be reused at once */
	EXPECT_EQ(header(0).flags, XIW_SEND_INLINE);
	EXPECT_EQ(header(0).num_sge, 0u);
	EXPECT_EQ(header(0).inline_len, 8u);
	EXPECT_EQ(std::memcmp(header(0).data, "gathered", 8), 0);
}

TEST_F(Send, post__inline_of_nothing)
{
	ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, nullptr, 0, IBV_SEND_INLINE);

	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).inline_len, 0u);
}

TEST_F(Send, post__inline_up_to_the_granted_length)
{
	std::vector<uint8_t> octets(max_inline + 1, 7);
	sges[0] = { .addr = uintptr_t(octets.data()), .length = max_inline + 1, .lkey = 0 };
	ibv_send_wr wr = request(IBV_WR_SEND, sges.data(), 1, IBV_SEND_INLINE);

	expect_refused(wr, EINVAL);
	sges[0].length = max_inline;
	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).inline_len, max_inline);
	EXPECT_EQ(slot(0)[XIW_SLOT_HEADER + max_inline - 1], std::byte(7));
}

TEST_F(Send, post__all_signalled_if_the_queue_pair_says_so)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	open(true);
	ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).flags, XIW_SEND_SIGNALED);
}

TEST_F(Send, refuse__what_iwarp_lacks)
{
	ibv_send_wr with_imm = request(IBV_WR_SEND_WITH_IMM);
	ibv_send_wr tso = request(IBV_WR_TSO);
	ibv_send_wr unknown = request(31);

	expect_refused(with_imm, EOPNOTSUPP);
	expect_refused(tso, EINVAL);
	expect_refused(unknown, EINVAL);
}

TEST_F(Send, refuse__unknown_flags)
{
	ibv_send_wr wr = request(IBV_WR_SEND, nullptr, 0, IBV_SEND_IP_CSUM);

	expect_refused(wr, EINVAL);
}

TEST_F(Send, refuse__too_many_sges)
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

TEST_F(Send, refuse__more_sges_than_were_asked_for)
{
	ibv_send_wr wr = request(IBV_WR_SEND, sges.data(), 2);

	queue.open(ring(), { .max_sge = 1 });
	expect_refused(wr, EINVAL);
}

TEST_F(Send, refuse__four_gigabytes)
{
	sges[0].length = 0xffffffff;
	sges[1].length = 1;
	ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, sges.data(), 2);

	expect_refused(wr, EINVAL);
}

TEST_F(Send, refuse__inline_of_what_is_not_sent)
{
	sges[0].length = 8;
	ibv_send_wr read = request(IBV_WR_RDMA_READ, sges.data(), 1, IBV_SEND_INLINE);
	ibv_send_wr fetch = request(IBV_WR_ATOMIC_FETCH_AND_ADD, sges.data(), 1, IBV_SEND_INLINE);

	expect_refused(read, EINVAL);
	expect_refused(fetch, EINVAL);
}

TEST_F(Send, refuse__atomics_of_another_size)
{
	sges[0].length = 4;
	ibv_send_wr half = request(IBV_WR_ATOMIC_CMP_AND_SWP, sges.data(), 1);
	ibv_send_wr none = request(IBV_WR_ATOMIC_FETCH_AND_ADD);

	expect_refused(half, EINVAL);
	expect_refused(none, EINVAL);
}

TEST_F(Send, list__up_to_the_bad_one)
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
	EXPECT_TRUE(kernel.heard()) << "the good ones have to be sent";
}

TEST_F(Send, list__one_doorbell_for_all)
{
	ibv_send_wr second = request(IBV_WR_SEND);
	ibv_send_wr first = request(IBV_WR_SEND);
	first.next = &second;

	EXPECT_EQ(post(first), 0);
	EXPECT_TRUE(kernel.heard());
	EXPECT_FALSE(kernel.heard());
}

TEST_F(Send, doorbell__not_while_the_kernel_looks)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	ctl.flags = 0;
	EXPECT_EQ(post(wr), 0);
	EXPECT_EQ(ctl.produced, 1u);
	EXPECT_FALSE(kernel.heard());
}

TEST_F(Send, doorbell__later_once_for_all)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	ctl.flags = XIW_DOORBELL_LATER;
	EXPECT_EQ(post(wr), 0);
	EXPECT_EQ(post(wr), 0);
	EXPECT_FALSE(kernel.heard());
	EXPECT_TRUE(latecomers.ring());
	EXPECT_TRUE(kernel.heard());
	EXPECT_FALSE(kernel.heard());
	EXPECT_FALSE(latecomers.ring());

	EXPECT_EQ(post(wr), 0);
	EXPECT_TRUE(latecomers.ring()) << "it can be late again";
	EXPECT_TRUE(kernel.heard());
}

TEST_F(Send, doorbell__not_of_a_queue_that_is_gone)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	ctl.flags = XIW_DOORBELL_LATER;
	EXPECT_EQ(post(wr), 0);
	latecomers.remove(queue.at_send_cq());
	recv_latecomers.remove(queue.at_recv_cq());
	EXPECT_FALSE(latecomers.ring());
	EXPECT_FALSE(recv_latecomers.ring());
	EXPECT_FALSE(kernel.heard());
}

/* The kernel decides while it is called, so the flags from before say nothing of it. */
TEST_F(Send, doorbell__later_says_the_kernel_when_it_is_rung)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	kernel.refuse_write();
	kernel.on_send = [this] { ctl.flags = XIW_DOORBELL_LATER; };
	queue.doorbell().connect(&owner, Doorbell::Queue::send);
	EXPECT_EQ(post(wr), 0);
	EXPECT_EQ(kernel.send_calls, 1);
	EXPECT_TRUE(latecomers.ring()) << "who polls rings again";
	EXPECT_EQ(kernel.send_calls, 2);
}

/* Who waits for an answer polls the completion queue of receives, and perhaps no other. */
TEST_F(Send, doorbell__later_by_who_polls_receives)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	ctl.flags = XIW_DOORBELL_LATER;
	EXPECT_EQ(post(wr), 0);
	EXPECT_TRUE(recv_latecomers.ring());
	EXPECT_TRUE(kernel.heard());
	EXPECT_FALSE(latecomers.ring()) << "it was rung for";
	EXPECT_FALSE(kernel.heard());
}

TEST_F(Send, doorbell__unheard_fails_the_list)
{
	ibv_send_wr second = request(IBV_WR_TSO);
	ibv_send_wr first = request(IBV_WR_SEND);
	first.next = &second;

	kernel.refuse_write();
	kernel.answer = EIO;
	queue.doorbell().connect(&owner, Doorbell::Queue::send);
	EXPECT_EQ(post(first), EIO);
	EXPECT_EQ(bad, &first);
}

TEST_F(Send, full__until_requests_retire)
{
	ibv_send_wr wr = request(IBV_WR_SEND);

	for (uint32_t i = 0; i < entries; i++)
		ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(post(wr), ENOMEM);
	EXPECT_EQ(bad, &wr);
	EXPECT_EQ(ctl.produced, entries);

	ctl.consumed = 3;
	EXPECT_EQ(post(wr), ENOMEM) << "given back, but not polled";
	queue.retired().advance(1);
	wr.wr_id = 5;
	EXPECT_EQ(post(wr), 0);
	EXPECT_EQ(header(0).wr_id, 5u);
	EXPECT_EQ(post(wr), ENOMEM);
}

struct Receive : PostTest {
	Receive()
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

TEST_F(Receive, post__a_list)
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

	Rung rung;
	ASSERT_TRUE(kernel.heard(&rung));
	EXPECT_EQ(rung.hdr.command, uint32_t(IB_USER_VERBS_CMD_POST_RECV));
}

TEST_F(Receive, refuse__too_many_sges)
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

TEST_F(Receive, refuse__four_gigabytes)
{
	sges[0].length = 0xffffffff;
	sges[3].length = 1;
	ibv_recv_wr wr = { .wr_id = 1, .next = nullptr, .sg_list = sges.data(), .num_sge = 4 };

	EXPECT_EQ(post(wr), EINVAL);
	EXPECT_EQ(ctl.produced, 0u);
}

TEST_F(Receive, full__until_some_were_polled)
{
	ibv_recv_wr wr = { .wr_id = 1, .next = nullptr, .sg_list = nullptr, .num_sge = 0 };

	for (uint32_t i = 0; i < entries; i++)
		ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(post(wr), ENOMEM);
	ctl.consumed = 2;
	EXPECT_EQ(post(wr), ENOMEM) << "taken, but not polled";
	queue.retired().advance();
	EXPECT_EQ(post(wr), 0);
	EXPECT_EQ(post(wr), ENOMEM);
}

TEST_F(Receive, full__shared_until_the_kernel_took_some)
{
	ibv_recv_wr wr = { .wr_id = 1, .next = nullptr, .sg_list = nullptr, .num_sge = 0 };

	queue.open(ring(), 4, true);
	for (uint32_t i = 0; i < entries; i++)
		ASSERT_EQ(post(wr), 0);
	EXPECT_EQ(post(wr), ENOMEM);
	ctl.consumed = 1;
	EXPECT_EQ(post(wr), 0);
}

TEST(QueuePairState, reset__takes_no_requests)
{
	QueuePair qp; /* as made: its state is RESET */
	ibv_send_wr send = request(IBV_WR_SEND);
	ibv_recv_wr recv = {};
	ibv_send_wr *bad_send = nullptr;
	ibv_recv_wr *bad_recv = nullptr;

	EXPECT_EQ(qp.post_send(&send, &bad_send), EINVAL);
	EXPECT_EQ(bad_send, &send);
	EXPECT_EQ(qp.post_recv(&recv, &bad_recv), EINVAL);
	EXPECT_EQ(bad_recv, &recv);
}

TEST(QueuePairState, shared_receive_queue__leaves_none_of_its_own)
{
	QueuePair qp;
	ibv_recv_wr recv = {};
	ibv_recv_wr *bad = nullptr;

	reinterpret_cast<ibv_qp *>(&qp)->state = IBV_QPS_RTS;
	EXPECT_EQ(qp.post_recv(&recv, &bad), EINVAL);
	EXPECT_EQ(bad, &recv);
}

} /* namespace */
