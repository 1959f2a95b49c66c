/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* On the only CPU, requests gather until the program polls in vain. None is forgotten, and none
 * waits if the program may sleep.
 */
#include "cases.hpp"
#include "gathering.hpp"
#include "raw_peer.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <format>
#include <iostream>
#include <memory>
#include <thread>

using namespace rdma;
using namespace std::chrono_literals;

namespace
{

/* Some programs look only at the memory of the peer, and poll much later. Without the timer, what
 * they post would wait for their next poll, or for something else that takes 20 ms or more.
 */
void without_polling(const std::string &address)
{
	constexpr std::size_t rounds = 50;
	OneCpu alone;
	Stream stream(address);
	Writer &writer = stream.writer;
	std::vector<std::chrono::nanoseconds> times;

	for (std::size_t i = 0; times.size() < rounds; i++) {
		require(i < 20 * rounds, "what was posted waits for the timer");
		writer.gather();
		writer.write();
		const bool waited = writer.waits();
		const auto posted = std::chrono::steady_clock::now();

		while (stream.seen() != writer.last())
			require(std::chrono::steady_clock::now() - posted < 5s,
				"the last Write arrives");
		if (waited)
			times.push_back(std::chrono::steady_clock::now() - posted);
		writer.drain();
	}
	std::ranges::sort(times);
	std::cout << std::format("median {} us, longest {} us\n", times[rounds / 2].count() / 1000,
				 times.back().count() / 1000);
	require(times[rounds / 2] < 10ms, "half of them take less than 10 ms");
}

/* Some streams at the same time, of one thread. */
class Streams
{
public:
	Streams(const std::string &address, std::uint32_t count)
	{
		for (std::uint32_t i = 0; i < count; i++)
			streams_.emplace_back(
				std::make_unique<Stream>(address, QpOptions{}, 3 + i));
	}

	ibv_context *device() { return streams_[0]->pair.a().qp()->context; }

	/* Posts whenever there is room, and polls whenever there is none, as perftest does. */
	void run(std::uint64_t requests)
	{
		const auto began = std::chrono::steady_clock::now();

		for (bool all = false; !all;) {
			all = true;
			for (auto &stream : streams_)
				all &= go_on(*stream, requests);
			require(std::chrono::steady_clock::now() - began < 50s,
				"the streams go on");
		}
	}

private:
	static bool go_on(Stream &stream, std::uint64_t requests)
	{
		Writer &writer = stream.writer;

		while (writer.last() < requests && writer.outstanding() < Writer::depth)
			writer.write();
		writer.poll();
		if (writer.last() < requests || writer.outstanding())
			return false;
		require(stream.seen() == requests, "all of them have arrived");
		return true;
	}

