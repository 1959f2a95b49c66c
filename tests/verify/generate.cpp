/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Makes up a program from a seed. */
#include "generate.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <random>

namespace verify
{

namespace
{

class Generator
{
public:
	Generator(std::uint64_t seed, Model &model)
		: random_(seed), kind_(static_cast<Kind>(seed % kinds)), model_(model)
	{
	}

	Program make();

private:
	std::uint32_t below(std::uint64_t limit)
	{
		return limit ? static_cast<std::uint32_t>(random_() % limit) : 0;
	}
	std::uint32_t between(std::uint32_t least, std::uint32_t most)
	{
		return least + below(most - least + 1);
	}
	bool chance(unsigned int percent) { return below(100) < percent; }

	void make_setup();
	void phase(bool wrong);
	bool add(const Step &step);
	void some_steps(std::uint32_t count);
	void wrong_step(Side side, std::uint8_t qp);

	std::uint32_t size(std::uint32_t most);
	std::uint32_t offset(unsigned int region, std::uint32_t length);
	std::vector<Piece> pieces(std::uint32_t length, std::uint32_t most);
	std::vector<Piece> cut(Piece whole, std::uint32_t count);
	void aim(Step &step, std::uint32_t length);

	Step step(Act act);
	Step data(Act act);
	Step message(Act act);
	Step atomic(Act act);
	Step receive(Side side, std::uint8_t qp);
	Step window(Act act);
	Step other_step(Act act);
	Step propose();
	Step wrong(Fault fault, Side side, std::uint8_t qp);

