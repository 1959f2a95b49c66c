/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Completion queues and shared receive queues can be resized without losing entries. */
#include "cases.hpp"
#include "device.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <format>
#include <thread>

using namespace rdma;

namespace
{

/* Time between two resizes. The provider's locks are not fair, and other threads need them, too. */
constexpr std::chrono::milliseconds pause(1);

/* a writes to b. Its completions are in the queue that is resized. */
struct Writer {
	explicit Writer(const std::string &address, int entries, bool notify = false,
			std::uint32_t send_wr = 512)
		: pair(address, { .send_wr = send_wr, .cq_entries = entries, .notify = notify },
		       {}),
		  from(pair.a().pd(), 64), to(pair.b().pd(), 64)
	{
	}

	ibv_cq *cq() { return pair.a().send_cq(); }

	/* Posts Writes with numbers from first on, and leaves their completions in the queue. */
	void write(std::uint64_t first, std::uint64_t count)
	{
		for (std::uint64_t i = first; i < first + count; i++)
			pair.a().write(from.sge(0, 8), to.address(), to.mr()->rkey, i);
	}

	void expect(std::uint64_t first, std::uint64_t count)
	{
		for (std::uint64_t i = first; i < first + count; i++)
			expect_completion(cq(), IBV_WC_SUCCESS, i);
	}

	/* Waits until all posted Writes have completed. */
	void settle()
	{
		ibv_sge sge = to.sge(0, 8);

		pair.b().read(sge, from.address(), from.mr()->rkey, 99);
		expect_completion(pair.b().send_cq(), IBV_WC_SUCCESS, 99);
	}

	Pair pair;
	Buffer from;
	Buffer to;
};

void resize(ibv_cq *cq, int entries, Where where = Where::current())
{
	if (int err = ibv_resize_cq(cq, entries))
		fail(std::format("ibv_resize_cq to {}", entries), err, where);
	require(cq->cqe >= entries, "the queue has the wanted size", where);
}

void cq_keeps_unread(const std::string &address)
{
	Writer writer(address, 16);

	writer.write(0, 10);
	writer.settle();
	resize(writer.cq(), 200);
	writer.write(10, 190);
	writer.settle();
	writer.expect(0, 180);
	resize(writer.cq(), 32);
	writer.expect(180, 20);
	writer.write(200, 32);
	writer.expect(200, 32);
	resize(writer.cq(), 1);
	writer.write(232, 1);
	writer.expect(232, 1);
}

/* More than the kernel copies at a time with interrupts off, and more than it copies in one go. */
void cq_keeps_many(const std::string &address)
{
	constexpr unsigned int many = 5000;
	Writer writer(address, 8192, false, 8192);

	writer.write(0, many);
	writer.settle();
	resize(writer.cq(), 16384);
	writer.expect(0, 100);
	resize(writer.cq(), many);
	writer.expect(100, many - 100);
	writer.write(many, 8);
	writer.expect(many, 8);
}

void cq_too_small(const std::string &address)
{
	Writer writer(address, 64);
	ibv_device_attr attr;

	writer.write(0, 40);
	writer.settle();
	require(ibv_resize_cq(writer.cq(), 32) == EINVAL, "40 completions do not fit into 32");
	require(!ibv_query_device(writer.cq()->context, &attr), "ibv_query_device");
	require(ibv_resize_cq(writer.cq(), attr.max_cqe + 1) == EINVAL,
		"more than max_cqe is refused");
	require(ibv_resize_cq(writer.cq(), 0) == EINVAL, "a queue without entries is refused");
	require(writer.cq()->cqe == 64, "the size is as before");
	writer.expect(0, 40);
	writer.write(40, 64);
	writer.expect(40, 64);
}

void cq_stays_armed(const std::string &address)
{
	Writer writer(address, 16, true);
	ibv_comp_channel *channel = writer.pair.a().channel();
	void *context;
	ibv_cq *got;

	require(!ibv_req_notify_cq(writer.cq(), 0), "the queue is armed");
	resize(writer.cq(), 64);
	writer.write(1, 1);
	require(wait_readable(channel->fd, 10000), "an event comes");
	require(!ibv_get_cq_event(channel, &got, &context) && got == writer.cq(),
		"the event is that of the queue");
	ibv_ack_cq_events(got, 1);
	writer.expect(1, 1);
	resize(writer.cq(), 16);
	writer.write(2, 1);
	writer.expect(2, 1);
	require(!wait_readable(channel->fd, 100), "no event comes unless armed");
}

void cq_under_traffic(const std::string &address)
{
	constexpr unsigned int batch = 50, batches = 400;
	Writer writer(address, 64);
	std::jthread resizer([&](std::stop_token stop) {
		for (int i = 0; !stop.stop_requested(); i++) {
			resize(writer.cq(), 64 << i % 5);
			std::this_thread::sleep_for(pause);
		}
	});

	for (unsigned int i = 0; i < batches; i++) {
		writer.write(i * batch, batch);
		writer.expect(i * batch, batch);
	}
}

/* b receives from the shared queue, a sends. */
struct Receiver {
	Receiver(const std::string &address, std::uint32_t requests)
		: probe(address), pd(ibv_alloc_pd(probe.b().id()->verbs)), into(pd.get(), 8)
	{
		ibv_srq_init_attr attr = { nullptr, { requests, 2, 0 } };

		srq.reset(ibv_create_srq(pd.get(), &attr));
		require(srq != nullptr, "an SRQ");
		pair.emplace(address, QpOptions(), QpOptions{ .srq = srq.get() });
		from.emplace(pair->a().pd(), 8);
	}