	std::vector<std::unique_ptr<Stream>> streams_;
};

void few_doorbells(const std::string &address)
{
	constexpr std::uint64_t requests = 5000;
	OneCpu alone;
	GatherTime longest(address, "20000");
	Streams streams(address, 1);
	const Count rung(streams.device(), "doorbells");

	streams.run(requests);
	std::cout << std::format("{} doorbells for {} requests\n", rung.since(), requests);
	require(rung.since() < requests * (alone.is_pretended() ? 9 : 5) / 10,
		"few doorbells ring");
}

/* The timers of several queue pairs end at about the same time. How often a worker is woken depends
 * on how fast the machine is. The kernel warns if a timer runs too early and would run again at once,
 * and then its log is not clean.
 */
void many_streams(const std::string &address)
{
	OneCpu alone;
	Streams streams(address, 4);
	const Count rung(streams.device(), "doorbells");
	const Count wakeups(streams.device(), "worker_wakeups");

	streams.run(5000);
	std::cout << std::format("{} doorbells, {} times a worker\n", rung.since(),
				 wakeups.since());
}

void nothing_without_time(const std::string &address)
{
	OneCpu alone;
	GatherTime none(address, "0");

	Stream(address).writer.gathers_nothing();
}

void half_of_the_ring(const std::string &address)
{
	OneCpu alone;
	GatherTime longest(address, "20000");
	Stream stream(address);
	Writer &writer = stream.writer;
	unsigned int most = 0;

	for (int i = 0; i < 50; i++) {
		unsigned int waiting = 0;

		writer.gather();
		writer.drain();
		do
			writer.write();
		while (writer.waits() && ++waiting < Writer::half);
		require(waiting < Writer::half, "a half of the ring is sent");
		writer.drain();
		most = std::max(most, waiting);
	}
	std::cout << std::format("{} requests gathered\n", most);
	require(most > 1, "requests gather");
}

/* A program that arms one of its queues, and then sleeps, posts before or after that. Returns
 * whether the request would have waited. It would not if the gathering ended too soon.
 */
bool is_sent_at_once(const std::string &address, bool armed_first, bool send_cq)
{
	Stream stream(address, { .notify = true });
	Writer &writer = stream.writer;
	ibv_cq *cq = send_cq ? writer.end().send_cq() : writer.end().recv_cq();
	bool would_wait;

	writer.gather();
	if (armed_first) {
		arm(cq);
		would_wait = writer.gathers();
		writer.write();
	} else {
		writer.write();
		would_wait = writer.waits();
		arm(cq);
	}
	require(!writer.waits(), "it is sent at once");
	writer.drain();
	return would_wait;
}

void awaited(const std::string &address, bool armed_first)
{
	OneCpu alone;
	GatherTime longest(address, "20000");

	for (bool send_cq : { true, false }) {
		int good = 0, rounds = 0;

		while (good < 3) {
			require(rounds++ < 400, "a request would have waited");
			good += is_sent_at_once(address, armed_first, send_cq);
		}
		std::cout << std::format("{} of {} would have waited\n", good, rounds);
	}
}

void armed_then_posted(const std::string &address)
{
	awaited(address, true);
}

void posted_then_armed(const std::string &address)
{
	awaited(address, false);
}

/* Each event of the send_cq has to be awaited anew. No message is received. */
void event_loop(const std::string &address)
{
	OneCpu alone;
	GatherTime longest(address, "20000");

	for (bool send_cq : { true, false }) {
		Stream stream(address, { .notify = true });
		Writer &writer = stream.writer;

		writer.gather();
		writer.drain();
		await("the process is asked for doorbells", [&] { return !writer.gathers(); });
		writer.gathers_nothing(send_cq ? writer.end().send_cq() : writer.end().recv_cq());
	}
}

class RealTime
{
public:
	RealTime() { become(SCHED_FIFO, 1); }
	RealTime(const RealTime &) = delete;
	~RealTime() { become(SCHED_OTHER, 0); }

private:
	static void become(int policy, int priority)
	{
		const sched_param parameters = { .sched_priority = priority };

		if (sched_setscheduler(0, policy, &parameters))
			std::cout << "sched_setscheduler: " << errno << '\n';
	}
};

/* What gathered before the task was one is sent when it polls. After that, nothing gathers. */
void real_time(const std::string &address)
{
	OneCpu alone;
	GatherTime longest(address, "20000");
	Stream stream(address);
	Writer &writer = stream.writer;

	for (int i = 0; i < 10; i++) {
		writer.gather();
		RealTime task;

		require(sched_getscheduler(0) == SCHED_FIFO, "the task is a real-time task");
		writer.write();
		writer.drain();
		writer.gathers_nothing();
	}
	writer.gather();
	writer.drain();
}

/* The timer ends while a Write waits for the Response to the Read before it. Until then the process
 * need ring once at most, because the Response lets the kernel look at the ring.
 */
void fence_waits(const std::string &address)
{
	OneCpu alone;
	raw::Call call(address);

	call.peer.say(raw::fpdu(raw::Tagged{}.ulpdu({})));
	Writer writer(call.end, 0x1000, 0x1234);
	auto heard = call.peer.hear_fpdu();

	writer.gather();
	writer.post(IBV_WR_RDMA_READ);
	writer.post(IBV_WR_RDMA_WRITE, IBV_SEND_FENCE);
	while (heard && heard->opcode() != 1)
		heard = call.peer.hear_fpdu();
	require(heard.has_value(), "the Read Request comes");
	std::this_thread::sleep_for(50ms);
	for (int i = 0; i < 10; i++)
		writer.write();
	require(!writer.flags(), "the process need not ring");
	require(!writer.is_sent(), "the Writes wait");

	const raw::ReadRequest request = heard->read_request();
	const raw::Tagged response = { .rdmap = 0x42,
				       .stag = request.sink_stag,
				       .offset = request.sink_offset };

	call.peer.say(raw::fpdu(response.ulpdu(raw::Octets(request.size))));
	writer.drain();
	require(writer.is_sent(), "all is sent");
}

/* Ends a queue pair in one of three ways. All its requests have completed then, or none does. */
void end_somehow(Writer &writer, int way)
{
	switch (way % 3) {
	case 0:
		rdma_destroy_qp(writer.end().id());
		break;
	case 1:
		writer.end().move_to(IBV_QPS_ERR);
		writer.drain(false);
		expect_no_completion(writer.end().send_cq(), 20);
		break;
	case 2:
		writer.end().move_to(IBV_QPS_RESET);
		expect_no_completion(writer.end().send_cq(), 20);
		break;
	}
}

void ended(const std::string &address)
{
	OneCpu alone;
	GatherTime longest(address, "20000");

	for (int i = 0; i < 30; i++) {
		Stream stream(address);

		stream.writer.gather();
		stream.writer.write();
		end_somehow(stream.writer, i);
	}
	Stream(address).pair.expect_alive();
}

/* Connects the reset queue pair of an end anew. The queue pair of the peer belongs to @pd. */
class Reconnected
{
public:
	Reconnected(const std::string &address, End &end, ibv_pd *pd)
		: listener_(address), id_(resolve(channel_.get(), listener_.address()))
	{
		rdma_conn_param parameters = connection_parameters();

		parameters.qp_num = end.qp()->qp_num;
		end.move_to(IBV_QPS_INIT);
		if (rdma_connect(id_.get(), &parameters))
			fail("rdma_connect", errno);
		peer_.emplace(listener_.next_request(), QpOptions{ .pd = pd });
		peer_->accept();
		expect_event(channel_.get(), RDMA_CM_EVENT_ESTABLISHED);
	}

private:
	Listener listener_;
	EventChannel channel_ = create_event_channel();
	Id id_;
	std::optional<End> peer_;
};

/* The timer runs while the queue pair is connected anew. The time of that connection counts. */
void reset_and_connected(const std::string &address)
{
	OneCpu alone;

	for (int i = 0; i < 10; i++) {
		std::optional<GatherTime> time(std::in_place, address, "20000");
		Stream stream(address);

		time.emplace(address, "0"); /* for new connections */
		stream.writer.gather();
		stream.writer.write();
		stream.writer.end().move_to(IBV_QPS_RESET);
		stream.writer.forget();

		Reconnected again(address, stream.writer.end(), stream.pair.b().pd());

		stream.writer.gathers_nothing();
		require(stream.seen() == stream.writer.last(), "all of them have arrived");
	}
}

void killed(const std::string &address)
{
	OneCpu alone;
	GatherTime longest(address, "20000");

	for (int i = 0; i < 20; i++) {
		pid_t child = fork();
		int status;

		require(child >= 0, "fork");
		if (!child) {
			try {
				Stream stream(address);

				stream.writer.gather();
				stream.writer.write();
				kill(getpid(), SIGKILL);
			} catch (const std::exception &error) {
				std::cout << error.what() << std::endl;
			}
			_exit(1);
		}
		require(waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
				WTERMSIG(status) == SIGKILL,
			"the process is killed while its requests gather");
	}
	Stream(address).pair.expect_alive();
}

void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		throw cases::Skip("there is no second CPU");
}

