/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Atomics that the device requests: RFC 7306 section 5. */
#include "atomics.hpp"

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

void requests_have_one_row(const std::string &address, Role role)
{
	Stream stream(address, role);

	post_atomic(stream, 0, 1, 1);
	stream.end().read(stream.memory().sge(0, 8), 0, 0x1234, 2);
	post_atomic(stream, 0, 2, 3);

	Fpdu one = hear_request(stream, 1);
	Fpdu two = stream.hear();
	Fpdu three = hear_request(stream, 3);

	require(two.opcode() == 1 && two.queue() == 1 && two.msn() == 2,
		"the Read is between the Atomics");
	require(one.field(22, 4) != three.field(22, 4), "the Atomics have different identifiers");

	ReadRequest read = two.read_request();

	stream.peer().say(
		fpdu(answer(one, 11)) +
		fpdu(Tagged{ .rdmap = 0x42, .stag = read.sink_stag, .offset = read.sink_offset }
			     .ulpdu(octets_of(1, 8))) +
		fpdu(answer(three, 13, response(2))));
	for (std::uint64_t i = 1; i <= 3; i++)
		expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, i);
	require(word(stream, 1) == 11 && word(stream, 2) == 13, "each has its own result");
}

void ord_is_for_both(const std::string &address, Role role)
{
	Stream stream(address, role, with_depth(3));

	for (std::uint64_t i = 1; i <= 2; i++) {
		post_atomic(stream, 0, i, 2 * i);
		stream.end().read(stream.memory().sge(64, 8), 0, 0x1234, 2 * i + 1);
	}

	Fpdu oldest = hear_request(stream, 1);

	require(stream.hear().opcode() == 1, "a Read Request comes");
	hear_request(stream, 3);
	require(stream.peer().hears_nothing(50), "three requests are outstanding");
	stream.peer().say(fpdu(answer(oldest, 5)));
	require(stream.hear().opcode() == 1, "a Response makes room for the next request");
}

void completes_when_answered(const std::string &address, Role role)
{
	Stream stream(address, role);

	post_atomic(stream, 0xabcd, 1, 1, IBV_WR_ATOMIC_CMP_AND_SWP);
	stream.end().send(stream.memory().sge(0, 8), 2);

	Fpdu request = hear_request(stream, 1);

	require(request.field(26, 4) == 0x1234 && request.field(30, 8) == 0xabcd,
		"it has the STag and the TO of the target");
	require(request.field(38, 8) == 0x1112131415161718 &&
			request.field(54, 8) == 0x0102030405060708,
		"it has the values to swap and to compare");
	require(stream.hear().opcode() == 3, "the Send is sent, too");
	expect_no_completion(stream.end().send_cq(), 100);
	stream.peer().say(fpdu(answer(request, 0x2122232425262728)));
	require(expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, 1).byte_len == 8,
		"the length is 8");
	expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, 2);
	require(word(stream, 1) == 0x2122232425262728, "the result has the host's byte order");
	require(word(stream, 0) == 0 && word(stream, 2) == 0, "only 8 bytes are written");
}

void wrong_responses(const std::string &address, Role role)
{
	auto refused = [&](Terminate expected, auto answer_to, Where where = Where::current()) {
		Stream stream(address, role);

		post_atomic(stream, 0, 1, 1);
		stream.peer().say(fpdu(answer_to(hear_request(stream, 1))));
		stream.expect_terminate(expected, where);
		expect_completion(stream.end().send_cq(), IBV_WC_WR_FLUSH_ERR, 1, where);
		require(stream.memory().is_zero(), "there is no result", where);
	};
	auto changed = [](auto change) {
		return [change](const Fpdu &request) {
			Untagged header = response();

			change(header);
			return answer(request, ones, header);
		};
	};

	refused({ 0, 2, 6 }, [](const Fpdu &request) {
		return response().ulpdu(be32(static_cast<std::uint32_t>(request.field(22, 4)) + 1) +
					be64(ones));
	});
	refused({ 1, 2, 3 }, changed([](Untagged &header) { header.msn = 0; }));
	refused({ 1, 2, 3 }, changed([](Untagged &header) { header.msn = 2; }));
	refused({ 1, 2, 4 }, changed([](Untagged &header) { header.offset = 4; }));
	refused({ 1, 2, 1 }, changed([](Untagged &header) { header.queue = 1; }));
	refused({ 0, 2, 255 }, changed([](Untagged &header) { header.ddp = 0x01; }));
	refused({ 0, 2, 255 },
		[](const Fpdu &request) { return answer(request, ones) + Octets(4); });
	refused({ 2, 0, 3 }, [](const Fpdu &request) {
		return first(answer(request, ones), response_size - 1);
	});
	/* A Read Response instead. */
	refused({ 0, 2, 6 },
		[](const Fpdu &) { return Tagged{ .rdmap = 0x42 }.ulpdu(octets_of(1, 8)); });
}

void responses_out_of_place(const std::string &address, Role role)
{
	Octets said = fpdu(response().ulpdu(be32(1) + be64(ones)));
	Stream unasked(address, role), reading(address, role);

	unasked.peer().say(said);
	unasked.expect_terminate({ 0, 2, 6 });

	reading.end().read(reading.memory().sge(0, 8), 0, 0x1234, 1);
	reading.hear();
	reading.peer().say(said);
	reading.expect_terminate({ 0, 2, 6 });
	require(reading.memory().is_zero(), "nothing is placed");
}

/* A Terminate for an unexpected opcode: RDMAP, remote operation error. */
Octets does_not_know(const Fpdu &fault)
{
	return fpdu(Untagged{ .rdmap = 0x47, .queue = 2 }.ulpdu(
		be32(0x0206c000) + be16(static_cast<std::uint16_t>(fault.ulpdu.size())) +
		first(fault.ulpdu, 18)));
}

void peer_without_atomics(const std::string &address, Role role)
{
	Stream naming(address, role);

	post_atomic(naming, 0, 1, 1);
	post_atomic(naming, 0, 2, 2);
	naming.peer().say(does_not_know(hear_request(naming, 1)));
	expect_completion(naming.end().send_cq(), IBV_WC_REM_INV_REQ_ERR, 1);
	expect_completion(naming.end().send_cq(), IBV_WC_WR_FLUSH_ERR, 2);
	naming.expect_disconnect();
	require(naming.memory().is_zero(), "there is no result");

	Stream silent(address, role);

	post_atomic(silent, 0, 1, 1);
	hear_request(silent, 1);
	silent.peer().say(fpdu(Untagged{ .rdmap = 0x47, .queue = 2 }.ulpdu(be32(0x02060000))));
	expect_completion(silent.end().send_cq(), IBV_WC_REM_OP_ERR, 1);
	silent.expect_disconnect();
}

const cases::Case all[] = {
	{ "EXT-02 Requests for Atomics and Reads have one sequence",
	  in_both_roles<requests_have_one_row> },
	{ "EXT-12 Reads and Atomics share the ORD", in_both_roles<ord_is_for_both> },
	{ "EXT-13 an Atomic completes when it is answered",
	  in_both_roles<completes_when_answered> },
	{ "EXT-14 a wrong Atomic Response is answered with a Terminate",
	  in_both_roles<wrong_responses> },
	{ "EXT-14 an Atomic Response out of place is answered with 0/2/6",
	  in_both_roles<responses_out_of_place> },
	{ "EXT-21 Atomics fail if the peer does not know them",
	  in_both_roles<peer_without_atomics> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
