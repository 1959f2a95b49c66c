/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Placement and delivery: RFC 5041. */
#include "stream.hpp"

#include <algorithm>
#include <array>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

/* The peer sends these octets. They are answered with a Terminate, and nothing is placed. */
void expect_answer(const std::string &address, Role role, Terminate expected, auto octets_for,
		   const Setup &setup = {}, Where where = Where::current())
{
	Stream stream(address, role, setup);

	stream.end().receive(stream.memory().sge(100, 10), 1);
	stream.expect_refusal(octets_for(stream), expected, where);
}

void expect_answer(const std::string &address, Role role, Terminate expected,
		   const Untagged &header, const Octets &payload, Where where = Where::current())
{
	expect_answer(
		address, role, expected, [&](Stream &) { return fpdu(header.ulpdu(payload)); }, {},
		where);
}

void version(const std::string &address, Role role)
{
	for (std::uint8_t version : { 0, 2, 3 }) {
		std::uint8_t ddp = 0x40 | version;

		expect_answer(address, role, { 1, 2, 6 }, { .ddp = ddp }, octets_of(1, 5));
		expect_answer(address, role, { 1, 1, 4 }, [version](Stream &stream) {
			Tagged write = stream.application().write_to();

			write.ddp = 0xc0 | version;
			return fpdu(write.ulpdu(octets_of(1, 5)));
		});
	}

	/* DDP-21 checks the version that the device sends. */
}

void reserved_bits(const std::string &address, Role role)
{
	Stream stream(address, role);
	Tagged write = stream.application().write_to();

	write.ddp |= 0x3c;
	stream.end().receive(stream.memory().sge(100, 10), 1);
	stream.peer().say(fpdu(write.ulpdu(octets_of(1, 9))));
	stream.peer().say(fpdu(Untagged{ .ddp = 0x41 | 0x3c }.ulpdu(octets_of(2, 9, 100))));
	expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1);
	require(stream.memory().holds(1, 0, 9) && stream.memory().holds(2, 100, 9),
		"both messages are taken as if the bits were zero");
}

void tagged_bit_against_opcode(const std::string &address, Role role)
{
	expect_answer(address, role, { 0, 2, 6 }, { .rdmap = 0x40 }, octets_of(1, 5));
	expect_answer(address, role, { 0, 2, 6 }, { .rdmap = 0x42 }, octets_of(1, 5));
	for (std::uint8_t opcode : { 1, 3, 4, 5, 6 })
		expect_answer(address, role, { 0, 2, 6 }, [opcode](Stream &stream) {
			Tagged header = stream.application().write_to();

			header.rdmap = 0x40 | opcode;
			return fpdu(header.ulpdu(octets_of(1, 28)));
		});
}

void last_segment_delivers(const std::string &address, Role role)
{
	Stream stream(address, role);

	stream.end().receive(stream.memory().sge(0, 10), 1);
	stream.peer().say(fpdu(Untagged{ .ddp = 0x01 }.ulpdu(octets_of(1, 5))));
	stream.expect_alive();
	require(stream.memory().holds(1, 0, 5), "the first segment is placed");
	expect_no_completion(stream.end().recv_cq(), 0);
	stream.peer().say(fpdu(Untagged{ .offset = 5 }.ulpdu(octets_of(1, 5, 5))));
	require(expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1).byte_len == 10,
		"the last one delivers");
}

/* A Read Request has a single segment, so L must be set. */
void read_request_without_last(const std::string &address, Role role)
{
	Stream stream(address, role);
	Octets ulpdu = stream.application().read_from(0, 8).ulpdu();

	ulpdu[0] = 0x01;
	stream.peer().say(fpdu(ulpdu));
	require(stream.peer().hear_terminate().has_value(), "it is answered with a Terminate");
	stream.expect_disconnect();
}

