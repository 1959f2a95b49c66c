/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A shared receive queue gives one request to each message, whichever QP the message uses. */
#include "cases.hpp"
#include "device.hpp"

#include <cerrno>
#include <chrono>
#include <deque>
#include <format>
#include <map>
#include <optional>
#include <set>
#include <thread>

using namespace rdma;

namespace
{

constexpr std::uint16_t discard_port = 9; /* has no listener */

void two_connections_share(const std::string &address)
{
	constexpr unsigned int count = 32;
	Device device(address);
	Srq srq = device.create_srq(count);
	Buffer into(device.pd(), count * 64);
	Pair first(address, {}, { .srq = srq.get() });
	Pair second(address, {}, { .srq = srq.get() });
	std::set<std::uint64_t> used;

	for (unsigned int i = 0; i < count; i++)
		post(srq.get(), into.sge(i * 64, 64), i);
	for (unsigned int i = 0; i < count; i++) {
		Pair &pair = i % 3 ? first : second;
		Buffer from(pair.a().pd(), 64);

		from.fill(i);
		pair.a().send(from.sge(0, 64), i);

		ibv_wc wc = next_completion(pair.b().recv_cq());
		auto got = into.bytes().subspan(wc.wr_id * 64, 64);

		require(wc.status == IBV_WC_SUCCESS && wc.byte_len == 64, "the receive succeeds");
		require(wc.qp_num == pair.b().qp()->qp_num, "it has the number of the right QP");
		require(used.insert(wc.wr_id).second, "no request is used twice");
		require(got[5] == pattern(i, 5) && got[63] == pattern(i, 63),
			"the request that completes has the data");
		expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, i);
	}
}

void destroyed_qp_leaves_requests(const std::string &address)
{
	Device device(address);
	Srq srq = device.create_srq(8);
	Buffer into(device.pd(), 4096);

	for (unsigned int i = 0; i < 8; i++)
		post(srq.get(), into.sge(i * 64, 64), i);
	{
		Pair short_lived(address, {}, { .srq = srq.get() });
		Buffer from(short_lived.a().pd(), 64);

		short_lived.a().send(from.sge(0, 64));
		expect_completion(short_lived.b().recv_cq(), IBV_WC_SUCCESS, 0);
		require(!rdma_disconnect(short_lived.a().id()), "disconnect");
		short_lived.expect_disconnect();
		expect_no_completion(short_lived.b().recv_cq());
	}
	Pair pair(address, {}, { .srq = srq.get() });
	Buffer from(pair.a().pd(), 64);

	for (unsigned int i = 1; i < 8; i++) {
		pair.a().send(from.sge(0, 64), i);
		expect_completion(pair.b().recv_cq(), IBV_WC_SUCCESS, i);
	}
}

void empty_queue_ends_connection(const std::string &address)
{
	Device device(address);
	Srq srq = device.create_srq(8);
	Pair pair(address, {}, { .srq = srq.get() });
	Buffer from(pair.a().pd(), 64);

	pair.a().send(from.sge(0, 64));
	pair.expect_disconnect();
}

/* Each of several connections sends more messages than the queue holds at a time. */
void requests_go_around(const std::string &address)
{
	constexpr unsigned int pairs = 8, rounds = 8, sends = 8, depth = 4;
	Device device(address);
	Srq srq = device.create_srq(depth);
	Buffer into(device.pd(), depth * 64);
	Cq cq = device.create_cq(64);
	std::deque<Pair> all;
	std::deque<Buffer> from;
	std::map<std::uint32_t, unsigned int> got;

	for (unsigned int i = 0; i < pairs; i++) {
		all.emplace_back(address, QpOptions(),
				 QpOptions{ .srq = srq.get(), .cq = cq.get() });
		from.emplace_back(all[i].a().pd(), 64);
	}
	for (unsigned int i = 0; i < rounds; i++) {
		/* A message waits only for a second, and a slow machine posts few in that time. */
		for (unsigned int k = 0; k < pairs * sends; k++)
			all[k % pairs].a().send(from[k % pairs].sge(0, 64), k / pairs);
		for (unsigned int k = 0; k < depth; k++)
			post(srq.get(), into.sge(k * 64, 64), k);
		for (unsigned int k = 0; k < pairs * sends; k++) {
			ibv_wc wc = next_completion(cq.get());

			require(wc.status == IBV_WC_SUCCESS, "the receive succeeds");
			got[wc.qp_num]++;
			if (k + depth < pairs * sends)
				post(srq.get(), into.sge(wc.wr_id * 64, 64), wc.wr_id);
		}
		for (Pair &pair : all)
			for (unsigned int k = 0; k < sends; k++)
				expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, k);
	}
	for (Pair &pair : all)
		require(got[pair.b().qp()->qp_num] == rounds * sends,
			"each connection got its share");
}

