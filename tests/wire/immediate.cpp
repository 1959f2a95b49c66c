/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Immediate Data: RFC 7306 section 6. */
#include "stream.hpp"

#include <arpa/inet.h>

#include <format>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

/* An FPDU with Immediate Data, RFC 7306 section 6. The verbs use the first 32 of its 64 bits. */
Octets immediate(std::uint32_t msn, std::uint32_t value, std::uint8_t rdmap = 0x48)
{
	return fpdu(Untagged{ .rdmap = rdmap, .msn = msn }.ulpdu(be32(value) + be32(0)));
}

/* The peer sends these octets. They are answered with a Terminate, and the receive is not used. */
Fpdu expect_answer(const std::string &address, Role role, Terminate expected, const Octets &octets,
		   Where where = Where::current())
{
	Stream stream(address, role);

	stream.end().receive(stream.memory().sge(0, 64), 1);
	stream.peer().say(octets);

	Fpdu answer = stream.expect_terminate(expected, where);

	expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 1, where);
	return answer;
}

void reserved_fields(const std::string &address, Role role)
{
	Stream stream(address, role);

	stream.end().receive({ 0, 0, 0 }, 1);
	stream.peer().say(
		fpdu(Untagged{ .ddp = 0x41 | 0x3c, .rdmap = 0x48 | 0x30, .invalidate = ~0u }.ulpdu(
			be64(0))));
	expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1);
}

void terminated_header(const std::string &address, Role role)
{
	for (std::uint8_t rdmap : { 0x48, 0x49 }) {
		Octets said = Untagged{ .rdmap = rdmap }.ulpdu(Octets(9));
		Fpdu heard = expect_answer(address, role, { 0, 2, 255 }, fpdu(said));

		require(heard.field(20, 2) == 0xc000 && heard.field(22, 2) == said.size() &&
				after(heard.ulpdu, 24) == first(said, 18),
			"M, D, no R, the length and the DDP header of the message");
	}
}

void length_of_immediate_data(const std::string &address, Role role)
{
	for (std::size_t size : { 0, 4, 7, 9, 16 })
		for (std::uint8_t rdmap : { 0x48, 0x49 })
			expect_answer(address, role, { 0, 2, 255 },
				      fpdu(Untagged{ .rdmap = rdmap }.ulpdu(Octets(size))));
	/* It must be a single segment, on the queue of the Sends. */
	expect_answer(address, role, { 0, 2, 255 },
		      fpdu(Untagged{ .ddp = 0x01, .rdmap = 0x48 }.ulpdu(be64(0))));
	expect_answer(address, role, { 1, 2, 4 },
		      fpdu(Untagged{ .rdmap = 0x48, .offset = 8 }.ulpdu(be64(0))));
	expect_answer(address, role, { 1, 2, 1 },
		      fpdu(Untagged{ .rdmap = 0x48, .queue = 1 }.ulpdu(be64(0))));
}

void expect_immediate(Stream &stream, std::uint64_t wr_id, std::uint32_t length,
		      std::uint32_t value, Where where = Where::current())
{
	ibv_wc wc = expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, wr_id, where);

	require(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wc_flags == IBV_WC_WITH_IMM,
		"it is Immediate Data", where);
	require(wc.byte_len == length && ntohl(wc.imm_data) == value,
		std::format("the Write has {} octets, and the value is {:#x}", length, value),
		where);
}

void in_line_with_sends(const std::string &address, Role role)
{
	Stream stream(address, role);

	for (std::uint64_t i = 1; i <= 3; i++)
		stream.end().receive(stream.memory().sge(i * 64, 64), i);
	stream.peer().say(fpdu(Untagged{}.ulpdu(octets_of(1, 9, 64))) + immediate(2, 0x01020304) +
			  fpdu(Untagged{ .msn = 3 }.ulpdu(octets_of(1, 9, 192))));
	require(expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1).opcode == IBV_WC_RECV,
		"a Send");
	expect_immediate(stream, 2, 0, 0x01020304);
	require(expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 3).opcode == IBV_WC_RECV,
		"a Send");
	require(stream.memory().holds(1, 64, 9) && stream.memory().holds(1, 192, 9),
		"the Sends have their data");
	for (std::size_t i = 128; i < 192; i++)
		require(!stream.memory().bytes()[i], "Immediate Data is not placed");

	/* It has MSNs like Sends, and must not come within a Send. */
	expect_answer(address, role, { 1, 2, 3 }, immediate(2, 0));
	expect_answer(address, role, { 1, 2, 3 },
		      fpdu(Untagged{ .ddp = 0x01 }.ulpdu(octets_of(1, 8))) + immediate(1, 0));
}

