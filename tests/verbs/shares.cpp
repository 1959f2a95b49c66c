/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Queue pairs get equal shares, and neither a peer that has stopped reading nor a busy queue pair
 * holds up the rest of the device.
 */
#include "cases.hpp"
#include "device.hpp"
#include "mount.hpp"
#include "raw_peer.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <format>
#include <functional>
#include <ranges>
#include <sched.h>
#include <thread>

using namespace rdma;

namespace
{

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/* Keeps the send queue of a connection full of Writes of one size. */
class Writer
{
public:
	Writer(const std::string &address, std::uint32_t size)
		: pair_(address, { .send_wr = depth, .cq_entries = depth }), size_(size),
		  from_(pair_.a().pd(), size), to_(pair_.b().pd(), size)
	{
	}

	void step()
	{
		std::array<ibv_wc, depth> wcs;
		int count = ibv_poll_cq(pair_.a().send_cq(), depth, wcs.data());

		require(count >= 0, "the queue can be polled");
		for (int i = 0; i < count; i++)
			require(wcs[i].status == IBV_WC_SUCCESS, "the Write succeeds");
		done_ += count;
		under_way_ -= count;
		for (; under_way_ < depth; under_way_++)
			pair_.a().write(from_.sge(0, size_), to_.address(), to_.mr()->rkey);
	}

	void run(Clock::duration time)
	{
		for (auto end = Clock::now() + time; Clock::now() < end;)
			step();
	}

	unsigned int done() const { return done_; }
	void count_anew() { done_ = 0; }

private:
	static constexpr int depth = 16;

	Pair pair_;
	std::uint32_t size_;
	Buffer from_, to_;
	int under_way_ = 0;
	unsigned int done_ = 0;
};

/* Repeats a step in a thread of its own. stop() throws the thread's exception, if any. */
class Background
{
public:
	explicit Background(std::function<void()> step)
		: thread_([this, step](const std::stop_token &stop) {
			  try {
				  while (!stop.stop_requested())
					  step();
			  } catch (...) {
				  error_ = std::current_exception();
			  }
		  })
	{
	}

	void stop()
	{
		thread_.request_stop();
		thread_.join();
		if (error_)
			std::rethrow_exception(error_);
	}

private:
	std::exception_ptr error_;
	std::jthread thread_; /* last, because it uses error_ */
};

/* Moves the calling thread from CPU to CPU, until it goes. */
class Wanderer
{
public:
	Wanderer()
	{
		require(!sched_getaffinity(0, sizeof(all_), &all_), "the thread's CPUs are known");
	}
	~Wanderer() { sched_setaffinity(0, sizeof(all_), &all_); }

	void step()
	{
		cpu_set_t one;

		do
			at_ = (at_ + 1) % CPU_SETSIZE;
		while (!CPU_ISSET(at_, &all_));
		CPU_ZERO(&one);
		CPU_SET(at_, &one);
		require(!sched_setaffinity(0, sizeof(one), &one), "the thread takes the next CPU");
	}

private:
	cpu_set_t all_;
	unsigned int at_ = 0;
};

bool are_equal(const std::deque<Writer> &all)
{
	auto [least, most] = std::ranges::minmax(all | std::views::transform(&Writer::done));

	std::printf("Writes of a queue pair: %u to %u\n", least, most);
	return least > 0 && 2 * most <= 3 * least;
}

/* One thread serves all writers in turn. More threads would measure the scheduler, too. The thread
 * wanders, because the worker of the CPU that it stays on would serve its queue pairs less.
 *
 * A hypervisor, or a build beside this guest, may take a CPU away. Queue pairs whose worker has lost
 * its CPU then get less for a while, but not for ever: each period counts by itself. KCSAN stops
 * workers at random, so there it is enough that each gets something.
 */
void shares_are_equal(const std::string &address)
{
	const Mount debugfs("debugfs");
	const bool random = std::filesystem::exists(debugfs.path() / "kcsan");
	std::deque<Writer> all;
	Wanderer thread;

	for (unsigned int i = 0; i < 64; i++)
		all.emplace_back(address, 4096);
	for (unsigned int periods = 6; periods; periods--) {
		std::ranges::for_each(all, &Writer::count_anew);
		for (auto end = Clock::now() + 6s; Clock::now() < end; thread.step())
			for (Writer &writer : all)
				writer.step();
		if (are_equal(all))
			return;
		if (random && std::ranges::all_of(all, &Writer::done))
			return;
	}
	require(false, "no share exceeds another by more than a half");
}

/* Sends an empty Write, the first FPDU that a responder has to wait for. */
void let_send(raw::Call &call)
{
	call.peer.say(raw::fpdu(raw::Tagged().ulpdu({})));
}

/* An end whose peer has stopped reading: its send queue and its socket are full. */
class Stuck
{
public:
	explicit Stuck(const std::string &address)
		: call_(address, { .send_wr = depth }), from_(call_.end.pd(), size)
	{
		let_send(call_);
		for (int i = 0; i < depth; i++)
			call_.end.write(from_.sge(0, size), 0x1000, 0x1234);
		std::this_thread::sleep_for(200ms);
	}

	bool is_stuck() { return ibv_poll_cq(call_.end.send_cq(), 1, &wc_) == 0; }

private:
	static constexpr int depth = 64;
	static constexpr std::uint32_t size = 1 << 20;

