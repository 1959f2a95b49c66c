// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_ring_test.cpp - the process's side of the rings, with rings in plain memory */

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "ring.hpp"

using xiw::CompletionRing;
using xiw::SharedWord;
using xiw::WorkRing;

namespace
{

constexpr uint32_t entries = 8;
constexpr size_t slot_size = 64;

struct WorkMemory {
	alignas(64) xiw_queue_ctl ctl = {};
	alignas(64) std::array<std::byte, entries * slot_size> slots = {};

	WorkRing ring(uint32_t depth = entries)
	{
		return { &ctl, slots.data(), entries, slot_size, depth };
	}
};

bool has_room(WorkRing &ring, uint32_t produced)
{
	return ring.has_room(produced, ring.consumed());
}

TEST(WorkRing, has_room__until_every_slot_is_filled)
{
	WorkMemory memory;
	WorkRing ring = memory.ring();

	EXPECT_TRUE(has_room(ring, 0));
	EXPECT_TRUE(has_room(ring, entries - 1));
	EXPECT_FALSE(has_room(ring, entries));
}

TEST(WorkRing, has_room__stops_at_the_granted_depth)
{
	WorkMemory memory;
	WorkRing ring = memory.ring(5);

	EXPECT_TRUE(has_room(ring, 4));
	EXPECT_FALSE(has_room(ring, 5));
}

TEST(WorkRing, has_room__never_exceeds_the_ring)
{
	WorkMemory memory;
	WorkRing ring = memory.ring(entries + 1);

	EXPECT_FALSE(has_room(ring, entries));
}

TEST(WorkRing, has_room__when_the_kernel_gives_slots_back)
{
	WorkMemory memory;
	WorkRing ring = memory.ring();

	EXPECT_FALSE(has_room(ring, entries));
	memory.ctl.consumed = 2;
	EXPECT_TRUE(has_room(ring, entries));
	EXPECT_TRUE(has_room(ring, entries + 1));
	EXPECT_FALSE(has_room(ring, entries + 2));
}

TEST(WorkRing, has_room__depends_only_on_the_word_that_is_passed)
{
	WorkMemory memory;
	WorkRing ring = memory.ring();
	uint32_t freed = 1;

	memory.ctl.consumed = 4;
	EXPECT_TRUE(ring.has_room(entries, SharedWord(freed)));
	EXPECT_FALSE(ring.has_room(entries + 1, SharedWord(freed)));
}

TEST(WorkRing, has_room__works_where_the_counters_wrap)
{
	WorkMemory memory;
	memory.ctl.consumed = 0xfffffffc;
	WorkRing ring = memory.ring();

	EXPECT_TRUE(has_room(ring, 0xfffffffc));
	EXPECT_TRUE(has_room(ring, 3));
	EXPECT_FALSE(has_room(ring, 4));
}

TEST(WorkRing, slot__uses_the_low_bits_of_the_count)
{
	WorkMemory memory;
	WorkRing ring = memory.ring();

	EXPECT_EQ(ring.slot(0), memory.slots.data());
	EXPECT_EQ(ring.slot(entries + 3), memory.slots.data() + 3 * slot_size);
	EXPECT_EQ(ring.slot(0xffffffff), memory.slots.data() + 7 * slot_size);
}

TEST(WorkRing, publish__returns_the_flags)
{
	WorkMemory memory;
	WorkRing ring = memory.ring();

	EXPECT_EQ(ring.publish(1), 0u);
	EXPECT_EQ(memory.ctl.produced, 1u);
	memory.ctl.flags = XIW_NEED_DOORBELL;
	EXPECT_EQ(ring.publish(3), XIW_NEED_DOORBELL);
	EXPECT_EQ(memory.ctl.produced, 3u);
	EXPECT_EQ(ring.produced(), 3u);
}

TEST(WorkRing, publish__lets_half_of_the_ring_gather_at_most)
{
	WorkMemory memory;
	WorkRing ring = memory.ring();

	for (const uint32_t asked :
	     { XIW_DOORBELL_LATER, XIW_DOORBELL_LATER | XIW_DOORBELL_GATHER }) {
		memory.ctl.flags = asked;
		for (uint32_t lap = 0; lap < 4; lap++) {
			for (uint32_t i = 1; i < entries / 2; i++)
				EXPECT_EQ(ring.publish(ring.produced() + 1), asked);
			EXPECT_EQ(ring.publish(ring.produced() + 1),
				  asked & XIW_DOORBELL_GATHER ? XIW_NEED_DOORBELL : asked);
		}
	}
}

/* A list may be longer than a half of the ring, and the smallest ring has no halves. */
TEST(WorkRing, publish__of_a_list_lets_half_of_the_ring_gather_at_most)
{
	struct List {
		uint32_t entries, from, to;
		bool rings;
	};
	constexpr List lists[] = {
		{ 64, 0, 31, false },	     { 64, 0, 32, true },
		{ 64, 0, 33, true },	     { 64, 0, 64, true },
		{ 64, 31, 64, true },	     { 64, 31, 95, true },
		{ 64, 32, 63, false },	     { 64, 0xffffffe0, 0xffffffff, false },
		{ 64, 0xffffffff, 0, true }, { 64, 0xffffffdf, 0, true },
		{ 2, 0, 1, true },	     { 1, 0, 1, true },
		{ 1, 0xffffffff, 0, true },
	};
	WorkMemory memory;

	for (const List &list : lists) {
		WorkRing ring(&memory.ctl, memory.slots.data(), list.entries, slot_size,
			      list.entries);

		memory.ctl.flags = 0;
		ring.publish(list.from);
		memory.ctl.flags = XIW_DOORBELL_LATER | XIW_DOORBELL_GATHER;
		EXPECT_EQ(ring.publish(list.to) == XIW_NEED_DOORBELL, list.rings)
			<< list.from << " to " << list.to << " of " << list.entries;
	}
}

/* KernelThread - takes @total slots one after another, as kernel/queue/ring.h does */
class KernelThread
{
public:
	KernelThread(WorkMemory &memory, uint32_t total)
		: memory_(memory), total_(total), thread_([this] { run(); })
	{
	}