	int post(std::uint64_t wr_id)
	{
		ibv_sge sge = into.sge(0, 8);
		ibv_recv_wr wr = { wr_id, nullptr, &sge, 1 };
		ibv_recv_wr *bad;

		return ibv_post_srq_recv(srq.get(), &wr, &bad);
	}

	int resize(std::uint32_t requests)
	{
		ibv_srq_attr attr = { requests, 0, 0 };

		return ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR);
	}

	ibv_srq_attr attr()
	{
		ibv_srq_attr attr;

		require(!ibv_query_srq(srq.get(), &attr), "ibv_query_srq");
		return attr;
	}

	/* A message takes this request. */
	void expect(std::uint64_t wr_id)
	{
		pair->a().send(from->sge(0, 8), wr_id);
		expect_completion(pair->a().send_cq(), IBV_WC_SUCCESS, wr_id);
		expect_completion(pair->b().recv_cq(), IBV_WC_SUCCESS, wr_id);
	}

	Pair probe;
	Pd pd;
	Buffer into;
	Srq srq;
	std::optional<Pair> pair;
	std::optional<Buffer> from;
};

void srq_keeps_posted(const std::string &address)
{
	Receiver receiver(address, 8);

	for (unsigned int i = 0; i < 8; i++)
		require(!receiver.post(i), "eight requests fit");
	for (unsigned int i = 0; i < 5; i++)
		receiver.expect(i);
	require(!receiver.resize(100), "the queue grows");
	require(receiver.attr().max_wr >= 100, "ibv_query_srq() returns the new size");
	for (unsigned int i = 8; i < 105; i++)
		require(!receiver.post(i), "a hundred requests fit");
	for (unsigned int i = 5; i < 100; i++)
		receiver.expect(i);
	require(!receiver.resize(8), "the queue shrinks");
	for (unsigned int i = 100; i < 105; i++)
		receiver.expect(i);
	for (unsigned int i = 0; i < 8; i++)
		require(!receiver.post(i), "eight fit again");
	require(receiver.post(8) == ENOMEM, "a ninth does not");
	for (unsigned int i = 0; i < 8; i++)
		receiver.expect(i);
}

void srq_keeps_many(const std::string &address)
{
	constexpr unsigned int many = 2000;
	Receiver receiver(address, many);

	for (unsigned int i = 0; i < many; i++)
		require(!receiver.post(i), "many requests fit");
	for (unsigned int i = 0; i < 10; i++)
		receiver.expect(i);
	require(!receiver.resize(4 * many), "the queue grows");
	for (unsigned int i = 10; i < 20; i++)
		receiver.expect(i);
	require(!receiver.resize(many), "the queue shrinks");
	for (unsigned int i = 20; i < many; i++)
		receiver.expect(i);
}

/* The kernel pauses after each round of copying. Meanwhile messages take more requests than it has
 * copied.
 */
void srq_taken_meanwhile(const std::string &address)
{
	constexpr unsigned int many = 2000, taken = 1200;
	cases::Told told("pause", "resize 1000");
	Receiver receiver(address, many);
	int err = -1;

	for (unsigned int i = 0; i < many; i++)
		require(!receiver.post(i), "many requests fit");
	{
		std::jthread resizer([&] { err = receiver.resize(2 * many); });

		std::this_thread::sleep_for(std::chrono::milliseconds(50));
		for (unsigned int i = 0; i < taken; i++)
			receiver.expect(i);
	}
	require(!err, "the queue is resized");
	for (unsigned int i = taken; i < many; i++)
		receiver.expect(i);
}

void srq_too_small(const std::string &address)
{
	Receiver receiver(address, 64);

	for (unsigned int i = 0; i < 40; i++)
		require(!receiver.post(i), "forty requests fit");
	require(receiver.resize(32) == EINVAL, "forty do not fit into 32");
	require(receiver.resize(0) == EINVAL, "a size of 0 is refused");
	require(receiver.resize(1 << 30) == EINVAL, "a size above the limit is refused");
	require(receiver.attr().max_wr == 64, "the size is as before");
	for (unsigned int i = 0; i < 40; i++)
		receiver.expect(i);
}

