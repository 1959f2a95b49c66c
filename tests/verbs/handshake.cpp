/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* One attempt to connect, which may fail at either end at any time. */
#include "handshake.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <format>

using namespace rdma;

/* The device gives up a handshake after ten seconds. */
static constexpr auto patience = std::chrono::seconds(20);

Handshake::Handshake(const std::string &address)
	: listener_(address), channel_(create_event_channel()),
	  a_(resolve(channel_.get(), listener_.address()), {})
{
}

/* What the caller says to the called end. */
static constexpr std::uint8_t private_data[] = { 1, 2, 3 };

int Handshake::connect()
{
	rdma_conn_param parameters = connection_parameters(private_data);
	const int error = rdma_connect(a_.id(), &parameters) ? errno : 0;

	if (error)
		a_knows_ = Known::ended;
	return error;
}

int Handshake::accept()
{
	rdma_conn_param parameters = connection_parameters();
	const int error = rdma_accept(b_->id(), &parameters) ? errno : 0;

	if (error) {
		b_knows_ = Known::ended;
		b_.reset(); /* as a program does with an id that it cannot use */
	}
	return error;
}

int Handshake::reject()
{
	const int error = rdma_reject(b_->id(), nullptr, 0) ? errno : 0;

	b_knows_ = Known::ended;
	return error;
}

void Handshake::leave()
{
	b_.reset();
}

int Handshake::disconnect()
{
	return rdma_disconnect(a_.id()) ? errno : 0;
}

void Handshake::be_called()
{
	b_.emplace(listener_.next_request(), QpOptions{});
}

/* If one end has failed, the other one must not go on. */
bool Handshake::settled() const
{
	if (works())
		return true;
	return a_knows_ == Known::ended && (!b_ || b_knows_ == Known::ended);
}

static void note(auto &knows, const Event &event)
{
	using Known = Handshake::Known;

	if (event.type == RDMA_CM_EVENT_ESTABLISHED && !event.status)
		knows = Known::works;
	else if (event.type >= 0 && event.type != RDMA_CM_EVENT_TIMEWAIT_EXIT)
		knows = Known::ended;
}

/* The end cannot be made if memory is short. That is an answer, too: the id is destroyed. */
void Handshake::answer(Id call)
{
	require(!b_, "there is one call");
	try {
		b_.emplace(std::move(call), QpOptions{});
	} catch (const std::exception &) {
		b_knows_ = Known::ended;
		return;
	}
	accept();
}

static bool carries_private_data(const Event &event)
{
	return event.private_data.size() >= std::size(private_data) &&
	       std::ranges::equal(std::span(event.private_data).first(std::size(private_data)),
				  private_data);
}

void Handshake::take_event()
{
	pollfd files[] = { { channel_->fd, POLLIN, 0 }, { listener_.channel()->fd, POLLIN, 0 } };

	poll(files, 2, 100);
	if (files[0].revents)
		note(a_knows_, next_event(channel_.get(), 0));
	if (!files[1].revents)
		return;

	Event event = next_event(listener_.channel(), 0);

	if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		require(carries_private_data(event),
			"a call comes with its private data, or not at all");
		answer(Id(event.id));
	} else {
		note(b_knows_, event);
	}
}

static const char *text(Handshake::Known knows)
{
	switch (knows) {
	case Handshake::Known::works:
		return "it works";
	case Handshake::Known::ended:
		return "it has ended";
	default:
		return "nothing";
	}
}

void Handshake::settle()
{
	const auto deadline = std::chrono::steady_clock::now() + patience;

	while (!settled()) {
		if (std::chrono::steady_clock::now() > deadline)
			fail(std::format("an end is not told: the caller knows \"{}\", the {} "
					 "\"{}\"",
					 text(a_knows_), b_ ? "called end" : "end without a call",
					 text(b_knows_)));
		take_event();
	}
}

void Handshake::await_end()
{
	for (Known *knows : { &a_knows_, &b_knows_ })
		if (*knows == Known::works)
			*knows = Known::nothing;
	settle();
}

void Handshake::prepare()
{
	from_.emplace(a_.pd(), size);
	to_.emplace(b_->pd(), size);
	back_.emplace(a_.pd(), size);
	from_->fill(1);
}

bool Handshake::exchange()
{
	a_.write(from_->sge(0, size), to_->address(), to_->mr()->rkey, 1);
	a_.read(back_->sge(0, size), to_->address(), to_->mr()->rkey, 2);
	for (int i = 0; i < 2; i++)
		if (next_completion(a_.send_cq(), 20000).status != IBV_WC_SUCCESS)
			return false;
	require(back_->holds(1, 0, size), "the data is right");
	return true;
}
