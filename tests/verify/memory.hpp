/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What one region must hold, and who has used its bytes since the last quiet point. */
#pragma once

#include "program.hpp"

#include <optional>
#include <span>

namespace verify
{

enum class Use : std::uint8_t {
	source,	 /* read where it is, for a Send or Write */
	fetch,	 /* read by a Read of the peer */
	place,	 /* written by a Write of the peer */
	atomic,	 /* changed by an atomic of the peer */
	sink,	 /* written by the answer to a request of its owner */
	receive, /* in a receive request */
	process, /* written by the process */
};

/*
 * One thread of a side that posts to one queue pair: the requests of a stream are in order. What
 * different streams do at the same time has no order, so they must not disturb each other.
 */
using Stream = std::uint8_t;
constexpr Stream many_streams = 255;

struct User {
	Stream stream = 0;
	Use use = Use::source;
	std::uint32_t seq = 0;	   /* number of the request */
	std::uint32_t settled = 0; /* Reads and atomics of the stream before this are answered */
	bool alone = false;	   /* the order of the stream does not count */
};

/* How certain it is that bytes change. */
enum class Change : std::uint8_t { certain, possible, none };

/*
 * The rules of use, byte by byte. They permit only what has one outcome:
 * - All may read what has not been written since the last quiet point.
 * - One stream may write in order: Write after Write, Read and atomic after Write, atomic after
 *   atomic, Read after atomic. RFC 5040 section 5.5 and RFC 7306 section 5 say so for the requests
 *   that are answered. That Writes are placed in their order is what xiw does, because it places
 *   what TCP delivers at once.
 * - A Read's answer may show later Writes, and its sink may change until it completes. So other use
 *   of either has to wait for a fenced request of the same stream.
 * - A receive request owns its memory until the next quiet point after its completion.
 */
class Memory
{
public:
	explicit Memory(unsigned int kind);

	std::uint32_t size() const { return kind_.size; }
	int access() const { return kind_.access; }

	/* Forgets all claims, and holds the noise of a seed. */
	void start(std::uint64_t seed, std::uint32_t seq);

	/* A quiet point: all claims before this number have ended. */
	void settle(std::uint32_t seq) { quiet_ = seq; }

	bool allows(std::uint32_t offset, std::uint32_t length, const User &user) const;
	void claim(std::uint32_t offset, std::uint32_t length, const User &user);

	std::span<const std::uint8_t> held(std::uint32_t offset, std::uint32_t length) const
	{
		return std::span(now_).subspan(offset, length);
	}
	void change(std::uint32_t offset, std::span<const std::uint8_t> bytes, Change how);

	/* From now on, possible changes of these bytes have happened. */
	void confirm(std::uint32_t offset, std::uint32_t length);

	/* From now on, bytes that may hold either of two values hold what they really hold. */
	void adopt(std::span<const std::uint8_t> real);

	/*
	 * The first byte that is wrong, of those that were last claimed by a request. @real is what
	 * this part of the region holds.
	 */
	std::optional<std::uint32_t> differs(std::span<const std::uint8_t> real,
					     std::uint32_t offset, std::uint32_t length,
					     std::uint32_t seq) const;
	/* The first byte that is wrong, of all. */
	std::optional<std::uint32_t> differs(std::span<const std::uint8_t> real) const;

	/* Who claimed a byte last; 0 if nobody did since the last quiet point. */
	std::uint32_t claimed_by(std::uint32_t offset) const
	{
		return claims_[offset].seq > quiet_ ? claims_[offset].seq : 0;
	}
	std::uint8_t expected(std::uint32_t offset) const { return now_[offset]; }

private:
	struct Claim {
		std::uint32_t seq = 0;
		Stream stream = 0;
		Use use = Use::source;
		bool written = false;
	};

	bool allows(const Claim &claim, const User &user) const;

	const RegionKind &kind_;
	std::vector<std::uint8_t> now_;
	std::vector<std::uint8_t> before_; /* if a possible change has not happened */
	std::vector<Claim> claims_;
	std::uint32_t quiet_ = 0;
};

} /* namespace verify */
