/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What a process can name in a system call of uverbs: numbers, memory, handles, places to map. */
#pragma once

#include "calls.hpp"
#include "random.hpp"
#include "rdma.hpp"

#include <sys/mman.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace calls
{

using rdma::below;
using rdma::Random;

template <typename Range>
auto &one_of(Random &random, Range &range)
{
	return range[below(random, std::size(range))];
}

/* One of the numbers at which arithmetic goes wrong, or any number. */
inline std::uint64_t wild(Random &random)
{
	static constexpr std::uint64_t numbers[] = {
		0,
		1,
		2,
		7,
		63,
		64,
		4095,
		4096,
		0xffff,
		0x10000,
		0x7fffffff,
		0x80000000,
		0xffffffff,
		0x100000000,
		0x7fffffffffffffff,
		~0xfffull,
		0xffffffffffffffff,
		0xffff888000000000,
		0xffffffff81000000,
	};

	return below(random, 4) ? one_of(random, numbers) : random() * 0x100000001ull;
}

/* Memory that calls may name: read by the kernel, or overwritten with its replies. */
class Area
{
public:
	Area() { rdma::require(start_ != MAP_FAILED, "memory for arguments"); }
	Area(const Area &) = delete;
	~Area() { munmap(start_, size); }

	std::uint64_t page(Random &random) const
	{
		return reinterpret_cast<std::uintptr_t>(start_) + below(random, size / 4096) * 4096;
	}

	static constexpr std::size_t size = 64 * 4096;

private:
	void *start_ =
		mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

/* The handles of one open device file, and the places that can be mapped. Threads share them. */
class Objects
{
public:
	void add(Kind kind, std::uint32_t handle)
	{
		std::lock_guard guard(lock_);

		live_[kind].push_back(handle);
	}

	void remove(Kind kind, std::uint32_t handle)
	{
		std::lock_guard guard(lock_);

		std::erase(live_[kind], handle);
	}

	/* Any live one, or a number if there is none. */
	std::uint32_t any(Kind kind, Random &random)
	{
		std::lock_guard guard(lock_);
		auto &handles = live_[kind];

		return handles.empty() ? below(random, 8) : one_of(random, handles);
	}

	/* One that probably nothing uses yet. */
	std::uint32_t newest(Kind kind, Random &random)
	{
		std::lock_guard guard(lock_);
		auto &handles = live_[kind];

		return handles.empty() ? below(random, 8) : handles.back();
	}

	bool are_many(Kind kind)
	{
		std::lock_guard guard(lock_);

		return live_[kind].size() > 12;
	}

	void add_place(std::uint64_t offset)
	{
		std::lock_guard guard(lock_);

		places_[next_place_++ % places_.size()] = offset;
	}

	std::uint64_t any_place(Random &random)
	{
		std::lock_guard guard(lock_);

		return one_of(random, places_);
	}

private:
	std::mutex lock_;
	std::map<Kind, std::vector<std::uint32_t>> live_;
	std::array<std::uint64_t, 32> places_ = {};
	std::size_t next_place_ = 0;
};

} /* namespace calls */