void queue_number(const std::string &address, Role role)
{
	for (std::uint32_t queue : { 4u, 0x80000000u, ~0u })
		expect_answer(address, role, { 1, 2, 1 }, { .queue = queue }, octets_of(1, 5));
	for (std::uint32_t queue : { 1, 2, 3 })
		expect_answer(address, role, { 1, 2, 1 }, { .queue = queue }, octets_of(1, 5));
	for (std::uint32_t queue : { 0, 2 })
		expect_answer(address, role, { 1, 2, 1 }, { .rdmap = 0x41, .queue = queue },
			      ReadRequest{}.octets());
}

void message_numbers(const std::string &address, Role role)
{
	for (std::uint32_t msn : { 0u, 2u, ~0u })
		expect_answer(address, role, { 1, 2, 3 }, { .msn = msn }, octets_of(1, 5));
	expect_answer(address, role, { 1, 2, 3 }, { .rdmap = 0x41, .queue = 1, .msn = 2 },
		      ReadRequest{}.octets());
	/* All segments of a message have the same number. */
	expect_answer(address, role, { 1, 2, 3 }, [](Stream &) {
		return fpdu(Untagged{ .ddp = 0x01 }.ulpdu({})) +
		       fpdu(Untagged{ .msn = 2 }.ulpdu(octets_of(1, 5)));
	});

	/* A repeated number. */
	Stream stream(address, role);

	for (std::uint64_t i = 1; i <= 3; i++) {
		stream.end().receive(stream.memory().sge(0, 10), i);
		stream.end().send(stream.memory().sge(100, 4), i);
		require(stream.hear().msn() == i, "the device counts from one");
	}
	stream.peer().say(fpdu(Untagged{}.ulpdu({})) + fpdu(Untagged{ .msn = 2 }.ulpdu({})) +
			  fpdu(Untagged{ .msn = 2 }.ulpdu(octets_of(1, 5))));
	stream.expect_terminate({ 1, 2, 3 });
	expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1);
	expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 2);
	expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 3);
}

void no_receive(const std::string &address, Role role)
{
	Stream stream(address, role);
	constexpr std::uint32_t receives = 3;
	Octets said;

	for (std::uint32_t i = 1; i <= receives; i++)
		stream.end().receive(stream.memory().sge(0, 10), i);
	for (std::uint32_t i = 1; i <= receives + 1; i++)
		said = said + fpdu(Untagged{ .msn = i }.ulpdu(octets_of(1, 5)));
	stream.peer().say(said);
	for (std::uint32_t i = 1; i <= receives; i++)
		expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, i);
	stream.expect_terminate({ 1, 2, 2 });
}

void message_offset(const std::string &address, Role role)
{
	for (std::uint32_t offset : { 11u, 0x80000000u, ~0u })
		expect_answer(address, role, { 1, 2, 4 }, { .offset = offset }, octets_of(1, 5));
	expect_answer(address, role, { 1, 2, 4 }, { .rdmap = 0x41, .queue = 1, .offset = 4 },
		      ReadRequest{}.octets());
}

/* completeness.cpp tests all other orders. */
void order_in_a_message(const std::string &address, Role role)
{
	Stream stream(address, role);
	auto segment = [](std::uint8_t ddp, std::uint32_t offset) {
		return fpdu(
			Untagged{ .ddp = ddp, .offset = offset }.ulpdu(octets_of(6, 100, offset)));
	};

	stream.end().receive(stream.memory().sge(0, 300), 1);
	stream.peer().say(segment(0x01, 0) + segment(0x01, 100) + segment(0x41, 200));
	require(expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1).byte_len == 300,
		"the length is that of the message");
	require(stream.memory().holds(6, 0, 300), "all data is in place");
}

