/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Races between two places in the module do no harm. A test build of the module waits at one of the
 * places (kernel/pause.h).
 */
#include "../wire/stream.hpp"
#include "device.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <format>
#include <optional>
#include <thread>

using namespace rdma;
using namespace raw;
using namespace wire;
using namespace std::chrono_literals;

namespace
{

/* An FPDU with a CRC that is wrong. */
Octets broken()
{
	Octets octets = fpdu(Untagged{}.ulpdu(octets_of(1, 32)));

	octets.back() ^= 1;
	return octets;
}

/* Data arrives when a connection has just given its queue pair back, which is then destroyed. */
void callback_during_unbind(const std::string &address)
{
	raw::Call call(address);

	{
		cases::Told pause("pause", "ep_unbind 1000");

		call.peer.say(broken());
		expect_event(call.listener.channel(), RDMA_CM_EVENT_DISCONNECTED);
		rdma_destroy_qp(call.end.id());
		for (unsigned int i = 0; i < 10; i++)
			call.peer.say(octets_of(2, 100));
	}
	auto said = call.peer.hear_terminate();

	require(said && said->layer == 2, "the Terminate reports the CRC error");
}

/* Posts a numbered message every few milliseconds. */
void post_all_the_time(End &end, Buffer &from, std::atomic<bool> &over)
{
	for (std::uint32_t i = 0; i < 60 && !over; i++) {
		end.send(from.sge(i, 1), i);
		std::this_thread::sleep_for(4ms);
	}
}

void expect_in_order(End &end, const Buffer &memory, unsigned int messages)
{
	for (unsigned int i = 0; i < messages; i++)
		expect_completion(end.recv_cq(), IBV_WC_SUCCESS, i);
	require(memory.holds(3, 0, messages), "the messages came in order");
}

/* A call to a listener on this host, with the loop switched on. */
struct Caller {
	explicit Caller(const std::string &address)
		: listener(address), a(resolve(channel.get(), listener.address()), {})
	{
	}

	Setting loops{ device_setting("loopback"), "1" };
	Listener listener;
	EventChannel channel = create_event_channel();
	End a;
};

/* One end of a loop gets a doorbell before the other end has joined. */
void doorbell_during_join(const std::string &address)
{
	constexpr unsigned int messages = 32;
	Caller call(address);
	End &a = call.a;
	Buffer from_a(a.pd(), 64), to_a(a.pd(), 64);
	std::uint64_t before = device_counter(a.qp()->context, "tx_fpdus");
	std::atomic<bool> over = false;
	cases::Told pause("pause", "loop_connect 60");

	from_a.fill(3);
	for (unsigned int i = 0; i < messages; i++)
		a.receive(to_a.sge(i, 1), i);
	a.connect();

	End b(call.listener.next_request(), {});
	Buffer from_b(b.pd(), 64), to_b(b.pd(), 64);

	from_b.fill(3);
	for (unsigned int i = 0; i < 60; i++)
		b.receive(to_b.sge(i, 1), i);

	std::thread poster(post_all_the_time, std::ref(a), std::ref(from_a), std::ref(over));

	for (unsigned int i = 0; i < messages; i++)
		b.send(from_b.sge(i, 1), i);
	b.accept();
	poster.join();
	expect_event(call.channel.get(), RDMA_CM_EVENT_ESTABLISHED);
	expect_in_order(a, to_a, messages);
	expect_in_order(b, to_b, 60);
	require(device_counter(a.qp()->context, "tx_fpdus") == before, "nothing went over TCP");
}

/* Requests posted before the stream is open are not sent before its opening message. */
void doorbell_before_opening(const std::string &address)
{
	cases::Told pause("pause", "ep_opening 500");
	Caller call(address);
	End &a = call.a;
	Buffer from(a.pd(), 64);

	a.connect();

	End b(call.listener.next_request(), {});
	Buffer to(b.pd(), 64);
	auto begun = std::chrono::steady_clock::now();
	std::atomic<bool> over = false;

	for (unsigned int i = 0; i < 60; i++)
		b.receive(to.sge(i, 1), i);

	b.accept();

	std::jthread poster(post_all_the_time, std::ref(a), std::ref(from), std::ref(over));

	expect_completion(b.recv_cq(), IBV_WC_SUCCESS, 0);
	over = true;

	auto taken = std::chrono::floor<std::chrono::milliseconds>(
		std::chrono::steady_clock::now() - begun);

	require(taken >= 500ms, std::format("the first message came after {}", taken));
}

/* The opening message cannot be sent. If a later message were sent, the peer would take it for the
 * opening one.
 */
void doorbell_without_opening(const std::string &address)
{
	Acceptor acceptor(address);
	EventChannel channel = create_event_channel();
	End end(resolve(channel.get(), address, acceptor.port()), {});
	Buffer from(end.pd(), 64);
	cases::Told failure("fail", "tx_opening");
	cases::Told pause("pause", "ep_refuse_reply 300");
	std::atomic<bool> over = false;

	end.connect();

	Peer peer = acceptor.accept();
	auto request = peer.hear_frame();

	require(request.has_value(), "a Request comes");
	peer.say(Initiator::accepting(*request).octets());

	std::jthread poster(post_all_the_time, std::ref(end), std::ref(from), std::ref(over));
	auto heard = peer.hear_fpdu();

	over = true;
	require(!heard || heard->opcode() == 7, "nothing but a Terminate comes");
	expect_event(channel.get(), RDMA_CM_EVENT_CONNECT_ERROR);
}

/* The deadline of the Reply expires while the device handles a wrong Reply and closes. */
void deadline_before_farewell(const std::string &address)
{
	Acceptor acceptor(address);
	EventChannel channel = create_event_channel();
	End end(resolve(channel.get(), address, acceptor.port()), {});
	auto begun = std::chrono::steady_clock::now();
	int error = 0;
	socklen_t length = sizeof(error);

	end.connect();

	Peer peer = acceptor.accept();

	std::this_thread::sleep_until(begun + 9500ms); /* connect_ms is 10000 */
	{
		cases::Told pause("pause", "ep_work 1500");

		std::this_thread::sleep_until(begun + 10700ms);
		require(peer.hear_frame().has_value(), "a Request comes");
		peer.say(Frame().octets());
		require(peer.hears_end(5000), "the device ends the stream");
	}
	std::this_thread::sleep_for(500ms); /* the device waits 3 s for our FIN */
	require(peer.tcp_state() == TCP_CLOSE_WAIT,
		std::format("the device waits for our FIN: state {}", peer.tcp_state()));
	require(!getsockopt(peer.fd(), SOL_SOCKET, SO_ERROR, &error, &length) && !error,
		"the device has not reset the connection");
}

/* The device hears what a peer did before the Request came, although no further event tells it. */
struct EarlyPeer {
	EarlyPeer(const std::string &address, void (*act)(Peer &peer))
		: acceptor(address), end(resolve(channel.get(), address, acceptor.port()), {})
	{
		cases::Told pause("pause", "ep_dial 2000");
		auto begun = std::chrono::steady_clock::now();
		std::jthread caller([&] { end.connect(); });

		peer.emplace(acceptor.accept());
		act(*peer);
		require(std::chrono::steady_clock::now() < begun + 1800ms, "the peer was early");
	}

