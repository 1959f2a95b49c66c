// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_extended_post_test.cpp - requests that are put together in a ring in plain memory */

#include <array>
#include <cerrno>
#include <cstring>

#include <gtest/gtest.h>

#include "provider_kernel.hpp"
#include "work_queue.hpp"

using xiw::Doorbell;
using xiw::Latecomers;
using xiw::SendQueue;
using xiw::WorkRing;

namespace
{

constexpr uint32_t entries = 4;
constexpr size_t slot_size = 512;
constexpr uint32_t max_inline = 400;
constexpr uint32_t max_sge = 4;

struct Draft : testing::Test {
	Draft()
	{
		owner.context = &kernel.context;
		slots.fill(std::byte(0xee));
		ctl.flags = XIW_NEED_DOORBELL;
		open(false);
	}

	void open(bool signal_all)
	{
		queue.open(
			WorkRing(&ctl, slots.data(), entries, slot_size, entries),
			{ .max_sge = max_sge, .max_inline = max_inline, .signal_all = signal_all });
		queue.join(latecomers, recv_latecomers);
		queue.doorbell().connect(&owner, Doorbell::Queue::send);
	}

	const xiw_send_slot &slot(uint32_t n)
	{
		return *reinterpret_cast<const xiw_send_slot *>(slots.data() + n * slot_size);
	}

	bool add(uint8_t opcode) { return queue.add_to_draft(opcode, qp); }

	/* One request, whose data @set sets. */
	template <class Set>
	int post(uint8_t opcode, Set set)
	{
		queue.start_draft(0);
		add(opcode);
		set();
		return queue.post_draft();
	}

	int post_sges(uint8_t opcode, size_t num, const ibv_sge *sges)
	{
		return post(opcode, [&] { queue.set_sges(num, sges); });
	}

	int post_inline(uint8_t opcode, size_t num, const ibv_data_buf *bufs)
	{
		return post(opcode, [&] { queue.set_inline(num, bufs); });
	}