void message_too_long(const std::string &address, Role role)
{
	expect_answer(address, role, { 1, 2, 5 }, {}, octets_of(1, 11));
	expect_answer(address, role, { 1, 2, 4 }, { .offset = 10 }, octets_of(1, 1));
	/* The sum would wrap in 32 bits. */
	expect_answer(address, role, { 1, 2, 4 }, { .offset = 0xfffffff0 }, octets_of(1, 32));

	/* Too long by one octet, in the second segment. */
	Stream longer(address, role), stream(address, role);

	longer.end().receive(longer.memory().sge(0, 10), 1);
	longer.peer().say(fpdu(Untagged{ .ddp = 0x01 }.ulpdu(octets_of(1, 9))) +
			  fpdu(Untagged{ .offset = 9 }.ulpdu(octets_of(1, 2))));
	longer.expect_terminate({ 1, 2, 5 });
	expect_completion(longer.end().recv_cq(), IBV_WC_LOC_LEN_ERR, 1);
	stream.end().receive(stream.memory().sge(0, 10), 1);
	stream.peer().say(fpdu(Untagged{}.ulpdu(octets_of(1, 10))));
	expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1);
}

void length_of_a_message(const std::string &address, Role role)
{
	Stream stream(address, role);
	std::uint32_t msn = 1;

	/* The last segment may be empty. */
	for (std::uint32_t tail : { 7u, 1u, 0u }) {
		stream.end().receive(stream.memory().sge(0, 300), msn);
		for (std::uint32_t offset : { 0, 100 })
			stream.peer().say(
				fpdu(Untagged{ .ddp = 0x01, .msn = msn, .offset = offset }.ulpdu(
					octets_of(msn, 100, offset))));
		stream.peer().say(fpdu(
			Untagged{ .msn = msn, .offset = 200 }.ulpdu(octets_of(msn, tail, 200))));
		require(expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, msn).byte_len ==
				200 + tail,
			"the length includes the last segment");
		require(stream.memory().holds(msn, 0, 200 + tail), "all data is there");
		msn++;
	}
}

void unknown_stag(const std::string &address, Role role)
{
	for (std::uint32_t change : { 1u, 0x100u, 0x80000000u })
		expect_answer(address, role, { 1, 1, 0 }, [change](Stream &stream) {
			Tagged write = stream.application().write_to();

			write.stag ^= change;
			return fpdu(write.ulpdu(octets_of(1, 5)));
		});
	expect_answer(address, role, { 1, 1, 0 }, [](Stream &stream) {
		Buffer gone(stream.end().pd(), 100);

		return fpdu(Tagged{ .stag = gone.mr()->rkey, .offset = gone.address() }.ulpdu(
			octets_of(1, 5)));
	});
}

void bounds(const std::string &address, Role role)
{
	struct {
		std::int64_t offset;
		std::size_t size;
	} beyond[] = { { -1, 1 }, { -1, 2 }, { 1000, 1 }, { 999, 2 }, { 0, 1001 }, { 1 << 20, 1 } };

	for (auto [offset, size] : beyond)
		expect_answer(address, role, { 1, 1, 1 },
			      [offset, size](Stream &stream) {
				      auto at = static_cast<std::uint64_t>(offset);

				      return fpdu(stream.application().write_to(at).ulpdu(
					      octets_of(1, size)));
			      },
			      { .memory = 1000 });

	Stream stream(address, role, { .memory = 1000 });

	stream.peer().say(fpdu(stream.application().write_to(1).ulpdu(octets_of(1, 998, 1))));
	stream.peer().say(fpdu(stream.application().write_to(999).ulpdu(octets_of(1, 1, 999))));
	stream.peer().say(fpdu(stream.application().write_to(0).ulpdu(octets_of(1, 1))));
	stream.expect_alive();
	require(stream.memory().holds(1, 0, 1000), "data that fits exactly is placed");
}

void other_protection_domain(const std::string &address, Role role)
{
	Stream other(address, role);

	expect_answer(address, role, { 1, 1, 2 }, [&other](Stream &) {
		return fpdu(other.application().write_to().ulpdu(octets_of(1, 5)));
	});
	require(other.memory().is_zero(), "nothing is placed in the other memory");
	other.expect_alive();
}

void wrapping_offset(const std::string &address, Role role)
{
	for (std::uint64_t offset : { 0xfffffffffffffff8, 0xffffffffffffffff })
		expect_answer(address, role, { 1, 1, 3 }, [offset](Stream &stream) {
			Tagged write = stream.application().write_to();

			write.offset = offset;
			return fpdu(write.ulpdu(octets_of(1, 16)));
		});
}