	Acceptor acceptor;
	EventChannel channel = create_event_channel();
	End end;
	std::optional<Peer> peer;
};

void end_before_request(const std::string &address)
{
	EarlyPeer early(address, [](Peer &peer) { peer.end(); });
	auto request = early.acceptor.accept(5000).hear_frame();

	require(request && request->revision == 1, "the device calls again in revision 1");
}

void octets_before_request(const std::string &address)
{
	EarlyPeer early(address, [](Peer &peer) { peer.say(octets_of(1, 20)); });

	require(next_event(early.channel.get(), 5000).type == RDMA_CM_EVENT_REJECTED,
		"the caller is told");
}

/* A caller that ends its stream right behind its Request is not there any more. Both arrive before the
 * device looks at either.
 */
void end_with_request(const std::string &address)
{
	Device device(address);
	Listener listener(address);
	const std::uint64_t failures = device_counter(device.context(), "conn_failures");
	cases::Told pause("pause", "ep_work 1000");
	auto begun = std::chrono::steady_clock::now();
	Peer peer(listener.address());

	peer.say(Frame().octets());
	peer.end();
	require(std::chrono::steady_clock::now() < begun + 800ms, "the peer was early");
	await("the device has noticed the end",
	      [&] { return device_counter(device.context(), "conn_failures") == failures + 1; });
	require(next_event(listener.channel(), 200).type < 0, "the consumer is not asked");

	Peer patient(listener.address());

	patient.say(Frame().octets());
	expect_event(listener.channel(), RDMA_CM_EVENT_CONNECT_REQUEST);
}

/* A caller that sends something just before it gets the Reply did not wait for it, either. */
void octets_before_reply(const std::string &address)
{
	Listener listener(address);
	Peer peer(listener.address());

	peer.say(Frame().octets());

	End end(listener.next_request(), {});
	cases::Told pause("pause", "cm_reply 1000");
	std::jthread early([&] {
		std::this_thread::sleep_for(300ms);
		peer.say(octets_of(1, 1));
	});
	rdma_conn_param parameters = connection_parameters();

	require(rdma_accept(end.id(), &parameters) && errno == ECONNRESET,
		"the call cannot be accepted");
	require(peer.is_hung_up(), "the peer is hung up on, and gets no Reply");
}

/* A connection that TCP makes at once may not overtake one that waits in the lane. */
void call_behind_another(const std::string &address)
{
	std::optional<cases::Told> pause(std::in_place, "pause", "none 0");
	EventChannel channel = create_event_channel();
	Acceptor free(address), full(address, 0, 0);
	End busy(resolve(channel.get(), address, free.port()), {});
	End a(resolve(channel.get(), address, full.port()), {});
	End b(resolve(channel.get(), address, free.port()), {});
	sockaddr_storage at = parse_address(address, full.port());
	Peer filler(reinterpret_cast<sockaddr *>(&at));

	busy.connect();

	Peer busy_peer = free.accept();

	require(busy_peer.hear_frame().has_value(), "a Request comes");
	a.connect(); /* the backlog is full, so TCP sends the SYN again after a second */
	full.accept();
	pause.reset();
	pause.emplace("pause", "ep_work 6000");
	busy_peer.say(octets_of(1, 1)); /* keeps the lane busy */

	Peer a_peer = full.accept();

	std::this_thread::sleep_for(300ms); /* the lane is in its pause, if it was not already */
	pause.reset();
	b.connect();

	Peer b_peer = free.accept();

	require(b_peer.hears_nothing(1000), "the younger call waits");
	require(a_peer.hear_frame().has_value(), "the Request of the older call comes");
	require(b_peer.hear_frame().has_value(), "the Request of the younger call comes");
}

/* Any number can be named in a call, also that of a queue pair that is not complete. */
void called_too_early(const std::string &address)
{
	Device device(address);
	Cq cq = device.create_cq(16);
	ibv_qp_cap cap = { 1, 1, 1, 1, 0 };
	Listener listener(address);
	EventChannel channel = create_event_channel();
	Id id = resolve(channel.get(), listener.address());
	rdma_conn_param parameters = connection_parameters();
	Qp qp;

	parameters.qp_num = create_qp(device.pd(), cq.get(), cap)->qp_num + 1;
	{
		cases::Told pause("pause", "qp_create 1000");
		auto begun = std::chrono::steady_clock::now();
		std::jthread maker([&] { qp = create_qp(device.pd(), cq.get(), cap); });

		do {
			require(rdma_connect(id.get(), &parameters) && errno == EINVAL,
				"there is no queue pair yet");
		} while (std::chrono::steady_clock::now() < begun + 900ms);
	}
	require(qp->qp_num == parameters.qp_num, "that was its number");
	require(!rdma_connect(id.get(), &parameters), "now it can be connected");
	expect_event(listener.channel(), RDMA_CM_EVENT_CONNECT_REQUEST);
}

/* More than what a softirq receives itself. The worker to which it leaves that has to wait. */
constexpr std::uint32_t left_to_worker = 60000;

/*
 * The worker has the receiver's queue pair in its list, but does not look at it. What the receiver posts
 * meanwhile is sent by its doorbells.
 */
void answer_beside_worker(const std::string &address)
{
	Setting tcp(device_setting("loopback"), "0");
	Pair pair(address);
	Buffer from(pair.a().pd(), left_to_worker), to(pair.b().pd(), left_to_worker);

	from.fill(1);
	pair.b().receive(to.sge(0, left_to_worker), 1);

	cases::Told pause("pause", "worker_round 3000");

	pair.a().send(from.sge(0, left_to_worker), 1);
	std::this_thread::sleep_for(300ms); /* until the worker is in the pause */

	auto start = std::chrono::steady_clock::now();

	for (std::uint64_t i = 1; i <= 3; i++) {
		pair.b().write(to.sge(0, 8), from.address(), from.mr()->rkey, i);
		expect_completion(pair.b().send_cq(), IBV_WC_SUCCESS, i);
	}
	require(std::chrono::steady_clock::now() - start < 1500ms, "the answers are sent at once");
	expect_completion(pair.b().recv_cq(), IBV_WC_SUCCESS, 1);
	require(to.holds(1, 0, left_to_worker), "the message comes when the worker goes on");
}

/* Where a worker is that has been asked to receive: it has not begun, or waits for the socket. */
const std::string late_places[] = { "worker_round 100", "worker_receive 100" };

/*
 * The peer sends and resets at once. What it sent is in the socket, and the worker comes later. Who
 * sends may find out about the reset before the endpoint does.
 */
template <bool sends>
void reset_before_worker(const std::string &address)
{
	for (int i = 0; i < 20; i++) {
		Stream stream(address, Role::responder, { .memory = left_to_worker });
		Octets message = fpdu(Untagged{}.ulpdu(octets_of(1, left_to_worker)));

		stream.end().receive(stream.memory().sge(0, left_to_worker), 1);

		cases::Told pause("pause", late_places[i % 2]);

		stream.peer().say(message);
		stream.peer().abort();
		if (sends)
			stream.end().write(stream.memory().sge(0, 1), 0, 1);
		expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1);
		require(stream.memory().holds(1, 0, left_to_worker), "the data is right");
		stream.expect_disconnect();
	}
}