/* A message that arrived early takes the request as soon as it is posted. */
void early_message_waits(const std::string &address)
{
	Device device(address);
	Srq srq = device.create_srq(8);
	Buffer into(device.pd(), 64);
	Pair pair(address, {}, { .srq = srq.get() });
	Buffer from(pair.a().pd(), 64);

	for (unsigned int i = 0; i < 10; i++) {
		pair.a().send(from.sge(0, 64), i);
		expect_no_completion(pair.b().recv_cq());
		post(srq.get(), into.sge(0, 64), i);
		expect_completion(pair.b().recv_cq(), IBV_WC_SUCCESS, i);
		expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, i);
	}
}

void full_queue_refuses(const std::string &address)
{
	Device device(address);
	Srq srq = device.create_srq(8);
	Buffer into(device.pd(), 4096);
	ibv_srq_attr attr;
	unsigned int taken = 0;
	int err = 0;

	while (!err && taken < 100000) {
		ibv_sge sge = into.sge(0, 64);
		ibv_recv_wr wr = { taken, nullptr, &sge, 1 };
		ibv_recv_wr *bad;

		err = ibv_post_srq_recv(srq.get(), &wr, &bad);
		taken += !err;
	}
	require(err == ENOMEM, std::format("the post fails with ENOMEM, not {}", err));
	require(!ibv_query_srq(srq.get(), &attr), "ibv_query_srq");
	require(taken == attr.max_wr && taken >= 8,
		std::format("{} fit, {} were promised", taken, attr.max_wr));
}

void too_many_sges(const std::string &address)
{
	Device device(address);
	Srq srq = device.create_srq(8, 2);
	Buffer into(device.pd(), 4096);
	ibv_srq_attr attr;

	require(!ibv_query_srq(srq.get(), &attr), "ibv_query_srq");

	std::vector<ibv_sge> sges(attr.max_sge + 1, into.sge(0, 1));
	ibv_recv_wr wr = { 1, nullptr, sges.data(), static_cast<int>(sges.size()) };
	ibv_recv_wr *bad = nullptr;

	require(ibv_post_srq_recv(srq.get(), &wr, &bad) != 0, "the post is refused");
	require(bad == &wr, "the post returns the bad request");
}

void own_requests_are_refused(const std::string &address)
{
	Device device(address);
	Srq srq = device.create_srq(8);
	Pair pair(address, {}, { .srq = srq.get() });
	Buffer into(pair.b().pd(), 64);
	ibv_sge sge = into.sge(0, 64);
	ibv_recv_wr wr = { 1, nullptr, &sge, 1 };
	ibv_recv_wr *bad = nullptr;

	require(pair.b().post(wr, &bad) == EINVAL, "the post is refused");
	require(bad == &wr, "the post returns the bad request");
}

void limit_event(const std::string &address)
{
	Device device(address);
	Srq srq = device.create_srq(16);
	Buffer into(device.pd(), 4096);
	Pair pair(address, {}, { .srq = srq.get() });
	Buffer from(pair.a().pd(), 64);
	ibv_srq_attr attr = {};

	for (unsigned int i = 0; i < 16; i++)
		post(srq.get(), into.sge(0, 64), i);
	attr.srq_limit = 10;
	require(!ibv_modify_srq(srq.get(), &attr, IBV_SRQ_LIMIT), "the limit is set");
	for (unsigned int i = 0; i < 6; i++) {
		pair.a().send(from.sge(0, 64), i);
		expect_completion(pair.b().recv_cq(), IBV_WC_SUCCESS, i);
	}
	require(!wait_readable(device.context()->async_fd, 100), "no event comes at the limit");
	pair.a().send(from.sge(0, 64), 6);
	expect_completion(pair.b().recv_cq(), IBV_WC_SUCCESS, 6);

	ibv_async_event event = expect_async_event(device.context(), IBV_EVENT_SRQ_LIMIT_REACHED);

	require(event.element.srq == srq.get(), "it is the event of this queue");
	require(!ibv_query_srq(srq.get(), &attr) && attr.srq_limit == 0, "the limit is off again");
}

/* A queue pair without a connection, which takes its receive requests from a shared queue. */
struct Idle {
	explicit Idle(const Device &device)
		: context(device.context()), srq(device.create_srq(16)), cq(device.create_cq(1)),
		  qp(create_qp(device.pd(), cq.get(), { 1, 1, 1, 1, 0 }, srq.get()))
	{
		require(qp != nullptr, "a queue pair");
	}

	void move_to(ibv_qp_state state)
	{
		require(!modify(qp.get(), state), "a move to another state");
	}

	void expect_last_request_events(int expected)
	{
		int told = 0;

		for (; wait_readable(context->async_fd, 100); told++)
			expect_async_event(context, IBV_EVENT_QP_LAST_WQE_REACHED);
		require(told == expected, std::format("{} events came, not {}", told, expected));
	}

	ibv_context *context;
	Srq srq;
	Cq cq;
	Qp qp;
};

