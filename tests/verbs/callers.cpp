/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Callers of a port: many of them, silent ones, and callers that get no answer. */
#include "cases.hpp"
#include "device.hpp"
#include "mount.hpp"
#include "raw_peer.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <format>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>

using namespace rdma;

namespace
{

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr unsigned int max_half_open = 1024; /* connections per listener */

double seconds_since(Clock::time_point start)
{
	return std::chrono::duration<double>(Clock::now() - start).count();
}

/* A TCP connection to a listener on which the caller sends nothing. */
class Silent
{
public:
	explicit Silent(const sockaddr *to)
		: fd_(socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0))
	{
		socklen_t length =
			to->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);

		if (fd_ < 0 || connect(fd_, to, length))
			fail("connect", errno);
	}
	Silent(const Silent &) = delete;
	~Silent() { close(fd_); }

	/* errno of the end, 0 for a FIN; -1 if the connection does not end within the time */
	int ends_with(int timeout_ms)
	{
		char octet;

		if (!wait_readable(fd_, timeout_ms))
			return -1;
		return recv(fd_, &octet, 1, 0) < 0 ? errno : 0;
	}

private:
	int fd_;
};

void allow_files(rlim_t count)
{
	rlimit limit = { count, count };

	if (setrlimit(RLIMIT_NOFILE, &limit))
		fail("setrlimit", errno);
}

void evicted_at_once(const std::string &address)
{
	constexpr unsigned int more = 200; /* several batches */
	Listener listener(address, 0, 4096);
	std::deque<Silent> silent;
	auto start = Clock::now();

	allow_files(4096);
	for (unsigned int i = 0; i < max_half_open + more; i++)
		silent.emplace_back(listener.address());
	/* On the slow debug kernel the oldest may have timed out already; they get a FIN. */
	bool quick = seconds_since(start) < 4;

	for (unsigned int i = 0; i < more; i++) {
		int end = silent[i].ends_with(quick ? 1000 : 6000);

		require(end == ECONNRESET || (!quick && !end),
			std::format("caller {} is reset when another needs its place", i));
	}
	require(!quick || silent[more].ends_with(0) == -1, "the other callers stay connected");
}

void be_refused_by_device(Listener &, raw::Peer &peer)
{
	peer.say(raw::Frame{ .key = raw::reply_key }.octets());
	require(peer.hears_end(), "the caller is refused");
}

void be_refused_by_consumer(Listener &listener, raw::Peer &peer)
{
	peer.say(raw::Frame().octets());
	require(!rdma_reject(listener.next_request().get(), nullptr, 0), "a call is rejected");
	require(peer.hear_frame().has_value(), "the Reply comes");
}

/* A caller that is refused keeps a place until it has closed its end. None of these does. */
void refused_are_counted(const std::string &address, void (*be_refused)(Listener &, raw::Peer &))
{
	constexpr unsigned int more = 200;
	Listener listener(address, 0, 4096);
	std::deque<raw::Peer> refused;
	auto start = Clock::now();

	allow_files(4096);
	for (unsigned int i = 0; i < max_half_open + more; i++)
		be_refused(listener, refused.emplace_back(listener.address()));
	/* The device waits 3 s for each of them to close. */
	const bool quick = seconds_since(start) < 2;

	for (unsigned int i = 0; i < more; i++)
		await(std::format("caller {} is reset when another needs its place", i),
		      [&] { return refused[i].tcp_state() == TCP_CLOSE; });
	if (!quick) {
		std::printf("too slow to tell this from the end of the device's patience\n");
		return;
	}
	require(seconds_since(start) < 3, "they were reset before that");
	require(refused[more].tcp_state() != TCP_CLOSE, "the other callers keep their places");
}

void refused_by_device(const std::string &address)
{
	refused_are_counted(address, be_refused_by_device);
}

void refused_by_consumer(const std::string &address)
{
	refused_are_counted(address, be_refused_by_consumer);
}

/* All places are taken when callers leave that the consumer was asked about. They need none. */
void leavers_need_no_place(const std::string &address)
{
	constexpr unsigned int count = 100;
	Device device(address);
	Listener listener(address, 0, 4096);
	std::deque<raw::Peer> asked;
	std::deque<Silent> silent;
	std::vector<Id> calls;
	const std::uint64_t failures = device_counter(device.context(), "conn_failures");
	auto start = Clock::now();

	allow_files(4096);
	for (unsigned int i = 0; i < count; i++) {
		asked.emplace_back(listener.address()).say(raw::Frame().octets());
		calls.push_back(listener.next_request());
	}
	for (unsigned int i = 0; i < max_half_open; i++)
		silent.emplace_back(listener.address());
	for (raw::Peer &peer : asked)
		peer.abort();
	await("the device has noticed that they have left", [&] {
		return device_counter(device.context(), "conn_failures") >= failures + count;
	});
	if (seconds_since(start) > 4.5)
		std::printf("too slow: silent callers have timed out\n");
	else
		require(std::ranges::all_of(silent,
					    [](Silent &one) { return one.ends_with(0) == -1; }),
			"no silent caller is reset");
}

