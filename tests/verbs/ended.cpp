/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* When a queue pair is destroyed or reset, its completions leave the completion queues, and their
 * entries are free again.
 */
#include "cases.hpp"
#include "device.hpp"

#include <cerrno>
#include <cstring>
#include <optional>

using namespace rdma;

namespace
{

/* Moves a to error with receives posted, and does not poll their flushed completions. */
void fail_with_receives(Pair &pair, unsigned int receives, std::uint64_t first)
{
	Buffer into(pair.a().pd(), 64);

	for (unsigned int i = 0; i < receives; i++)
		pair.a().receive(into.sge(0, 64), first + i);
	pair.a().move_to(IBV_QPS_ERR);
	pair.expect_disconnect();
}

/* The completions of a queue pair lie between those of another one. */
void destroyed_leaves_nothing(const std::string &address)
{
	Device device(address);
	Cq cq = device.create_cq(64);
	Pair stays(address, { .cq = cq.get() }, {});
	Buffer into(stays.a().pd(), 64), from(stays.b().pd(), 64);
	auto message = [&](std::uint64_t wr_id) {
		stays.a().receive(into.sge(0, 64), wr_id);
		stays.b().send(from.sge(0, 64), wr_id);
		expect_completion(stays.b().send_cq(), IBV_WC_SUCCESS, wr_id);
	};

	for (unsigned int round = 0; round < 20; round++) {
		{
			Pair goes(address, { .cq = cq.get() }, {});

			message(1);
			fail_with_receives(goes, 7, 100);
			message(2);
		}
		message(3);
		for (std::uint64_t wr_id : { 1, 2, 3 })
			expect_completion(cq.get(), IBV_WC_SUCCESS, wr_id);
		expect_no_completion(cq.get(), 5);
	}
}

/* Posts receives and calls an address that has no listener. */
void be_rejected(ibv_cq *cq, const sockaddr *to)
{
	EventChannel channel = create_event_channel();
	End end(resolve(channel.get(), to), { .cq = cq });
	Buffer into(end.pd(), 64);

	for (unsigned int i = 0; i < 8; i++)
		end.receive(into.sge(0, 64), i);
	end.connect();
	require(next_event(channel.get()).type != RDMA_CM_EVENT_ESTABLISHED, "the call has failed");
	end.move_to(IBV_QPS_ERR);
}

void small_queue_survives(const std::string &address)
{
	Device device(address);
	Cq cq = device.create_cq(16);
	sockaddr_storage no_listener;
	{
		Listener closed(address);

		no_listener = {};
		std::memcpy(&no_listener, closed.address(), sizeof(sockaddr_in6));
		if (closed.address()->sa_family == AF_INET)
			std::memcpy(&no_listener, closed.address(), sizeof(sockaddr_in));
	}
	for (unsigned int i = 0; i < 100; i++)
		be_rejected(cq.get(), reinterpret_cast<sockaddr *>(&no_listener));
	expect_no_completion(cq.get(), 5);
	require(!wait_readable(device.context()->async_fd, 0), "the queue has not overflowed");

	Pair pair(address, { .send_wr = 8, .recv_wr = 8, .cq = cq.get() }, {});
	pair.expect_alive();
}

void reset_leaves_nothing(const std::string &address)
{
	Pair pair(address);

	fail_with_receives(pair, 7, 0);
	pair.a().move_to(IBV_QPS_RESET);
	expect_no_completion(pair.a().recv_cq(), 20);
	expect_no_completion(pair.a().send_cq(), 5);
	require(pair.a().state() == IBV_QPS_RESET, "the queue pair is in RESET");
}

/* Uses a shared receive queue, and one completion queue for both directions. */
void shared_receives_leave_nothing(const std::string &address)
{
	Device device(address);
	Cq cq = device.create_cq(16);
	Srq srq = device.create_srq(64);
	Buffer into(device.pd(), 64);

	for (unsigned int round = 0; round < 10; round++) {
		Pair pair(address, {}, { .srq = srq.get(), .cq = cq.get() });
		Buffer from(pair.a().pd(), 64);

		for (std::uint64_t i = 0; i < 6; i++) {
			post(srq.get(), into.sge(0, 64), i);
			pair.a().send(from.sge(0, 64), i);
			expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, i);
		}
		if (round)
			continue;
		expect_completion(cq.get(), IBV_WC_SUCCESS, 0);
	}
	expect_no_completion(cq.get(), 5);
	require(!wait_readable(device.context()->async_fd, 0), "the queue has not overflowed");
}

void destroyed_while_shown(const std::string &address)
{
	Device device(address);
	ibv_cq_init_attr_ex attr = {};

	attr.cqe = 64;
	attr.wc_flags = IBV_WC_STANDARD_FLAGS;
	CqEx cq(ibv_create_cq_ex(device.context(), &attr));
	require(cq != nullptr, "an extended completion queue");
	std::optional<Pair> pair;
	pair.emplace(address, QpOptions{ .cq = ibv_cq_ex_to_cq(cq.get()) }, QpOptions());
	fail_with_receives(*pair, 7, 50);

	ibv_poll_cq_attr poll = {};
	const auto qpn = pair->a().qp()->qp_num;
	require(!ibv_start_poll(cq.get(), &poll), "there is a completion");
	pair.reset();
	require(cq->wr_id == 50 && ibv_wc_read_qp_num(cq.get()) == qpn, "it can still be read");
	require(ibv_next_poll(cq.get()) == ENOENT, "the others are gone");
	ibv_end_poll(cq.get());
	require(ibv_start_poll(cq.get(), &poll) == ENOENT, "no completion is left");
}

const cases::Case all[] = {
	{ "no completion of a destroyed queue pair is left", destroyed_leaves_nothing },
	{ "a queue of 16 survives a hundred rejected calls", small_queue_survives },
	{ "no completion of a reset queue pair is left", reset_leaves_nothing },
	{ "no completion is left of a queue pair with a shared receive queue",
	  shared_receives_leave_nothing },
	{ "a completion that is being read survives its queue pair", destroyed_while_shown },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