	FakeKernel kernel;
	ibv_qp owner = {};
	ibv_qp_ex qp = {};
	alignas(64) xiw_queue_ctl ctl = {};
	alignas(64) std::array<std::byte, entries * slot_size> slots;
	Latecomers latecomers, recv_latecomers;
	SendQueue queue;
};

TEST_F(Draft, header)
{
	qp.wr_id = 0x1020304050607080;
	qp.wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	ASSERT_EQ(post(XIW_OP_SEND, [] {}), 0);
	EXPECT_EQ(ctl.produced, 1u);
	EXPECT_EQ(slot(0).wr_id, 0x1020304050607080u);
	EXPECT_EQ(slot(0).opcode, XIW_OP_SEND);
	EXPECT_EQ(slot(0).flags, XIW_SEND_SIGNALED | XIW_SEND_FENCE);
	EXPECT_EQ(slot(0).num_sge, 0u);
	EXPECT_EQ(slot(0).reserved, 0u);
	EXPECT_EQ(slot(0).inline_len, 0u);
	EXPECT_EQ(slot(0).remote_addr, 0u);
	EXPECT_EQ(slot(0).rkey, 0u);
	EXPECT_EQ(slot(0).imm_inv, 0u);
	EXPECT_TRUE(kernel.heard());
}

TEST_F(Draft, signals_all_if_asked_for)
{
	open(true);
	ASSERT_EQ(post(XIW_OP_SEND, [] {}), 0);
	EXPECT_EQ(slot(0).flags, XIW_SEND_SIGNALED);
}

/* That data is inline is said by what sets it, whatever the flags say. */
TEST_F(Draft, inline_flag_is_ignored)
{
	const ibv_sge sge = { .addr = 0x7000, .length = 100, .lkey = 11 };

	qp.wr_flags = IBV_SEND_INLINE;
	ASSERT_EQ(post_sges(XIW_OP_WRITE, 1, &sge), 0);
	EXPECT_EQ(slot(0).flags, 0u);
	EXPECT_EQ(slot(0).num_sge, 1u);
}

TEST_F(Draft, sges)
{
	const ibv_sge sges[] = { { .addr = 0x7000, .length = 100, .lkey = 11 },
				 { .addr = 0x8000, .length = 200, .lkey = 12 } };

	ASSERT_EQ(post_sges(XIW_OP_SEND, 2, sges), 0);
	EXPECT_EQ(slot(0).num_sge, 2u);
	EXPECT_EQ(std::memcmp(slot(0).data, sges, sizeof(sges)), 0);
	ASSERT_EQ(post_sges(XIW_OP_SEND, 0, nullptr), 0);
	EXPECT_EQ(slot(1).num_sge, 0u);
}

TEST_F(Draft, one_sge)
{
	const ibv_sge sge = { .addr = 0x7000, .length = 100, .lkey = 11 };

	ASSERT_EQ(post(XIW_OP_READ, [&] { queue.set_sge(sge); }), 0);
	EXPECT_EQ(slot(0).num_sge, 1u);
	EXPECT_EQ(std::memcmp(slot(0).data, &sge, sizeof(sge)), 0);
}

TEST_F(Draft, sge_of_an_atomic_follows_the_operands)
{
	const ibv_sge sge = { .addr = 0x7000, .length = 8, .lkey = 11 };

	queue.start_draft(0);
	queue.add_to_draft(XIW_OP_CMP_SWP, qp)->atomic = { .compare_add = 17, .swap = 18 };
	queue.set_sges(1, &sge);
	ASSERT_EQ(queue.post_draft(), 0);
	EXPECT_EQ(slot(0).atomic.compare_add, 17u);
	EXPECT_EQ(slot(0).atomic.swap, 18u);
	EXPECT_EQ(std::memcmp(slot(0).data + sizeof(xiw_atomic_operands), &sge, sizeof(sge)), 0);
}

TEST_F(Draft, inline_data)
{
	char first[] = "abc", second[] = "defgh";
	const ibv_data_buf bufs[] = { { first, 3 }, { nullptr, 0 }, { second, 5 } };

	ASSERT_EQ(post_inline(XIW_OP_WRITE, 3, bufs), 0);
	EXPECT_EQ(slot(0).flags, XIW_SEND_INLINE);
	EXPECT_EQ(slot(0).inline_len, 8u);
	EXPECT_EQ(slot(0).num_sge, 0u);
	EXPECT_EQ(std::memcmp(slot(0).data, "abcdefgh", 8), 0);
}

TEST_F(Draft, inline_data_up_to_the_limit)
{
	std::array<std::byte, max_inline + 1> data = {};
	ibv_data_buf buf = { data.data(), max_inline };
	const ibv_data_buf two[] = { { data.data(), max_inline }, { data.data(), 1 } };

	EXPECT_EQ(post_inline(XIW_OP_SEND, 1, &buf), 0);
	EXPECT_EQ(slot(0).inline_len, max_inline);
	buf.length++;
	EXPECT_EQ(post_inline(XIW_OP_SEND, 1, &buf), EINVAL);
	EXPECT_EQ(post_inline(XIW_OP_SEND, 2, two), EINVAL);
	buf.length = SIZE_MAX;
	EXPECT_EQ(post_inline(XIW_OP_SEND, 1, &buf), EINVAL);
	EXPECT_EQ(ctl.produced, 1u);
}

TEST_F(Draft, many_requests_are_shown_at_once)
{
	queue.start_draft(0);
	for (uint32_t i = 0; i < entries; i++) {
		qp.wr_id = i;
		EXPECT_TRUE(add(XIW_OP_SEND));
		EXPECT_EQ(ctl.produced, 0u);
	}
	EXPECT_EQ(queue.post_draft(), 0);
	EXPECT_EQ(ctl.produced, entries);
	EXPECT_EQ(slot(entries - 1).wr_id, entries - 1);
	EXPECT_TRUE(kernel.heard());
	EXPECT_FALSE(kernel.heard()) << "one doorbell";
}

TEST_F(Draft, no_doorbell_if_the_kernel_looks)
{
	ctl.flags = 0;
	EXPECT_EQ(post(XIW_OP_SEND, [] {}), 0);
	EXPECT_EQ(ctl.produced, 1u);
	EXPECT_FALSE(kernel.heard());
}

TEST_F(Draft, doorbell_later_if_the_kernel_says_so)
{
	ctl.flags = XIW_DOORBELL_LATER;
	EXPECT_EQ(post(XIW_OP_SEND, [] {}), 0);
	EXPECT_FALSE(kernel.heard());
	EXPECT_TRUE(latecomers.ring());
	EXPECT_TRUE(kernel.heard());
}

TEST_F(Draft, doorbell_later_if_the_kernel_says_so_when_it_is_rung)
{
	kernel.refuse_write();
	kernel.on_send = [this] { ctl.flags = XIW_DOORBELL_LATER; };
	queue.doorbell().connect(&owner, Doorbell::Queue::send);
	EXPECT_EQ(post(XIW_OP_SEND, [] {}), 0);
	EXPECT_TRUE(latecomers.ring());
	EXPECT_EQ(kernel.send_calls, 2);
}

TEST_F(Draft, empty)
{
	queue.start_draft(0);
	EXPECT_EQ(queue.post_draft(), 0);
	EXPECT_EQ(ctl.produced, 0u);
	EXPECT_FALSE(kernel.heard());
}

TEST_F(Draft, dropped)
{
	queue.start_draft(0);
	add(XIW_OP_SEND);
	queue.drop_draft();
	EXPECT_EQ(ctl.produced, 0u);
	EXPECT_FALSE(kernel.heard());

	qp.wr_id = 5;
	EXPECT_EQ(post(XIW_OP_SEND, [] {}), 0);
	EXPECT_EQ(ctl.produced, 1u);
	EXPECT_EQ(slot(0).wr_id, 5u);
}

/* One bad request, and none is posted; what comes after the bad one is not looked at. */
TEST_F(Draft, refuse__all_or_nothing)
{
	const ibv_sge many[max_sge + 1] = {};

	queue.start_draft(0);
	EXPECT_TRUE(add(XIW_OP_SEND));
	EXPECT_TRUE(add(XIW_OP_SEND));
	queue.set_sges(max_sge + 1, many);
	EXPECT_FALSE(add(XIW_OP_SEND));
	queue.set_sges(1, many);
	EXPECT_EQ(queue.post_draft(), EINVAL);
	EXPECT_EQ(ctl.produced, 0u);
	EXPECT_FALSE(kernel.heard());
	EXPECT_EQ(post(XIW_OP_SEND, [] {}), 0);
	EXPECT_EQ(ctl.produced, 1u);
}

TEST_F(Draft, refuse__more_than_there_are_places)
{
	queue.start_draft(0);
	for (uint32_t i = 0; i < entries; i++)
		EXPECT_TRUE(add(XIW_OP_SEND));
	EXPECT_FALSE(add(XIW_OP_SEND));
	EXPECT_EQ(queue.post_draft(), ENOMEM);
	EXPECT_EQ(ctl.produced, 0u);
}

TEST_F(Draft, refuse__unknown_flags)
{
	qp.wr_flags = 1u << 20;
	EXPECT_EQ(post(XIW_OP_SEND, [] {}), EINVAL);
	EXPECT_EQ(ctl.produced, 0u);
}

TEST_F(Draft, refuse__data_that_the_request_cannot_have)
{
	const ibv_sge sges[] = { { .addr = 0x7000, .length = 4, .lkey = 1 },
				 { .addr = 0x8000, .length = 4, .lkey = 1 } };
	const ibv_sge huge[] = { { .addr = 0, .length = UINT32_MAX, .lkey = 1 },
				 { .addr = 0, .length = 1, .lkey = 1 } };
	char octet = 0;
	const ibv_data_buf buf = { &octet, 1 };

	EXPECT_EQ(post_sges(XIW_OP_READ, 2, sges), EINVAL);
	EXPECT_EQ(post_sges(XIW_OP_LOCAL_INV, 1, sges), EINVAL);
	EXPECT_EQ(post_sges(XIW_OP_FETCH_ADD, 1, sges), EINVAL) << "four octets";
	EXPECT_EQ(post_sges(XIW_OP_FETCH_ADD, 2, sges), EINVAL) << "eight in two pieces";
	EXPECT_EQ(post_sges(XIW_OP_SEND, 2, huge), EINVAL);
	EXPECT_EQ(post(XIW_OP_LOCAL_INV, [&] { queue.set_sge(sges[0]); }), EINVAL);
	EXPECT_EQ(post(XIW_OP_FETCH_ADD, [&] { queue.set_sge(sges[0]); }), EINVAL);
	EXPECT_EQ(post_inline(XIW_OP_READ, 1, &buf), EINVAL);
	EXPECT_EQ(post_inline(XIW_OP_FETCH_ADD, 1, &buf), EINVAL);
	for (uint8_t opcode : { XIW_OP_READ, XIW_OP_FETCH_ADD, XIW_OP_LOCAL_INV, XIW_OP_BIND_MW })
		EXPECT_EQ(post_inline(opcode, 0, nullptr), EINVAL) << "not even none";
	EXPECT_EQ(ctl.produced, 0u);
}

/* The kernel would end the connection for it. */
TEST_F(Draft, refuse__an_atomic_without_its_sge)
{
	EXPECT_EQ(post(XIW_OP_FETCH_ADD, [] {}), EINVAL);
	EXPECT_EQ(post(XIW_OP_CMP_SWP, [&] { add(XIW_OP_SEND); }), EINVAL) << "not the last";
	EXPECT_EQ(ctl.produced, 0u);
}

} /* namespace */
