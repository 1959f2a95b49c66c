// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_yields.cpp - counts how often the provider gives the CPU away, and sets its clock */

#include "provider_yields.hpp"

#include <ctime>

#include <sys/syscall.h>
#include <unistd.h>

static Yields *yields;

Yields::Yields()
{
	xiw::Patience::end(); /* with what an earlier test has polled */
	yields = this;
}

Yields::~Yields()
{
	yields = nullptr;
}

extern "C" int sched_yield() noexcept
{
	if (!yields)
		return 0;
	yields->count++;
	if (yields->on_yield) {
		yields->clock_stands = false;
		yields->on_yield();
		yields->clock_stands = true;
	}
	return 0;
}

extern "C" int sched_getscheduler(pid_t) noexcept
{
	return yields ? yields->policy.load() : SCHED_OTHER;
}

extern "C" int clock_gettime(clockid_t id, timespec *now) noexcept
{
	constexpr int64_t second = 1'000'000'000;

	if (id != CLOCK_MONOTONIC || !yields || !yields->clock_stands)
		return int(syscall(SYS_clock_gettime, id, now));
	now->tv_sec = yields->now_ns / second;
	now->tv_nsec = yields->now_ns % second;
	return 0;
}
