/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Makes up a program from a seed. */
#pragma once

#include "model.hpp"

namespace verify
{

/* The kind of a program is its seed modulo the number of kinds. */
enum class Kind : std::uint8_t { one, many, threads, wrong };
constexpr std::uint64_t kinds = 4;

/* Always the same program for a seed. The model is only used to see which steps are legal. */
Program generate(std::uint64_t seed, Model &model);

} /* namespace verify */
