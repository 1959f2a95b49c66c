/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* provider_yields.hpp - counts how often the provider gives the CPU away, and sets its clock */
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include <sched.h>

#include "patience.hpp"

/* Stands for the scheduler and for CLOCK_MONOTONIC. Only one may exist at a time. */
class Yields
{
public:
	Yields();
	~Yields();
	Yields(const Yields &) = delete;
	Yields &operator=(const Yields &) = delete;

	std::atomic<unsigned int> count = 0;
	std::atomic<int> policy = SCHED_OTHER;	  /* of all threads */
	std::atomic<int64_t> now_ns = 1000000000; /* the time, which the test alone changes */
	std::function<void()> on_yield;		  /* called by the thread that yields */
	std::atomic<bool> clock_stands = true;	  /* but not in on_yield() */
};
