// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* atomic_test.cpp - Atomic Requests against worked examples, and the values that they compute */

/* The header comes first, to test that it compiles alone. */
extern "C" {
#include <asm/byteorder.h>
#include "wire/atomic.h"
}

#include <gtest/gtest.h>

#include <optional>

#include "octets.hpp"

namespace
{

constexpr uint64_t ones = ~uint64_t{};

/* The RDMAP header of a whole FPDU. */
Octets request_of(const Octets &fpdu)
{
	return slice(fpdu, 2 + 18, 2 + 18 + sizeof(xiw_atomic_req));
}

Octets build(uint8_t opcode, xiw_atomic_operands operands, uint32_t id)
{
	xiw_send_slot slot = { .opcode = opcode,
			       .remote_addr = 0x7f0012345678,
			       .rkey = 0x11223344 };
	xiw_atomic_req req;

	slot.atomic = operands;
	xiw_atomic_build(&req, &slot, id);
	return octets_of(req);
}

TEST(xiw_atomic_build, fetch_add)
{
	EXPECT_EQ(build(XIW_OP_FETCH_ADD, { .compare_add = 1, .swap = 99 }, 7),
		  request_of(fpdu::fetch_add));
}

TEST(xiw_atomic_build, compare_swap)
{
	EXPECT_EQ(build(XIW_OP_CMP_SWP, { .compare_add = 4, .swap = 5 }, 8),
		  request_of(fpdu::cmp_swap));
}

TEST(xiw_atomic_known, only_the_two_of_the_registry)
{
	for (uint32_t operation = 0; operation < 16; operation++) {
		xiw_atomic_req req = { .aopcode = cpu_to_be32(operation) };

		EXPECT_EQ(xiw_atomic_known(&req), operation == 0 || operation == 2) << operation;
	}
}

/* The 28 bits above the operation are reserved, and ignored. */
TEST(xiw_atomic_known, ignores_reserved_bits)
{
	xiw_atomic_req req = { .aopcode = cpu_to_be32(0xfffffff0) };

	EXPECT_TRUE(xiw_atomic_known(&req));
}

struct Operation {
	uint32_t operation;
	uint64_t data, mask, compare, compare_mask;
};

/* The new value, if there is one. */
std::optional<uint64_t> compute(const Operation &op, uint64_t old)
{
	xiw_atomic_req req = {
		.aopcode = cpu_to_be32(op.operation),
		.add_swap_data = cpu_to_be64(op.data),
		.add_swap_mask = cpu_to_be64(op.mask),
		.compare_data = cpu_to_be64(op.compare),
		.compare_mask = cpu_to_be64(op.compare_mask),
	};
	uint64_t value = 0x5555;

	if (!xiw_atomic_compute(&req, old, reinterpret_cast<u64 *>(&value))) {
		EXPECT_EQ(value, 0x5555u) << "the value is untouched";
		return std::nullopt;
	}
	return value;
}

std::optional<uint64_t> add(uint64_t old, uint64_t data, uint64_t mask)
{
	/* a FetchAdd must ignore the last two fields */
	return compute({ RDMAP_ATOMIC_FETCH_ADD, data, mask, 0xdead, 0xbeef }, old);
}

TEST(xiw_atomic_compute, adds_64_bits)
{
	EXPECT_EQ(add(41, 1, 0), 42);
	EXPECT_EQ(add(ones, 1, 0), 0);
	EXPECT_EQ(add(ones, 0x0000000100000001, 0), 0x0000000100000000);
	EXPECT_EQ(add(5, ones, 0), 4);
}

/* The mask may mark the highest bit of the word as the end of a field or not. */
TEST(xiw_atomic_compute, adds_one_field_of_64_bits)
{
	EXPECT_EQ(add(ones, 3, 0x8000000000000000), 2);
	EXPECT_EQ(add(0x8000000000000000, 0x8000000000000000, 0x8000000000000000), 0);
}

TEST(xiw_atomic_compute, carries_nothing_from_field_to_field)
{
	EXPECT_EQ(add(ones, 0x0000000100000001, 0x8000000080000000), 0);
	EXPECT_EQ(add(0x00000000ffffffff, 1, 0x8000000080000000), 0);
	EXPECT_EQ(add(0x00ff00ff00ff00ff, 0x0001000100010001, 0x8080808080808080), 0);
	EXPECT_EQ(add(0x7f7f7f7f7f7f7f7f, 0x0101010101010101, 0x8080808080808080),
		  0x8080808080808080);
}

/* Compares with the definition: add bit by bit, and drop the carry out of a field's highest bit. */
TEST(xiw_atomic_compute, adds_fields_as_defined)
{
	uint64_t random = 1;
	auto next = [&random] {
		return random = random * 6364136223846793005 + 1442695040888963407;
	};

	for (int round = 0; round < 10000; round++) {
		uint64_t old = next(), data = next(), mask = next() & next(), sum = 0;
		bool carry = false;

		for (int bit = 0; bit < 64; bit++) {
			int ones_here = (old >> bit & 1) + (data >> bit & 1) + carry;

			sum |= uint64_t(ones_here & 1) << bit;
			carry = ones_here > 1 && !(mask >> bit & 1);
		}
		ASSERT_EQ(add(old, data, mask), sum) << old << ' ' << data << ' ' << mask;
	}
}

TEST(xiw_atomic_compute, swaps_if_equal)
{
	Operation op = { RDMAP_ATOMIC_CMP_SWAP, 5, ones, 4, ones };

	EXPECT_EQ(compute(op, 4), 5);
	EXPECT_EQ(compute(op, 3), std::nullopt);
	EXPECT_EQ(compute(op, 4 + (uint64_t{ 1 } << 63)), std::nullopt);
}

TEST(xiw_atomic_compute, compares_and_swaps_only_the_bits_of_the_masks)
{
	const uint64_t old = 0x1122334455667788;

	EXPECT_EQ(compute({ RDMAP_ATOMIC_CMP_SWAP, ones, 0xff00, 0x88, 0xff }, old),
		  0x112233445566ff88);
	EXPECT_EQ(compute({ RDMAP_ATOMIC_CMP_SWAP, 0, 0xff00, 0x99, 0xff }, old), std::nullopt);
	/* bits of the comparison outside of its mask do not count */
	EXPECT_EQ(compute({ RDMAP_ATOMIC_CMP_SWAP, 0, 0xff, 0xffff88, 0xff }, old),
		  0x1122334455667700);
	/* a mask of 0 compares nothing: a plain swap, and a plain read */
	EXPECT_EQ(compute({ RDMAP_ATOMIC_CMP_SWAP, 7, ones, 1, 0 }, old), 7);
	EXPECT_EQ(compute({ RDMAP_ATOMIC_CMP_SWAP, 7, 0, 1, 0 }, old), old);
}

} /* namespace */
