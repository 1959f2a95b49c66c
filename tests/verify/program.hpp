/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A program of verbs: how its objects are made, and the steps that it takes. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace verify
{

/* The two ends of each connection: A called, B accepted. */
enum Side : std::uint8_t { A, B };

constexpr Side other(Side side)
{
	return side == A ? B : A;
}

/* The regions that each side has. Offsets are those of a region's first byte. */
struct RegionKind {
	std::uint32_t size;
	std::uint32_t start; /* offset of the first byte in its page */
	int access;	     /* enum ibv_access_flags */
	std::uint64_t iova;  /* address of the page of the first byte; 0: its own address */
};

constexpr unsigned int region_count = 5, wide = 0, odd = 1, closed = 2, readable = 3,
		       quiet_room = 4;
extern const RegionKind regions[region_count];

constexpr std::uint32_t max_qps = 6, max_threads = 4, windows_of_qp = 2;
constexpr std::uint32_t max_inline = 512, max_sges = 16;
constexpr std::uint32_t shared_room = 4096; /* least room of a shared receive: any Send fits */

enum class Act : std::uint8_t {
	write,
	write_imm,
	send,
	send_inv,
	read,
	fetch_add,
	cmp_swap,
	bind,
	local_inv,
	receive, /* a receive request, in the queue of the QP or in the shared one */
	resize,	 /* of the side's shared completion queue */
	fill,	 /* the process writes to memory */
	quiet,	 /* waits for all that was posted, and compares all memory */
};

/* What is wrong with a step. The first group is noticed by the peer, the others where it is posted. */
enum class Fault : std::uint8_t {
	none,
	wrong_rkey,
	beyond,	       /* the target ends behind its region */
	no_right,      /* the target's region does not allow it */
	stale_window,  /* the target's window is not bound */
	short_receive, /* the message is longer than its receive */
	wrong_inv,     /* the STag to be invalidated is that of a region */
	misaligned,    /* an atomic whose target is not aligned */
	wrong_lkey,
	outside, /* the local memory ends behind its region */
};

constexpr bool is_local(Fault fault)
{
	return fault >= Fault::wrong_lkey;
}

struct Piece {
	std::uint8_t region = 0;
	std::uint32_t offset = 0;
	std::uint32_t length = 0;
};

struct Step {
	Act act = Act::quiet;
	Fault fault = Fault::none;
	Side side = A;
	std::uint8_t qp = 0;
	std::uint8_t thread = 0; /* that posts it */
	bool signaled = true;
	bool fenced = false;
	bool solicited = false;
	bool inlined = false;
	bool extended = false; /* posted by ibv_wr_*() */
	bool chained = false;  /* posted in one call with the next step of its thread */
	bool zero_based = false;
	std::int8_t window = -1; /* the target is reached through it; or it is bound, invalidated */
	std::vector<Piece> pieces = {}; /* of local memory */
	std::uint8_t region = 0;	/* of the target */
	std::uint32_t offset = 0;
	std::uint32_t access = 0; /* of a window */
	std::uint64_t operand =
		0; /* also: immediate data, seed of a fill, entries, kind of quiet */
	std::uint64_t swap = 0;

	std::uint32_t length() const;
};

/* Whether the step is a request to a send queue. */
constexpr bool is_sent(Act act)
{
	return act < Act::receive;
}

/* Whether the step takes a receive of the peer. */
constexpr bool takes_receive(Act act)
{
	return act == Act::write_imm || act == Act::send || act == Act::send_inv;
}

constexpr bool is_atomic(Act act)
{
	return act == Act::fetch_add || act == Act::cmp_swap;
}

/* Whether the peer answers the request. */
constexpr bool is_answered(Act act)
{
	return act == Act::read || is_atomic(act);
}

constexpr bool has_target(Act act)
{
	return act == Act::write || act == Act::write_imm || is_answered(act);
}

struct SideSetup {
	bool srq = false;
	bool one_cq = false;	  /* for all queues of the side */
	bool extended_cq = false; /* polled by ibv_start_poll(); needs one_cq */
};

struct Setup {
	std::uint32_t qps = 1;
	std::uint32_t threads = 1; /* that post to each queue pair */
	std::uint32_t depth = 16;  /* of each send, receive and shared receive queue */
	std::uint32_t sges = 4;
	std::uint32_t ord = 16;
	std::uint32_t seed = 0; /* of what the memory holds at first */
	bool extended = false;	/* queue pairs have ibv_wr_*() */
	SideSetup sides[2] = {};

	/* The least number of entries of a queue for all completions of a side. */
	std::uint32_t cq_entries() const { return qps * 2 * depth; }
};

struct Program {
	Setup setup;
	std::vector<Step> steps;
};

std::string text(const Setup &setup);
std::string text(const Step &step);
std::string text(const Program &program);

/* What memory holds after a fill: 1 MiB of noise, from a place that depends on the seed. */
const std::uint8_t *noise(std::uint64_t seed);

} /* namespace verify */