/* The event comes when fewer requests than the limit are left: it must not exceed the size. */
void srq_limit_fits(const std::string &address)
{
	Receiver receiver(address, 64);
	ibv_srq_attr attr = { 16, 0, 17 };

	require(ibv_modify_srq(receiver.srq.get(), &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == EINVAL,
		"a limit of 17 is too much for 16 requests");
	require(receiver.attr().max_wr == 64, "the size is as before");
	for (unsigned int i = 0; i < 20; i++) /* else the limit would already be crossed */
		require(!receiver.post(i), "twenty requests fit");
	attr = { 32, 0, 20 };
	require(!ibv_modify_srq(receiver.srq.get(), &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT),
		"size and limit change at once");
	require(receiver.attr().max_wr == 32 && receiver.attr().srq_limit == 20,
		"ibv_query_srq() returns both");
	require(receiver.resize(16) == EINVAL, "a size below the limit is refused");
}

void srq_under_traffic(const std::string &address)
{
	constexpr unsigned int batch = 8, batches = 200;
	Receiver receiver(address, 16);
	std::jthread resizer([&](std::stop_token stop) {
		for (unsigned int i = 0; !stop.stop_requested(); i++) {
			require(!receiver.resize(16u << i % 5), "the queue is resized");
			std::this_thread::sleep_for(pause);
		}
	});

	for (unsigned int i = 0; i < batches; i++) {
		for (unsigned int j = 0; j < batch; j++)
			require(!receiver.post(j), "a request is posted");
		for (unsigned int j = 0; j < batch; j++)
			receiver.expect(j);
	}
}

/* Kills a process while the kernel pauses in its resize(), which must fail until then. The kernel
 * does not go on with the rounds that are left: each of them would pause, too.
 */
void kill_during(auto resize)
{
	cases::Told told("pause", "resize 1000");
	int ready[2], status;
	char octet;

	require(!pipe(ready), "pipe");

	pid_t child = fork();

	if (!child) {
		resize(ready[1]);
		_exit(0);
	}
	close(ready[1]);
	require(read(ready[0], &octet, 1) == 1, "the process begins to resize its queue");
	close(ready[0]);
	std::this_thread::sleep_for(std::chrono::milliseconds(300));
	require(!kill(child, SIGKILL), "kill");

	const auto killed = std::chrono::steady_clock::now();

	require(waitpid(child, &status, 0) == child && WIFSIGNALED(status),
		"the process is killed in its resize");
	require(std::chrono::steady_clock::now() - killed < std::chrono::seconds(3),
		"the process ends soon");
}

void srq_killed(const std::string &address)
{
	constexpr unsigned int many = 7 * 1024; /* seven rounds */

	kill_during([&](int ready) {
		Device device(address);
		Srq srq = device.create_srq(many);
		ibv_srq_attr attr = { 2 * many, 0, 0 };
		ibv_recv_wr wr = {}, *bad;

		for (unsigned int i = 0; i < many; i++)
			require(!ibv_post_srq_recv(srq.get(), &wr, &bad), "many requests fit");
		require(write(ready, "", 1) == 1, "write");
		ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR);
	});
	Pair(address).expect_alive();
}

/* A queue pair in ERROR fills the queue without a connection. */
void cq_killed(const std::string &address)
{
	constexpr unsigned int many = 7 * 4096; /* seven rounds */

	kill_during([&](int ready) {
		Device device(address);
		Cq cq = device.create_cq(many);
		Qp qp = create_qp(device.pd(), cq.get(), { 1, many, 1, 1, 0 });
		ibv_recv_wr wr = {}, *bad;

		require(qp && !modify(qp.get(), IBV_QPS_ERR), "the queue pair is in ERROR");
		for (unsigned int i = 0; i < many; i++)
			require(!ibv_post_recv(qp.get(), &wr, &bad), "many requests fit");
		require(write(ready, "", 1) == 1, "write");
		ibv_resize_cq(cq.get(), 2 * many);
	});
	Pair(address).expect_alive();
}

const cases::Case all[] = {
	{ "a completion queue keeps what is unread", cq_keeps_unread },
	{ "a completion queue keeps thousands that are unread", cq_keeps_many },
	{ "a completion queue refuses a size that is too small or too large", cq_too_small },
	{ "a completion queue stays armed", cq_stays_armed },
	{ "a completion queue is resized under traffic", cq_under_traffic },
	{ "a process can be killed while its completion queue is moved", cq_killed },
	{ "a process can be killed while its shared receive queue is moved", srq_killed },
	{ "a shared receive queue keeps what is posted", srq_keeps_posted },
	{ "a shared receive queue keeps thousands that are posted", srq_keeps_many },
	{ "a request that is taken while the queue is moved is not taken again",
	  srq_taken_meanwhile },
	{ "a shared receive queue refuses a size that is too small or too large", srq_too_small },
	{ "a shared receive queue is no smaller than its limit", srq_limit_fits },
	{ "a shared receive queue is resized under traffic", srq_under_traffic },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
