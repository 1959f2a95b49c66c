/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Completion events: one event each time a queue is armed, and only for matching completions. */
#include "cases.hpp"
#include "rdma.hpp"

#include <cerrno>
#include <format>
#include <thread>

using namespace rdma;

namespace
{

/* b waits for events, a sends. */
struct Setting {
	explicit Setting(const std::string &address)
		: pair(address, { .notify = true }), a(pair.a()), b(pair.b()), from(a.pd(), 4096),
		  to(b.pd(), 4096)
	{
	}

	void arm(bool solicited_only = false)
	{
		if (int err = ibv_req_notify_cq(b.recv_cq(), solicited_only))
			fail("ibv_req_notify_cq", err);
	}

	void transfer(std::uint64_t wr_id, unsigned int flags = IBV_SEND_SIGNALED)
	{
		b.receive(to.sge(0, 16), wr_id);
		a.send(from.sge(0, 16), wr_id, flags);
		expect_completion(a.send_cq(), IBV_WC_SUCCESS, wr_id);
	}

	Pair pair;
	End &a;
	End &b;
	Buffer from;
	Buffer to;
};

void expect_event_of(ibv_comp_channel *channel, ibv_cq *cq, Where where = Where::current())
{
	ibv_cq *got;
	void *context;

	require(wait_readable(channel->fd, 10000), "an event comes", where);
	if (ibv_get_cq_event(channel, &got, &context))
		fail("ibv_get_cq_event", errno, where);
	ibv_ack_cq_events(got, 1);
	require(got == cq, "the event is of the right queue", where);
}

void expect_no_event(ibv_comp_channel *channel, Where where = Where::current())
{
	require(!wait_readable(channel->fd, 200), "no event comes", where);
}

void one_event_per_arm(const std::string &address)
{
	Setting setting(address);

	setting.arm();
	for (unsigned int i = 0; i < 5; i++)
		setting.transfer(i);
	expect_event_of(setting.b.channel(), setting.b.recv_cq());
	expect_no_event(setting.b.channel());
	for (unsigned int i = 0; i < 5; i++)
		expect_completion(setting.b.recv_cq(), IBV_WC_SUCCESS, i);
	setting.arm();
	setting.transfer(6);
	expect_event_of(setting.b.channel(), setting.b.recv_cq());
}

void none_unless_armed(const std::string &address)
{
	Setting setting(address);

	setting.transfer(1);
	expect_completion(setting.b.recv_cq(), IBV_WC_SUCCESS, 1);
	expect_no_event(setting.b.channel());
}

void solicited_only(const std::string &address)
{
	Setting setting(address);

	setting.arm(true);
	setting.transfer(1);
	expect_completion(setting.b.recv_cq(), IBV_WC_SUCCESS, 1);
	expect_no_event(setting.b.channel());
	setting.transfer(2, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	expect_event_of(setting.b.channel(), setting.b.recv_cq());
	expect_completion(setting.b.recv_cq(), IBV_WC_SUCCESS, 2);
}

/* Arms for solicited completions and then for any: the second one counts. */
void solicited_then_any(const std::string &address)
{
	Setting setting(address);

	setting.arm(true);
	setting.arm();
	setting.transfer(1);
	expect_event_of(setting.b.channel(), setting.b.recv_cq());
}

void error_is_solicited(const std::string &address)
{
	Setting setting(address);

	setting.b.receive(setting.to.sge(0, 16), 1);
	setting.arm(true);
	require(!rdma_disconnect(setting.a.id()), "disconnect");
	expect_event_of(setting.b.channel(), setting.b.recv_cq());
	expect_completion(setting.b.recv_cq(), IBV_WC_WR_FLUSH_ERR, 1);
}

/* A program that sleeps must arm, poll once more, and wait. It then misses no message, however
 * sender and waiter interleave.
 */
void nothing_is_missed(const std::string &address)
{
	constexpr unsigned int count = 2000;
	Setting setting(address);
	unsigned int received = 0;

	for (unsigned int i = 0; i < 32; i++)
		setting.b.receive(setting.to.sge(0, 16), i);
	std::jthread sender([&] {
		for (unsigned int i = 0; i < count; i++) {
			setting.a.send(setting.from.sge(0, 16), i);
			expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, i);
			if (i % 16 == 15) /* wait for b, which has only 32 receives */
				expect_completion(setting.a.recv_cq(), IBV_WC_SUCCESS, i / 16);
			else if (i % 16 == 0)
				setting.a.receive(setting.from.sge(64, 16), i / 16);
		}
	});
	while (received < count) {
		ibv_wc wc;

		setting.arm();
		while (ibv_poll_cq(setting.b.recv_cq(), 1, &wc) == 1) {
			require(wc.status == IBV_WC_SUCCESS, "the receive succeeds");
			require(wc.wr_id == received % 32,
				std::format("receive {} is next", received));
			setting.b.receive(setting.to.sge(0, 16), received % 32);
			if (received++ % 16 == 15) {
				setting.b.send(setting.to.sge(64, 16));
				expect_completion(setting.b.send_cq(), IBV_WC_SUCCESS, 0);
			}
		}
		if (received < count)
			expect_event_of(setting.b.channel(), setting.b.recv_cq());
	}
}

/* There are more completions than the queue holds. The device must report that by an event. */
void overflow(const std::string &address)
{
	Pair pair(address, { .send_wr = 1024, .cq_entries = 4 }, {});
	Buffer from(pair.a().pd(), 64), to(pair.b().pd(), 64);
	ibv_context *context = pair.a().id()->verbs;
	ibv_async_event event;
	ibv_sge sge = from.sge(0, 8);
	ibv_send_wr wr = signaled(IBV_WR_RDMA_WRITE, sge);
	bool overflowed = false;

	wr.wr.rdma = { to.address(), to.mr()->rkey };
	for (unsigned int i = 0; i < 1000; i++)
		if (pair.a().post(wr))
			break;
	while (!overflowed) {
		require(wait_readable(context->async_fd, 10000), "an asynchronous event comes");
		require(!ibv_get_async_event(context, &event), "it can be read");
		overflowed = event.event_type == IBV_EVENT_CQ_ERR &&
			     event.element.cq == pair.a().send_cq();
		ibv_ack_async_event(&event);
	}
}

const cases::Case all[] = {
	{ "one event comes each time the queue is armed", one_event_per_arm },
	{ "no event comes unless armed", none_unless_armed },
	{ "a queue armed for solicited completions ignores others", solicited_only },
	{ "arming for any completion widens the request", solicited_then_any },
	{ "an error counts as solicited", error_is_solicited },
	{ "arm, poll, wait misses nothing", nothing_is_missed },
	{ "an overflow of the queue is reported", overflow },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
