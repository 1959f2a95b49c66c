/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A process that fills its rings, or writes them without the provider, cannot keep the kernel busy
 * for long at a time.
 */
#include "cases.hpp"
#include "device.hpp"
#include "injection.hpp"
#include "raw_peer.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace rdma;

namespace
{

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
using Milliseconds = std::chrono::duration<double, std::milli>;

/* Rings the doorbell. Bypasses the provider, which would write its own counter into the ring. */
void ring(ibv_qp *qp)
{
	struct {
		ib_uverbs_cmd_hdr hdr;
		ib_uverbs_post_send post;
	} command = {};
	ib_uverbs_post_send_resp answer = {};

	command.hdr.command = IB_USER_VERBS_CMD_POST_SEND;
	command.hdr.in_words = sizeof(command) / 4;
	command.hdr.out_words = sizeof(answer) / 4;
	command.post.response = reinterpret_cast<std::uintptr_t>(&answer);
	command.post.qp_handle = qp->handle;
	command.post.wqe_size = sizeof(ib_uverbs_send_wr);
	require(write(qp->context->cmd_fd, &command, sizeof(command)) == sizeof(command),
		"the doorbell is taken");
}

/* How often the kernel has started a transmit run for a queue pair of this device. */
unsigned long runs(ibv_context *context)
{
	unsigned long sum = 0;

	for (const char *name : { "tx_inline", "tx_worker", "tx_rx" })
		sum += device_counter(context, name);
	return sum;
}

/* Posts a full queue of requests that stage little or no data, with one doorbell. Another thread
 * could refill the queue as fast as the kernel empties it, so a run must not go on until the queue
 * is empty.
 */
void takes_many_runs(const std::string &address, const ibv_send_wr &request)
{
	constexpr std::uint32_t depth = 32768, most = 2048;
	Pair pair(address, { .send_wr = depth }, {});
	Buffer buffer(pair.a().pd(), 64);
	std::vector<ibv_send_wr> requests(depth, request);

	if (request.opcode == IBV_WR_LOCAL_INV)
		for (ibv_send_wr &one : requests)
			one.invalidate_rkey = buffer.mr()->rkey;
	make_list(requests);
	requests.back().wr_id = 1;
	requests.back().send_flags = IBV_SEND_SIGNALED;

	unsigned long before = runs(pair.a().id()->verbs);

	require(!pair.a().post(requests[0]), "all are posted");
	/* With KCSAN this takes 6 s on an idle host. */
	require(next_completion(pair.a().send_cq(), 45000).status == IBV_WC_SUCCESS, "all succeed");

	unsigned long count = runs(pair.a().id()->verbs) - before;

	std::printf("%lu runs for %u requests\n", count, depth);
	require(count >= depth / most, "no run has taken more than 2048 requests");
}

void local_requests_take_turns(const std::string &address)
{
	ibv_send_wr request = {};

	request.opcode = IBV_WR_LOCAL_INV;
	takes_many_runs(address, request);
}

void empty_writes_take_turns(const std::string &address)
{
	ibv_send_wr request = {};

	request.opcode = IBV_WR_RDMA_WRITE;
	takes_many_runs(address, request);
}

/* The threads that transmit for busy queue pairs. */
std::vector<std::filesystem::path> workers()
{
	std::vector<std::filesystem::path> found;

	for (const auto &entry : std::filesystem::directory_iterator("/proc")) {
		std::ifstream comm(entry.path() / "comm");
		std::string name;

		if (std::getline(comm, name) && name.starts_with("xiw/"))
			found.push_back(entry.path());
	}
	require(!found.empty(), "there are workers");
	return found;
}

/* CPU time of all workers, in ticks. */
long worker_ticks()
{
	long sum = 0;

	for (const auto &worker : workers()) {
		std::ifstream stat(worker / "stat");
		std::string word;

		for (int field = 1; field <= 15 && stat >> word; field++)
			if (field >= 14)
				sum += std::stol(word);
	}
	return sum;
}

/* CPU use of all workers together over half a second, in percent of one CPU. */
double worker_share()
{
	long ticks = worker_ticks();

	std::this_thread::sleep_for(500ms);
	return 200.0 * static_cast<double>(worker_ticks() - ticks) /
	       static_cast<double>(sysconf(_SC_CLK_TCK));
}

void unconnected_is_left_alone(const std::string &address)
{
	Listener listener(address);
	EventChannel channel = create_event_channel();
	End end(resolve(channel.get(), listener.address()), {});
	Buffer buffer(end.pd(), 64);

	for (unsigned int i = 0; i < 20; i++)
		end.write(buffer.sge(0, 8), buffer.address(), buffer.mr()->rkey, i);
	for (unsigned int i = 0; i < 20; i++)
		ring(end.qp());

	double share = worker_share();

	std::printf("the workers use %.0f %% of a CPU\n", share);
	require(share < 20, "no worker is busy with a queue pair that is not connected");
}

/* Makes all page allocations of this thread and of the workers fail, by fault injection. */
class Famine
{
public:
	Famine() = default;
	Famine(const Famine &) = delete;
	~Famine() { end(); }

	void begin()
	{
		set("min-order", "0");
		set("task-filter", "1");
		set("verbose", "0");
		set("times", "-1");
		mark("1");
		set("probability", "100");
	}

	void end()
	{
		set("probability", "0");
		mark("0");
	}

private:
	void set(const char *file, const char *value)
	{
		settings_.set("fail_page_alloc", file, value);
	}

