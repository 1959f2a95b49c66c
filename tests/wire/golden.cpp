/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Whole FPDUs and frames worked out by hand, which the device must send and accept. */
#include "stream.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <string_view>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

/* "00 1f | ab" gives three octets. */
Octets hex(std::string_view text)
{
	Octets octets;
	std::string digits;

	for (char c : text)
		if (std::isxdigit(static_cast<unsigned char>(c)))
			digits += c;
	for (std::size_t i = 0; i < digits.size(); i += 2)
		octets.push_back(
			static_cast<std::uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
	return octets;
}

/* This FPDU with another value in a field that the device chooses itself, and a new CRC. */
Octets with(const Octets &octets, std::size_t place, const Octets &field)
{
	Octets ulpdu = first(after(octets, 2), octets[0] << 8 | octets[1]);

	std::ranges::copy(field, ulpdu.begin() + static_cast<std::ptrdiff_t>(place));
	return fpdu(ulpdu);
}

const Octets write = hex("00 12 | c1 40 | 11 22 33 44 | 00 00 7f 00 12 34 56 78 | de ad be ef |"
			 "b3 b1 8a 6f");
const Octets send = hex("00 17 | 41 43 | 00 00 00 00 | 00 00 00 00 | 00 00 00 01 | 00 00 00 00 |"
			"68 65 6c 6c 6f | 00 00 00 | b9 90 b1 0c");
const Octets read_request =
	hex("00 2e | 41 41 | 00 00 00 00 | 00 00 00 01 | 00 00 00 01 | 00 00 00 00 |"
	    "aa bb cc 01 | 00 00 00 00 00 00 10 00 | 00 00 10 00 | 11 22 33 44 |"
	    "00 00 7f 00 12 34 56 78 | 59 06 73 90");
const Octets read_response = hex("00 12 | c1 42 | aa bb cc 01 | 00 00 00 00 00 00 10 00 |"
				 "01 02 03 04 | 0d 20 67 5e");
const Octets terminated_write =
	hex("00 26 | 41 47 | 00 00 00 00 | 00 00 00 02 | 00 00 00 01 | 00 00 00 00 |"
	    "11 00 c0 00 | 00 12 | c1 40 11 22 33 45 00 00 7f 00 12 34 56 78 | db 93 69 6c");
const Octets terminated_crc =
	hex("00 16 | 41 47 | 00 00 00 00 | 00 00 00 02 | 00 00 00 01 | 00 00 00 00 |"
	    "20 02 00 00 | 7f e4 25 85");
const Octets fetch_add =
	hex("00 46 | 41 4a | 00 00 00 00 | 00 00 00 01 | 00 00 00 02 | 00 00 00 00 |"
	    "00 00 00 00 | 00 00 00 07 | 11 22 33 44 | 00 00 7f 00 12 34 56 78 |"
	    "00 00 00 00 00 00 00 01 | 00 00 00 00 00 00 00 00 |"
	    "00 00 00 00 00 00 00 00 | ff ff ff ff ff ff ff ff | 73 03 61 3f");
const Octets atomic_response =
	hex("00 1e | 41 4b | 00 00 00 00 | 00 00 00 03 | 00 00 00 01 | 00 00 00 00 |"
	    "00 00 00 07 | 00 00 00 00 00 00 00 2a | 4d 18 ff fb");
const Octets compare_swap =
	hex("00 46 | 41 4a | 00 00 00 00 | 00 00 00 01 | 00 00 00 03 | 00 00 00 00 |"
	    "00 00 00 02 | 00 00 00 08 | 11 22 33 44 | 00 00 7f 00 12 34 56 78 |"
	    "00 00 00 00 00 00 00 05 | ff ff ff ff ff ff ff ff |"
	    "00 00 00 00 00 00 00 04 | ff ff ff ff ff ff ff ff | 0b 15 22 e4");
const Octets immediate_data = hex("00 1a | 41 48 | 00 00 00 00 | 00 00 00 00 | 00 00 00 02 |"
				  "00 00 00 00 | 00 00 00 00 00 00 00 01 | a1 a4 94 6c");
const Octets opening_write = hex("00 0e | c1 40 | 00 00 00 01 | 00 00 00 00 00 00 00 00 |"
				 "eb d3 4c 5f");
const Octets opening_read =
	hex("00 2e | 41 41 | 00 00 00 00 | 00 00 00 01 | 00 00 00 01 | 00 00 00 00 |"
	    "00 00 00 01 | 00 00 00 00 00 00 00 00 | 00 00 00 00 | 00 00 00 01 |"
	    "00 00 00 00 00 00 00 00 | 27 db d7 e7");
/* Other implementations use STag 0. */
const Octets others_opening_write = hex("00 0e | c1 40 | 00 00 00 00 | 00 00 00 00 00 00 00 00 |"
					"a3 05 72 ab");
const Octets others_opening_read =
	hex("00 2e | 41 41 | 00 00 00 00 | 00 00 00 01 | 00 00 00 01 | 00 00 00 00 |"
	    "00 00 00 00 | 00 00 00 00 00 00 00 00 | 00 00 00 00 | 00 00 00 00 |"
	    "00 00 00 00 00 00 00 00 | f2 c6 dd 3d");
const Octets opening_response = hex("00 0e | c1 42 | 00 00 00 01 | 00 00 00 00 00 00 00 00 |"
				    "21 a3 e8 3e");

/* The octets of STag and TO of a tagged header. */
Octets place_of(const Tagged &header)
{
	return be32(header.stag) + be64(header.offset);
}

void e1_write(const std::string &address, Role role)
{
	Stream stream(address, role);
	Octets data = hex("de ad be ef");

	std::ranges::copy(data, stream.memory().bytes().begin());
	stream.end().write(stream.memory().sge(0, 4), 0x00007f0012345678, 0x11223344, 1);
	require(stream.peer().hear(write.size()) == write, "the device sends this Write");
	stream.peer().say(with(write, 2, place_of(stream.application().write_to(8))));
	stream.expect_alive();
	require(Octets(stream.memory().bytes().begin() + 8, stream.memory().bytes().begin() + 12) ==
			data,
		"the device places it");
}

void e2_send(const std::string &address, Role role)
{
	Stream stream(address, role);
	Octets data = { 'h', 'e', 'l', 'l', 'o' };

	std::ranges::copy(data, stream.memory().bytes().begin());
	stream.end().send(stream.memory().sge(0, 5), 1);
	require(stream.peer().hear(send.size()) == send, "the device sends this Send");
	stream.end().receive(stream.memory().sge(8, 5), 2);
	stream.peer().say(send);
	require(expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 2).byte_len == 5,
		"the device delivers it");
}

