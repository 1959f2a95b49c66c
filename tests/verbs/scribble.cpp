/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A process that writes random data over its rings harms only its own queue pairs. */
#include "cases.hpp"
#include "device.hpp"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <format>
#include <functional>
#include <iostream>
#include <random>
#include <thread>

using namespace rdma;

namespace
{

using Scribbler = std::function<void(Words, std::mt19937 &)>;

/* Writes random words at random places. */
void everywhere(Words ring, std::mt19937 &random)
{
	ring[random() % ring.size()] = random();
}

/* Changes the control words at the start of each ring: counters, flags, arming. */
void control_words(Words ring, std::mt19937 &random)
{
	std::size_t words = std::min<std::size_t>(ring.size(), 64);
	std::uint32_t nearby = static_cast<std::uint32_t>(random() % 3) - 1;

	ring[random() % words] = random() % 2 ? random() : ring[random() % words] + nearby;
}

/* Flips single bits. */
void flipped_bits(Words ring, std::mt19937 &random)
{
	std::size_t place = random() % ring.size();

	ring[place] = ring[place] ^ 1u << random() % 32;
}

constexpr unsigned int posts = 500, undisturbed = 10;

/* Uses its own connection while it scribbles over its rings. Counts in shared memory how often it
 * did, because the child may crash.
 */
void scribbling_child(const std::string &address, const Scribbler &scribble, unsigned int seed,
		      std::atomic<unsigned int> &scribbles)
{
	Pair pair(address, { .send_wr = 32, .recv_wr = 32, .cq_entries = 64 });
	Buffer from(pair.a().pd(), 4096), to(pair.b().pd(), 4096);
	auto rings = mapped_rings();
	std::mt19937 random(seed);

	require(!rings.empty(), "the provider has mapped rings");
	for (unsigned int i = 0; i < 16; i++)
		pair.b().receive(to.sge(0, 4096), i);
	for (unsigned int i = 0; i < posts; i++) {
		ibv_sge sge = from.sge(0, random() % 4096);
		ibv_send_wr wr = {};
		ibv_wc wc;

		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.opcode = random() % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.wr.rdma = { to.address(), to.mr()->rkey };
		pair.a().post(wr);
		if (i >= undisturbed) {
			scribble(rings[random() % rings.size()], random);
			scribbles++;
		}
		ibv_poll_cq(pair.a().send_cq(), 1, &wc);
	}
}

/* Runs work in a child process. Returns its status from waitpid(). */
int in_child(const std::function<void()> &work)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		int failed = 0;

		alarm(20);
		try {
			work();
		} catch (const std::exception &error) {
			std::cout << "child: " << error.what() << std::endl;
			failed = 1;
		}
		_exit(failed);
	}
	require(child > 0 && waitpid(child, &status, 0) == child, "the child ends");
	return status;
}

/* A connection in another process, which checks on demand that it still works. This process itself
 * has no connection, because its children would share it.
 */
class Bystander
{
public:
	explicit Bystander(const std::string &address)
	{
		require(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), "a pair of sockets");
		child_ = fork();
		require(child_ >= 0, "a child");
		if (!child_)
			serve(address);
		::close(ends_[1]);
	}

	~Bystander()
	{
		::close(ends_[0]);
		waitpid(child_, nullptr, 0);
	}

	void expect_alive(Where where = Where::current())
	{
		char answer = 0;

		require(write(ends_[0], "?", 1) == 1, "the bystander is there", where);
		require(read(ends_[0], &answer, 1) == 1 && answer == '!',
			"the bystander's connection works", where);
	}

private:
	[[noreturn]] void serve(const std::string &address)
	{
		char question;

		::close(ends_[0]);
		try {
			Pair pair(address);

			while (read(ends_[1], &question, 1) == 1) {
				pair.expect_alive();
				if (write(ends_[1], "!", 1) != 1)
					break;
			}
		} catch (const std::exception &error) {
			std::cout << "bystander: " << error.what() << std::endl;
		}
		_exit(0);
	}

	int ends_[2];
	pid_t child_;
};

/* The provider may crash or fail because of the rings, and end the child. The child must not hang,
 * and must have scribbled before it ended.
 */
void expect_fair_end(int status, unsigned int scribbles)
{
	int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	require(scribbles > 0, "the child has scribbled over its rings");
	require(!by || by == SIGSEGV || by == SIGBUS || by == SIGABRT || by == SIGFPE,
		std::format("the child exits or crashes, and is not ended by signal {}", by));
	require(status || scribbles == posts - undisturbed, "a child that succeeds has done all");
}

void survive(const std::string &address, const Scribbler &scribble)
{
	const auto first = static_cast<unsigned int>(cases::number_from("XIW_SEED", 1));
	Bystander bystander(address);
	unsigned int all = 0;
	auto *scribbles = static_cast<std::atomic<unsigned int> *>(
		mmap(nullptr, sizeof(std::atomic<unsigned int>), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0));

	require(scribbles != MAP_FAILED, "memory that is shared with the child");
	for (unsigned int i = 0; i < 10; i++) {
		const unsigned int seed = first + i;

		*scribbles = 0;

		int status =
			in_child([&] { scribbling_child(address, scribble, seed, *scribbles); });

		std::cout << std::format("seed {}: {} times, status {:#x}\n", seed,
					 scribbles->load(), status);
		expect_fair_end(status, *scribbles);
		all += *scribbles;
		bystander.expect_alive();
	}
	require(all > posts, "most children get far");
}

void over_all(const std::string &address)
{
	survive(address, everywhere);
}

void over_control_words(const std::string &address)
{
	survive(address, control_words);
}

void single_bits(const std::string &address)
{
	survive(address, flipped_bits);
}

/* One thread posts correctly while another keeps overwriting the first word of each ring: the
 * producer index of a QP, the consumer index of a CQ.
 */
void post_with_wild_counters(const std::string &address)
{
	Pair victim(address);
	Buffer from(victim.a().pd(), 64), to(victim.b().pd(), 64);
	std::jthread scribbler([rings = mapped_rings()](std::stop_token stop) {
		while (!stop.stop_requested())
			for (Words ring : rings)
				ring[0] = 0x40000000;
	});

	while (next_event(victim.a_channel(), 0).type != RDMA_CM_EVENT_DISCONNECTED) {
		ibv_sge sge = from.sge(0, 8);
		ibv_send_wr wr = signaled(IBV_WR_RDMA_WRITE, sge);
		ibv_wc wc;

		wr.wr.rdma = { to.address(), to.mr()->rkey };
		victim.a().post(wr);
		ibv_poll_cq(victim.a().send_cq(), 1, &wc);
	}
	require(victim.a().state() == IBV_QPS_ERR, "the QP is in error");
}

void wild_counters(const std::string &address)
{
	Bystander bystander(address);

	int status = in_child([&] { post_with_wild_counters(address); });

	require(!status, std::format("the child succeeds, not with status {:#x}", status));
	bystander.expect_alive();
}

const cases::Case all[] = {
	{ "random words all over the rings harm no other process", over_all },
	{ "random control words harm no other process", over_control_words },
	{ "flipped bits harm no other process", single_bits },
	{ "wild counters end their own connection", wild_counters },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
