/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* patience.hpp - gives the CPU away now and then while a thread polls and nothing comes */
#ifndef XIW_PATIENCE_HPP
#define XIW_PATIENCE_HPP

#include <cstdint>

namespace xiw
{

/*
 * A thread that polls until a completion comes may keep the CPU from whoever brings it: a worker of
 * the kernel, or the program at the other end. On two CPUs with two such programs no CPU is left for
 * a worker. So after some time in which the thread has polled and found nothing, in whatever queues,
 * it lends its CPU to others that wait for it. If none does, that costs two quick system calls.
 *
 * If the CPU is busy with something else, the thread has to wait for that. So the time is longer
 * than it takes a peer nearby to answer.
 */
class Patience
{
public:
	static void end() noexcept
	{
		empty_polls_ = 0;
		since_ = 0;
	}

	static void found_nothing() noexcept
	{
		if (++empty_polls_ % polls_per_look == 0) [[unlikely]]
			look();
	}

	static constexpr unsigned int polls_per_look = 256;
	static constexpr std::int64_t limit_ns = 100'000;

private:
	static void look() noexcept; /* in patience.cpp */

	static inline thread_local unsigned int empty_polls_ = 0;
	static inline thread_local std::int64_t since_ = 0; /* when look() saw them first, or 0 */
};

} /* namespace xiw */

#endif /* XIW_PATIENCE_HPP */
