/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Other processes on this host cannot do harm, neither with plain sockets nor with connections. */
#include "../wire/stream.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <format>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

using Farewell = void (*)(Peer &peer);

void closes(Peer &)
{
}

void resets(Peer &peer)
{
	peer.abort();
}

void ends(Peer &peer)
{
	peer.end();
}

/* Accepts calls correctly, and ends each connection at once. The caller sets last before it makes its
 * last call.
 */
void serve(Acceptor &acceptor, const std::atomic<bool> &last, Farewell farewell)
{
	bool over = false;

	while (!over) {
		Peer peer = acceptor.accept();
		auto request = peer.hear_frame();

		if (!request)
			return;
		over = last; /* before the caller hears the Reply and goes on */
		peer.say(Initiator::accepting(*request).octets());
		farewell(peer);
	}
}

/* Calls, and expects an event for the end, whether the connection was established before or not. */
void call(const std::string &address, std::uint16_t port)
{
	EventChannel channel = create_event_channel();
	End end(resolve(channel.get(), address, port), {});

	end.connect();

	Event event = next_event(channel.get());

	if (event.type == RDMA_CM_EVENT_ESTABLISHED)
		event = expect_event(channel.get(), RDMA_CM_EVENT_DISCONNECTED);
	require(event.type >= 0, "the caller is told of the end");
}

/* When the device looks up the socket at the other end, that one has been closed, or another socket
 * has its addresses. A machine with other work makes fewer calls.
 */
template <Farewell farewell, unsigned int calls>
void server_goes(const std::string &address)
{
	Setting loops(device_setting("loopback"), "1");
	Acceptor acceptor(address);
	std::atomic<bool> last = false;
	std::thread server(serve, std::ref(acceptor), std::cref(last), farewell);
	auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);

	try {
		for (unsigned int i = 1; !last; i++) {
			last = i == calls || std::chrono::steady_clock::now() > deadline;
			call(address, acceptor.port());
		}
	} catch (...) {
		server.detach(); /* the process ends now */
		throw;
	}
	server.join();
}

/*
 * Replaces modprobe by a program that takes 8 s. When a process asks TCP for an unknown congestion
 * control algorithm, the kernel runs modprobe with the socket locked and waits for it. A sendmsg()
 * from memory whose pages another process provides can hold the lock as long.
 */
class SlowModprobe
{
public:
	SlowModprobe() : setting_("/proc/sys/kernel/modprobe", write_script()) {}
	SlowModprobe(const SlowModprobe &) = delete;
	~SlowModprobe()
	{
		unlink(seen(script).c_str());
		unlink(seen(begun).c_str());
	}

	static bool has_begun() { return !access(seen(begun).c_str(), F_OK); }

private:
	static constexpr const char *script = "slow-modprobe";
	static constexpr const char *begun = "slow-modprobe-begun";

	/*
	 * The kernel runs programs either in its first root or in that of init. In User Mode Linux
	 * both roots have one folder in common (tests/vm/uml-init).
	 */
	static std::string seen(const char *file)
	{
		const char *folder = std::getenv("XIW_RESULTS");

		require(folder, "XIW_RESULTS names a folder");
		return std::format("{}/{}", folder, file);
	}

	static std::string in_root(const char *file)
	{
		return std::format("/tmp/run/results/{}", file);
	}

	static std::string write_script()
	{
		unlink(seen(begun).c_str());
		std::ofstream(seen(script)) << "#!/bin/sh\n: >" << in_root(begun) << "\nsleep 8\n";
		if (chmod(seen(script).c_str(), 0700))
			fail("chmod", errno);
		return in_root(script);
	}

	Setting setting_;
};

/* Accepts a connection on a plain socket. */
int accept_plain(int listener)
{
	int fd = wait_readable(listener, 10000) ? accept(listener, nullptr, nullptr) : -1;

	require(fd >= 0, "the device calls");
	return fd;
}