	raw::Call call_;
	Buffer from_;
	ibv_wc wc_ = {};
};

unsigned int writes_in(Writer &writer, Clock::duration time)
{
	unsigned int before = writer.done();

	writer.run(time);
	return writer.done() - before;
}

unsigned int median(std::array<unsigned int, 7> counts)
{
	std::ranges::sort(counts);
	return counts[counts.size() / 2];
}

/* Measures both cases in turn, because other load on the machine then affects both alike. It may take
 * a CPU away in some rounds. A peer that slows other connections does so in each round.
 */
bool is_half_done_beside(Writer &writer, const std::string &address)
{
	std::array<unsigned int, 7> alone, beside;

	for (std::size_t round = 0; round < alone.size(); round++) {
		alone[round] = writes_in(writer, 150ms);

		Stuck stuck(address);

		while (!stuck.is_stuck())
			;
		beside[round] = writes_in(writer, 150ms);
		require(stuck.is_stuck(), "the peer has read nothing meanwhile");
	}
	const unsigned int most = std::ranges::max(beside);

	std::printf("Writes alone: %u, beside a peer that has stopped: %u at most\n", median(alone),
		    most);
	return 2 * most > median(alone);
}

/* Another virtual machine may take the CPUs for seconds, so try three times. If the stopped peer is
 * the reason, each attempt is slow.
 */
void stopped_peer_slows_nobody(const std::string &address)
{
	Writer writer(address, 4096);

	writer.run(200ms);
	for (int attempt = 0; attempt < 3; attempt++)
		if (is_half_done_beside(writer, address))
			return;
	fail("more than half of the Writes are missing in each of three attempts");
}

/* The connection ends while a worker sends for it, and the worker finds the socket locked. */
void ended_keeps_no_worker(const std::string &address)
{
	constexpr int count = 64;
	constexpr std::uint32_t size = 1 << 20;
	Pair pair(address);
	Buffer from(pair.a().pd(), size), to(pair.b().pd(), size);
	ibv_context *device = pair.a().id()->verbs;
	cases::Told told("pause", "ep_part 200");

	for (int i = 0; i < count; i++)
		pair.a().write(from.sge(0, size), to.address(), to.mr()->rkey);
	rdma_disconnect(pair.a().id());
	std::this_thread::sleep_for(300ms);

	std::uint64_t before = device_counter(device, "worker_wakeups");

	std::this_thread::sleep_for(500ms);

	std::uint64_t wakeups = device_counter(device, "worker_wakeups") - before;

	require(wakeups < 5, std::format("no worker is woken any more: {} times", wakeups));
}

/* The peer reads one message, which must have the pattern of this seed. */
void expect_message(raw::Peer &peer, std::uint32_t seed)
{
	std::size_t place = 0;
	std::optional<raw::Fpdu> fpdu;

	do {
		fpdu = peer.hear_fpdu();
		require(fpdu && fpdu->crc_is_good, std::format("FPDU at octet {} is good", place));
		require(fpdu->payload() == raw::octets_of(seed, fpdu->payload().size(), place),
			std::format("the data at octet {} is right", place));
		place += fpdu->payload().size();
	} while (!fpdu->is_last());
}

/* Pages with FPDUs are reused for sending, but not before the peer has acknowledged them. */
void waiting_octets_stay(const std::string &address)
{
	constexpr std::uint32_t size = 256 << 10;
	raw::Call waiting(address), busy(address);
	Buffer first(waiting.end.pd(), size), second(busy.end.pd(), size);

	let_send(waiting);
	let_send(busy);
	first.fill(1);
	second.fill(2);
	waiting.end.write(first.sge(0, size), 0x1000, 0x1234);
	for (int i = 0; i < 64; i++) {
		busy.end.write(second.sge(0, size), 0x1000, 0x1234);
		expect_message(busy.peer, 2);
		expect_completion(busy.end.send_cq(), IBV_WC_SUCCESS, 0);
	}
	expect_message(waiting.peer, 1);
	expect_completion(waiting.end.send_cq(), IBV_WC_SUCCESS, 0);
}

/* The median of half the round trip time of eight bytes. */
std::chrono::nanoseconds latency(Pair &pair, Buffer &a, Buffer &b)
{
	std::vector<Clock::duration> times;

	for (int i = 0; i < 500; i++) {
		auto start = Clock::now();

		pair.b().receive(b.sge(0, 8));
		pair.a().receive(a.sge(0, 8));
		pair.a().send(a.sge(8, 8), 0);
		next_completion(pair.b().recv_cq());
		pair.b().send(b.sge(8, 8), 0);
		next_completion(pair.a().recv_cq());
		times.push_back((Clock::now() - start) / 2);
		next_completion(pair.a().send_cq());
		next_completion(pair.b().send_cq());
	}
	std::ranges::nth_element(times, times.begin() + 250);
	return times[250];
}

void busy_neighbour_is_hardly_felt(const std::string &address)
{
	Writer writer(address, 65536);
	Pair pair(address);
	Buffer a(pair.a().pd(), 16), b(pair.b().pd(), 16);
	std::chrono::nanoseconds alone = 0ns, beside = 0ns;

	if (std::thread::hardware_concurrency() < 2)
		throw cases::Skip("both threads would have to share the only CPU");
	latency(pair, a, b);
	for (int round = 0; round < 3; round++) {
		alone += latency(pair, a, b);

		Background busy([&writer] { writer.step(); });

		beside += latency(pair, a, b);
		busy.stop();
	}
	std::printf("latency alone: %.1f us, beside a busy queue pair: %.1f us\n",
		    alone.count() / 3e3, beside.count() / 3e3);
	require(beside < 3 * alone, "the latency is less than three times as long");
}

constexpr cases::Case all[] = {
	{ "64 busy queue pairs get shares within a half of each other", shares_are_equal },
	{ "a peer that has stopped slows no other connection", stopped_peer_slows_nobody },
	{ "data that waits for its peer does not change while others send", waiting_octets_stay },
	{ "a connection that has ended keeps no worker busy", ended_keeps_no_worker },
	{ "a busy neighbour does not triple the latency", busy_neighbour_is_hardly_felt },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