void empty_tagged_segments(const std::string &address, Role role)
{
	Stream stream(address, role);

	for (std::uint32_t stag : { 0u, 0x12345678u, ~0u })
		for (std::uint64_t offset : { std::uint64_t{ 0 }, ~std::uint64_t{ 0 } })
			stream.peer().say(fpdu(Tagged{ .stag = stag, .offset = offset }.ulpdu({})));
	stream.expect_alive();

	stream.end().read({ 0, 0, 0 }, 0, 0, 1);
	require(stream.hear().read_request().size == 0, "an empty Read Request comes");
	stream.peer().say(
		fpdu(Tagged{ .rdmap = 0x42, .stag = 0x87654321, .offset = 99 }.ulpdu({})));
	expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, 1);
}

/* This holds for a Write only. A Read Response must be in order: see RDP-18. */
void any_order_of_tagged_segments(const std::string &address, Role role)
{
	Stream stream(address, role);
	Tagged low = stream.application().write_to(0), high = stream.application().write_to(200);

	high.ddp = 0x81;
	stream.peer().say(fpdu(high.ulpdu(octets_of(1, 200, 200))) +
			  fpdu(low.ulpdu(octets_of(1, 200))));
	stream.expect_alive();
	require(stream.memory().holds(1, 0, 400), "both are placed");
}

void placed_before_delivered(const std::string &address, Role role)
{
	Stream stream(address, role, { .memory = 1 << 17 });
	constexpr std::size_t size = 60000;

	for (std::uint32_t i = 1; i <= 30; i++) {
		stream.end().receive(stream.memory().sge(100000, 10), i);
		stream.peer().say(fpdu(stream.application().write_to().ulpdu(octets_of(i, size))) +
				  fpdu(Untagged{ .msn = i }.ulpdu({})));
		expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, i);
		require(stream.memory().holds(i, 0, size), "the Write is placed before the Send");
	}
	expect_no_completion(stream.end().recv_cq(), 0);
}

void silence_after_an_error(const std::string &address, Role role)
{
	Stream stream(address, role);
	Tagged bad = stream.application().write_to();
	Octets said;

	bad.stag ^= 1;
	said = fpdu(bad.ulpdu(octets_of(1, 5)));
	for (std::uint64_t i = 0; i < 100; i++)
		said = said + fpdu(stream.application().write_to(i * 8).ulpdu(octets_of(1, 8)));
	stream.expect_refusal(said, { 1, 1, 0 }); /* no other Write is placed */
}

/* A message of the device, composed from its segments. */
struct Message {
	Octets data;
	std::vector<std::size_t> payloads;
	std::vector<std::size_t> fpdus; /* sizes, with length, pad and CRC */
};

Message hear_message(Stream &stream, bool is_tagged, std::uint32_t stag_or_msn, std::uint64_t start)
{
	Message message;
	bool is_last = false;

	while (!is_last) {
		Fpdu heard = stream.hear();
		Octets payload = heard.payload();
		std::uint64_t offset = start + message.data.size();

		is_last = heard.is_last();
		require(heard.is_tagged() == is_tagged, "the tagged bit fits the opcode");
		require((heard.ulpdu[0] & 0x3f) == 1 && (heard.ulpdu[1] & 0xf0) == 0x40,
			"versions are 1, reserved bits zero");
		if (is_tagged)
			require(heard.stag() == stag_or_msn && heard.tagged_offset() == offset,
				"STag and TO are right");
		else
			require(!heard.invalidate() && !heard.queue() &&
					heard.msn() == stag_or_msn &&
					heard.message_offset() == offset,
				"QN, MSN and MO are right");
		message.data = message.data + payload;
		message.payloads.push_back(payload.size());
		message.fpdus.push_back(heard.octets.size());
	}
	return message;
}

