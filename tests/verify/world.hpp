/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Both sides of the programs. */
#pragma once

#include "party.hpp"

#include <memory>
#include <string>

namespace verify
{

/* The sides last for all programs: they keep the devices open, and memory. */
class World
{
public:
	/* Both sides are in this process. B has the address. */
	explicit World(const std::string &address);

	/* B is on another machine: "verify ADDRESS --serve @port" runs there. */
	World(const std::string &address, std::uint16_t port);

	const std::string &address() const { return address_; }
	Party &operator[](Side side) { return *parties_[side]; }

private:
	std::string address_;
	std::unique_ptr<Party> parties_[2];
};

/* The objects of one program, with all its connections. */
class Rig
{
public:
	Rig(World &world, const Setup &setup);
	Rig(const Rig &) = delete;
	~Rig();

	std::uint32_t window_key(Side side, unsigned int qp, unsigned int window) const
	{
		return keys_[side].windows[qp * windows_of_qp + window];
	}

private:
	void connect(unsigned int qps);
	void end() noexcept;

	World &world_;
	Keys keys_[2];
};

} /* namespace verify */
