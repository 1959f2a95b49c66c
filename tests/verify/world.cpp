/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Both sides of the programs. */
#include "world.hpp"

#include "local.hpp"
#include "remote.hpp"

namespace verify
{

World::World(const std::string &address) : address_(address)
{
	for (Side side : { B, A })
		parties_[side] = std::make_unique<Local>(side, address);
}

World::World(const std::string &address, std::uint16_t port) : address_(address)
{
	parties_[B] = std::make_unique<Remote>(address, port);
	parties_[A] = std::make_unique<Local>(A, address);
}

Rig::Rig(World &world, const Setup &setup) : world_(world)
{
	try {
		for (Side side : { A, B })
			keys_[side] = world[side].begin(setup);
		connect(setup.qps);
		for (Side side : { A, B })
			world[side].meet(keys_[other(side)]);
	} catch (...) {
		end();
		throw;
	}
}

void Rig::connect(unsigned int qps)
{
	while (qps--) {
		const std::uint16_t port = world_[B].listen();

		world_[A].call(port);
		world_[B].answer();
		for (Side side : { A, B })
			world_[side].await_connection();
	}
}

Rig::~Rig()
{
	end();
}

void Rig::end() noexcept
{
	for (Side side : { A, B })
		world_[side].end();
}

} /* namespace verify */
