/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A side of the programs that is on another machine. */
#pragma once

#include "party.hpp"

#include <mutex>
#include <string>

namespace verify
{

/* A TCP connection that carries requests one way and answers the other way. Closes it at the end. */
class Control
{
public:
	explicit Control(int fd) : fd_(fd) {}
	Control(const Control &) = delete;
	~Control();

	void send(std::span<const std::uint8_t> message);
	/* Returns nothing if the peer has closed the connection. */
	std::vector<std::uint8_t> receive();

private:
	bool fill(std::span<std::uint8_t> octets);

	int fd_;
};

/* Lets a Remote that calls this port use a Local, until it closes the connection. */
void serve(const std::string &address, std::uint16_t port);

enum class Ask : std::uint8_t; /* what a Party is called for */

/* Asks the Local of another process for everything. */
class Remote : public Party
{
public:
	Remote(const std::string &address, std::uint16_t port);

	Keys begin(const Setup &setup) override;
	std::uint16_t listen() override;
	void call(std::uint16_t port) override;
	void answer() override;
	void await_connection() override;
	void meet(const Keys &peer) override;
	void end() noexcept override;

	void post(std::span<const Order> orders) override;
	void post_receive(const Order &order) override;
	void resize(std::uint32_t entries) override;
	void fill(const Step &step) override;

	std::vector<Arrival> poll() override;

	void disconnect(std::uint32_t qp) override;
	void await_end(std::uint32_t qp) override;

	std::span<const std::uint8_t> memory(std::uint32_t region, std::uint32_t offset,
					     std::uint32_t length) override;
	void check_guards() override;

private:
	template <typename... Words>
	std::vector<std::uint8_t> ask(Ask what, const Words &...words);

	std::mutex mutex_; /* threads post at the same time */
	Control control_;
	std::vector<std::uint8_t> memory_;
};

} /* namespace verify */
