/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The kernel follows the rules of the rings (xiw-abi.h), even if the process does not. */
#include "cases.hpp"
#include "device.hpp"
#include "raw_peer.hpp"

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

const cases::Case all[] = {
	{ "a counter that goes back sends nothing again", rolled_back },
	{ "a receive posted at the last moment leaves no request for a doorbell",
	  receive_in_the_last_moment },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
