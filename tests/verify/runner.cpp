/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Executes a program on the device, and tells the model what happens. */
#include "runner.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <format>

namespace verify
{

using namespace rdma;

Runner::Runner(World &world, Model &model, const Program &program,
	       std::chrono::milliseconds patience)
	: world_(world), model_(model), program_(program), patience_(patience),
	  rig_(world, program.setup)
{
	model_.start(program.setup);
	for (Side side : { A, B }) {
		for (unsigned int region = 0; region < region_count; region++)
			model_.attach(side, region, world_.backing(side, region).body());
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
			require(!must, text(step) + " is legal, but: " + bad);
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
		for (unsigned int region = 0; region < region_count; region++)
			if (!world_.backing(side, region).is_guarded())
				throw Mismatch(
					std::format("memory beside region {} has changed", region));
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
		rig_.post_receive(order);
	else if (step.act == Act::resize)
		rig_.resize(step.side, static_cast<int>(step.operand));
	else if (step.act == Act::fill)
		for (const Piece &piece : step.pieces)
			std::copy_n(noise(step.operand), piece.length,
				    world_.backing(step.side, piece.region).body().begin() +
					    piece.offset);
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
	rig_.post(list);
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
		rig_.pair(qp).expect_disconnect();
		for (Side side : { A, B })
			if (rig_.end(side, qp).state() != IBV_QPS_ERR)
				throw Mismatch("the queue pair is not in error");
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

	for (Side side : { A, B })
		for (ibv_cq *cq : rig_.cqs(side))
			completions_ += poll(side, cq);
}

unsigned int Runner::poll(Side side, ibv_cq *cq)
{
	std::array<ibv_wc, 8> wcs;
	int count;

	if (rig_.is_extended(cq))
		count = static_cast<int>(poll_extended(reinterpret_cast<ibv_cq_ex *>(cq), wcs));
	else
		count = ibv_poll_cq(cq, wcs.size(), wcs.data());
	if (count < 0)
		throw Mismatch(std::format("ibv_poll_cq returns {}", count));
	for (const ibv_wc &wc : std::span(wcs).first(static_cast<std::size_t>(count)))
		arrived(side, wc);
	return static_cast<unsigned int>(count);
}

unsigned int Runner::poll_extended(ibv_cq_ex *cq, std::span<ibv_wc> wcs)
{
	ibv_poll_cq_attr attr = {};
	unsigned int count = 0;
	int err = ibv_start_poll(cq, &attr);

	if (err == ENOENT)
		return 0;
	if (err)
		throw Mismatch(std::format("ibv_start_poll returns {}", err));
	do {
		ibv_wc &wc = wcs[count++];

		wc = {};
		wc.wr_id = cq->wr_id;
		wc.status = cq->status;
		wc.opcode = ibv_wc_read_opcode(cq);
		wc.byte_len = ibv_wc_read_byte_len(cq);
		wc.wc_flags = ibv_wc_read_wc_flags(cq);
		wc.qp_num = ibv_wc_read_qp_num(cq);
		if (wc.wc_flags & IBV_WC_WITH_INV)
			wc.invalidated_rkey = ibv_wc_read_invalidated_rkey(cq);
		else
			wc.imm_data = ibv_wc_read_imm_data(cq);
	} while (count < wcs.size() && !ibv_next_poll(cq));
	ibv_end_poll(cq);
	return count;
}

void Runner::arrived(Side side, const ibv_wc &wc)
{
	const unsigned int qp = rig_.find(side, wc.qp_num);

	if (qp == program_.setup.qps)
		throw Mismatch(std::format("a completion of queue pair {:#x}", wc.qp_num));
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
		if (rdma_disconnect(rig_.end(qp % 2 ? B : A, qp).id()))
			fail("rdma_disconnect", errno);
		rig_.pair(qp).expect_disconnect();
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