/*
 * What has come is received before this end ends the connection, wherever the worker is. After 20 ms
 * the endpoint would look itself.
 */
void end_before_worker(const std::string &address)
{
	for (int i = 0; i < 20; i++) {
		Stream stream(address, Role::responder, { .memory = left_to_worker });

		stream.end().receive(stream.memory().sge(0, left_to_worker), 1);

		cases::Told pause("pause", late_places[i % 2]);

		stream.peer().say(fpdu(Untagged{}.ulpdu(octets_of(1, left_to_worker))));
		std::this_thread::sleep_for(3ms); /* the worker is in the pause */
		rdma_disconnect(stream.end().id());
		expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1);
		require(stream.memory().holds(1, 0, left_to_worker), "the data is right");
	}
}

/*
 * The worker is late. The shared requests go to others, and not to the messages that have come. On a
 * busy machine this thread may be late as well: then the message is received before the end, and
 * takes the request.
 */
void destroyed_before_worker(const std::string &address)
{
	constexpr int rounds = 20;
	Setting tcp(device_setting("loopback"), "0");
	Device device(address);
	Buffer into(device.pd(), left_to_worker);
	int left_to_others = 0;

	for (int i = 0; i < rounds; i++) {
		Srq srq = device.create_srq(8);
		Pair short_lived(address, {}, { .srq = srq.get() });
		Pair pair(address, {}, { .srq = srq.get() });
		Buffer from(pair.a().pd(), left_to_worker);
		Buffer lost(short_lived.a().pd(), left_to_worker);

		post(srq.get(), into.sge(0, left_to_worker), 1);
		{
			cases::Told pause("pause", late_places[i % 2]);

			short_lived.a().send(lost.sge(0, left_to_worker));
			std::this_thread::sleep_for(3ms); /* the worker is in the pause */
			rdma_destroy_qp(short_lived.b().id());
		}
		pair.a().send(from.sge(0, left_to_worker), 1);
		if (const auto wc = poll_until(pair.b().recv_cq(), 2000)) {
			require(wc->status == IBV_WC_SUCCESS && wc->wr_id == 1, "the Send arrives");
			left_to_others++;
		}
	}
	std::printf("%d of %d requests were left to others\n", left_to_others, rounds);
	require(left_to_others > rounds / 2, "most requests are left to others");
}