	~KernelThread()
	{
		give_up_ = true;
		thread_.join();
	}

	void ring() { doorbell_ = true; }

	/* How many slots did not contain what the process had written. */
	uint32_t wrong() const { return wrong_; }

private:
	bool ready()
	{
		return SharedWord(memory_.ctl.produced).load(std::memory_order_acquire) != taken_;
	}

	bool unwatch()
	{
		SharedWord(memory_.ctl.flags).store(XIW_NEED_DOORBELL, std::memory_order_relaxed);
		std::atomic_thread_fence(std::memory_order_seq_cst);
		return ready();
	}

	void watch() { SharedWord(memory_.ctl.flags).store(0, std::memory_order_relaxed); }

	void take()
	{
		uint32_t value;

		std::memcpy(&value, memory_.ring().slot(taken_), sizeof(value));
		wrong_ += value != taken_++;
		SharedWord(memory_.ctl.consumed).store(taken_, std::memory_order_release);
	}

	void run()
	{
		while (taken_ != total_ && !give_up_) {
			if (ready()) {
				take();
			} else if (!unwatch()) {
				while (!doorbell_.exchange(false) && !give_up_)
					;
			}
			watch();
		}
	}

	WorkMemory &memory_;
	const uint32_t total_;
	uint32_t taken_ = 0;
	std::atomic<uint32_t> wrong_ = 0;
	std::atomic<bool> doorbell_ = false;
	std::atomic<bool> give_up_ = false;
	std::thread thread_;
};

/* Waits two seconds for a free slot for @count. Returns whether there is one. */
bool wait_for_room(WorkRing &ring, uint32_t count)
{
	const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);

	while (!has_room(ring, count))
		if (std::chrono::steady_clock::now() > deadline)
			return false;
	return true;
}

/*
 * The ring has one slot, so the kernel is about to stop looking each time that the process
 * publishes. The delay is random, so the two race at different moments. Without the full barrier
 * in publish() this fails within a few hundred slots.
 */
TEST(WorkRing, publish__no_doorbell_is_missed)
{
	constexpr uint32_t total = 20000;
	WorkMemory memory;
	WorkRing ring = memory.ring(1);
	std::minstd_rand random;

	memory.ctl.flags = XIW_NEED_DOORBELL;
	KernelThread kernel(memory, total);
	for (uint32_t i = 0; i < total; i++) {
		ASSERT_TRUE(wait_for_room(ring, i))
			<< "the doorbell for slot " << i - 1 << " was missed";
		for (uint32_t delay = random() % 64; delay; delay--)
			std::atomic_signal_fence(std::memory_order_seq_cst);
		std::memcpy(ring.slot(i), &i, sizeof(i));
		if (ring.publish(i + 1))
			kernel.ring();
	}
	ASSERT_TRUE(wait_for_room(ring, total)) << "the doorbell for the last slot was missed";
	EXPECT_EQ(kernel.wrong(), 0u);
}

