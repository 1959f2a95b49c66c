/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Sixteen threads call, answer, reject, disconnect and destroy at once, each in a random way.
 *
 * XIW_SEED chooses what the threads do, CROWD_SECONDS says for how long.
 */
#include "cases.hpp"
#include "random.hpp"
#include "rdma.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <format>
#include <future>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

using namespace rdma;

namespace
{

using Clock = std::chrono::steady_clock;

constexpr unsigned int ports = 8;	  /* as many threads answer, and as many call */
constexpr unsigned int max_requests = 16; /* on a connection */
constexpr unsigned int calls_to_port = 8; /* after that many, a listener is replaced */
constexpr std::uint32_t size = 256;
constexpr int patience_ms = 30000;	     /* all threads share the CPUs of a slow kernel */
constexpr std::chrono::seconds overtime(60); /* for what has not happened yet */
constexpr QpOptions options = { .send_wr = max_requests, .recv_wr = max_requests };

/* What threads do at random. Each of these has to happen. */
enum Outcome {
	accepted,
	rejected,
	dropped,
	abandoned,
	refused,
	replaced,
	disconnected,
	failed,
	destroyed,
	outcomes
};

constexpr std::array<const char *, outcomes> outcome_names = {
	"accepted",
	"rejected",
	"dropped without an answer",
	"abandoned by the caller before the answer",
	"not established, as the caller was told",
	"listeners replaced",
	"ended by rdma_disconnect()",
	"ended by the error state",
	"ended by destroying the queue pair",
};

/* What the threads have in common. */
struct Crowd {
	std::string address;
	Clock::time_point deadline;
	std::atomic<bool> has_failed = false;
	std::array<std::atomic<unsigned int>, outcomes> counts = {};
	std::mutex lock = {}; /* for the addresses */
	std::array<sockaddr_storage, ports> addresses = {};

	bool is_complete() const
	{
		return std::ranges::all_of(counts, [](auto &count) { return count > 0; });
	}

	bool goes_on() const
	{
		const auto now = Clock::now();

		return !has_failed &&
		       (now < deadline || (now < deadline + overtime && !is_complete()));
	}

	void count(Outcome outcome) { counts[outcome]++; }

	void set_listener(unsigned int port, const Listener &listener)
	{
		const sockaddr *address = listener.address();
		std::scoped_lock held(lock);

		std::memcpy(&addresses[port], address,
			    address->sa_family == AF_INET ? sizeof(sockaddr_in)
							  : sizeof(sockaddr_in6));
	}