/* Connects and disconnects as fast as possible. */
void flood(const sockaddr *to, const std::stop_token &stop, std::atomic<unsigned int> &calls)
{
	for (; !stop.stop_requested(); calls++)
		Silent silent(to);
}

/* How long a connection takes, in seconds: the median of all that fit into @duration, or of one. */
double connection_time(const std::string &address, Clock::duration duration)
{
	std::vector<double> times;

	for (auto end = Clock::now() + duration; times.empty() || Clock::now() < end;) {
		auto start = Clock::now();

		Pair(address).expect_alive();
		times.push_back(seconds_since(start));
	}
	std::ranges::sort(times);
	std::printf("%zu connections took %.3f s each, and %.3f s at most\n", times.size(),
		    times[times.size() / 2], times.back());
	return times[times.size() / 2];
}

/* Each of the four threads that call may take as much CPU time as the one that connects. */
void flood_delays_nobody(const std::string &address)
{
	Listener flooded(address, 0, 4096);
	std::atomic<unsigned int> calls = 0;
	std::deque<std::jthread> callers;
	double alone = connection_time(address, 1s);

	for (int i = 0; i < 4; i++)
		callers.emplace_back([&](const std::stop_token &stop) {
			try {
				flood(flooded.address(), stop, calls);
			} catch (const std::exception &) { /* all ports are in use */
			}
		});

	double beside = connection_time(address, 3s);

	std::printf("%u calls to another port\n", calls.load());
	require(beside < std::max(1.0, 20 * alone),
		"one takes less than a second or 20 times as long");
}

/* A peer that has called, and the id of its call, which has not been answered yet. */
struct Asked {
	explicit Asked(const std::string &address)
		: listener(std::in_place, address), peer(listener->address())
	{
		peer.say(raw::Frame().octets());
		call = listener->next_request();
		/* The id can then be used without the listener. */
		if (rdma_migrate_id(call.get(), channel.get()))
			fail("rdma_migrate_id", errno);
	}

	/* The call can still be accepted. */
	void expect_open()
	{
		End end(std::move(call), {});

		end.accept();
		require(peer.hear_frame().has_value(), "the peer is answered");
		expect_event(channel.get(), RDMA_CM_EVENT_ESTABLISHED);
	}

	EventChannel channel = create_event_channel();
	std::optional<Listener> listener;
	raw::Peer peer;
	Id call;
};

void answered_without_listener(const std::string &address)
{
	Asked asked(address);

	asked.listener.reset();
	std::this_thread::sleep_for(2s);
	asked.expect_open();
}

void unanswered_without_listener(const std::string &address)
{
	Asked asked(address);
	auto start = Clock::now();

	asked.listener.reset();
	require(asked.peer.hears_nothing(5000), "there are five seconds to answer");
	require(asked.peer.is_hung_up(10000), "then the call is hung up");
	std::printf("the call was hung up after %.1f s\n", seconds_since(start));
}

/* Waits longer than any deadline of the handshake. */
void answered_late(const std::string &address)
{
	Asked asked(address);

	require(asked.peer.hears_nothing(12000),
		"there is no deadline while the listener is there");
	asked.expect_open();
}

/* The rdma_cm has separate ports for each port space, but every iWARP listener uses a TCP port. */
Id bind_in_another_space(rdma_event_channel *channel, const Listener &listener)
{
	rdma_cm_id *id;

	if (rdma_create_id(channel, &id, nullptr, RDMA_PS_UDP))
		fail("rdma_create_id", errno);

	Id bound(id);

	if (rdma_bind_addr(id, const_cast<sockaddr *>(listener.address())))
		fail("rdma_bind_addr", errno);
	return bound;
}

void port_of_another_space(const std::string &address)
{
	Listener listener(address);
	EventChannel channel = create_event_channel();
	Id other = bind_in_another_space(channel.get(), listener);

	require(rdma_listen(other.get(), 1) && errno == EADDRINUSE, "the port is in use");

	Silent caller(listener.address());

	require(caller.ends_with(100) == -1, "the listener still works");
}

std::uint16_t port_of(const Listener &listener)
{
	return ntohs(reinterpret_cast<const sockaddr_in *>(listener.address())->sin_port);
}

/* Creating a listener may take long, for example if its control group has to reclaim memory. Other
 * listeners must not wait for that.
 */
void listening_at_once(const std::string &address)
{
	Listener other(address); /* librdmacm opens the device now, not in the threads */
	/* A port that TCP has for a connection would take a second attempt, and a second pause. */
	auto free_port = [&] { return port_of(Listener(address)); };
	std::uint16_t ports[] = { free_port(), free_port() };
	cases::Told told("pause", "listener_create 2000");
	auto start = Clock::now();

	{
		std::jthread first([&] { Listener listener(address, ports[0]); });
		std::jthread second([&] { Listener listener(address, ports[1]); });
	}
	require(seconds_since(start) < 3.6, "the second one does not wait for the first");
}

