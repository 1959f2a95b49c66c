/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Makes a program that fails smaller, as long as it fails. */
#pragma once

#include "program.hpp"

#include <functional>

namespace verify
{

/* fails() executes a program. It is asked for at most so many seconds. */
Program shrink(Program program, const std::function<bool(const Program &)> &fails, int seconds);

} /* namespace verify */
