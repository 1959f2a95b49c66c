/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Things fail while a connection is made, used and ended: each attempt either works or both ends
 * are told, and nothing is left of it.
 */
#include "cases.hpp"
#include "handshake.hpp"
#include "raw_peer.hpp"
#include "starved.hpp"
#include "tcp_memory.hpp"

#include <cerrno>
#include <chrono>
#include <cstdio>

using namespace rdma;
using injection::Call;
using injection::Faults;
using injection::Starved;

namespace
{

/* What the kernel's sockets say if there is no memory for a socket, a segment, or a port. */
const injection::Allowed of_sockets = { .errors = { ENFILE, ENOBUFS, EADDRINUSE } };

void listening(const std::string &address)
{
	Starved starved(address);

	starved.verb(
		"listen",
		[&](Call &call) {
			sockaddr_storage at = parse_address(address, 0);
			EventChannel channel = create_event_channel();
			Id id = create_id(channel.get());

			require(!rdma_bind_addr(id.get(), reinterpret_cast<sockaddr *>(&at)),
				"the id is bound");
			/* The id may listen before the core fails to copy its answer. */
			call.once([&] { return rdma_listen(id.get(), 8) ? errno : 0; });
			id.reset();
			Listener again(address);
		},
		of_sockets);
	starved.conclude();
}

void connecting(const std::string &address)
{
	Starved starved(address);

	starved.verb(
		"connect",
		[&](Call &call) {
			Handshake handshake(address);

			call.once([&] { return handshake.connect(); });
			handshake.settle();
		},
		of_sockets);
	starved.verb("accept", [&](Call &call) {
		Handshake handshake(address);

		handshake.connect();
		handshake.be_called();
		call.once([&] { return handshake.accept(); });
		handshake.settle();
	});
	starved.verb("reject", [&](Call &call) {
		Handshake handshake(address);

		handshake.connect();
		handshake.be_called();
		call.once([&] { return handshake.reject(); });
		handshake.leave();
		handshake.settle();
	});
	starved.verb("disconnect", [&](Call &call) {
		Handshake handshake(address);

		handshake.connect();
		handshake.settle();
		call([&] { return handshake.disconnect(); });
		handshake.await_end();
	});
	starved.conclude();
}

/* Posts when the kernel has stopped looking at the ring, so that the doorbell has to be rung, and
 * polls once, because the provider may ring only then. Who waits reads the clock, and a clock that
 * fails may say anything. So nothing fails during the wait.
 */
void expect_posted(Call &call, End &end, ibv_send_wr &wr)
{
	ibv_wc wc = {};
	int count = 0;

	std::this_thread::sleep_for(std::chrono::milliseconds(20));
	if (!call.once([&] {
		    int error = end.post(wr);

		    if (!error)
			    count = ibv_poll_cq(end.send_cq(), 1, &wc);
		    return error;
	    }))
		return;
	require(count >= 0, "the completion queue can be polled");
	if (!count)
		wc = next_completion(end.send_cq());
	require(wc.status == IBV_WC_SUCCESS, "the request has succeeded");
}

/* Requests of a connection that stays. A doorbell that fails is rung a second time. */
void posting(const std::string &address)
{
	const injection::Allowed allowed = { .success_only = true };
	constexpr std::uint32_t size = 65536;
	Starved starved(address);
	Pair pair(address);
	Buffer from(pair.a().pd(), size), to(pair.b().pd(), size);
	Buffer region(pair.a().pd(), size, Buffer::all_rights | IBV_ACCESS_MW_BIND);
	auto post = [&](const char *name, ibv_send_wr wr) {
		ibv_sge sge = from.sge(0, size);

		starved.verb(
			name,
			[&, wr](Call &call) mutable {
				Mw window;

				wr.send_flags = IBV_SEND_SIGNALED;
				if (wr.opcode == IBV_WR_BIND_MW) {
					window.reset(ibv_alloc_mw(pair.a().pd(), IBV_MW_TYPE_2));
					require(window != nullptr, "a window");
					wr.bind_mw.mw = window.get();
					wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
				} else {
					wr.sg_list = &sge;
					wr.num_sge = 1;
				}
				if (wr.opcode == IBV_WR_SEND)
					pair.b().receive(to.sge(0, size));
				expect_posted(call, pair.a(), wr);
				if (wr.opcode == IBV_WR_SEND)
					expect_completion(pair.b().recv_cq(), IBV_WC_SUCCESS, 0);
			},
			allowed);
	};
	ibv_send_wr wr = {};

	wr.wr.rdma = { to.address(), to.mr()->rkey };
	wr.opcode = IBV_WR_RDMA_WRITE;
	post("post_send, Write", wr);
	wr.opcode = IBV_WR_RDMA_READ;
	post("post_send, Read", wr);
	wr = {};
	wr.opcode = IBV_WR_SEND;
	post("post_send, Send", wr);
	wr = {};
	wr.opcode = IBV_WR_BIND_MW;
	wr.bind_mw = { nullptr,
		       0,
		       { region.mr(), region.address(), size, IBV_ACCESS_REMOTE_READ } };
	post("post_send, bind_mw", wr);
	starved.conclude();
}

/* How often each thing has happened to a connection. */
struct Fates {
	unsigned int worked = 0;
	unsigned int refused = 0; /* no connection was made */
	unsigned int ended = 0;	  /* it was made, and ended early */
};

/* Makes one connection, uses it and ends it, while things fail. Every other time the process that
 * connects is spared, so that more attempts get as far as the kernel's own threads.
 */
void attempt(const std::string &address, Faults &faults, unsigned int number, Fates &fates)
{
	constexpr unsigned int percents[] = { 1, 2, 5, 10 };
	const unsigned int percent = percents[number / 2 % std::size(percents)];
	Handshake handshake(address);

	if (number % 2)
		faults.begin(percent);
	handshake.connect();
	faults.begin(percent);
	handshake.settle();
	if (!handshake.works()) {
		fates.refused++;
		return;
	}
	faults.pause();
	handshake.prepare();
	faults.begin(percent);
	if (handshake.exchange()) {
		fates.worked++;
		return;
	}
	handshake.await_end();
	fates.ended++;
}

/* Things fail in all threads of the kernel that run the module's code: in those that serve the
 * handshake, in workers, and where data is received.
 */
void at_random(const std::string &address)
{
	constexpr unsigned int most = 400;
	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(12);
	Device device(address);
	Faults faults;
	Fates fates;
	unsigned int count = 0;
	const std::string before = injection::objects(device.context());

	faults.only_in(injection::code_of_module());
	for (; count < most && std::chrono::steady_clock::now() < end; count++) {
		attempt(address, faults, count, fates);
		faults.pause();
	}
	std::printf("%u attempts with %lu failures: %u worked, %u were refused, %u ended early\n",
		    count, static_cast<unsigned long>(faults.injected()), fates.worked,
		    fates.refused, fates.ended);
	require(faults.injected() >= count, "enough has failed");
	require(fates.worked > 0 && fates.refused > 0, "some attempts worked, some did not");

	{
		Handshake last(address);

		require(!last.connect(), "a connection is made without failures");
		last.settle();
		require(last.works(), "it works");
		last.prepare();
		require(last.exchange(), "data goes through it");
	}
	await("no object is left", [&] { return injection::objects(device.context()) == before; });
}

/* TCP has no memory for the Terminate at first. It is asked now and then, and not all the time. */
void farewell(const std::string &address)
{
	raw::Call call(address);
	raw::Octets wrong = raw::fpdu(raw::Untagged().ulpdu(raw::octets_of(1, 32)));
	Faults faults;

	wrong.back() ^= 1;
	faults.only_in(injection::code_of_function("xiw_ep_farewell"));
	faults.begin(100);
	call.peer.say(wrong);
	expect_event(call.listener.channel(), RDMA_CM_EVENT_DISCONNECTED);
	require(call.peer.hears_nothing(500), "there is no memory for the Terminate");
	faults.pause();

	const std::uint64_t failed = faults.injected();
	auto said = call.peer.hear_terminate();

	std::printf("%lu allocations have failed\n", static_cast<unsigned long>(failed));
	require(failed > 0 && failed < 50, "TCP is asked now and then");
	require(said && said->layer == 2, "the Terminate reports the CRC error");
}

void tcp_memory(const std::string &address)
{
	constexpr std::uint32_t size = 65536;
	constexpr unsigned int count = 32;
	Pair pair(address);
	Buffer from(pair.a().pd(), size), to(pair.b().pd(), size), back(pair.a().pd(), size);

	from.fill(1);
	{
		const TcpMemory hardly_any("1 1 1");

		for (unsigned int i = 0; i < count; i++)
			pair.a().write(from.sge(0, size), to.address(), to.mr()->rkey, i);
		pair.a().read(back.sge(0, size), to.address(), to.mr()->rkey, count);

		Handshake handshake(address);

		handshake.connect();
		handshake.settle();
		std::printf("a new connection %s\n", handshake.works() ? "works" : "is refused");
	}
	for (unsigned int i = 0; i <= count; i++)
		expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, i);
	require(back.holds(1, 0, size), "the data is right");
}

} /* namespace */

int main(int argc, char **argv)
{
	static const cases::Case all[] = {
		{ "listeners", listening },
		{ "each step of the handshake", connecting },
		{ "posted requests", posting },
		{ "the farewell", farewell },
		{ "TCP has hardly any memory for a while", tcp_memory },
		{ "hundreds of connections, with failures at random", at_random },
	};

	return cases::run(all, argc, argv);
}
