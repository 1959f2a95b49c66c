/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A program of verbs: how its objects are made, and the steps that it takes. */
#include "program.hpp"

#include "../verbs/rdma.hpp"

#include <format>
#include <numeric>

namespace verify
{

constexpr int local = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
constexpr int remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

const RegionKind regions[region_count] = {
	{ 400 << 10, 0, local | remote, 0 },
	{ (150 << 10) + 7, 4083, local | remote, 0x123456789000 },
	{ 64 << 10, 24, local, 0 },
	{ 32 << 10, 0, local | IBV_ACCESS_REMOTE_READ, 0 },
	{ 4 << 10, 0, local | remote, 0 },
};

std::uint32_t Step::length() const
{
	return std::accumulate(pieces.begin(), pieces.end(), 0u,
			       [](auto sum, const Piece &piece) { return sum + piece.length; });
}

static const char *name(Act act)
{
	static const char *const names[] = { "write",	  "write_imm", "send",	   "send_inv",
					     "read",	  "fetch_add", "cmp_swap", "bind",
					     "local_inv", "receive",   "resize",   "fill",
					     "quiet" };

	return names[static_cast<unsigned int>(act)];
}

static const char *name(Fault fault)
{
	static const char *const names[] = {
		"",
		"wrong rkey",
		"target beyond its region",
		"no right",
		"stale window",
		"receive too short",
		"invalidates a region",
		"misaligned",
		"wrong lkey",
		"SGE beyond its region",
	};

	return names[static_cast<unsigned int>(fault)];
}

std::string text(const Setup &setup)
{
	std::string line = std::format("{} QPs, {} threads, depth {}, {} SGEs, ord {}, seed {}{}",
				       setup.qps, setup.threads, setup.depth, setup.sges, setup.ord,
				       setup.seed, setup.extended ? ", ibv_wr_*()" : "");

	for (Side side : { A, B }) {
		const SideSetup &at = setup.sides[side];

		line += std::format("; {}:{}{}{}", side == A ? 'A' : 'B', at.srq ? " SRQ" : "",
				    at.one_cq ? " one CQ" : "", at.extended_cq ? " extended" : "");
	}
	return line;
}

static std::string text(const Piece &piece)
{
	return std::format(" {}+{}:{}", piece.region, piece.offset, piece.length);
}

static std::string flags(const Step &step)
{
	std::string words;
	auto add = [&](bool is_so, const char *word) { words += is_so ? word : ""; };

	add(is_sent(step.act) && !step.signaled, " unsignaled");
	add(step.fenced, " fenced");
	add(step.solicited, " solicited");
	add(step.inlined, " inline");
	add(step.extended, " extended");
	add(step.chained, " chained");
	add(step.zero_based, " zero-based");
	if (step.fault != Fault::none)
		words += std::format(" WRONG: {}", name(step.fault));
	return words;
}

/* For example "A.0 write 1+4083:5000 to 0+17 fenced": pieces are REGION+OFFSET:LENGTH. */
std::string text(const Step &step)
{
	std::string line = name(step.act);

	if (step.act == Act::quiet)
		return line + (step.operand & 1 ? " by Reads" : " by Sends");
	line = std::format("{}.{}", step.side == A ? 'A' : 'B', step.qp) +
	       (step.thread ? std::format("/{} ", step.thread) : " ") + line;
	for (const Piece &piece : step.pieces)
		line += text(piece);
	if (has_target(step.act))
		line += std::format(" at {}+{}", step.region, step.offset);
	if (step.window >= 0)
		line += std::format(" window {}", step.window);
	if (step.act == Act::bind)
		line += std::format(" rights {:#x}", step.access);
	if (step.operand)
		line += std::format(" operand {:#x}", step.operand);
	if (step.swap)
		line += std::format(" swap {:#x}", step.swap);
	return line + flags(step);
}

std::string text(const Program &program)
{
	std::string all = text(program.setup) + "\n";

	for (std::size_t i = 0; i < program.steps.size(); i++)
		all += std::format("{:4} {}\n", i, text(program.steps[i]));
	return all;
}

const std::uint8_t *noise(std::uint64_t seed)
{
	static const auto bytes = [] {
		std::vector<std::uint8_t> made(2 << 20);

		rdma::fill(made, 1);
		return made;
	}();

	return bytes.data() + seed % (1 << 20);
}

} /* namespace verify */
