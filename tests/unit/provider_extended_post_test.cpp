// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_extended_post_test.cpp - the functions behind ibv_wr_*(), with a ring in plain memory */

#include <array>
#include <cerrno>
#include <cstring>

#include <gtest/gtest.h>

#include "provider_kernel.hpp"
#include "work_queue.hpp"

using xiw::DeferredDoorbellList;
using xiw::Doorbell;
using xiw::SendQueue;
using xiw::WorkRing;

namespace
{

constexpr uint32_t entries = 4;
constexpr size_t slot_size = 512;
constexpr uint32_t max_inline = 400;
constexpr uint32_t max_sge = 4;

struct ExtendedPost : testing::Test {
	ExtendedPost()
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
		queue.defer_doorbell_to(send_cq_doorbells, recv_cq_doorbells);
		queue.doorbell().connect(&owner, Doorbell::Queue::send);
	}

	const xiw_send_slot &slot(uint32_t n)
	{
		return *reinterpret_cast<const xiw_send_slot *>(slots.data() + n * slot_size);
	}

	bool add(uint8_t opcode) { return queue.wr_add(opcode, qp); }

	/* Posts one request. @set sets its data. */
	template <class Set>
	int post(uint8_t opcode, Set set)
	{
		queue.wr_start(0);
		add(opcode);
		set();
		return queue.wr_complete();
	}

	int post_sges(uint8_t opcode, size_t num, const ibv_sge *sges)
	{
		return post(opcode, [&] { queue.wr_set_sge_list(num, sges); });
	}

	int post_inline(uint8_t opcode, size_t num, const ibv_data_buf *bufs)
	{
		return post(opcode, [&] { queue.wr_set_inline_data_list(num, bufs); });
	}

	FakeKernel kernel;
	ibv_qp owner = {};
	ibv_qp_ex qp = {};
	alignas(64) xiw_queue_ctl ctl = {};
	alignas(64) std::array<std::byte, entries * slot_size> slots;
	DeferredDoorbellList send_cq_doorbells, recv_cq_doorbells;
	SendQueue queue;
};

TEST_F(ExtendedPost, wr_add__fills_the_header)
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
	EXPECT_TRUE(kernel.was_rung());
}

TEST_F(ExtendedPost, wr_add__signals_all_if_the_queue_pair_asks_for_it)
{
	open(true);
	ASSERT_EQ(post(XIW_OP_SEND, [] {}), 0);
	EXPECT_EQ(slot(0).flags, XIW_SEND_SIGNALED);
}

/* wr_set_inline_data() makes data inline, so IBV_SEND_INLINE has no meaning here. */
TEST_F(ExtendedPost, wr_add__ignores_the_inline_flag)
{
	const ibv_sge sge = { .addr = 0x7000, .length = 100, .lkey = 11 };

	qp.wr_flags = IBV_SEND_INLINE;
	ASSERT_EQ(post_sges(XIW_OP_WRITE, 1, &sge), 0);
	EXPECT_EQ(slot(0).flags, 0u);
	EXPECT_EQ(slot(0).num_sge, 1u);
}

TEST_F(ExtendedPost, wr_set_sge_list__copies_the_sges)
{
	const ibv_sge sges[] = { { .addr = 0x7000, .length = 100, .lkey = 11 },
				 { .addr = 0x8000, .length = 200, .lkey = 12 } };

	ASSERT_EQ(post_sges(XIW_OP_SEND, 2, sges), 0);
	EXPECT_EQ(slot(0).num_sge, 2u);
	EXPECT_EQ(std::memcmp(slot(0).data, sges, sizeof(sges)), 0);
	ASSERT_EQ(post_sges(XIW_OP_SEND, 0, nullptr), 0);
	EXPECT_EQ(slot(1).num_sge, 0u);
}

TEST_F(ExtendedPost, wr_set_sge__copies_the_sge)
{
	const ibv_sge sge = { .addr = 0x7000, .length = 100, .lkey = 11 };

	ASSERT_EQ(post(XIW_OP_READ, [&] { queue.wr_set_sge(sge); }), 0);
	EXPECT_EQ(slot(0).num_sge, 1u);
	EXPECT_EQ(std::memcmp(slot(0).data, &sge, sizeof(sge)), 0);
}