int listen_plain(const std::string &address, std::uint16_t &port)
{
	sockaddr_storage at = parse_address(address, 0);
	socklen_t length = sizeof(at);
	int fd = socket(at.ss_family, SOCK_STREAM, 0);

	require(fd >= 0 && !bind(fd, reinterpret_cast<sockaddr *>(&at), sizeof(at)) &&
			!listen(fd, 1) &&
			!getsockname(fd, reinterpret_cast<sockaddr *>(&at), &length),
		"a plain listener");
	port = ntohs(reinterpret_cast<sockaddr_in *>(&at)->sin_port);
	return fd;
}

/* Answers a call, and then keeps its own socket locked for seconds. */
void serve_and_lock(int listener, std::atomic<bool> &over)
{
	int fd = accept_plain(listener);
	Peer peer(fd);
	auto request = peer.hear_frame();

	if (!request)
		return;
	peer.say(Initiator::accepting(*request).octets());
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "xiw_none", 8);
	over = true;
}

/* Other connections on this host work while the server has its socket locked. */
void server_locks(const std::string &address)
{
	Setting loops(device_setting("loopback"), "1");
	std::optional<cases::Told> pause(std::in_place, "pause", "loop_find 1000");
	SlowModprobe slow;
	std::uint16_t port;
	int listener = listen_plain(address, port);
	std::atomic<bool> over = false;
	std::thread server(serve_and_lock, listener, std::ref(over));
	EventChannel channel = create_event_channel();
	End end(resolve(channel.get(), address, port), {});

	end.connect();

	Event event = next_event(channel.get(), 5000);
	bool in_time = event.type == RDMA_CM_EVENT_ESTABLISHED && !over;
	bool locked = SlowModprobe::has_begun();

	pause.reset();
	if (in_time)
		Pair(address).expect_alive();
	in_time = in_time && !over;
	server.join();
	close(listener);
	require(locked, "the server had its socket locked");
	require(in_time, "no connection waits for the lock");
}

/*
 * A process loses its CPU while it answers a call with its socket locked. Another call of the same
 * caller must not wait long.
 */
void slow_answer(const std::string &address)
{
	Setting loops(device_setting("loopback"), "1");
	Listener slow(address), quick(address);
	EventChannel channel = create_event_channel();
	End first(resolve(channel.get(), slow.address()), {});
	End second(resolve(channel.get(), quick.address()), {});
	rdma_conn_param parameters = connection_parameters();
	auto expect_open = [&] { expect_event(channel.get(), RDMA_CM_EVENT_ESTABLISHED, 1500); };

	first.connect();

	End slow_end(slow.next_request(), {});
	std::optional<cases::Told> pause(std::in_place, "pause", "cm_replied 3000");
	std::jthread answer([&] { rdma_accept(slow_end.id(), &parameters); });

	std::this_thread::sleep_for(std::chrono::milliseconds(100)); /* until it is in the pause */
	pause.reset();
	second.connect();

	End quick_end(quick.next_request(1500), {});

	quick_end.accept();
	expect_open();
	expect_open();
}

/*
 * A process loses its CPU with its socket locked. Kernel work for its connection then waits for the
 * lock: here the work that checks, after a second, a Send without a receive. A call to another port
 * must not wait.
 */
void socket_is_locked(const std::string &address)
{
	Stream stream(address, Role::responder);
	std::optional<cases::Told> pause(std::in_place, "pause", "tx_push 6000");

	stream.peer().say(fpdu(Untagged{}.ulpdu(octets_of(1, 8))));
	std::this_thread::sleep_for(std::chrono::milliseconds(200));

	std::jthread poster([&] { stream.end().write(stream.memory().sge(0, 1), 0, 1); });

	std::this_thread::sleep_for(std::chrono::milliseconds(200)); /* until it is in the pause */
	pause.reset();
	std::this_thread::sleep_for(std::chrono::milliseconds(1000));

	auto start = std::chrono::steady_clock::now();

	Pair(address).expect_alive();
	require(std::chrono::steady_clock::now() - start < std::chrono::seconds(2),
		"another connection is set up in less than two seconds");
}

