/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The kernel follows the rules of the rings (xiw-abi.h), even if the process does not. */
#include "cases.hpp"
#include "device.hpp"
#include "raw_peer.hpp"

#include <rdma/xiw-abi.h>

#include <cerrno>
#include <thread>

using namespace rdma;
using namespace raw;

namespace
{

/* Offsets of xiw-abi.h's control words in the mapping of a queue pair, in words. */
constexpr std::size_t sq_produced = 0, sq_consumed = 16, rq_produced = 32, rq_flags = 49;
constexpr std::uint32_t need_doorbell = 1;

/* The rings of the only queue pair that has posted this many requests. */
Words rings_with(std::uint32_t sends, std::uint32_t receives)
{
	return the_rings([=](Words words) {
		return words[sq_produced] == sends && words[rq_produced] == receives;
	});
}

/* Moves the producer counter back. The kernel must not take an old request from a slot that it has
 * already given back.
 */
void rolled_back(const std::string &address)
{
	constexpr std::uint32_t writes = 20;
	Call call(address);
	Buffer memory(call.end.pd(), 4096);

	call.peer.say(fpdu(Tagged{}.ulpdu({})));
	call.end.receive(memory.sge(0, 8), 1);
	for (std::uint32_t i = 0; i < writes; i++) {
		call.end.write(memory.sge(0, 8), 0, 0x1234, i);
		require(call.peer.hear_fpdu().has_value(), "a Write goes out");
		expect_completion(call.end.send_cq(), IBV_WC_SUCCESS, i);
	}
	for (std::uint32_t i = 0; i < 2; i++) {
		call.end.read(memory.sge(0, 8), 0, 0x1234, writes + i);
		require(call.peer.hear_fpdu().has_value(), "a Read goes out; it gets no answer");
	}

	Words ring = rings_with(writes + 2, 1);

	require(ring[sq_consumed] == writes, "the Reads have not been given back");
	ring[sq_produced] = writes;
	/* A Read of the peer makes the kernel look at the ring. */
	call.peer.say(fpdu(ReadRequest{}.ulpdu()));

	auto heard = call.peer.hear_fpdu();

	if (heard && heard->opcode() == 2) /* the answer may come first */
		heard = call.peer.hear_fpdu();
	require(heard && heard->terminate() == Terminate{ 0, 0, 0 },
		"the stream ends, and nothing is sent again");
	for (std::uint32_t i = 0; i < 2; i++)
		expect_completion(call.end.send_cq(), IBV_WC_WR_FLUSH_ERR, writes + i);
	require(call.end.state() == IBV_QPS_ERR, "the QP is in error");
}

/* The kernel looks for a receive, asks for a doorbell, and looks again. The first look is made to
 * find the queue empty, as if the receive had been posted in between.
 */
void receive_in_the_last_moment(const std::string &address)
{
	Call call(address);
	Buffer memory(call.end.pd(), 4096);

	call.peer.say(fpdu(Tagged{}.ulpdu({})));
	for (std::uint64_t i = 1; i <= 2; i++)
		call.end.receive(memory.sge(0, 8), i);

	Words ring = rings_with(0, 2);
	cases::Told told("fail", "place_look");

	call.peer.say(fpdu(Untagged{}.ulpdu(octets_of(1, 8))));
	expect_completion(call.end.recv_cq(), IBV_WC_SUCCESS, 1);
	require(!(ring[rq_flags] & need_doorbell), "a receive is posted without a system call");
}

/* Writes, and waits for the completion. Neither half of the wr_id is 0, or on a big-endian machine the
 * completion queue would look like what rings_with() is to find.
 */
Words rings_after_a_write(Call &call, Buffer &memory)
{
	constexpr std::uint64_t wr_id = 1ull << 32 | 1;

	call.peer.say(fpdu(Tagged{}.ulpdu({})));
	call.end.write(memory.sge(0, 8), 0, 0x1234, wr_id);
	require(call.peer.hear_fpdu().has_value(), "a Write goes out");
	expect_completion(call.end.send_cq(), IBV_WC_SUCCESS, wr_id);
	return rings_with(1, 0);
}

/* A process that sees a completion may fill the slot of that request, so it must have come back by
 * then. The kernel tells of the slots of later, unsignalled requests at the end. It pauses between
 * the two.
 */
void slot_before_completion(const std::string &address)
{
	constexpr std::uint32_t signalled = 2, unsignalled = 3, all = 1 + signalled + unsignalled;
	Call call(address);
	Buffer memory(call.end.pd(), 64);
	ibv_sge sge = memory.sge(0, 8);
	ibv_send_wr requests[signalled + unsignalled] = {};
	Words ring = rings_after_a_write(call, memory);
	cases::Told told("pause", "retire 200");

	for (std::uint32_t i = 0; i < std::size(requests); i++) {
		requests[i].wr_id = 2 + i;
		requests[i].opcode = IBV_WR_RDMA_WRITE;
		requests[i].sg_list = &sge;
		requests[i].num_sge = 1;
		requests[i].send_flags = i < signalled ? IBV_SEND_SIGNALED : 0;
	}
	make_list(requests);

	std::jthread poster([&] { require(!call.end.post(requests[0]), "all are posted"); });

	for (std::uint32_t i = 0; i < signalled; i++)
		expect_completion(call.end.send_cq(), IBV_WC_SUCCESS, 2 + i);
	require(ring[sq_consumed] == 1 + signalled, "the slot comes back before the completion");
	poster.join();
	require(ring[sq_consumed] == all, "the other slots come back without completions");
}

/* The process overwrites the counter of slots that it may fill. A reset puts that right. */
void overwritten_count(const std::string &address)
{
	Call call(address);
	Buffer memory(call.end.pd(), 64);
	Words ring = rings_after_a_write(call, memory);

	ring[sq_consumed] = 1000;
	call.end.move_to(IBV_QPS_ERR);
	call.end.move_to(IBV_QPS_RESET);
	require(ring[sq_consumed] == 1, "the reset writes the counter");
}

/* The slot of a request that waits, by its wr_id. */
template <typename Slot>
volatile Slot &slot(Words ring, std::uint64_t wr_id)
{
	constexpr std::size_t step = 16, words = step / sizeof(std::uint32_t);

	for (std::size_t i = 0; i * step + sizeof(Slot) <= ring.size_bytes(); i++) {
		auto *here = reinterpret_cast<volatile Slot *>(&ring[i * words]);

		if (here->wr_id == wr_id)
			return *here;
	}
	fail("no slot has this wr_id");
}

constexpr std::uint64_t first = 0x51075107, second = 0x51075108; /* wr_ids */

/* The connection ends, and the peer is told that the fault is on this side. */
void expect_local_fault(Call &call)
{
	auto heard = call.peer.hear_fpdu();

	require(heard && heard->terminate() == Terminate{ 0, 0, 0 }, "the peer hears a Terminate");
	require(call.end.state() == IBV_QPS_ERR, "the QP is in error");
}

/* Nothing is sent before the peer's first FPDU, so there is time to rewrite the slot. */
void malformed_send(const std::string &address)
{
	constexpr std::uint8_t no_opcode = 10;
	Call call(address);
	Buffer memory(call.end.pd(), 64);

	call.end.send(memory.sge(0, 8), first);
	call.end.send(memory.sge(0, 8), second);
	slot<xiw_send_slot>(rings_with(2, 0), first).opcode = no_opcode;
	call.peer.say(fpdu(Tagged{}.ulpdu({})));
	expect_completion(call.end.send_cq(), IBV_WC_LOC_QP_OP_ERR, first);
	expect_completion(call.end.send_cq(), IBV_WC_WR_FLUSH_ERR, second);
	expect_local_fault(call);
}

void malformed_receive(const std::string &address)
{
	Call call(address);
	Buffer memory(call.end.pd(), 64);

	call.peer.say(fpdu(Tagged{}.ulpdu({})));
	call.end.receive(memory.sge(0, 8), first);
	call.end.receive(memory.sge(8, 8), second);
	slot<xiw_recv_slot>(rings_with(0, 2), first).num_sge = 1000;
	call.peer.say(fpdu(Untagged{}.ulpdu(octets_of(1, 8))));
	expect_local_fault(call);
	expect_completion(call.end.recv_cq(), IBV_WC_WR_FLUSH_ERR, second);
	expect_no_completion(call.end.recv_cq());
	require(memory.is_zero(), "nothing was placed");
}

/* Both begin with the count that the process writes: of what it has read, or posted. */
void impossible_counts(const std::string &address)
{
	constexpr std::uint32_t impossible = 1000;
	Device device(address);
	ibv_srq_attr attr = { 128, 0, 0 };
	{
		Cq cq = device.create_cq(64);

		the_rings([](Words) { return true; })[0] = impossible;
		require(ibv_resize_cq(cq.get(), 128) == EINVAL, "a completion queue stays");
	}
	Srq srq = device.create_srq(64);

	the_rings([](Words) { return true; })[0] = impossible;
	require(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR) == EINVAL, "an SRQ stays");
}

const cases::Case all[] = {
	{ "a counter that goes back sends nothing again", rolled_back },
	{ "a receive posted at the last moment leaves no request for a doorbell",
	  receive_in_the_last_moment },
	{ "a slot is given back before its completion can be seen", slot_before_completion },
	{ "a reset puts a count right that the process has overwritten", overwritten_count },
	{ "a send that no process can post completes in error and ends its connection",
	  malformed_send },
	{ "a receive that no process can post takes no message and ends its connection",
	  malformed_receive },
	{ "a queue with an impossible count is not resized", impossible_counts },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
