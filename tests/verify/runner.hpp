/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Executes a program on the device, and tells the model what happens. */
#pragma once

#include "world.hpp"

#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace verify
{

/* What was verified. */
struct Tally {
	std::uint64_t programs = 0;
	std::uint64_t requests = 0;
	std::uint64_t bytes = 0;
	std::uint64_t ended = 0;   /* connections that a wrong request ended */
	std::uint64_t skipped = 0; /* steps that were not legal after all */
};

class Runner
{
public:
	/* Gives up if nothing completes for this long. */
	Runner(World &world, Model &model, const Program &program,
	       std::chrono::milliseconds patience);

	/* Throws a mismatch. */
	void run(Tally &tally);

private:
	using Clock = std::chrono::steady_clock;

	/* The slots of a send queue that one thread may use; a completion gives them back. */
	struct Slots {
		std::deque<std::uint64_t> used; /* wr_ids */
	};

	void phase(std::span<const Step> steps, const Step &end);
	void accept(std::span<const Step> steps, bool must);
	void execute();
	void work(unsigned int thread);
	void do_order(std::deque<Order> &orders);
	void chain(std::deque<Order> &orders);
	void settle();
	void close();

	void reap();
	void arrived(Side side, const Arrival &arrival);
	void wait_while(const std::function<bool()> &busy,
			const std::function<std::string()> &what);
	Slots &slots(const Step &step) { return slots_[step.side][step.qp][step.thread]; }
	std::size_t room(const Step &step);

	World &world_;
	Model &model_;
	const Program &program_;
	const std::chrono::milliseconds patience_;
	Tally *tally_ = nullptr;
	Rig rig_;
	std::mutex mutex_; /* of the model, the slots, and polling */
	Slots slots_[2][max_qps][max_threads];
	std::deque<Order> orders_[max_threads];
	std::atomic<bool> stop_ = false;
	std::atomic<std::uint64_t> completions_ = 0;
};

} /* namespace verify */