void segments_of_the_sender(const std::string &address, Role role)
{
	constexpr std::uint32_t large = 1 << 20;
	constexpr std::uint64_t to = 0x00007ffffffffff1;
	Stream stream(address, role, { .segment_size = 1460, .memory = large });
	std::uint32_t msn = 1;
	auto check = [&](std::uint32_t size) {
		std::size_t segments = 0;

		for (bool is_tagged : { false, true }) {
			if (is_tagged)
				stream.end().write(stream.memory().sge(0, size), to, 0x1234, 1);
			else
				stream.end().send(stream.memory().sge(0, size), 1);

			Message message = hear_message(stream, is_tagged, is_tagged ? 0x1234 : msn,
						       is_tagged ? to : 0);

			require(message.data == octets_of(8, size), "the message is whole");
			require(size == 0 || std::ranges::min(message.payloads) > 0,
				"only an empty message has an empty segment");
			expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, 1);
			if (!is_tagged)
				segments = message.payloads.size();
			msn += !is_tagged;
		}
		return segments;
	};

	stream.memory().fill(8);
	require(check(0) == 1, "an empty message has one segment");
	check(1);
	require(check(large) > large / 1460, "a large one has many segments");
	/* Around the longest Send that fits into one segment, with time stamps and without. */
	for (std::uint32_t mulpdu : { 1460 - 6, 1448 - 6 })
		for (std::uint32_t size : { mulpdu - 19, mulpdu - 18, mulpdu - 17 })
			check(size);
}

/* True if no FPDU of this sequence crosses the end of a TCP segment of this size. */
bool fill_segments(const std::vector<std::size_t> &fpdus, std::size_t segment)
{
	std::size_t at = 0;

	for (std::size_t len : fpdus) {
		if (at % segment + len > segment)
			return false;
		at += len;
	}
	return true;
}

/* Posts messages of many sizes in one call. Returns whether each full segment ends with an FPDU. */
bool post_together(const std::string &address, Role role)
{
	constexpr std::array<std::uint32_t, 8> sizes = { 512, 64, 1000, 1424, 37, 2000, 512, 4096 };
	constexpr std::size_t messages = 64;
	constexpr std::uint64_t to = 0x7fffffff0;
	Stream stream(address, role, { .segment_size = 1460 });
	bool filled = true;

	stream.memory().fill(8);
	for (bool is_tagged : { false, true }) {
		std::array<ibv_send_wr, messages> requests = {};
		std::array<ibv_sge, messages> from;
		std::vector<std::size_t> fpdus;

		for (std::size_t i = 0; i < messages; i++) {
			from[i] = stream.memory().sge(0, sizes[i % sizes.size()]);
			requests[i].wr_id = i;
			requests[i].sg_list = &from[i];
			requests[i].num_sge = 1;
			requests[i].opcode = is_tagged ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
			requests[i].send_flags = IBV_SEND_SIGNALED;
			requests[i].wr.rdma = { .remote_addr = to, .rkey = 0x1234 };
		}
		make_list(requests);
		require(!stream.end().post(requests[0]), "a list of requests is posted");
		for (std::size_t i = 0; i < messages; i++) {
			Message message = hear_message(
				stream, is_tagged, is_tagged ? 0x1234 : i + 1, is_tagged ? to : 0);

			require(message.data == octets_of(8, from[i].length),
				"each message is whole");
			require(std::ranges::min(message.payloads) > 0, "no segment is empty");
			fpdus.insert(fpdus.end(), message.fpdus.begin(), message.fpdus.end());
			expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, i);
		}
		/* A full segment has 1448 octets with time stamps, 1460 without. */
		filled = filled && (fill_segments(fpdus, 1448) || fill_segments(fpdus, 1460));
	}
	return filled;
}

/*
 * Requests posted by one call go out in full TCP segments; the device splits messages to fill them.
 * But if the posting thread loses its CPU, a worker may send the requests posted so far. On a busy
 * machine this happens in every other try.
 */
