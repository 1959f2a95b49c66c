/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* States, completions and events of the verbs (draft-hilland-rddp-verbs). */
#include "../verbs/device.hpp"
#include "stream.hpp"

#include <cerrno>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

/* The answer to a Read Request of the device. */
Octets response(const ReadRequest &read, const Octets &payload)
{
	return fpdu(
		Tagged{ .rdmap = 0x42, .stag = read.sink_stag, .offset = read.sink_offset }.ulpdu(
			payload));
}

void states(const std::string &address)
{
	Initiator device(address);

	require(device.end().state() == IBV_QPS_INIT, "the state is INIT before the connection");

	Peer peer = device.accept();

	peer.say(Initiator::accepting(*peer.hear_frame()).octets());
	expect_event(device.channel(), RDMA_CM_EVENT_ESTABLISHED);
	require(device.end().state() == IBV_QPS_RTS, "RTS during the connection");
	peer.end();
	expect_event(device.channel(), RDMA_CM_EVENT_DISCONNECTED);
	require(device.end().state() == IBV_QPS_ERR, "ERR after it");

	Stream closing(address, Role::responder);

	closing.end().move_to(IBV_QPS_SQD);
	require(closing.peer().hears_end(), "SQD closes by a FIN");

	Stream failing(address, Role::responder);

	failing.end().move_to(IBV_QPS_SQE);
	require(failing.peer().hear_terminate() == Terminate{ 0, 0, 0 }, "SQE sends a Terminate");
	require(failing.end().state() == IBV_QPS_ERR, "SQE goes on to ERR");
}

void closing_with_work_left(const std::string &address, Role role)
{
	Stream idle(address, role);

	idle.end().receive(idle.memory().sge(0, 8), 1);
	require(!rdma_disconnect(idle.end().id()), "the application disconnects");
	require(idle.peer().hears_end(), "without requests left the stream ends by a FIN");
	expect_completion(idle.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 1);
	idle.expect_disconnect();

	Stream busy(address, role);

	busy.end().read(busy.memory().sge(0, 8), 0, 0x1234, 1);
	busy.end().send(busy.memory().sge(0, 8), 2);
	require(busy.hear().opcode() == 1 && busy.hear().opcode() == 3, "both requests are sent");
	require(!rdma_disconnect(busy.end().id()), "the application disconnects");
	expect_completion(busy.end().send_cq(), IBV_WC_WR_FLUSH_ERR, 1);
	require(busy.end().state() == IBV_QPS_ERR, "an unanswered Read is an error");
	busy.expect_disconnect();
}

void culprit_first(const std::string &address, Role role)
{
	Stream stream(address, role);

	stream.end().receive(stream.memory().sge(0, 8), 10);
	stream.end().receive(stream.memory().sge(0, 8), 11);
	stream.end().read(stream.memory().sge(0, 8), 0, 0x1234, 1);
	stream.hear();
	stream.end().send({ stream.memory().address(), 8, 0x12345678 }, 2);
	stream.end().send(stream.memory().sge(0, 8), 3);
	expect_completion(stream.end().send_cq(), IBV_WC_WR_FLUSH_ERR, 1);
	expect_completion(stream.end().send_cq(), IBV_WC_LOC_PROT_ERR, 2);
	expect_completion(stream.end().send_cq(), IBV_WC_WR_FLUSH_ERR, 3);
	expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 10);
	expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 11);
	expect_no_completion(stream.end().send_cq(), 20);
	expect_no_completion(stream.end().recv_cq(), 20);
}

/* The peer sends a Terminate and does not close, so the device must. */
void terminate_closes(const std::string &address, Role role)
{
	Stream stream(address, role);

	stream.peer().say(fpdu(Untagged{ .rdmap = 0x47, .queue = 2 }.ulpdu(be32(0x11000000))));
	require(stream.peer().hears_end(), "the device closes");
	stream.expect_disconnect();
	require(stream.end().state() == IBV_QPS_ERR, "the QP is in error");
}

