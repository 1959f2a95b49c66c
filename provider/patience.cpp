// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* patience.cpp - looks at the clock while a thread polls and nothing comes */

#include <ctime>
#include <sched.h>

#include "patience.hpp"

namespace xiw
{

namespace
{

std::int64_t now_ns() noexcept
{
	timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * std::int64_t{ 1'000'000'000 } + now.tv_nsec;
}

/*
 * To a thread with a deadline, yielding means to give up the rest of its period, and to one of a
 * real-time priority, to go behind others of that priority. They have asked for something else.
 */
void yield() noexcept
{
	const int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;

	if (policy == SCHED_OTHER || policy == SCHED_BATCH)
		sched_yield();
}

} /* namespace */

void Patience::look() noexcept
{
	const std::int64_t now = now_ns();

	if (!since_) {
		since_ = now;
	} else if (now - since_ >= limit_ns) {
		since_ = 0;
		yield();
	}
}

} /* namespace xiw */