void messages_posted_together(const std::string &address, Role role)
{
	constexpr int tries = 30;
	int failed = 0;

	while (failed < tries && !post_together(address, role))
		failed++;
	require(failed < tries, "no FPDU crosses the end of a full segment");
}

/* Offsets have 64 bits. Here the lower 32 bits wrap. */
void offsets_of_64_bits(const std::string &address, Role role)
{
	Stream stream(address, role, { .memory = 100000 });
	constexpr std::uint64_t base = 0x1fffff000;
	Mr mr(ibv_reg_mr_iova(stream.end().pd(), stream.memory().bytes().data(), 100000, base,
			      Buffer::all_rights));

	require(mr != nullptr, "memory can be registered across 4 GiB");
	stream.peer().say(
		fpdu(Tagged{ .stag = mr->rkey, .offset = base }.ulpdu(octets_of(1, 50000))));

	ReadRequest read = { .sink_offset = 0x2ffffffff,
			     .size = 50000,
			     .source_stag = mr->rkey,
			     .source_offset = base };
	Octets answer;

	stream.peer().say(fpdu(read.ulpdu()));
	while (answer.size() < 50000) {
		Fpdu heard = stream.hear();

		require(heard.tagged_offset() == 0x2ffffffff + answer.size(), "the TO is right");
		answer = answer + heard.payload();
	}
	require(answer == octets_of(1, 50000), "the data is read back");

	/* Lengths have 32 bits, and the sum of offset and length must not wrap. */
	read.size = ~0u;
	stream.peer().say(fpdu(read.ulpdu(2)));
	stream.expect_terminate({ 0, 1, 1 });
}

const cases::Case all[] = {
	{ "DDP-01 other versions are answered with their codes", in_both_roles<version> },
	{ "DDP-02 reserved bits are ignored", in_both_roles<reserved_bits> },
	{ "DDP-03 the tagged bit has to fit the opcode", in_both_roles<tagged_bit_against_opcode> },
	{ "DDP-04 the last segment delivers a message", in_both_roles<last_segment_delivers> },
	{ "DDP-04 a Read Request without L is not answered",
	  in_both_roles<read_request_without_last> },
	{ "DDP-05 wrong queues are answered with 1/2/1", in_both_roles<queue_number> },
	{ "DDP-06 messages are numbered from 1, without gap or repeat",
	  in_both_roles<message_numbers> },
	{ "DDP-08 a Send without a receive is answered with 1/2/2", in_both_roles<no_receive> },
	{ "DDP-09 an MO beyond the buffer is answered with 1/2/4", in_both_roles<message_offset> },
	{ "DDP-10 segments of a message come in order", in_both_roles<order_in_a_message> },
	{ "DDP-11 a message too long is answered with 1/2/5", in_both_roles<message_too_long> },
	{ "DDP-12 the last segment tells the length of a message",
	  in_both_roles<length_of_a_message> },
	{ "DDP-13 an unknown STag is answered with 1/1/0", in_both_roles<unknown_stag> },
	{ "DDP-14 bounds are exact to the octet", in_both_roles<bounds> },
	{ "DDP-15 an STag of another PD is answered with 1/1/2",
	  in_both_roles<other_protection_domain> },
	{ "DDP-16 a range that wraps is answered with 1/1/3", in_both_roles<wrapping_offset> },
	{ "DDP-17 an empty tagged segment may name any STag",
	  in_both_roles<empty_tagged_segments> },
	{ "DDP-18 segments of a Write may come in any order",
	  in_both_roles<any_order_of_tagged_segments> },
	{ "DDP-19 what was placed before is there at delivery",
	  in_both_roles<placed_before_delivered> },
	{ "DDP-20 after an error nothing is placed, and one Terminate sent",
	  in_both_roles<silence_after_an_error> },
	{ "DDP-21 segments of the device fit together", in_both_roles<segments_of_the_sender> },
	{ "DDP-21 messages posted together are whole, and fill segments",
	  in_both_roles<messages_posted_together> },
	{ "DDP-22 tagged offsets have 64 bits", in_both_roles<offsets_of_64_bits> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