void e3_read_request(const std::string &address, Role role)
{
	Stream stream(address, role, { .memory = 8192 });
	ibv_sge sink = stream.memory().sge(0, 4096);

	stream.end().read(sink, 0x00007f0012345678, 0x11223344, 1);
	require(stream.peer().hear(read_request.size()) ==
			with(read_request, 18, be32(sink.lkey) + be64(sink.addr)),
		"the device sends this Read Request");

	ReadRequest read = stream.application().read_from(0, 4096);

	stream.peer().say(
		with(read_request, 34, be32(read.source_stag) + be64(read.source_offset)));

	Fpdu heard = stream.hear();

	require(heard.stag() == 0xaabbcc01 && heard.tagged_offset() == 0x1000,
		"the device answers it");
}

void e4_read_response(const std::string &address, Role role)
{
	Stream stream(address, role);
	ReadRequest read = stream.application().read_from(0, 4);
	Octets data = { 1, 2, 3, 4 };

	read.sink_stag = 0xaabbcc01;
	std::ranges::copy(data, stream.memory().bytes().begin());
	stream.peer().say(fpdu(read.ulpdu()));
	require(stream.peer().hear(read_response.size()) == read_response,
		"the device sends this Read Response");

	stream.end().read(stream.memory().sge(8, 4), 0, 0x1234, 1);
	read = stream.hear().read_request();
	stream.peer().say(with(read_response, 2, be32(read.sink_stag) + be64(read.sink_offset)));
	expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, 1);
	require(stream.memory().bytes()[11] == 4, "the device places it");
}

void e5_terminated_write(const std::string &address, Role role)
{
	Stream stream(address, role);

	stream.peer().say(with(write, 2, be32(0x11223345)));
	require(stream.peer().hear(terminated_write.size()) == terminated_write,
		"the device sends this Terminate");
}

