/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Numbers that a seed repeats. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

namespace rdma
{

using Random = std::mt19937;

inline std::uint32_t below(Random &random, std::size_t limit)
{
	return static_cast<std::uint32_t>(random() % limit);
}

} /* namespace rdma */