void posted_in_error(const std::string &address, Role role)
{
	Stream stream(address, role);

	stream.peer().end();
	stream.expect_disconnect();
	for (std::uint64_t i = 1; i <= 3; i++) {
		stream.end().send(stream.memory().sge(0, 8), i);
		stream.end().receive(stream.memory().sge(0, 8), 10 + i);
	}
	for (std::uint64_t i = 1; i <= 3; i++) {
		expect_completion(stream.end().send_cq(), IBV_WC_WR_FLUSH_ERR, i);
		expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 10 + i);
	}
	expect_no_completion(stream.end().send_cq(), 20);
	expect_no_completion(stream.end().recv_cq(), 20);
}

void failure_is_signalled(const std::string &address, Role role)
{
	Stream stream(address, role);

	stream.end().send({ stream.memory().address(), 8, 0x12345678 }, 1, 0);
	expect_completion(stream.end().send_cq(), IBV_WC_LOC_PROT_ERR, 1);
}

void empty_sges(const std::string &address, Role role)
{
	Stream stream(address, role);

	stream.end().send({ 0, 0, 0x12345678 }, 1);
	expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, 1);
	require(stream.hear().payload().empty(), "the Send is sent");
	stream.end().receive({ 0, 0, 0x12345678 }, 2);
	stream.peer().say(fpdu(Untagged{}.ulpdu({})));
	expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 2);
}

void invalid_again(const std::string &address, Role role)
{
	Stream stream(address, role);
	Buffer region(stream.end().pd(), 64);
	ibv_send_wr wr = {};

	wr.opcode = IBV_WR_LOCAL_INV;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.invalidate_rkey = region.mr()->rkey;
	for (wr.wr_id = 1; wr.wr_id <= 2; wr.wr_id++) {
		require(!stream.end().post(wr), "the request is taken");
		expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, wr.wr_id);
	}
	stream.peer().say(
		fpdu(Tagged{ .stag = region.mr()->rkey, .offset = region.address() }.ulpdu(
			octets_of(1, 8))));
	stream.expect_terminate({ 1, 1, 0 });
	require(region.is_zero(), "nothing is placed");
}

void half_close_between_fpdus(const std::string &address, Role role)
{
	constexpr std::uint32_t size = 16 << 20;
	Stream stream(address, role, { .memory = size });

	stream.end().write(stream.memory().sge(0, size), 0, 0x1234, 1);
	stream.hear();
	stream.peer().end();
	while (auto heard = stream.peer().hear_fpdu())
		require(heard->crc_is_good, "FPDUs are whole until the end");
	require(stream.peer().hear(1, 0).empty(), "the stream does not end within an FPDU");
	stream.expect_disconnect();
}

void fences_and_depth(const std::string &address, Role role)
{
	Stream stream(address, role, with_depth(1));
	Peer &peer = stream.peer();
	ibv_sge sge = stream.memory().sge(0, 8);

	/* ORD is 1, so the second Read and the Send behind it must wait. */
	stream.end().read(sge, 1, 0x1234, 1);
	stream.end().read(sge, 2, 0x1234, 2);
	stream.end().send(sge, 3);

	ReadRequest read = stream.hear().read_request();

	require(read.source_offset == 1 && peer.hears_nothing(50), "the second Read waits");
	peer.say(response(read, Octets(8)));
	read = stream.hear().read_request();
	require(read.source_offset == 2 && stream.hear().opcode() == 3, "then both are sent");
	peer.say(response(read, Octets(8)));

	/* A fenced Send waits for Reads before it. */
	stream.end().read(sge, 4, 0x1234, 4);
	stream.end().send(sge, 5, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
	read = stream.hear().read_request();
	require(peer.hears_nothing(50), "the fenced Send waits");
	peer.say(response(read, Octets(8)));
	require(stream.hear().opcode() == 3, "then it is sent");
	for (std::uint64_t i = 1; i <= 5; i++)
		expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, i);
}