TEST_F(ExtendedPost, wr_set_sge_list__puts_the_sge_of_an_atomic_after_the_operands)
{
	const ibv_sge sge = { .addr = 0x7000, .length = 8, .lkey = 11 };

	queue.wr_start(0);
	queue.wr_add(XIW_OP_CMP_SWP, qp)->atomic = { .compare_add = 17, .swap = 18 };
	queue.wr_set_sge_list(1, &sge);
	ASSERT_EQ(queue.wr_complete(), 0);
	EXPECT_EQ(slot(0).atomic.compare_add, 17u);
	EXPECT_EQ(slot(0).atomic.swap, 18u);
	EXPECT_EQ(std::memcmp(slot(0).data + sizeof(xiw_atomic_operands), &sge, sizeof(sge)), 0);
}

TEST_F(ExtendedPost, wr_set_inline_data_list__copies_the_data)
{
	char first[] = "abc", second[] = "defgh";
	const ibv_data_buf bufs[] = { { first, 3 }, { nullptr, 0 }, { second, 5 } };

	ASSERT_EQ(post_inline(XIW_OP_WRITE, 3, bufs), 0);
	EXPECT_EQ(slot(0).flags, XIW_SEND_INLINE);
	EXPECT_EQ(slot(0).inline_len, 8u);
	EXPECT_EQ(slot(0).num_sge, 0u);
	EXPECT_EQ(std::memcmp(slot(0).data, "abcdefgh", 8), 0);
}

TEST_F(ExtendedPost, wr_set_inline_data_list__stops_at_the_limit)
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

TEST_F(ExtendedPost, wr_complete__publishes_all_requests_at_once)
{
	queue.wr_start(0);
	for (uint32_t i = 0; i < entries; i++) {
		qp.wr_id = i;
		EXPECT_TRUE(add(XIW_OP_SEND));
		EXPECT_EQ(ctl.produced, 0u);
	}
	EXPECT_EQ(queue.wr_complete(), 0);
	EXPECT_EQ(ctl.produced, entries);
	EXPECT_EQ(slot(entries - 1).wr_id, entries - 1);
	EXPECT_TRUE(kernel.was_rung());
	EXPECT_FALSE(kernel.was_rung()) << "one doorbell is enough";
}

TEST_F(ExtendedPost, wr_complete__does_not_ring_while_the_kernel_looks)
{
	ctl.flags = 0;
	EXPECT_EQ(post(XIW_OP_SEND, [] {}), 0);
	EXPECT_EQ(ctl.produced, 1u);
	EXPECT_FALSE(kernel.was_rung());
}

TEST_F(ExtendedPost, wr_complete__defers_the_doorbell)
{
	ctl.flags = XIW_DOORBELL_LATER;
	EXPECT_EQ(post(XIW_OP_SEND, [] {}), 0);
	EXPECT_FALSE(kernel.was_rung());
	EXPECT_TRUE(send_cq_doorbells.ring_all());
	EXPECT_TRUE(kernel.was_rung());
}

TEST_F(ExtendedPost, wr_complete__defers_another_doorbell_after_it_has_rung)
{
	kernel.refuse_write();
	kernel.on_send = [this] { ctl.flags = XIW_DOORBELL_LATER; };
	queue.doorbell().connect(&owner, Doorbell::Queue::send);
	EXPECT_EQ(post(XIW_OP_SEND, [] {}), 0);
	EXPECT_TRUE(send_cq_doorbells.ring_all());
	EXPECT_EQ(kernel.send_calls, 2);
}

TEST_F(ExtendedPost, wr_complete__of_no_requests)
{
	queue.wr_start(0);
	EXPECT_EQ(queue.wr_complete(), 0);
	EXPECT_EQ(ctl.produced, 0u);
	EXPECT_FALSE(kernel.was_rung());
}

TEST_F(ExtendedPost, wr_abort__posts_nothing)
{
	queue.wr_start(0);
	add(XIW_OP_SEND);
	queue.wr_abort();
	EXPECT_EQ(ctl.produced, 0u);
	EXPECT_FALSE(kernel.was_rung());

	qp.wr_id = 5;
	EXPECT_EQ(post(XIW_OP_SEND, [] {}), 0);
	EXPECT_EQ(ctl.produced, 1u);
	EXPECT_EQ(slot(0).wr_id, 5u);
}

