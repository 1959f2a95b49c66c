/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A shared receive queue gives each message one of its requests, whichever QP it came by. */
#include "cases.hpp"
#include "rdma.hpp"

#include <cerrno>
#include <deque>
#include <format>
#include <map>
#include <set>

using namespace rdma;

namespace
{

/* A context of the device that serves an address. */
class Device
{
public:
	explicit Device(const std::string &address) : probe_(address)
	{
		pd_.reset(ibv_alloc_pd(context()));
		require(pd_ != nullptr, "a PD");
	}

	ibv_context *context() { return probe_.b().id()->verbs; }
	ibv_pd *pd() { return pd_.get(); }

	Srq create_srq(std::uint32_t wr, std::uint32_t sge = 1)
	{
		ibv_srq_init_attr attr = { nullptr, { wr, sge, 0 } };
		Srq srq(ibv_create_srq(pd(), &attr));

		require(srq != nullptr, "an SRQ");
		return srq;
	}

private:
	Pair probe_;
	Pd pd_;
};

void post(ibv_srq *srq, ibv_sge sge, std::uint64_t wr_id)
{
	ibv_recv_wr wr = { wr_id, nullptr, &sge, 1 };
	ibv_recv_wr *bad;

	if (int err = ibv_post_srq_recv(srq, &wr, &bad))
		fail("ibv_post_srq_recv", err);
}

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
		require(wc.qp_num == pair.b().qp()->qp_num, "it names the QP that it came by");
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

/* Each of several connections has sent more than the queue ever holds at a time. */
void requests_go_around(const std::string &address)
{
	constexpr unsigned int pairs = 8, sends = 64, depth = 4;
	Device device(address);
	Srq srq = device.create_srq(depth);
	Buffer into(device.pd(), depth * 64);
	Cq cq(ibv_create_cq(device.context(), 64, nullptr, nullptr, 0));
	std::deque<Pair> all;
	std::deque<Buffer> from;
	std::map<std::uint32_t, unsigned int> got;

	for (unsigned int i = 0; i < pairs; i++) {
		all.emplace_back(address, QpOptions(),
				 QpOptions{ .srq = srq.get(), .cq = cq.get() });
		from.emplace_back(all[i].a().pd(), 64);
	}
	for (unsigned int i = 0; i < pairs * sends; i++) /* soon received: patience is short */
		all[i % pairs].a().send(from[i % pairs].sge(0, 64), i / pairs);
	for (unsigned int i = 0; i < depth; i++)
		post(srq.get(), into.sge(i * 64, 64), i);
	for (unsigned int i = 0; i < pairs * sends; i++) {
		ibv_wc wc = next_completion(cq.get());

		require(wc.status == IBV_WC_SUCCESS, "the receive succeeds");
		got[wc.qp_num]++;
		post(srq.get(), into.sge(wc.wr_id * 64, 64), wc.wr_id);
	}
	for (Pair &pair : all) {
		require(got[pair.b().qp()->qp_num] == sends, "each connection got its share");
		for (unsigned int i = 0; i < sends; i++)
			expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, i);
	}
}

/* A message that came early takes the request as soon as it is posted. */
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
	require(err == ENOMEM, std::format("the post ends with ENOMEM, not {}", err));
	require(!ibv_query_srq(srq.get(), &attr), "the queue can be asked for its size");
	require(taken == attr.max_wr && taken >= 8,
		std::format("{} fit, {} were promised", taken, attr.max_wr));
}

void too_many_sges(const std::string &address)
{
	Device device(address);
	Srq srq = device.create_srq(8, 2);
	Buffer into(device.pd(), 4096);
	ibv_srq_attr attr;

	require(!ibv_query_srq(srq.get(), &attr), "the queue can be asked for its size");

	std::vector<ibv_sge> sges(attr.max_sge + 1, into.sge(0, 1));
	ibv_recv_wr wr = { 1, nullptr, sges.data(), static_cast<int>(sges.size()) };
	ibv_recv_wr *bad = nullptr;

	require(ibv_post_srq_recv(srq.get(), &wr, &bad) != 0, "the post is refused");
	require(bad == &wr, "the refused request is named");
}

void limit_event(const std::string &address)
{
	Device device(address);
	Srq srq = device.create_srq(16);
	Buffer into(device.pd(), 4096);
	Pair pair(address, {}, { .srq = srq.get() });
	Buffer from(pair.a().pd(), 64);
	ibv_srq_attr attr = {};
	ibv_async_event event;

	for (unsigned int i = 0; i < 16; i++)
		post(srq.get(), into.sge(0, 64), i);
	attr.srq_limit = 10;
	require(!ibv_modify_srq(srq.get(), &attr, IBV_SRQ_LIMIT), "the limit is set");
	for (unsigned int i = 0; i < 6; i++) {
		pair.a().send(from.sge(0, 64), i);
		expect_completion(pair.b().recv_cq(), IBV_WC_SUCCESS, i);
	}
	require(!wait_readable(device.context()->async_fd, 100), "no event at the limit");
	pair.a().send(from.sge(0, 64), 6);
	expect_completion(pair.b().recv_cq(), IBV_WC_SUCCESS, 6);
	require(wait_readable(device.context()->async_fd, 10000), "an event below the limit");
	require(!ibv_get_async_event(device.context(), &event), "it can be read");
	require(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq.get(),
		"it is the event of this queue");
	ibv_ack_async_event(&event);
	require(!ibv_query_srq(srq.get(), &attr) && attr.srq_limit == 0, "the limit is off again");
}

const cases::Case all[] = {
	{ "two connections share one queue", two_connections_share },
	{ "a destroyed QP leaves the requests to others", destroyed_qp_leaves_requests },
	{ "a message for an empty queue ends the connection", empty_queue_ends_connection },
	{ "a message that comes early waits for its request", early_message_waits },
	{ "requests go around among connections that wait", requests_go_around },
	{ "a full queue refuses", full_queue_refuses },
	{ "a request with too many SGEs is refused", too_many_sges },
	{ "falling below the limit is told once", limit_event },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
