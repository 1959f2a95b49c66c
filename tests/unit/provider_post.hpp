/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* provider_post.hpp - the memory of a work ring, and a kernel that receives its doorbells */
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include "provider_kernel.hpp"
#include "ring.hpp"

struct PostTest : testing::Test {
	static constexpr uint32_t entries = 4;
	static constexpr size_t slot_size = 512; /* bytes; has room for XIW_MAX_SGE SGEs */
	static constexpr uint8_t untouched = 0xee;

	PostTest()
	{
		owner.context = &kernel.context;
		slots.fill(std::byte(untouched));
		ctl.flags = XIW_NEED_DOORBELL;
	}

	xiw::WorkRing ring() { return { &ctl, slots.data(), entries, slot_size, entries }; }

	std::byte *slot(uint32_t n) { return slots.data() + n * slot_size; }

	bool is_untouched(uint32_t n)
	{
		return std::all_of(slot(n), slot(n) + slot_size,
				   [](std::byte byte) { return byte == std::byte(untouched); });
	}

	FakeKernel kernel;
	ibv_qp owner = {};
	alignas(64) xiw_queue_ctl ctl = {};
	alignas(64) std::array<std::byte, entries * slot_size> slots;
};