	static void mark(const char *value)
	{
		std::ofstream("/proc/thread-self/make-it-fail") << value;
		for (const auto &worker : workers())
			std::ofstream(worker / "make-it-fail") << value;
	}

	injection::Settings settings_{ { "fail_page_alloc" } };
};

/* The peer reads one whole message. */
void hear_message(raw::Peer &peer)
{
	std::optional<raw::Fpdu> fpdu;

	do {
		fpdu = peer.hear_fpdu();
		require(fpdu && fpdu->crc_is_good, "an FPDU comes, and is good");
	} while (!fpdu->is_last());
}

void famine_is_sat_out(const std::string &address)
{
	constexpr std::uint32_t size = 512 << 10;
	Famine famine;
	raw::Call call(address);
	Buffer from(call.end.pd(), size);

	call.peer.say(raw::fpdu(raw::Tagged().ulpdu({})));
	std::this_thread::sleep_for(2500ms); /* until the pages cached for sending are freed */
	famine.begin();
	call.end.write(from.sge(0, size), 0x1000, 0x1234);

	double share = worker_share();
	ibv_wc wc;
	bool done = ibv_poll_cq(call.end.send_cq(), 1, &wc) == 1;

	famine.end();
	std::printf("the workers use %.0f %% of a CPU\n", share);
	require(!done, "the Write waits for memory");
	require(share < 20, "the workers pause");
	hear_message(call.peer);
	expect_completion(call.end.send_cq(), IBV_WC_SUCCESS, 0);
}

/* Binds a thread, and with it the work that the kernel does for it, to one CPU. */
void stay_on(pthread_t thread, unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	require(!pthread_setaffinity_np(thread, sizeof(set), &set), "a thread is bound to a CPU");
}

/* A real-time thread that wakes up every millisecond and measures how late it gets the CPU. */
class Watch
{
public:
	explicit Watch(unsigned int cpu)
		: thread_([this](const std::stop_token &stop) {
			  for (auto last = Clock::now(); !stop.stop_requested();) {
				  std::this_thread::sleep_for(1ms);
				  auto now = Clock::now();

				  late_ = std::max<Clock::duration>(late_, now - last - 1ms);
				  last = now;
			  }
		  })
	{
		sched_param priority = { 50 };

		stay_on(thread_.native_handle(), cpu);
		require(!pthread_setschedparam(thread_.native_handle(), SCHED_FIFO, &priority),
			"a thread gets real-time priority");
		std::this_thread::sleep_for(20ms);
	}

	Clock::duration stop()
	{
		thread_.request_stop();
		thread_.join();
		return late_;
	}

private:
	Clock::duration late_ = {};
	std::jthread thread_;
};

/* Flushes a queue pair whose queues are full. Returns the worst latency meanwhile. */
Clock::duration late_for_flush(const std::string &address)
{
	constexpr std::uint32_t depth = 32768;
	static std::vector<ibv_recv_wr> receives(depth);
	static std::vector<ibv_send_wr> sends(depth);
	Listener listener(address);
	EventChannel channel = create_event_channel();
	End end(resolve(channel.get(), listener.address()),
		{ .send_wr = depth, .recv_wr = depth, .cq_entries = depth });

	for (ibv_send_wr &send : sends)
		send.opcode = IBV_WR_RDMA_WRITE;
	make_list(receives);
	make_list(sends);
	require(!end.post(receives[0]) && !end.post(sends[0]), "both queues are filled");

	Watch watch(0);

	end.move_to(IBV_QPS_ERR);

	auto late = watch.stop();

	for (std::uint32_t i = 0; i < depth; i++) {
		expect_completion(end.send_cq(), IBV_WC_WR_FLUSH_ERR, 0);
		expect_completion(end.recv_cq(), IBV_WC_WR_FLUSH_ERR, 0);
	}
	return late;
}

void flush_is_no_stop(const std::string &address)
{
	auto best = Clock::duration::max();

	stay_on(pthread_self(), 0);
	for (int i = 0; i < 5; i++)
		best = std::min(best, late_for_flush(address));
	std::printf("a real-time thread on that CPU is %.2f ms late\n", Milliseconds(best).count());
	require(best < 8ms, "other threads get the CPU while the queues are flushed");
}

/* A Send without a receive waits for one second. On one host Responses arrive meanwhile, but they
 * must not restart that second.
 */
void responses_pass_a_send(const std::string &address)
{
	Pair pair(address);
	Buffer a(pair.a().pd(), 64), b(pair.b().pd(), 64);
	auto start = Clock::now();

	pair.a().send(a.sge(0, 8), 1); /* b posts no receive */
	while (pair.b().state() == IBV_QPS_RTS && Clock::now() - start < 4s) {
		pair.b().read(b.sge(0, 8), a.address(), a.mr()->rkey, 2);
		std::this_thread::sleep_for(100ms);
	}
	require(Clock::now() - start < 2500ms, "the Send is given up after one second");
	pair.expect_disconnect();
}

const cases::Case all[] = {
	{ "a long queue of local requests takes many runs", local_requests_take_turns },
	{ "a long queue of empty Writes takes many runs", empty_writes_take_turns },
	{ "Responses do not extend the deadline of a Send without a receive",
	  responses_pass_a_send },
	{ "no worker looks at a queue pair that is not connected", unconnected_is_left_alone },
	{ "without memory a worker pauses, and then goes on", famine_is_sat_out },
	{ "full queues are flushed in pieces", flush_is_no_stop },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