/* The first error fails the whole batch, and requests after it are not added. */
TEST_F(ExtendedPost, wr_complete__posts_all_or_nothing)
{
	const ibv_sge many[max_sge + 1] = {};

	queue.wr_start(0);
	EXPECT_TRUE(add(XIW_OP_SEND));
	EXPECT_TRUE(add(XIW_OP_SEND));
	queue.wr_set_sge_list(max_sge + 1, many);
	EXPECT_FALSE(add(XIW_OP_SEND));
	queue.wr_set_sge_list(1, many);
	EXPECT_EQ(queue.wr_complete(), EINVAL);
	EXPECT_EQ(ctl.produced, 0u);
	EXPECT_FALSE(kernel.was_rung());
	EXPECT_EQ(post(XIW_OP_SEND, [] {}), 0);
	EXPECT_EQ(ctl.produced, 1u);
}

TEST_F(ExtendedPost, refuse__more_requests_than_free_slots)
{
	queue.wr_start(0);
	for (uint32_t i = 0; i < entries; i++)
		EXPECT_TRUE(add(XIW_OP_SEND));
	EXPECT_FALSE(add(XIW_OP_SEND));
	EXPECT_EQ(queue.wr_complete(), ENOMEM);
	EXPECT_EQ(ctl.produced, 0u);
}

TEST_F(ExtendedPost, refuse__unknown_flags)
{
	qp.wr_flags = 1u << 20;
	EXPECT_EQ(post(XIW_OP_SEND, [] {}), EINVAL);
	EXPECT_EQ(ctl.produced, 0u);
}

TEST_F(ExtendedPost, refuse__data_that_the_opcode_does_not_allow)
{
	const ibv_sge sges[] = { { .addr = 0x7000, .length = 4, .lkey = 1 },
				 { .addr = 0x8000, .length = 4, .lkey = 1 } };
	const ibv_sge huge[] = { { .addr = 0, .length = UINT32_MAX, .lkey = 1 },
				 { .addr = 0, .length = 1, .lkey = 1 } };
	char byte = 0;
	const ibv_data_buf buf = { &byte, 1 };

	EXPECT_EQ(post_sges(XIW_OP_READ, 2, sges), EINVAL);
	EXPECT_EQ(post_sges(XIW_OP_LOCAL_INV, 1, sges), EINVAL);
	EXPECT_EQ(post_sges(XIW_OP_FETCH_ADD, 1, sges), EINVAL) << "four bytes";
	EXPECT_EQ(post_sges(XIW_OP_FETCH_ADD, 2, sges), EINVAL) << "eight bytes in two SGEs";
	EXPECT_EQ(post_sges(XIW_OP_SEND, 2, huge), EINVAL);
	EXPECT_EQ(post(XIW_OP_LOCAL_INV, [&] { queue.wr_set_sge(sges[0]); }), EINVAL);
	EXPECT_EQ(post(XIW_OP_FETCH_ADD, [&] { queue.wr_set_sge(sges[0]); }), EINVAL);
	EXPECT_EQ(post_inline(XIW_OP_READ, 1, &buf), EINVAL);
	EXPECT_EQ(post_inline(XIW_OP_FETCH_ADD, 1, &buf), EINVAL);
	for (uint8_t opcode : { XIW_OP_READ, XIW_OP_FETCH_ADD, XIW_OP_LOCAL_INV, XIW_OP_BIND_MW })
		EXPECT_EQ(post_inline(opcode, 0, nullptr), EINVAL) << "even an empty list";
	EXPECT_EQ(ctl.produced, 0u);
}

/* The kernel would end the connection if it found such a request. */
TEST_F(ExtendedPost, refuse__an_atomic_without_its_sge)
{
	EXPECT_EQ(post(XIW_OP_FETCH_ADD, [] {}), EINVAL);
	EXPECT_EQ(post(XIW_OP_CMP_SWP, [&] { add(XIW_OP_SEND); }), EINVAL)
		<< "not the last request";
	EXPECT_EQ(ctl.produced, 0u);
}

} /* namespace */
