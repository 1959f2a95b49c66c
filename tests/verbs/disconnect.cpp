/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* rdma_disconnect() returns soon, however much was posted before, and delays no other process. */
#include "cases.hpp"
#include "device.hpp"
#include "rdma.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <format>
#include <thread>

using namespace rdma;

namespace
{

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/* Sending a full queue of these would take minutes. */
constexpr std::uint32_t message = 32 << 20;
constexpr int depth = 16384;

/* Two ends in one process. One of them has posted more than it can send within the test. */
class Full
{
public:
	explicit Full(const std::string &address)
		: pair_(address, { .send_wr = depth, .cq_entries = depth + 1 }, {}),
		  from_(pair_.a().pd(), message), to_(pair_.b().pd(), message)
	{
		ibv_sge sge = from_.sge(0, message);
		ibv_send_wr wr = signaled(IBV_WR_RDMA_WRITE, sge);

		wr.wr.rdma = { to_.address(), to_.mr()->rkey };
		for (; posted_ < depth && !pair_.a().post(wr); posted_++)
			;
		require(posted_ > depth / 2, "the queue can be filled");
	}

	void disconnect()
	{
		if (rdma_disconnect(pair_.a().id()))
			fail("rdma_disconnect", errno);
	}

	/* Each request completes: first those that were sent, then those that were flushed. */
	void expect_all_completed()
	{
		int sent = 0, flushed = 0;

		while (sent + flushed < posted_) {
			ibv_wc wc = next_completion(pair_.a().send_cq());

			require(wc.status == IBV_WC_SUCCESS ? !flushed
							    : wc.status == IBV_WC_WR_FLUSH_ERR,
				"sent requests complete before flushed ones");
			(wc.status == IBV_WC_SUCCESS ? sent : flushed)++;
		}
		std::printf("%d Writes of 32 MiB were sent, %d were flushed\n", sent, flushed);
		require(flushed > 0, "not all requests could be sent");
		expect_no_completion(pair_.a().send_cq());
	}

private:
	Pair pair_;
	Buffer from_, to_;
	int posted_ = 0;
};

double seconds_since(Clock::time_point start)
{
	return std::chrono::duration<double>(Clock::now() - start).count();
}

/* A child process that fills its queue, reports that, and disconnects. */
class Leaver
{
public:
	explicit Leaver(const std::string &address)
	{
		if (pipe(pipe_.data()))
			fail("pipe", errno);
		pid_ = fork();
		if (pid_ < 0)
			fail("fork", errno);
		if (!pid_)
			leave(address);
		require(wait_readable(pipe_[0], 30000), "the other process has filled its queue");
		std::this_thread::sleep_for(50ms); /* until it is in rdma_disconnect() */
	}
	Leaver(const Leaver &) = delete;
	~Leaver()
	{
		close(pipe_[0]);
		close(pipe_[1]);
		if (pid_ > 0)
			kill();
	}

	void kill() { ::kill(pid_, SIGKILL); }

	bool ends_within(Clock::duration time)
	{
		for (auto end = Clock::now() + time; Clock::now() < end;) {
			if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
				pid_ = -1;
				return true;
			}
			std::this_thread::sleep_for(5ms);
		}
		return false;
	}

private:
	[[noreturn]] void leave(const std::string &address)
	{
		try {
			Full full(address);

			if (write(pipe_[1], "", 1) != 1)
				_exit(1);
			full.disconnect();
		} catch (const std::exception &error) {
			std::fprintf(stderr, "%s\n", error.what());
		}
		_exit(0);
	}

	std::array<int, 2> pipe_ = {};
	pid_t pid_ = -1;
};

void ends_soon(const std::string &address)
{
	Full full(address);
	auto start = Clock::now();

	full.disconnect();
	std::printf("rdma_disconnect() took %.2f s\n", seconds_since(start));
	require(seconds_since(start) < 5, "rdma_disconnect() takes less than five seconds");
	full.expect_all_completed();
}

void can_be_killed(const std::string &address)
{
	Leaver leaver(address);

	leaver.kill();
	require(leaver.ends_within(5s), "the process is gone in less than five seconds");
}

void delays_nobody(const std::string &address)
{
	Leaver leaver(address);
	auto start = Clock::now();

	Pair(address).expect_alive();
	std::printf("a connection took %.3f s\n", seconds_since(start));
	require(seconds_since(start) < 3, "a connection takes less than three seconds");
	require(leaver.ends_within(15s), "the other process ends");
}

/* rdma_disconnect() moves the queue pair to SQD. */
void only_connections(const std::string &address)
{
	Device device(address);
	Cq cq = device.create_cq(1);
	Qp qp = create_qp(device.pd(), cq.get(), { 1, 1, 1, 1, 0 });

	require(qp && modify(qp.get(), IBV_QPS_SQD) == EINVAL, "there is nothing to close");
	require(!modify(qp.get(), IBV_QPS_ERR), "a queue pair can fail without a connection");
	require(!modify(qp.get(), IBV_QPS_SQD), "what has ended can be closed again");
}

constexpr cases::Case all[] = {
	{ "a full queue of long Writes does not hold up rdma_disconnect()", ends_soon },
	{ "a process can be killed while it disconnects with a full queue", can_be_killed },
	{ "a process that disconnects with a full queue delays no other", delays_nobody },
	{ "a queue pair without a connection is not closed", only_connections },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