	sockaddr_storage any_listener(Random &random)
	{
		std::scoped_lock held(lock);

		return addresses[below(random, ports)];
	}
};

/* The next completion. The thread sleeps between two looks, because all others want the CPU, too. */
ibv_wc await_completion(ibv_cq *cq)
{
	const auto end = Clock::now() + std::chrono::milliseconds(patience_ms);
	ibv_wc wc = {};

	while (ibv_poll_cq(cq, 1, &wc) != 1) {
		require(Clock::now() < end, "there is a completion");
		std::this_thread::sleep_for(std::chrono::microseconds(50));
	}
	return wc;
}

/* The requests from @first on complete once each and in order, and all after the first that fails
 * fail, too. Returns how many have succeeded.
 */
unsigned int expect_completions(ibv_cq *cq, unsigned int first, unsigned int end)
{
	unsigned int good = 0;

	for (unsigned int i = first; i < end; i++) {
		ibv_wc wc = await_completion(cq);
		bool success = wc.status == IBV_WC_SUCCESS;

		require(wc.wr_id == i, std::format("completion {} instead of {}", wc.wr_id, i));
		require(!success || good == i - first, "a request succeeds after one has failed");
		good += success;
	}
	return good;
}

/* Ends an established connection. Returns false if no completions will come. */
bool leave(Crowd &crowd, End &end, Random &random)
{
	const auto way = static_cast<Outcome>(disconnected + below(random, 3));

	crowd.count(way);
	if (way == disconnected && rdma_disconnect(end.id()))
		fail("rdma_disconnect", errno);
	if (way == failed)
		end.move_to(IBV_QPS_ERR);
	if (way == destroyed)
		rdma_destroy_qp(end.id());
	return way != destroyed;
}

/* What is sent: the number of the call, the index of the message, and a pattern. */
struct Message {
	std::uint32_t number;
	std::uint32_t index;
	std::uint8_t rest[size - 8];
};

std::span<std::uint8_t> slot(std::span<std::uint8_t> memory, unsigned int index)
{
	return memory.subspan(std::size_t{ index } * size, size);
}

/* Calls, sends messages, and leaves with some of them under way. */
void call(Crowd &crowd, sockaddr_storage to, Random &random)
{
	EventChannel channel = create_event_channel();
	End end(resolve(channel.get(), reinterpret_cast<sockaddr *>(&to)), options);
	Buffer from(end.pd(), std::size_t{ max_requests } * size);
	const auto number = static_cast<std::uint32_t>(random());
	const unsigned int requests = below(random, max_requests + 1);
	const unsigned int wanted = below(random, requests + 1);

	for (unsigned int i = 0; i < requests; i++) {
		Message message = { number, i, {} };

		fill(message.rest, number + i);
		std::memcpy(slot(from.bytes(), i).data(), &message, size);
	}
	end.connect();
	if (!below(random, 8)) {
		crowd.count(abandoned);
		return;
	}

	Event event = next_event(channel.get(), patience_ms);

	require(event.type >= 0, "the caller is told what came of its call");
	if (event.type != RDMA_CM_EVENT_ESTABLISHED) {
		crowd.count(refused);
		return;
	}
	for (unsigned int i = 0; i < requests; i++)
		end.send(from.sge(std::size_t{ i } * size, size), i);
	if (expect_completions(end.send_cq(), 0, wanted) == wanted && leave(crowd, end, random))
		expect_completions(end.send_cq(), wanted, requests);
}

/* All messages are from one call, whole, and each is where it belongs. */
void expect_messages(Buffer &into, unsigned int messages)
{
	Message first, message;

	std::memcpy(&first, into.bytes().data(), size);
	for (unsigned int i = 0; i < messages; i++) {
		std::memcpy(&message, slot(into.bytes(), i).data(), size);
		require(message.number == first.number && message.index == i &&
				holds(message.rest, first.number + i, 0, sizeof(message.rest)),
			std::format("message {} is that of the caller", i));
	}
}

/* Receives until one of the two ends leaves. */
void be_called(Crowd &crowd, End &end, rdma_event_channel *channel, Random &random)
{
	Buffer into(end.pd(), std::size_t{ max_requests } * size);
	rdma_conn_param parameters = connection_parameters();

	for (unsigned int i = 0; i < max_requests; i++)
		end.receive(into.sge(std::size_t{ i } * size, size), i);
	if (rdma_accept(end.id(), &parameters))
		return; /* the caller has left */

	Event event = next_event(channel, patience_ms);

	require(event.type >= 0, "the listener is told what came of the call");
	if (event.type != RDMA_CM_EVENT_ESTABLISHED || event.status)
		return;
	crowd.count(accepted);
	if (below(random, 2))
		expect_event(channel, RDMA_CM_EVENT_DISCONNECTED, patience_ms);
	else if (!leave(crowd, end, random))
		return;
	expect_messages(into, expect_completions(end.recv_cq(), 0, max_requests));
}

void answer(Crowd &crowd, Id request, Random &random)
{
	EventChannel channel = create_event_channel();
	Id id = std::move(request); /* destroyed before the channel */

	if (rdma_migrate_id(id.get(), channel.get()))
		fail("rdma_migrate_id", errno);
	switch (below(random, 6)) {
	case 0:
		crowd.count(dropped);
		break;
	case 1:
		if (!rdma_reject(id.get(), nullptr, 0))
			crowd.count(rejected);
		break;
	default:
		End end(std::move(id), options);

		be_called(crowd, end, channel.get(), random);
	}
}

void answer_calls(Crowd &crowd, unsigned int port, Random random)
{
	while (crowd.goes_on()) {
		Listener listener(crowd.address);
		unsigned int calls = 0;

		crowd.set_listener(port, listener);
		while (calls < calls_to_port && crowd.goes_on()) {
			Event event = next_event(listener.channel(), 100);

			if (event.type < 0)
				continue;
			require(event.type == RDMA_CM_EVENT_CONNECT_REQUEST, "this is a call");
			answer(crowd, Id(event.id), random);
			calls++;
		}
		if (calls == calls_to_port)
			crowd.count(replaced);
	}
}

void call_anybody(Crowd &crowd, unsigned int, Random random)
{
	while (crowd.goes_on()) {
		sockaddr_storage to = crowd.any_listener(random);

		if (to.ss_family)
			call(crowd, to, random);
	}
}

/* Runs one thread. If it fails, the others end. */
auto start(Crowd &crowd, void (*work)(Crowd &, unsigned int, Random), unsigned int port,
	   std::uint32_t seed)
{
	return std::async(std::launch::async, [=, &crowd] {
		try {
			work(crowd, port, Random(seed));
		} catch (...) {
			crowd.has_failed = true;
			throw;
		}
	});
}

void all_at_once(const std::string &address)
{
	const auto seed =
		static_cast<std::uint32_t>(cases::number_from("XIW_SEED", std::random_device{}()));
	const std::chrono::seconds time(cases::number_from("CROWD_SECONDS", 5));
	Crowd crowd = { .address = address, .deadline = Clock::now() + time };
	std::vector<std::future<void>> threads;

	std::printf("seed %u\n", seed);
	for (unsigned int port = 0; port < ports; port++) {
		threads.push_back(start(crowd, answer_calls, port, seed + 2 * port));
		threads.push_back(start(crowd, call_anybody, port, seed + 2 * port + 1));
	}
	for (auto &thread : threads)
		thread.wait();
	for (std::size_t i = 0; i < outcomes; i++)
		std::printf("%u %s\n", crowd.counts[i].load(), outcome_names[i]);
	for (auto &thread : threads)
		thread.get();
	require(crowd.is_complete(), "each of these has happened");
	require(2 * crowd.counts[accepted] > crowd.counts[rejected] + crowd.counts[dropped],
		"most calls that are accepted come to something");
}

const cases::Case all[] = {
	{ "16 threads connect, reject, disconnect and destroy at once", all_at_once },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