struct CompletionMemory {
	alignas(64) xiw_cq_ctl ctl = {};
	alignas(64) std::array<xiw_cqe, entries> slots = {};
	uint32_t produced = 0;

	CompletionRing ring() { return { &ctl, slots.data(), entries }; }

	void complete(uint64_t wr_id)
	{
		xiw_cqe &cqe = slots[produced & (entries - 1)];

		cqe.wr_id = wr_id;
		cqe.gen = xiw_cqe_gen(produced, entries);
		produced++;
	}
};

TEST(CompletionRing, peek__finds_nothing_in_fresh_memory)
{
	CompletionMemory memory;

	EXPECT_EQ(memory.ring().peek(), nullptr);
}

TEST(CompletionRing, peek__returns_entries_in_order_over_many_laps)
{
	CompletionMemory memory;
	CompletionRing ring = memory.ring();
	constexpr uint64_t laps = 5;

	for (uint64_t i = 0; i < laps * entries; i++) {
		memory.complete(i);
		const xiw_cqe *cqe = ring.peek();
		ASSERT_NE(cqe, nullptr);
		EXPECT_EQ(cqe->wr_id, i);
		ring.consume();
		EXPECT_EQ(ring.peek(), nullptr) << "an entry of the previous lap is not valid";
	}
}

TEST(CompletionRing, peek__reads_a_full_ring)
{
	CompletionMemory memory;
	CompletionRing ring = memory.ring();

	for (uint64_t i = 0; i < entries; i++)
		memory.complete(i);
	for (uint64_t i = 0; i < entries; i++) {
		ASSERT_NE(ring.peek(), nullptr);
		EXPECT_EQ(ring.peek()->wr_id, i);
		ring.consume();
	}
	EXPECT_EQ(ring.peek(), nullptr);
}

TEST(CompletionRing, publish__gives_consumed_entries_back)
{
	CompletionMemory memory;
	CompletionRing ring = memory.ring();

	ring.consume();
	ring.consume();
	EXPECT_EQ(memory.ctl.consumed, 0u);
	ring.publish();
	EXPECT_EQ(memory.ctl.consumed, 2u);
}

TEST(CompletionRing, arm__asks_again_after_a_notification)
{
	CompletionMemory memory;
	CompletionRing ring = memory.ring();

	ring.arm(false);
	const uint32_t first = memory.ctl.arm;
	EXPECT_NE(first, memory.ctl.fired);
	EXPECT_FALSE(first & XIW_ARM_SOLICITED);

	memory.ctl.fired = first;
	ring.arm(true);
	const uint32_t second = memory.ctl.arm;
	EXPECT_NE(second, first);
	EXPECT_TRUE(second & XIW_ARM_SOLICITED);

	memory.ctl.fired = second;
	ring.arm(true);
	EXPECT_NE(memory.ctl.arm, first);
	EXPECT_NE(memory.ctl.arm, second);
}

TEST(CompletionRing, arm__any_is_not_narrowed_to_solicited)
{
	CompletionMemory memory;
	CompletionRing ring = memory.ring();

	ring.arm(false);
	const uint32_t pending = memory.ctl.arm;
	ring.arm(true);
	EXPECT_EQ(memory.ctl.arm, pending);
}

TEST(CompletionRing, arm__solicited_is_widened_to_any)
{
	CompletionMemory memory;
	CompletionRing ring = memory.ring();

	ring.arm(true);
	const uint32_t pending = memory.ctl.arm;
	ring.arm(false);
	EXPECT_NE(memory.ctl.arm, pending);
	EXPECT_FALSE(memory.ctl.arm & XIW_ARM_SOLICITED);
}

TEST(CompletionRing, arm__repeated_uses_up_no_sequence_numbers)
{
	CompletionMemory memory;
	CompletionRing ring = memory.ring();

	ring.arm(false);
	const uint32_t pending = memory.ctl.arm;
	ring.arm(false);
	EXPECT_EQ(memory.ctl.arm, pending);
}

TEST(CompletionRing, arm__works_where_the_sequence_wraps)
{
	CompletionMemory memory;
	CompletionRing ring = memory.ring();

	memory.ctl.arm = memory.ctl.fired = 0xffffffff;
	ring.arm(false);
	EXPECT_EQ(memory.ctl.arm, 0u);
	EXPECT_NE(memory.ctl.arm, memory.ctl.fired);
}

} /* namespace */