	std::mt19937_64 random_;
	const Kind kind_;
	Model &model_;
	Program program_;
};

void Generator::make_setup()
{
	Setup &setup = program_.setup;

	setup.seed = below(1 << 20);
	setup.depth = std::array{ 8u, 16u, 32u, 64u }[below(4)];
	setup.sges = std::array{ 1u, 2u, 4u, max_sges }[below(4)];
	setup.ord = std::array{ 1u, 2u, 16u }[below(3)];
	setup.extended = chance(50);
	if (kind_ == Kind::many)
		setup.qps = between(2, max_qps);
	else if (kind_ != Kind::one)
		setup.qps = between(1, 3);
	if (kind_ == Kind::threads)
		setup.threads = between(2, max_threads);
	for (SideSetup &side : setup.sides) {
		side.srq = chance(kind_ == Kind::many ? 50 : 20);
		side.one_cq = chance(50);
		side.extended_cq = side.one_cq && chance(50);
	}
}

/* A length near something that cuts messages: segments, pages, FPDUs, pieces of 32 KiB. */
std::uint32_t Generator::size(std::uint32_t most)
{
	static constexpr std::array edges = { 64u, 512u, 4096u, 8192u, 32768u, 65536u };
	std::uint32_t length;

	switch (below(8)) {
	case 0:
	case 1:
		length = below(17);
		break;
	case 2:
	case 3:
		length = between(1, 4) * between(1380, 1470);
		break;
	case 4:
	case 5:
		length = edges[below(edges.size())] + 2 - (chance(50) ? below(5) : below(90));
		break;
	case 6:
		length = chance(30) ? (131072u << below(2)) + 1 - below(3) : below(40000);
		break;
	default:
		length = below(6000);
	}
	return std::min(length & 0x7fffffff, most);
}

/* A place in a region. Often it begins or ends near the edge of a page. */
std::uint32_t Generator::offset(unsigned int region, std::uint32_t length)
{
	const std::uint32_t room = regions[region].size - length;
	std::uint32_t at = below(room + 1);

	if (chance(30)) {
		const std::uint32_t edge = (at / 4096 + 1) * 4096 - regions[region].start % 4096;

		at = edge + 2 - below(5) - (chance(50) ? length % 4096 : 0);
	}
	return at > room ? below(room + 1) : at;
}

/* Cuts a range at random places, or at the edges of pages. */
std::vector<Piece> Generator::cut(Piece whole, std::uint32_t count)
{
	std::vector<Piece> parts;

	while (parts.size() + 1 < count) {
		const std::uint32_t to_edge =
			4096 - (whole.offset + regions[whole.region].start) % 4096;
		const std::uint32_t length =
			std::min(whole.length,
				 chance(30) ? to_edge : below(2ull * whole.length / count + 2));

		parts.push_back({ whole.region, whole.offset, length });
		whole.offset += length;
		whole.length -= length;
	}
	parts.push_back(whole);
	return parts;
}

/* Local memory for a request: one piece, a range in parts, or parts from everywhere. */
std::vector<Piece> Generator::pieces(std::uint32_t length, std::uint32_t most)
{
	const auto local_region = [&](std::uint32_t wanted) {
		auto region = static_cast<std::uint8_t>(
			std::array{ wide, wide, odd, closed, readable }[below(5)]);

		return regions[region].size < wanted ? std::uint8_t{ wide } : region;
	};
	const std::uint32_t count = chance(40) ? 1 : between(1, most);
	const std::uint8_t region = local_region(length);
	auto parts = cut({ region, offset(region, length), length }, count);

	if (chance(50))
		return parts;
	for (Piece &part : parts) {
		part.region = local_region(part.length);
		part.offset = offset(part.region, part.length);
	}
	return parts;
}

Step Generator::step(Act act)
{
	const Setup &setup = program_.setup;
	Step made = { .act = act };

	made.side = chance(50) ? A : B;
	made.qp = static_cast<std::uint8_t>(below(setup.qps));
	made.thread = takes_receive(act) ? 0 : static_cast<std::uint8_t>(below(setup.threads));
	made.signaled = chance(70);
	made.fenced = chance(12);
	made.solicited = takes_receive(act) && chance(20);
	made.extended = setup.extended && chance(50);
	made.chained = chance(25);
	return made;
}

/* Chooses a target: in a region, or through a window of the peer. */
void Generator::aim(Step &step, std::uint32_t length)
{
	step.region = static_cast<std::uint8_t>(chance(60) ? wide : odd);
	if (step.act == Act::read && chance(20))
		step.region = readable;
	if (regions[step.region].size < length)
		step.region = wide;
	step.offset = offset(step.region, length);
	if (step.thread || !chance(40))
		return;

	const unsigned int number = below(windows_of_qp);
	const Window &window = model_.window(other(step.side), step.qp, number);

	if (!window.bound || window.part.length < length)
		return;
	step.window = static_cast<std::int8_t>(number);
	step.region = window.part.region;
	step.offset = window.part.offset + below(window.part.length - length + 1);
}

Step Generator::data(Act act)
{
	Step made = step(act);
	const bool read = act == Act::read;

	made.inlined = !read && chance(15);

	const std::uint32_t length = size(made.inlined ? max_inline : 262145);

	made.pieces = pieces(length, read ? 1 : program_.setup.sges);
	aim(made, length);
	if (act == Act::write_imm)
		made.operand = random_() & 0xffffffff;
	return made;
}

Step Generator::message(Act act)
{
	Step made = step(act);
	const Side peer = other(made.side);

	if (!model_.free_receives(peer, made.qp))
		return receive(peer, made.qp);

	const std::uint32_t room = model_.next_receive_length(peer, made.qp);

	made.inlined = chance(15);

	const std::uint32_t most = std::min(room, made.inlined ? max_inline : room);

	made.pieces = pieces(chance(30) ? most : size(most), program_.setup.sges);
	if (act == Act::send_inv)
		made.window = static_cast<std::int8_t>(below(windows_of_qp));
	return made;
}

Step Generator::atomic(Act act)
{
	Step made = step(act);

	made.pieces = pieces(8, 1);
	aim(made, 8);
	made.offset -= (regions[made.region].start + made.offset) % 8;
	made.offset = std::min(made.offset, regions[made.region].size);
	made.operand = chance(50) ? random_() : below(5);
	if (act == Act::cmp_swap)
		made.swap = random_();
	return made;
}

Step Generator::receive(Side side, std::uint8_t qp)
{
	Step made = { .act = Act::receive, .side = side, .qp = qp };
	const bool shared = program_.setup.sides[side].srq;
	const std::uint32_t length = shared ? shared_room + size(4096) : size(140000);

	if (shared || !chance(10))
		made.pieces = pieces(length, program_.setup.sges);
	return made;
}

/* Binds or invalidates a window of the main thread. */
Step Generator::window(Act act)
{
	Step made = step(act);
	const auto region = static_cast<std::uint8_t>(std::array{ wide, odd, closed }[below(3)]);
	const std::uint32_t length = std::min(regions[region].size, 1 + size(100000));

	made.thread = 0;
	made.window = static_cast<std::int8_t>(below(windows_of_qp));
	if (act == Act::local_inv)
		return made;
	made.pieces = { { region, offset(region, length), length } };
	made.access = IBV_ACCESS_REMOTE_READ;
	if (chance(80))
		made.access |= IBV_ACCESS_REMOTE_WRITE;
	if (chance(50))
		made.access |= IBV_ACCESS_REMOTE_ATOMIC;
	/* The target of an atomic is aligned by its place, which begins anywhere in a window. */
	made.zero_based = chance(30);
	return made;
}

Step Generator::other_step(Act act)
{
	Step made = step(act);

	made.thread = 0;
	made.operand = random_();
	if (act == Act::resize) {
		made.operand = program_.setup.cq_entries() + below(500);
		return made;
	}

	const auto region = static_cast<std::uint8_t>(below(quiet_room));
	const std::uint32_t length = std::min(regions[region].size, size(20000));

	made.pieces = { { region, offset(region, length), length } };
	return made;
}

Step Generator::propose()
{
	struct Weight {
		Act act;
		unsigned int weight;
	};
	static constexpr Weight weights[] = {
		{ Act::write, 24 },   { Act::write_imm, 8 }, { Act::send, 18 },
		{ Act::send_inv, 4 }, { Act::read, 16 },     { Act::fetch_add, 5 },
		{ Act::cmp_swap, 5 }, { Act::bind, 6 },	     { Act::local_inv, 2 },
		{ Act::receive, 12 }, { Act::resize, 2 },    { Act::fill, 4 },
	};
	std::uint32_t number = below(106);
	const Weight *chosen = weights;

	while (number >= chosen->weight)
		number -= chosen++->weight;
	switch (chosen->act) {
	case Act::write:
	case Act::write_imm:
	case Act::read:
		return data(chosen->act);
	case Act::send:
	case Act::send_inv:
		return message(chosen->act);
	case Act::fetch_add:
	case Act::cmp_swap:
		return atomic(chosen->act);
	case Act::bind:
	case Act::local_inv:
		return window(chosen->act);
	case Act::receive:
		return receive(chance(50) ? A : B,
			       static_cast<std::uint8_t>(below(program_.setup.qps)));
	default:
		return other_step(chosen->act);
	}
}

/* A request that is wrong; it may turn out to be wrong in another way, and is then not taken. */
Step Generator::wrong(Fault fault, Side side, std::uint8_t qp)
{
	static constexpr Act targeted[] = { Act::write, Act::write, Act::read, Act::fetch_add };
	Act act = targeted[below(4)];

	if (fault == Fault::beyond || fault == Fault::outside)
		act = targeted[1 + below(2)];
	if (fault == Fault::misaligned)
		act = chance(50) ? Act::fetch_add : Act::cmp_swap;
	if (fault == Fault::short_receive || (fault == Fault::wrong_lkey && chance(40)))
		act = Act::send;
	if (fault == Fault::wrong_inv)
		act = Act::send_inv;

	const std::uint32_t length = is_atomic(act) ? 8 : size(100000);
	Step made = { .act = act, .fault = fault, .side = side, .qp = qp };

	made.signaled = chance(70);
	made.fenced = chance(20);
	made.extended = program_.setup.extended && chance(50);
	made.pieces = pieces(length, act == Act::read || is_atomic(act) ? 1 : program_.setup.sges);
	made.region = static_cast<std::uint8_t>(fault == Fault::no_right ? between(closed, readable)
									 : below(2));
	made.offset = offset(made.region, std::min(length, regions[made.region].size));
	made.operand = random_();
	if (is_atomic(act) && fault != Fault::misaligned)
		made.offset -=
			std::min(made.offset, (regions[made.region].start + made.offset) % 8);
	if (fault == Fault::stale_window)
		made.window = static_cast<std::int8_t>(below(windows_of_qp));
	if (fault == Fault::beyond)
		made.offset = regions[made.region].size - below(std::min(length, 30000u) + 1);
	if (fault == Fault::outside)
		made.pieces = { { wide, regions[wide].size - below(std::min(length, 30000u) + 1),
				  length } };
	if (act == Act::write && fault == Fault::wrong_rkey && chance(20))
		made.pieces = pieces(between(1, 8), 1);
	return made;
}

bool Generator::add(const Step &step)
{
	if (model_.objection(step))
		return false;
	model_.take(step);
	program_.steps.push_back(step);
	return true;
}

void Generator::some_steps(std::uint32_t count)
{
	for (std::uint32_t tries = 0; count && tries < 400; tries++)
		count -= add(propose());
}

void Generator::wrong_step(Side side, std::uint8_t qp)
{
	for (unsigned int tries = 0; tries < 200; tries++)
		if (add(wrong(static_cast<Fault>(between(1, 9)), side, qp)))
			return;
	if (auto fault = model_.due_fault())
		add(*fault);
}

void Generator::phase(bool wrong)
{
	const Step stub = { .fault = Fault::wrong_rkey,
			    .side = chance(50) ? A : B,
			    .qp = static_cast<std::uint8_t>(below(program_.setup.qps)) };
	const Step end = { .act = Act::quiet, .operand = below(2) };

	model_.begin(wrong ? &stub : nullptr);
	some_steps(between(wrong ? 0 : 3, wrong ? 12 : 40));
	if (wrong && !model_.dead(stub.qp)) {
		wrong_step(stub.side, stub.qp);
		some_steps(below(10));
	}
	for (const Step &step : model_.sync(end.operand))
		model_.take(step);
	model_.assume_quiet();
	program_.steps.push_back(end);
}

Program Generator::make()
{
	make_setup();
	model_.start(program_.setup);
	for (std::uint32_t left = between(1, 8); left; left--)
		phase(kind_ == Kind::wrong && (left == 1 || chance(30)));
	return std::move(program_);
}

} /* namespace */

Program generate(std::uint64_t seed, Model &model)
{
	return Generator(seed, model).make();
}

} /* namespace verify */
