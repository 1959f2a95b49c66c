/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* One side of the programs: it has the objects of a device, and does what it is told with them. */
#pragma once

#include "model.hpp"

#include <span>
#include <vector>

namespace verify
{

/* What the peer has to know of the objects of a side. */
struct Keys {
	std::uint64_t bases[region_count]; /* the addresses of the regions' first bytes */
	std::uint32_t rkeys[region_count];
	std::uint32_t windows[max_qps * windows_of_qp]; /* their first STags */
};

struct Arrival {
	std::uint32_t qp;
	ibv_wc wc;
};

/*
 * A side is in this process (local.hpp) or on another machine (remote.hpp). All functions throw if
 * something fails. The order of calls for one program is: begin() of both sides; for each queue pair
 * listen(), call(), answer(), and await_connection() of both; meet() of both; any of the others; end().
 */
class Party
{
public:
	virtual ~Party() = default;

	/* Makes all objects but the queue pairs. */
	virtual Keys begin(const Setup &setup) = 0;
	/* Returns a port for the next queue pair. */
	virtual std::uint16_t listen() = 0;
	virtual void call(std::uint16_t port) = 0;
	virtual void answer() = 0;
	virtual void await_connection() = 0;
	virtual void meet(const Keys &peer) = 0;
	virtual void end() noexcept = 0;

	/* All orders go to one queue, and are posted in one call. */
	virtual void post(std::span<const Order> orders) = 0;
	virtual void post_receive(const Order &order) = 0;
	virtual void resize(std::uint32_t entries) = 0;
	virtual void fill(const Step &step) = 0;

	/* Some of the completions that have come, in the order of their queues. */
	virtual std::vector<Arrival> poll() = 0;

	virtual void disconnect(std::uint32_t qp) = 0;
	/* Waits until this side is told that the connection has ended. */
	virtual void await_end(std::uint32_t qp) = 0;

	/* What this part of a region holds. It may be at the same place after each call. */
	virtual std::span<const std::uint8_t> memory(std::uint32_t region, std::uint32_t offset,
						     std::uint32_t length) = 0;
	/* Fails if memory beside a region has changed. */
	virtual void check_guards() = 0;
};

} /* namespace verify */