/* Unread events take kernel memory, so moving between states must not produce more and more. */
void last_request_event(const std::string &address)
{
	Device device(address);
	Idle idle(device);

	for (int i = 0; i < 100; i++) {
		idle.move_to(IBV_QPS_ERR);
		idle.move_to(IBV_QPS_RESET);
	}
	idle.expect_last_request_events(1);
}

/* The event comes again after each attempt to connect, although the attempt fails. */
void last_request_of_the_next_attempt(const std::string &address)
{
	EventChannel channel = create_event_channel();
	Device device(resolve(channel.get(), address, discard_port));
	Idle idle(device);
	rdma_conn_param parameters = connection_parameters();

	for (int i = 0; i < 3; i++) {
		Id id = resolve(channel.get(), address, discard_port);

		parameters.qp_num = idle.qp->qp_num;
		require(!rdma_connect(id.get(), &parameters), "rdma_connect");
		expect_event(channel.get(), RDMA_CM_EVENT_REJECTED);
		idle.move_to(IBV_QPS_ERR);
		idle.expect_last_request_events(1);
		idle.move_to(IBV_QPS_RESET);
	}
}

/* Offsets of xiw-abi.h's control words in the mapping of a shared receive queue, in words. */
constexpr std::size_t produced = 0, consumed = 16, flags = 17;
constexpr std::uint32_t need_doorbell = 1;

/* A message waits for a request, and its connection ends. The next request needs no doorbell. */
void no_doorbell_for_nobody(const std::string &address)
{
	constexpr std::uint32_t requests = 6;
	Device device(address);
	Srq srq = device.create_srq(8);
	Buffer into(device.pd(), 64);
	std::optional<Pair> pair(std::in_place, address, QpOptions(),
				 QpOptions{ .srq = srq.get() });
	Buffer from(pair->a().pd(), 64);

	for (std::uint32_t i = 0; i < requests; i++)
		post(srq.get(), into.sge(0, 64), i);

	Words ring = the_rings(
		[](Words words) { return words[produced] == requests && words[consumed] == 0; });

	for (std::uint32_t i = 0; i < requests; i++) {
		pair->a().send(from.sge(0, 64), i);
		expect_completion(pair->b().recv_cq(), IBV_WC_SUCCESS, i);
	}

	pair->a().send(from.sge(0, 64));
	await("a Send waits for a request", [&] { return ring[flags] & need_doorbell; });
	rdma_disconnect(pair->a().id());
	pair->expect_disconnect();
	await("no doorbell is wanted", [&] { return !(ring[flags] & need_doorbell); });
}

/* A posted request makes the kernel look at the connection that waits longest. Messages that keep
 * coming on another connection must not take all requests before that.
 */
void called_gets_its_request(const std::string &address)
{
	using namespace std::chrono_literals;
	constexpr unsigned int before_it = 3;
	Device device(address);
	Srq srq = device.create_srq(16);
	Buffer into(device.pd(), 64);
	Cq cq = device.create_cq(64);
	const QpOptions shared = { .srq = srq.get(), .cq = cq.get() };
	Pair quiet(address, {}, shared), busy(address, {}, shared);
	Buffer from(quiet.a().pd(), 64), others(busy.a().pd(), 64);
	cases::Told told("pause", "ep_work 30");

	quiet.a().send(from.sge(0, 64));
	std::this_thread::sleep_for(100ms);

	std::jthread sender([&](const std::stop_token &stop) {
		for (int i = 0; i < 60 && !stop.stop_requested(); i++) {
			busy.a().send(others.sge(0, 64), 0, 0);
			std::this_thread::sleep_for(5ms);
		}
	});

	for (unsigned int i = 0; i < before_it; i++) {
		post(srq.get(), into.sge(0, 64), i);

		ibv_wc wc = next_completion(cq.get());

		require(wc.status == IBV_WC_SUCCESS, "the receive succeeds");
		if (wc.qp_num == quiet.b().qp()->qp_num)
			return;
	}
	fail("the connection that waited longest got none of the first requests");
}

const cases::Case all[] = {
	{ "two connections share one queue", two_connections_share },
	{ "a destroyed QP leaves the requests to others", destroyed_qp_leaves_requests },
	{ "a message for an empty queue ends the connection", empty_queue_ends_connection },
	{ "a message that comes early waits for its request", early_message_waits },
	{ "waiting connections share the requests", requests_go_around },
	{ "a full queue refuses", full_queue_refuses },
	{ "a request with too many SGEs is refused", too_many_sges },
	{ "a queue pair that uses one takes no receive requests of its own",
	  own_requests_are_refused },
	{ "falling below the limit is reported once", limit_event },
	{ "without a connection the last request is reported once", last_request_event },
	{ "the last request is reported after each attempt to connect",
	  last_request_of_the_next_attempt },
	{ "no doorbell is asked for when no message waits for a request", no_doorbell_for_nobody },
	{ "a waiting connection gets a request although another is busy", called_gets_its_request },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