/* A write with immediate is sent as a Write, then Immediate Data with an MSN like a Send. */
void said_in_line_with_sends(const std::string &address, Role role)
{
	Stream stream(address, role);
	ibv_sge sge = stream.memory().sge(0, 100);
	ibv_send_wr wr = {};

	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.imm_data = htonl(0x01020304);
	wr.wr.rdma = { 0, 0x1234 };
	stream.end().send(sge, 1);
	require(!stream.end().post(wr), "the request is taken");
	wr.send_flags = IBV_SEND_SOLICITED;
	require(!stream.end().post(wr), "the request is taken");
	stream.end().send(sge, 2);

	require(stream.hear().msn() == 1, "a Send");
	for (std::uint32_t msn : { 2u, 3u }) {
		Fpdu write = stream.hear();

		require(write.opcode() == 0 && write.payload().size() == 100, "a Write");
		require(stream.hear().octets == immediate(msn, 0x01020304, msn == 2 ? 0x48 : 0x49),
			"then Immediate Data");
	}
	require(stream.hear().msn() == 4, "a Send");
}

void solicited_event(const std::string &address, Role role)
{
	Stream stream(address, role, { .qp = { .notify = true } });
	ibv_cq *cq = stream.end().recv_cq();

	for (std::uint64_t i = 1; i <= 2; i++)
		stream.end().receive(stream.memory().sge(0, 8), i);
	require(!ibv_req_notify_cq(cq, 1), "the queue is armed for solicited events");
	stream.peer().say(immediate(1, 0));
	expect_immediate(stream, 1, 0, 0);
	require(!wait_readable(stream.end().channel()->fd, 100), "without SE no event comes");
	stream.peer().say(immediate(2, 0, 0x49));
	require(wait_readable(stream.end().channel()->fd, 10000), "with SE an event comes");
	expect_immediate(stream, 2, 0, 0);
}

void write_is_placed_before(const std::string &address, Role role)
{
	Stream stream(address, role);

	for (std::uint32_t i = 1; i <= 50; i++) {
		Tagged write = stream.application().write_to();

		write.ddp = 0x81;
		stream.end().receive(stream.memory().sge(3000, 8), i);
		stream.peer().say(
			fpdu(write.ulpdu(octets_of(i, 1000))) +
			fpdu(stream.application().write_to(1000).ulpdu(octets_of(i, 1000, 1000))) +
			immediate(i, i));
		expect_immediate(stream, i, 2000, i);
		require(stream.memory().holds(i, 0, 2000), "the data of the Write is there");
	}

	/* Immediate Data without a Write. */
	stream.end().receive(stream.memory().sge(3000, 8), 51);
	stream.peer().say(immediate(51, 51));
	expect_immediate(stream, 51, 0, 51);
}

void empty_receive(const std::string &address, Role role)
{
	Stream stream(address, role);
	ibv_recv_wr wr = {};

	wr.wr_id = 1;
	require(!stream.end().post(wr), "a receive without memory is taken");
	stream.peer().say(immediate(1, 0x01020304));
	expect_immediate(stream, 1, 0, 0x01020304);
	stream.expect_alive();
}

const cases::Case all[] = {
	{ "EXT-15 reserved fields of Immediate Data are ignored", in_both_roles<reserved_fields> },
	{ "EXT-16 a Terminate has the DDP header of Immediate Data",
	  in_both_roles<terminated_header> },
	{ "EXT-17 Immediate Data has 8 octets", in_both_roles<length_of_immediate_data> },
	{ "EXT-18 Immediate Data is taken in order with Sends", in_both_roles<in_line_with_sends> },
	{ "EXT-18 Immediate Data is sent in order with Sends",
	  in_both_roles<said_in_line_with_sends> },
	{ "EXT-18 Immediate Data with SE raises a solicited event",
	  in_both_roles<solicited_event> },
	{ "EXT-19 a Write is placed before its Immediate Data",
	  in_both_roles<write_is_placed_before> },
	{ "EXT-20 a receive without memory takes Immediate Data", in_both_roles<empty_receive> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
