/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Executes a program on the device, and tells the model what happens. */
#include "runner.hpp"

#include "../verbs/rdma.hpp"

#include <algorithm>
#include <format>

namespace verify
{

Runner::Runner(World &world, Model &model, const Program &program,
	       std::chrono::milliseconds patience)
	: world_(world), model_(model), program_(program), patience_(patience),
	  rig_(world, program.setup)
{
	model_.start(program.setup);
	for (Side side : { A, B }) {
		model_.attach(side, [this, side](auto region, auto offset, auto length) {
			return world_[side].memory(region, offset, length);
		});
		for (unsigned int qp = 0; qp < program.setup.qps; qp++)
			for (unsigned int window = 0; window < windows_of_qp; window++)
				model_.window(side, qp, window).rkey =
					rig_.window_key(side, qp, window);
	}
}

/* Steps that are not legal are left out: a program that was shrunk may have some. */
void Runner::accept(std::span<const Step> steps, bool must)
{
	for (const Step &step : steps) {
		if (const char *bad = model_.objection(step)) {
			rdma::require(!must, text(step) + " is legal, but: " + bad);
			tally_->skipped++;
			continue;
		}
		Order order = model_.take(step);

		tally_->requests += is_sent(step.act) || step.act == Act::receive;
		tally_->bytes += is_sent(step.act) ? step.length() : 0;
		orders_[step.thread].push_back(std::move(order));
	}
}

void Runner::phase(std::span<const Step> steps, const Step &end)
{
	auto wrong = std::ranges::find_if(
		steps, [](const Step &step) { return step.fault != Fault::none; });

	model_.begin(wrong == steps.end() ? nullptr : &*wrong);
	accept(steps, false);
	if (auto fault = model_.due_fault())
		accept({ &*fault, 1 }, true);
	execute();
	accept(model_.sync(end.operand & 1), true);
	execute();
	settle();
	model_.quiet();
	for (Side side : { A, B })
		world_[side].check_guards();
}

/* With several threads, the main thread first does what is no request to a send queue. */
void Runner::execute()
{
	std::vector<std::jthread> threads;
	std::exception_ptr errors[max_threads];
	auto safely = [&](unsigned int thread) {
		try {
			work(thread);
		} catch (...) {
			errors[thread] = std::current_exception();
			stop_ = true;
		}
	};

	if (program_.setup.threads > 1)
		std::ranges::stable_partition(orders_[0], [](const Order &order) {
			return order.step.act == Act::receive || order.step.act == Act::fill;
		});
	while (!orders_[0].empty() && !is_sent(orders_[0].front().step.act) &&
	       orders_[0].front().step.act != Act::resize)
		do_order(orders_[0]);
	for (unsigned int thread = 1; thread < program_.setup.threads; thread++)
		if (!orders_[thread].empty())
			threads.emplace_back(safely, thread);
	safely(0);
	threads.clear();
	for (std::exception_ptr &error : errors)
		if (error)
			std::rethrow_exception(error);
}

void Runner::work(unsigned int thread)
{
	while (!orders_[thread].empty() && !stop_)
		do_order(orders_[thread]);
}

void Runner::do_order(std::deque<Order> &orders)
{
	const Order &order = orders.front();
	const Step &step = order.step;

	if (is_sent(step.act))
		return chain(orders);
	if (step.act == Act::receive)
		world_[step.side].post_receive(order);
	else if (step.act == Act::resize)
		world_[step.side].resize(static_cast<std::uint32_t>(step.operand));
	else if (step.act == Act::fill)
		world_[step.side].fill(step);
	orders.pop_front();
}

std::size_t Runner::room(const Step &step)
{
	std::lock_guard guard(mutex_);

	return program_.setup.depth / program_.setup.threads - slots(step).used.size();
}

/* Posts an order, together with the next ones if they are chained to it. */
void Runner::chain(std::deque<Order> &orders)
{
	const Step first = orders.front().step;
	std::vector<Order> list;
	auto joins = [&](const Step &step) {
		return is_sent(step.act) && step.side == first.side && step.qp == first.qp &&
		       step.extended == first.extended;
	};

	wait_while([&] { return !room(first); }, [] { return "no slot of a send queue is free"; });

	const std::size_t room = this->room(first);

	do {
		list.push_back(std::move(orders.front()));
		orders.pop_front();
	} while (list.size() < room && list.back().step.chained && !orders.empty() &&
		 joins(orders.front().step));
	{
		std::lock_guard guard(mutex_);

		for (const Order &order : list)
			slots(first).used.push_back(order.wr_id);
	}
	world_[first.side].post(list);
}

void Runner::wait_while(const std::function<bool()> &busy, const std::function<std::string()> &what)
{
	auto deadline = Clock::now() + patience_;
	std::uint64_t seen = completions_;

	while (busy()) {
		reap();
		if (stop_)
			throw Mismatch("another thread has failed");
		if (seen != completions_) {
			seen = completions_;
			deadline = Clock::now() + patience_;
		} else if (Clock::now() > deadline) {
			throw Mismatch(std::format("nothing in {}: {}", patience_, what()));
		}
	}
}

/* Waits until all has completed, and both ends know if a connection has ended. */
void Runner::settle()
{
	auto missing = [&] {
		std::lock_guard guard(mutex_);

		return model_.missing();
	};

	for (unsigned int qp = 0; qp < program_.setup.qps; qp++) {
		if (!model_.breaks(qp))
			continue;
		tally_->ended++;
		for (Side side : { A, B })
			world_[side].await_end(qp);
	}
	wait_while([&] { return !missing().empty(); }, [&] { return "missing: " + missing(); });
	reap();
	for (auto &side : slots_)
		for (auto &qp : side)
			for (Slots &slots : qp)
				slots.used.clear();
}

void Runner::reap()
{
	std::lock_guard guard(mutex_);

	for (Side side : { A, B }) {
		for (const Arrival &arrival : world_[side].poll()) {
			arrived(side, arrival);
			completions_++;
		}
	}
}

void Runner::arrived(Side side, const Arrival &arrival)
{
	const auto &[qp, wc] = arrival;

	for (Slots &slots : slots_[side][qp]) {
		auto found = std::ranges::find(slots.used, wc.wr_id);

		if (found != slots.used.end())
			slots.used.erase(slots.used.begin(), found + 1);
	}
	model_.completed(side, qp, wc);
}

/* Ends all connections in peace: the receives that are left are flushed. */
void Runner::close()
{
	for (unsigned int qp = 0; qp < program_.setup.qps; qp++) {
		if (model_.dead(qp))
			continue;
		world_[qp % 2 ? B : A].disconnect(qp);
		for (Side side : { A, B })
			world_[side].await_end(qp);
		model_.close(qp);
	}
	model_.begin(nullptr);
	settle();
	model_.quiet();
}

void Runner::run(Tally &tally)
{
	static const Step last = { .act = Act::quiet, .operand = 1 };
	std::span<const Step> left = program_.steps;

	tally_ = &tally;
	while (!left.empty()) {
		auto end = std::ranges::find(left, Act::quiet, &Step::act);
		const auto count = static_cast<std::size_t>(end - left.begin());

		phase(left.first(count), end == left.end() ? last : *end);
		left = left.subspan(std::min(count + 1, left.size()));
	}
	close();
	tally.programs++;
}

} /* namespace verify */