void e6_terminated_read(const std::string &address, Role role)
{
	Stream stream(address, role, { .access = IBV_ACCESS_LOCAL_WRITE });
	ReadRequest read = stream.application().read_from(0, 4096);
	Octets asked = with(read_request, 34, be32(read.source_stag) + be64(read.source_offset));

	stream.peer().say(asked);
	require(stream.peer().hear(76) ==
			fpdu(hex("41 47 00000000 00000002 00000001 00000000 01 02 e0 00") +
			     first(asked, 48)),
		"the device sends this Terminate");
}

void e7_terminated_crc(const std::string &address, Role role)
{
	Stream stream(address, role);
	Octets bad = write;

	bad.back() ^= 1;
	stream.peer().say(bad);
	require(stream.peer().hear(terminated_crc.size()) == terminated_crc,
		"the device sends this Terminate");
}

/* Posts an Atomic with the result to the first word of the application's memory. */
void post_atomic(Stream &stream, ibv_wr_opcode opcode, std::uint64_t compare_add,
		 std::uint64_t swap)
{
	ibv_sge sge = stream.memory().sge(0, 8);
	ibv_send_wr wr = signaled(opcode, sge);

	wr.wr.atomic = { 0x00007f0012345678, compare_add, swap, 0x11223344 };
	require(!stream.end().post(wr), "the request is taken");
}

/* The examples have MSN 2 and 3, so another request comes first. The device chooses identifiers. */
void e8_e9_e10_atomics(const std::string &address, Role role)
{
	Stream stream(address, role, { .access = Buffer::all_rights | IBV_ACCESS_REMOTE_ATOMIC });
	Octets target = place_of(stream.application().write_to(8));

	word(stream, 1) = 0x2a;
	stream.expect_alive();
	stream.peer().say(with(fetch_add, 26, target));
	require(stream.peer().hear(atomic_response.size()) == atomic_response,
		"the device sends this Atomic Response");
	require(word(stream, 1) == 0x2b, "it has added 1");
	word(stream, 1) = 4;
	stream.peer().say(with(compare_swap, 26, target));
	stream.hear();
	require(word(stream, 1) == 5, "it has replaced 4 by 5");

	stream.end().read(stream.memory().sge(8, 8), 0, 0x1234, 1);
	post_atomic(stream, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0);
	post_atomic(stream, IBV_WR_ATOMIC_CMP_AND_SWP, 4, 5);

	ReadRequest read = stream.hear().read_request();
	Fpdu add = stream.hear(), swap = stream.hear();

	require(add.octets == with(fetch_add, 22, first(after(add.ulpdu, 22), 4)),
		"the device sends this FetchAdd");
	require(swap.octets == with(compare_swap, 22, first(after(swap.ulpdu, 22), 4)),
		"the device sends this CmpSwap");
	stream.peer().say(fpdu(
		Tagged{ .rdmap = 0x42, .stag = read.sink_stag, .offset = read.sink_offset }.ulpdu(
			be64(0))));
	stream.peer().say(with(atomic_response, 18, first(after(add.ulpdu, 22), 4)));
	expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, 1);
	expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, 0);
	require(word(stream, 0) == 0x2a, "the device takes the Atomic Response");
}

/* The verbs only have the first 32 of the 64 bits. The device sends 1 in those. */
void e11_immediate_data(const std::string &address, Role role)
{
	Stream stream(address, role);
	ibv_send_wr wr = {};

	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.imm_data = htonl(1);
	stream.end().send(stream.memory().sge(0, 5), 1);
	require(!stream.end().post(wr), "the request is taken");
	stream.hear();
	stream.hear();
	require(stream.peer().hear(immediate_data.size()) ==
			with(immediate_data, 18, be32(1) + be32(0)),
		"the device sends this Immediate Data");

	stream.end().receive(stream.memory().sge(0, 8), 1);
	stream.end().receive(stream.memory().sge(0, 8), 2);
	stream.peer().say(fpdu(Untagged{}.ulpdu({})) + immediate_data);
	expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1);
	require(expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 2).opcode ==
			IBV_WC_RECV_RDMA_WITH_IMM,
		"the device delivers it");
}

/* A responder must take any STag and TO, which mean nothing here. xiw sends STag 1, because some
 * adapters refuse 0.
 */