/* The function of the timer runs in a softirq of the CPU where the timer was started. A queue pair
 * is destroyed when that function has ended, so it takes long if it was destroyed meanwhile. User
 * Mode Linux runs one thread of a process at a time, so no thread may spin here.
 */
void ended_inside(const std::string &address)
{
	cases::Told pause("pause", "gather_timer 200");
	OneCpu alone;
	GatherTime some(address, "5000");
	int inside = 0;

	stay_on(1);
	for (int i = 0; i < 6 || !inside; i++) {
		Stream stream(address);
		std::atomic<bool> posted = false;
		std::jthread poster([&] {
			stay_on(0);
			stream.writer.gather();
			stream.writer.write();
			posted = true;
			posted.notify_one();
		});

		require(i < 60, "one of them is destroyed while the gathering ends");
		posted.wait(false);
		std::this_thread::sleep_for(20ms);
		const auto began = std::chrono::steady_clock::now();

		end_somehow(stream.writer, i);
		inside += i % 3 == 0 && std::chrono::steady_clock::now() - began > 100ms;
	}
	std::cout << std::format("{} were destroyed inside\n", inside);
	Stream(address).pair.expect_alive();
}

/* The timer ends while the kernel asks the process to ring later. Nothing would wake a worker. */
void begins_too_late(const std::string &address)
{
	cases::Told pause("pause", "gather_asks 5");
	OneCpu alone;

	Stream(address).writer.gathers_nothing();
}

const cases::Case all[] = {
	{ "what a program posts is sent although it does not poll", without_polling },
	{ "few doorbells ring for a stream", few_doorbells },
	{ "several streams go on at the same time", many_streams },
	{ "nothing gathers if gather_us is 0", nothing_without_time },
	{ "no more than a half of the ring gathers", half_of_the_ring },
	{ "what is posted after a queue was armed is sent at once", armed_then_posted },
	{ "what gathers when a queue is armed is sent at once", posted_then_armed },
	{ "nothing gathers while the program waits for an event", event_loop },
	{ "nothing gathers in a real-time task", real_time },
	{ "a request that waits for an answer needs no doorbell", fence_waits },
	{ "a queue pair can be ended while requests gather", ended },
	{ "nothing gathers after a reset if the new connection has no time", reset_and_connected },
	{ "a process can be killed while requests gather", killed },
	{ "nothing gathers after the timer has ended", begins_too_late },
	{ "a queue pair can be ended just when the gathering ends", ended_inside },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
