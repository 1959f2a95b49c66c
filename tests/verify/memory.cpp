/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What one region must hold, and who has used its bytes since the last quiet point. */
#include "memory.hpp"

#include <algorithm>
#include <cstring>

namespace verify
{

Memory::Memory(unsigned int kind)
	: kind_(regions[kind]), now_(kind_.size), before_(kind_.size), claims_(kind_.size)
{
}

void Memory::start(std::uint64_t seed, std::uint32_t seq)
{
	std::memcpy(now_.data(), noise(seed), size());
	before_ = now_;
	settle(seq);
}

static bool only_reads(Use use)
{
	return use == Use::source || use == Use::fetch;
}

bool Memory::allows(const Claim &claim, const User &user) const
{
	if (claim.seq <= quiet_)
		return true;
	if (user.use == Use::receive || user.use == Use::process)
		return false;
	if (!claim.written && only_reads(user.use))
		return true;
	if (user.alone || claim.stream != user.stream)
		return false;

	const bool settled = claim.seq < user.settled;

	if (!claim.written)
		return claim.use == Use::fetch && settled;
	switch (claim.use) {
	case Use::place:
		return true;
	case Use::atomic:
		return user.use != Use::place || settled;
	case Use::fetch:
		return user.use == Use::fetch || settled;
	case Use::sink:
		return settled;
	case Use::source: /* of what was a sink */
		return user.use == Use::source;
	default:
		return false;
	}
}

bool Memory::allows(std::uint32_t offset, std::uint32_t length, const User &user) const
{
	return std::ranges::all_of(std::span(claims_).subspan(offset, length),
				   [&](const Claim &claim) { return allows(claim, user); });
}

void Memory::claim(std::uint32_t offset, std::uint32_t length, const User &user)
{
	for (Claim &claim : std::span(claims_).subspan(offset, length)) {
		const bool used = claim.seq > quiet_;
		const bool others = used && claim.stream != user.stream;
		const bool written = !only_reads(user.use) || (used && claim.written);

		claim = { user.seq, others ? many_streams : user.stream, user.use, written };
	}
}

void Memory::change(std::uint32_t offset, std::span<const std::uint8_t> bytes, Change how)
{
	if (how == Change::none)
		return;
	std::ranges::copy(bytes, now_.begin() + offset);
	if (how == Change::certain)
		std::ranges::copy(bytes, before_.begin() + offset);
}

void Memory::confirm(std::uint32_t offset, std::uint32_t length)
{
	std::copy_n(now_.begin() + offset, length, before_.begin() + offset);
}

void Memory::adopt(std::span<const std::uint8_t> real)
{
	std::ranges::copy(real, now_.begin());
	std::ranges::copy(real, before_.begin());
}

std::optional<std::uint32_t> Memory::differs(std::span<const std::uint8_t> real,
					     std::uint32_t offset, std::uint32_t length,
					     std::uint32_t seq) const
{
	for (std::uint32_t i = offset; i < offset + length; i++)
		if (claims_[i].seq == seq && real[i - offset] != now_[i] &&
		    real[i - offset] != before_[i])
			return i;
	return std::nullopt;
}

std::optional<std::uint32_t> Memory::differs(std::span<const std::uint8_t> real) const
{
	if (!std::memcmp(real.data(), now_.data(), size()))
		return std::nullopt;
	for (std::uint32_t i = 0; i < size(); i++)
		if (real[i] != now_[i] && real[i] != before_[i])
			return i;
	return std::nullopt;
}

} /* namespace verify */