void read_sink(const std::string &address, Role role)
{
	Stream stream(address, role, { .access = IBV_ACCESS_LOCAL_WRITE });
	ibv_sge two[] = { stream.memory().sge(0, 8), stream.memory().sge(8, 8) };
	ibv_send_wr wr = {}, *bad;

	wr.sg_list = two;
	wr.num_sge = 2;
	wr.opcode = IBV_WR_RDMA_READ;
	require(stream.end().post(wr, &bad) == EINVAL, "two SGEs are refused");

	/* The peer learns the sink's STag, which must only be valid for the Response. */
	stream.end().read(stream.memory().sge(0, 8), 0, 0x1234, 1);

	ReadRequest read = stream.hear().read_request();

	stream.peer().say(response(read, octets_of(1, 8)));
	expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, 1);
	require(stream.memory().holds(1, 0, 8), "the Read needs no remote right");
	stream.peer().say(fpdu(Tagged{ .stag = read.sink_stag, .offset = read.sink_offset }.ulpdu(
		octets_of(2, 8))));
	stream.expect_terminate({ 1, 1, 0 });
	require(stream.memory().holds(1, 0, 8), "the Write is not placed");
}

void completion_queue_overflow(const std::string &address, Role role)
{
	Stream bystander(address, role);
	Stream stream(address, role, { .qp = { .cq_entries = 4 } });
	Octets said;

	for (std::uint32_t i = 1; i <= 60; i++) {
		stream.end().receive(stream.memory().sge(0, 8), i);
		said = said + fpdu(Untagged{ .msn = i }.ulpdu({}));
	}
	stream.peer().say(said);
	expect_async_event(stream.end().qp()->context, IBV_EVENT_CQ_ERR);
	stream.expect_disconnect();
	require(stream.end().state() == IBV_QPS_ERR, "the QP of this CQ is in error");
	bystander.expect_alive();
	require(bystander.end().state() == IBV_QPS_RTS, "another QP is not");
}

void asynchronous_events(const std::string &address, Role role)
{
	struct {
		Octets said;
		ibv_event_type event;
	} faults[] = {
		{ fpdu(Tagged{ .stag = 1 }.ulpdu(octets_of(1, 4))), IBV_EVENT_QP_ACCESS_ERR },
		{ fpdu(ReadRequest{ .size = 1, .source_stag = 1 }.ulpdu()),
		  IBV_EVENT_QP_ACCESS_ERR },
		{ fpdu(Untagged{ .queue = 4 }.ulpdu({})), IBV_EVENT_QP_REQ_ERR },
		{ fpdu({ 0xc1 }), IBV_EVENT_QP_FATAL },
	};

	for (const auto &[said, event] : faults) {
		Stream stream(address, role);

		stream.peer().say(said);
		expect_async_event(stream.end().qp()->context, event);
		stream.expect_disconnect();
	}
}

const cases::Case all[] = {
	{ "VRB-01 states are those of the connection", states },
	{ "VRB-02 closing with work left is an error", in_both_roles<closing_with_work_left> },
	{ "VRB-03 the request at fault keeps its status, others are flushed",
	  in_both_roles<culprit_first> },
	{ "VRB-04 a Terminate always closes", in_both_roles<terminate_closes> },
	{ "VRB-05 a request posted to a QP in error is flushed, once",
	  in_both_roles<posted_in_error> },
	{ "VRB-06 a request that fails counts as signalled", in_both_roles<failure_is_signalled> },
	{ "VRB-07 an empty SGE may have any lkey", in_both_roles<empty_sges> },
	{ "VRB-08 a region that is invalid may be invalidated again",
	  in_both_roles<invalid_again> },
	{ "VRB-09 at a half-close the device stops between FPDUs",
	  in_both_roles<half_close_between_fpdus> },
	{ "VRB-10 Reads beyond ORD, and fences, hold back the requests behind them",
	  in_both_roles<fences_and_depth> },
	{ "VRB-11 the sink of a Read is one SGE with local rights", in_both_roles<read_sink> },
	{ "VRB-12 an overflow of a CQ is reported, and ends its own QPs only",
	  in_both_roles<completion_queue_overflow> },
	{ "VRB-14 faults of the peer are reported by events", in_both_roles<asynchronous_events> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