void e12_opening_write(const std::string &address)
{
	for (const Octets &opening : { opening_write, others_opening_write }) {
		Stream called(address, Role::responder,
			      { .request = enhanced_request(peer_to_peer | 4, ready_write | 4),
				.open = false });

		called.peer().say(opening);
		expect_event(called.channel(), RDMA_CM_EVENT_ESTABLISHED);
	}

	Stream calling(address, Role::initiator, { .open = false });

	require(calling.peer().hear(opening_write.size()) == opening_write,
		"the device opens the stream with this Write");
}

void e13_opening_read(const std::string &address)
{
	for (const Octets &opening : { opening_read, others_opening_read }) {
		Stream called(address, Role::responder,
			      { .request = enhanced_request(peer_to_peer | 4, ready_read | 4),
				.open = false });

		called.peer().say(opening);
		expect_event(called.channel(), RDMA_CM_EVENT_ESTABLISHED);

		Fpdu answer = called.hear();

		require(answer.opcode() == 2, "the Read is answered");
		require(opening != opening_read || answer.octets == opening_response,
			"the device sends this Read Response");
	}

	Stream calling(
		address, Role::initiator,
		{ .reply = enhanced_reply(peer_to_peer | 4, ready_read | 4), .open = false });

	require(calling.peer().hear(opening_read.size()) == opening_read,
		"the device opens the stream with this Read");
	calling.peer().say(opening_response);
	calling.end().write(calling.memory().sge(0, 4), 0, 0x1234, 1);
	require(calling.hear().opcode() == 0, "the device takes the answer");
}

void m1_m2_enhanced_frames(const std::string &address)
{
	const Octets request = hex("4d 50 41 20 49 44 20 52 65 71 20 46 72 61 6d 65 | 50 02 00 06 |"
				   "80 10 c0 10 | 68 69");
	const Octets reply = hex("4d 50 41 20 49 44 20 52 65 70 20 46 72 61 6d 65 | 50 02 00 04 |"
				 "80 10 80 10");

	Setting rfc_only(device_setting("large_fpdus"), "0");
	Initiator calling(address, { .private_data = { 'h', 'i' } });
	Peer called = calling.accept();

	require(called.hear(request.size()) == request, "the device sends this Request");
	called.say(reply);
	expect_event(calling.channel(), RDMA_CM_EVENT_ESTABLISHED);

	Responder device(address);
	Peer peer(device.address());

	peer.say(request);
	require(device.take_request().private_data == Octets{ 'h', 'i' },
		"the device takes the Request");
	require(!device.accept(), "the application accepts");
	require(peer.hear(reply.size()) == reply, "the device sends this Reply");
}

void m3_plain_request(const std::string &address)
{
	const Octets request = hex("4d 50 41 20 49 44 20 52 65 71 20 46 72 61 6d 65 | 40 01 00 00");
	const Octets reply = hex("4d 50 41 20 49 44 20 52 65 70 20 46 72 61 6d 65 | 40 01 00 00");

	Responder device(address);
	Peer peer(device.address());

	peer.say(request);
	device.take_request();
	require(!device.accept(), "the application accepts");
	require(peer.hear(reply.size()) == reply, "the device sends this Reply");
}

const cases::Case all[] = {
	{ "E1 RDMA Write", in_both_roles<e1_write> },
	{ "E2 Send", in_both_roles<e2_send> },
	{ "E3 Read Request", in_both_roles<e3_read_request> },
	{ "E4 Read Response", in_both_roles<e4_read_response> },
	{ "E5 Terminate of a Write", in_both_roles<e5_terminated_write> },
	{ "E6 Terminate of a Read", in_both_roles<e6_terminated_read> },
	{ "E7 Terminate for a CRC", in_both_roles<e7_terminated_crc> },
	{ "E8 E9 E10 Atomic Requests and Responses", in_both_roles<e8_e9_e10_atomics> },
	{ "E11 Immediate Data", in_both_roles<e11_immediate_data> },
	{ "E12 a Write that opens a stream", e12_opening_write },
	{ "E13 a Read that opens a stream", e13_opening_read },
	{ "M1 M2 Request and Reply of revision 2", m1_m2_enhanced_frames },
	{ "M3 Request of revision 1", m3_plain_request },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
