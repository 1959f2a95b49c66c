/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A caller that is rejected can destroy its objects in any order, and call again. */
#include "cases.hpp"
#include "rdma.hpp"

#include <cerrno>
#include <format>

using namespace rdma;

namespace
{

/* An order of destruction: I(d), Q(ueue pair), S(end) and R(eceive) queue, E(vent channel). */
using Order = std::string_view;

constexpr Order orders[] = { "QSRIE", "QIESR", "IQSRE", "IEQSR", "QRSIE", "IEQRS" };

/* The objects of a caller, as plain pointers: each order destroys them in another sequence. */
struct Caller {
	rdma_event_channel *channel = nullptr;
	rdma_cm_id *id = nullptr;
	ibv_cq *send_cq = nullptr;
	ibv_cq *recv_cq = nullptr;
	ibv_qp *qp = nullptr;
	std::uint8_t octets[64] = {};
	ibv_mr *mr = nullptr;

	explicit Caller(const Listener &listener);
	void post_receives(unsigned int count);
	void take_down(char step);
};

Caller::Caller(const Listener &listener)
{
	ibv_qp_init_attr attr = {};

	channel = create_event_channel().release();
	id = resolve(channel, listener.address()).release();
	send_cq = ibv_create_cq(id->verbs, 16, nullptr, nullptr, 0);
	recv_cq = ibv_create_cq(id->verbs, 16, nullptr, nullptr, 0);
	mr = ibv_reg_mr(id->pd, octets, sizeof(octets), IBV_ACCESS_LOCAL_WRITE);
	require(send_cq && recv_cq && mr, "queues and a region");
	attr.send_cq = send_cq;
	attr.recv_cq = recv_cq;
	attr.qp_type = IBV_QPT_RC;
	attr.cap = { 16, 16, 1, 1, 0 };
	if (rdma_create_qp(id, nullptr, &attr))
		fail("rdma_create_qp");
	qp = id->qp;
}

void Caller::post_receives(unsigned int count)
{
	ibv_sge sge = { reinterpret_cast<std::uint64_t>(octets), sizeof(octets), mr->lkey };
	ibv_recv_wr wr = { 0, nullptr, &sge, 1 }, *bad;

	while (count--)
		require(!ibv_post_recv(qp, &wr, &bad), "a receive is posted");
}

void Caller::take_down(char step)
{
	int err = 0;

	switch (step) {
	case 'I':
		id->qp = nullptr; /* step Q destroys it */
		err = rdma_destroy_id(id);
		break;
	case 'Q':
		err = ibv_dereg_mr(mr) ?: ibv_destroy_qp(qp);
		break;
	case 'S':
		err = ibv_destroy_cq(send_cq);
		break;
	case 'R':
		err = ibv_destroy_cq(recv_cq);
		break;
	case 'E':
		rdma_destroy_event_channel(channel);
		break;
	}
	require(!err, std::format("step {} succeeds", step));
}

void be_rejected(Caller &caller, Listener &listener)
{
	rdma_conn_param parameters = connection_parameters();

	if (rdma_connect(caller.id, &parameters))
		fail("rdma_connect", errno);
	Id request = listener.next_request();
	if (rdma_reject(request.get(), nullptr, 0))
		fail("rdma_reject", errno);
	expect_event(caller.channel, RDMA_CM_EVENT_REJECTED);
}

/* There is no listener, so TCP refuses the connection. */
void be_refused(Caller &caller)
{
	rdma_conn_param parameters = connection_parameters();

	if (rdma_connect(caller.id, &parameters))
		fail("rdma_connect", errno);
	const Event event = expect_event(caller.channel, RDMA_CM_EVENT_REJECTED);
	require(event.status == -ECONNREFUSED, "the status is ECONNREFUSED");
}

void expect_busy(Caller &caller)
{
	require(ibv_destroy_cq(caller.send_cq) == EBUSY, "the send queue is in use");
	require(ibv_destroy_cq(caller.recv_cq) == EBUSY, "the receive queue is in use");
}

void rejected(const std::string &address)
{
	for (int round = 0; round < 10; round++) {
		for (Order order : orders) {
			Listener listener(address);
			Caller caller(listener);

			caller.post_receives(8);
			be_rejected(caller, listener);
			expect_busy(caller);
			for (char step : order)
				caller.take_down(step);
		}
	}
	Pair(address).expect_alive();
}

void refused(const std::string &address)
{
	Listener other(address); /* or librdmacm would close the device with its last id */

	for (int round = 0; round < 10; round++) {
		for (Order order : orders) {
			std::optional<Listener> listener(address);
			Caller caller(*listener);

			listener.reset();
			caller.post_receives(8);
			be_refused(caller);
			expect_busy(caller);
			for (char step : order)
				caller.take_down(step);
		}
	}
	Pair(address).expect_alive();
}

/* Without an event for the outcome, the id would wait for ever. */
void told_without_memory(const std::string &address)
{
	Listener listener(address);
	const std::string words = "no";
	rdma_conn_param parameters = connection_parameters();
	cases::Told told("fail", "ep_raise");

	parameters.private_data = words.data();
	parameters.private_data_len = static_cast<std::uint8_t>(words.size());
	for (bool accept : { false, true }) {
		EventChannel channel = create_event_channel();
		End caller(resolve(channel.get(), listener.address()), {});

		caller.connect();

		End called(listener.next_request(), {});

		if (accept ? rdma_accept(called.id(), &parameters)
			   : rdma_reject(called.id(), words.data(), parameters.private_data_len))
			fail("an answer", errno);

		const Event event = next_event(channel.get(), 5000);

		require(event.type != -1 && event.type != RDMA_CM_EVENT_ESTABLISHED,
			std::format("an event reports a failure: {}", event.type));
		require(accept || event.type == RDMA_CM_EVENT_REJECTED, "the event is REJECTED");
		require(event.private_data.empty(), "there is no private data");
	}
}

const cases::Case all[] = {
	{ "a caller that is rejected can destroy its objects in any order, and call again",
	  rejected },
	{ "a caller that finds no listener can destroy its objects in any order, and call again",
	  refused },
	{ "a caller is told the outcome even if there is no memory for private data",
	  told_without_memory },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
