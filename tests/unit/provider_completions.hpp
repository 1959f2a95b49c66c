/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* provider_completions.hpp - a completion queue whose ring is plain memory */
#pragma once

#include <array>
#include <cstdint>

#include <gtest/gtest.h>

#include "completion_queue.hpp"

struct PolledQueue {
	PolledQueue() { cq.open(xiw::CompletionRing(&ctl, slots.data(), entries)); }

	/* Adds an entry as the kernel does. */
	void complete(xiw_cqe cqe)
	{
		cqe.gen = xiw_cqe_gen(produced, entries);
		slots[produced & (entries - 1)] = cqe;
		produced++;
	}

	void complete(uint64_t wr_id) { complete(xiw_cqe{ .wr_id = wr_id }); }

	static constexpr uint32_t entries = 8;

	alignas(64) xiw_cq_ctl ctl = {};
	alignas(64) std::array<xiw_cqe, entries> slots = {};
	uint32_t produced = 0;
	xiw::CompletionQueue cq;
};

struct Completions : testing::Test, PolledQueue {
};