/* Two peers connect while accepting fails. They send their Requests in turn, because the iw_cm
 * takes one Request at a time with a backlog of 1.
 */
void accepting_fails(const std::string &address)
{
	Listener listener(address, 0, 1);
	std::optional<cases::Told> told(std::in_place, "fail", "accept");
	std::optional<raw::Peer> first(listener.address()), second(listener.address());

	std::this_thread::sleep_for(300ms);
	told.reset();
	for (raw::Peer *peer : { &*first, &*second }) {
		peer->say(raw::Frame().octets());
		require(listener.next_request() != nullptr, "the call comes when there is memory");
	}
}

/* The timer that looks for callers again holds the listener, whether it is stopped or about to run. */
void destroyed_between_attempts(const std::string &address)
{
	Listener other(address); /* or librdmacm would close the device with its last id */

	for (int round = 0; round < 20; round++) {
		std::optional<Listener> listener(address);
		cases::Told told("fail", "accept");
		raw::Peer peer(listener->address());

		std::this_thread::sleep_for(round * 10ms);
		listener.reset();
		require(peer.is_hung_up(), "the caller is hung up on");
	}
	Pair(address).expect_alive();
}

/* The number of times that the kernel's work queues run a function within a second. */
unsigned int count_runs(const std::string &function)
{
	Mount tracing("tracefs");
	const std::filesystem::path place = tracing.path() / "instances/xiw_callers";
	unsigned int count = 0;

	create_directory(place);
	std::ofstream(place / "events/workqueue/workqueue_execute_start/enable") << 1 << std::flush;
	std::this_thread::sleep_for(1s);

	{
		std::ifstream trace(place / "trace");

		for (std::string line; std::getline(trace, line);)
			count += line.find("function " + function) != std::string::npos;
	}
	remove(place);
	return count;
}

/* As an administrator may do. */
void destroy_socket(const Listener &listener)
{
	const std::string command =
		std::format("ss -HtnlK '( sport = :{0} )' | grep -q :{0}", port_of(listener));

	require(!std::system(command.c_str()), "ss prints the socket that it destroys");
}

/* The kernel must not look for callers for ever. */
void socket_destroyed(const std::string &address)
{
	Listener listener(address);

	destroy_socket(listener);

	unsigned int runs = count_runs("listener_retry");

	require(runs <= 1, std::format("the kernel has looked for callers {} times", runs));
}

/* That must survive the end of the first listener. */
void listens_after_destroyed(const std::string &address)
{
	std::optional<Listener> listener(std::in_place, address);
	EventChannel channel = create_event_channel();
	Id other = bind_in_another_space(channel.get(), *listener);
	auto expect_call = [&] {
		raw::Peer peer(rdma_get_local_addr(other.get()));

		peer.say(raw::Frame().octets());
		Id(expect_event(channel.get(), RDMA_CM_EVENT_CONNECT_REQUEST).id);
	};

	destroy_socket(*listener);
	if (rdma_listen(other.get(), 1))
		fail("rdma_listen", errno);
	expect_call();
	listener.reset();
	expect_call();
}

/* Another thread destroys the queue pair while the call is being accepted. */
void accepted_and_destroyed(const std::string &address)
{
	Listener listener(address);
	raw::Peer peer(listener.address());

	peer.say(raw::Frame().octets());

	End end(listener.next_request(), {});
	rdma_conn_param parameters = connection_parameters();
	bool accepted = true;

	parameters.qp_num = end.qp()->qp_num;
	{
		cases::Told told("pause", "cm_accept 1000");
		std::jthread answer([&] { accepted = !rdma_accept(end.id(), &parameters); });

		std::this_thread::sleep_for(300ms);

		auto start = Clock::now();

		rdma_destroy_qp(end.id());
		require(seconds_since(start) < 3, "the queue pair is destroyed after the pause");
	}
	require(!accepted, "the call cannot be accepted with a destroyed queue pair");
}

constexpr cases::Case all[] = {
	{ "a silent caller whose place is needed is reset at once", evicted_at_once },
	{ "a caller that the device refuses keeps a place until it has closed", refused_by_device },
	{ "a caller that is rejected keeps a place until it has closed", refused_by_consumer },
	{ "callers that leave while the consumer is asked need no place", leavers_need_no_place },
	{ "a flood of calls at one port does not delay those at another", flood_delays_nobody },
	{ "a port has one listener, whatever its port space", port_of_another_space },
	{ "two listeners are created at the same time", listening_at_once },
	{ "callers are accepted later if there is no memory", accepting_fails },
	{ "a listener can be destroyed while it waits to accept again",
	  destroyed_between_attempts },
	{ "the device does not look for callers when the socket was destroyed", socket_destroyed },
	{ "another id can listen at the port when the socket was destroyed",
	  listens_after_destroyed },
	{ "a queue pair can be destroyed while a call is accepted with it",
	  accepted_and_destroyed },
	{ "a call can be accepted when its listener has gone", answered_without_listener },
	{ "a call whose listener has gone is hung up if it is not answered",
	  unanswered_without_listener },
	{ "a call can be accepted after a long time", answered_late },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