/* A Send that waits has come before the end, and waits on if this end finds out by sending. */
void reset_before_receive(const std::string &address)
{
	Stream stream(address, Role::responder);

	stream.peer().say(fpdu(Untagged{}.ulpdu(octets_of(1, 64))));
	std::this_thread::sleep_for(50ms); /* it waits for a receive */
	stream.peer().abort();
	stream.end().write(stream.memory().sge(0, 1), 0, 1);
	std::this_thread::sleep_for(50ms);
	stream.end().receive(stream.memory().sge(0, 64), 1);
	expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1);
	require(stream.memory().holds(1, 0, 64), "the data is right");
	stream.expect_disconnect();
}

const cases::Case all[] = {
	{ "a callback never meets a queue pair that was given back", callback_during_unbind },
	{ "nothing goes over TCP while two ends are joined", doorbell_during_join },
	{ "nothing comes before the opening message of the stream", doorbell_before_opening },
	{ "nothing is sent if the opening message of the stream cannot be sent",
	  doorbell_without_opening },
	{ "an end that comes before the Request is heard", end_before_request },
	{ "octets that come before the Request are heard", octets_before_request },
	{ "an end that comes with the Request is heard", end_with_request },
	{ "octets that come just before the Reply are heard", octets_before_reply },
	{ "a call does not overtake an older one", call_behind_another },
	{ "the deadline of a handshake does not end the farewell", deadline_before_farewell },
	{ "a queue pair cannot be connected before it is complete", called_too_early },
	{ "an answer does not wait for the worker that received", answer_beside_worker },
	{ "what came before a reset is received", reset_before_worker<false> },
	{ "what came before a reset is received if a send finds out first",
	  reset_before_worker<true> },
	{ "what came before this end disconnects is received", end_before_worker },
	{ "what came before a queue pair is destroyed uses no shared requests",
	  destroyed_before_worker },
	{ "a Send that waits outlives a reset that a send finds out", reset_before_receive },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