/*
 * As above, but the lane that has to look at the Send also serves the calls at the port of its
 * connection.
 */
void socket_of_the_port_is_locked(const std::string &address)
{
	Listener listener(address);
	Peer slow(listener.address());

	slow.say(Frame{}.octets());

	End end(listener.next_request(), {});
	Buffer memory(end.pd(), 8);

	end.accept();
	require(slow.hear_frame().has_value(), "the device accepts");
	slow.say(fpdu(Tagged{}.ulpdu({}))); /* a responder sends nothing before */
	expect_event(listener.channel(), RDMA_CM_EVENT_ESTABLISHED);
	slow.say(fpdu(Untagged{}.ulpdu(octets_of(1, 8))));
	std::this_thread::sleep_for(std::chrono::milliseconds(200));

	std::optional<cases::Told> pause(std::in_place, "pause", "tx_push 6000");
	std::jthread poster([&] { end.write(memory.sge(0, 1), 0, 1); });

	std::this_thread::sleep_for(std::chrono::milliseconds(200)); /* until it is in the pause */
	pause.reset();
	std::this_thread::sleep_for(std::chrono::milliseconds(1000));

	auto start = std::chrono::steady_clock::now();
	Peer next(listener.address());

	next.say(Frame{}.octets());
	listener.next_request();
	require(std::chrono::steady_clock::now() - start < std::chrono::seconds(2),
		"another call is answered in less than two seconds");
}

/* The application answers a caller that has gone; the answer must not reach the next caller. */
template <int (*answer)(rdma_cm_id *id)>
void late_answer(const std::string &address)
{
	for (unsigned int i = 0; i < 50; i++) {
		Listener listener(address);
		Peer first(listener.address());

		first.say(Frame{}.octets());

		Id gone = listener.next_request();

		first.abort();

		Peer second(listener.address());

		second.say(Frame{}.octets());

		Id next = listener.next_request();

		answer(gone.get());
		require(second.hears_nothing(20), "the second caller has not been answered");

		End end(std::move(next), {});

		end.accept();

		auto reply = second.hear_frame();

		require(reply && !(reply->flags & 0x20), "the Reply accepts it");
	}
}

int reject(rdma_cm_id *id)
{
	return rdma_reject(id, nullptr, 0);
}

int accept_with_own_queues(rdma_cm_id *id)
{
	ibv_qp_init_attr attributes = {};
	Cq cq(ibv_create_cq(id->verbs, 16, nullptr, nullptr, 0));
	rdma_conn_param parameters = connection_parameters();

	attributes.qp_type = IBV_QPT_RC;
	attributes.send_cq = attributes.recv_cq = cq.get();
	attributes.cap = { 4, 4, 1, 1, 0 };
	if (rdma_create_qp(id, nullptr, &attributes))
		fail("rdma_create_qp", errno);

	int ret = rdma_accept(id, &parameters);

	rdma_destroy_qp(id);
	return ret;
}

const cases::Case all[] = {
	{ "a loop is never joined to a socket that is closed at once", server_goes<closes, 2000> },
	{ "a loop is never joined to a socket that is reset at once", server_goes<resets, 500> },
	{ "a loop is never joined to a socket that ends at once", server_goes<ends, 500> },
	{ "no connection waits for the socket lock of another process", server_locks },
	{ "a call is not held up while another call is answered", slow_answer },
	{ "a call is not held up by a process that has its socket locked", socket_is_locked },
	{ "a call is not held up by a connection of its port that has its socket locked",
	  socket_of_the_port_is_locked },
	{ "a late rejection does not hit the next caller", late_answer<reject> },
	{ "a late acceptance does not hit the next caller", late_answer<accept_with_own_queues> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
