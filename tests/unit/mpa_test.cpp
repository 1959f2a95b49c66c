// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* mpa_test.cpp - connection frames, octet by octet, and their negotiation */

/* The header comes first, to test that it compiles alone. */
extern "C" {
#include "wire/mpa.h"
}

#include <gtest/gtest.h>

#include <cerrno>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include "octets.hpp"

namespace
{

const Octets request_key = slice(frame::request, 0, 16);
const Octets reply_key = slice(frame::reply, 0, 16);
const uint16_t open_value = 0x3fff; /* IRD or ORD that is not negotiated */

/* All fields of a frame except its private data, and all agreed terms, for comparison. */
auto said(const xiw_mpa &mpa)
{
	return std::tuple(mpa.revision, mpa.reply, mpa.markers, mpa.crc, mpa.reject, mpa.enhanced,
			  mpa.p2p, mpa.rtr, mpa.ird, mpa.ord, mpa.pd_len);
}

auto agreed(const xiw_mpa_terms &terms)
{
	return std::tuple(terms.revision, terms.crc, terms.tx_markers, terms.rtr, terms.ird,
			  terms.ord);
}

struct Parsed {
	int ret;
	xiw_mpa mpa;
	Octets pd;
};

/* ASan reports any access beyond the octets of @frame. */
Parsed parse(const Octets &frame, bool reply = false)
{
	Parsed out = {};
	ExactCopy copy(frame);

	memset(&out.mpa, 0xaa, sizeof(out.mpa));
	out.ret = xiw_mpa_parse(&out.mpa, copy.get(), frame.size(), reply);
	if (out.ret > 0)
		out.pd.assign(out.mpa.pd, out.mpa.pd + out.mpa.pd_len);
	return out;
}

Parsed parse_reply(const Octets &frame)
{
	return parse(frame, true);
}

/* A Request with these header fields behind the key, and private data. */
Octets request(uint8_t flags, uint8_t revision, uint16_t pd_length, const Octets &pd = {})
{
	return request_key +
	       Octets{ flags, revision, uint8_t(pd_length >> 8), uint8_t(pd_length) } + pd;
}

/* Turns a Request into a Reply. */
Octets as_reply(Octets frame)
{
	std::ranges::copy(reply_key, frame.begin());
	return frame;
}

/* A Request of revision 2 with only the enhanced block. */
Octets enhanced(const char *block)
{
	return request(0x50, 2, 4, octets(block));
}

std::pair<int, Octets> try_build(const xiw_mpa &mpa)
{
	auto room = std::make_unique<uint8_t[]>(XIW_MPA_FRAME_MAX);
	int ret = xiw_mpa_build(room.get(), &mpa);

	return { ret, Octets(&room[0], &room[0] + std::max(ret, 0)) };
}

Octets build(const xiw_mpa &mpa)
{
	return try_build(mpa).second;
}

TEST(xiw_mpa_parse, worked_examples)
{
	Parsed request = parse(frame::request);
	ASSERT_EQ(request.ret, 26);
	EXPECT_EQ(said(request.mpa), said({ .revision = 2,
					    .crc = true,
					    .enhanced = true,
					    .p2p = true,
					    .rtr = XIW_RTR_WRITE | XIW_RTR_READ,
					    .ird = 16,
					    .ord = 16,
					    .pd_len = 2 }));
	EXPECT_EQ(request.pd, octets("68 69"));

	Parsed reply = parse_reply(frame::reply);
	ASSERT_EQ(reply.ret, 24);
	EXPECT_EQ(said(reply.mpa), said({ .revision = 2,
					  .reply = true,
					  .crc = true,
					  .enhanced = true,
					  .p2p = true,
					  .rtr = XIW_RTR_WRITE,
					  .ird = 16,
					  .ord = 16 }));

	Parsed plain = parse(frame::request_rev_1);
	ASSERT_EQ(plain.ret, 20);
	EXPECT_EQ(said(plain.mpa),
		  said({ .revision = 1, .crc = true, .ird = open_value, .ord = open_value }));
}

TEST(xiw_mpa_parse, every_prefix_asks_for_more)
{
	for (const Octets &whole : { frame::request, frame::request_rev_1 })
		for (size_t len = 0; len < whole.size(); len++)
			ASSERT_EQ(parse(slice(whole, 0, len)).ret, 0) << len;
	for (size_t len = 0; len < frame::reply.size(); len++)
		ASSERT_EQ(parse_reply(slice(frame::reply, 0, len)).ret, 0) << len;
}

TEST(xiw_mpa_parse, octets_after_the_frame_are_not_its_own)
{
	EXPECT_EQ(parse(frame::request_rev_1 + octets("00 12 c1 40")).ret, 20);
	EXPECT_EQ(parse(frame::request + octets("00")).ret, 26);
}

TEST(xiw_mpa_parse, wrong_key_is_refused_with_its_first_wrong_octet)
{
	for (size_t i = 0; i < 16; i++) {
		for (unsigned int bit = 0; bit < 8; bit++) {
			Octets bad = frame::request;

			bad[i] ^= 1 << bit;
			EXPECT_EQ(parse(slice(bad, 0, i)).ret, 0) << i;
			EXPECT_EQ(parse(slice(bad, 0, i + 1)).ret, -EPROTO) << i;
			EXPECT_EQ(parse(bad).ret, -EPROTO) << i;
		}
	}
}

TEST(xiw_mpa_parse, request_and_reply_are_not_taken_for_each_other)
{
	EXPECT_EQ(parse_reply(frame::request).ret, -EPROTO);
	EXPECT_EQ(parse(frame::reply).ret, -EPROTO);
}

TEST(xiw_mpa_parse, revisions)
{
	for (unsigned int revision = 0; revision < 256; revision++) {
		Octets frame = request(0x40, revision, 0);
		bool known = revision == 1 || revision == 2;

		EXPECT_EQ(parse(frame).ret, known ? 20 : -EPROTO) << revision;
		EXPECT_EQ(parse_reply(as_reply(frame)).ret, known ? 20 : -EPROTO) << revision;
		EXPECT_EQ(parse(slice(frame, 0, 17)).ret, 0) << revision;
		EXPECT_EQ(parse(slice(frame, 0, 18)).ret, known ? 0 : -EPROTO) << revision;
	}
}

TEST(xiw_mpa_parse, private_data_of_any_length)
{
	Octets pd(512);

	std::ranges::generate(pd, [octet = 0]() mutable { return octet++; });
	for (size_t len = 0; len <= 512; len++) {
		Octets frame = request(0x40, 1, len, slice(pd, 0, len));
		Parsed got = parse(frame);

		ASSERT_EQ(got.ret, 20 + int(len));
		ASSERT_EQ(got.pd, slice(pd, 0, len)) << len;
		ASSERT_EQ(parse(slice(frame, 0, 19 + len)).ret, 0) << len;
	}
}

TEST(xiw_mpa_parse, private_data_too_long_is_not_waited_for)
{
	for (unsigned int len = 513; len <= UINT16_MAX; len++) {
		ASSERT_EQ(parse(request(0x40, 1, len)).ret, -EPROTO) << len;
		ASSERT_EQ(parse(request(0x50, 2, len)).ret, -EPROTO) << len;
	}
}

TEST(xiw_mpa_parse, flags_are_told_apart)
{
	for (unsigned int flags = 0; flags < 256; flags++) {
		for (bool reply : { false, true }) {
			Octets frame = request(flags, 2, 4, octets("00 01 00 02"));
			Parsed got = parse(reply ? as_reply(frame) : frame, reply);

			ASSERT_EQ(got.ret, 24) << flags;
			EXPECT_EQ(got.mpa.markers, bool(flags & 0x80)) << flags;
			EXPECT_EQ(got.mpa.crc, bool(flags & 0x40)) << flags;
			EXPECT_EQ(got.mpa.reject, reply && flags & 0x20) << flags;
			EXPECT_EQ(got.mpa.enhanced, bool(flags & 0x10)) << flags;
			EXPECT_EQ(got.mpa.pd_len, flags & 0x10 ? 0 : 4) << flags;
			EXPECT_EQ(got.mpa.ird, flags & 0x10 ? 1 : open_value) << flags;
		}
	}
}

TEST(xiw_mpa_parse, revision_1_is_never_enhanced)
{
	Parsed got = parse(request(0x50, 1, 4, octets("80 10 c0 10")));

	ASSERT_EQ(got.ret, 24);
	EXPECT_FALSE(got.mpa.enhanced);
	EXPECT_FALSE(got.mpa.p2p);
	EXPECT_EQ(got.pd, octets("80 10 c0 10"));
	EXPECT_EQ(parse(request(0x50, 1, 0)).ret, 20);
}

TEST(xiw_mpa_parse, enhanced_block_must_fit_the_private_data)
{
	for (unsigned int len = 0; len < 4; len++) {
		Octets frame = request(0x50, 2, len, Octets(len));

		EXPECT_EQ(parse(frame).ret, -EPROTO) << len;
		EXPECT_EQ(parse(slice(frame, 0, 20)).ret, -EPROTO) << len;
		EXPECT_EQ(parse_reply(as_reply(frame)).ret, -EPROTO) << len;
	}
	EXPECT_EQ(parse(request(0x50, 2, 4, Octets(4))).ret, 24);
	EXPECT_EQ(parse(request(0x50, 2, 512, Octets(512))).mpa.pd_len, 508);
}

TEST(xiw_mpa_parse, flags_do_not_leak_into_ird_and_ord)
{
	for (unsigned int flags = 0; flags < 16; flags++) {
		bool a = flags & 8, b = flags & 4, c = flags & 2, d = flags & 1;
		Octets block = octets("20 01 10 02");

		block[0] |= a << 7 | b << 6;
		block[2] |= c << 7 | d << 6;
		Parsed got = parse(request(0x50, 2, 4, block));

		ASSERT_EQ(got.ret, 24);
		EXPECT_EQ(got.mpa.ird, 0x2001) << flags;
		EXPECT_EQ(got.mpa.ord, 0x1002) << flags;
		EXPECT_EQ(got.mpa.p2p, a) << flags;
		EXPECT_EQ(got.mpa.rtr, !a ? 0
					  : (b ? XIW_RTR_SEND : 0) | (c ? XIW_RTR_WRITE : 0) |
						       (d ? XIW_RTR_READ : 0))
			<< flags;
	}
}

/* Random frames, often cut off. ASan stops the test if the parser reads beyond the end. */
TEST(xiw_mpa_parse, reads_only_what_has_come)
{
	std::mt19937 random(5044);
	unsigned int complete = 0, refused = 0;

	for (int i = 0; i < 1000000; i++) {
		bool reply = random() % 2;
		Octets frame = reply ? frame::reply : frame::request;

		frame.resize(random() % 40);
		for (int faults = random() % 4; faults > 0 && frame.size() > 16; faults--)
			frame[16 + random() % (frame.size() - 16)] = random();
		Parsed got = parse(frame, reply);

		ASSERT_LE(got.ret, int(frame.size()));
		if (got.ret > 0) {
			ASSERT_EQ(got.ret, 20 + 4 * got.mpa.enhanced + got.mpa.pd_len);
			complete++;
		}
		refused += got.ret < 0;
	}
	EXPECT_GT(complete, 10000u); /* enough frames reached the last check */
	EXPECT_GT(refused, 10000u);
}

TEST(xiw_mpa_wants, header_then_private_data)
{
	auto wants = [](const Octets &frame) {
		ExactCopy copy(frame);
		return xiw_mpa_wants(copy.get(), frame.size());
	};

	for (size_t len = 0; len <= 26; len++)
		EXPECT_EQ(wants(slice(frame::request, 0, len)), len < 20 ? 20u : 26u) << len;
	EXPECT_EQ(wants(frame::request_rev_1), 20u);
	EXPECT_EQ(wants(request(0, 1, 512)), 532u);
	EXPECT_EQ(wants(request(0, 1, 513)), 532u);
	EXPECT_EQ(wants(request(0, 1, UINT16_MAX)), 532u);
}

TEST(xiw_mpa_build, worked_examples)
{
	const Octets hi = octets("68 69");

	EXPECT_EQ(build({ .revision = 2,
			  .crc = true,
			  .enhanced = true,
			  .p2p = true,
			  .rtr = XIW_RTR_WRITE | XIW_RTR_READ,
			  .ird = 16,
			  .ord = 16,
			  .pd_len = 2,
			  .pd = hi.data() }),
		  frame::request);
	EXPECT_EQ(build({ .revision = 2,
			  .reply = true,
			  .crc = true,
			  .enhanced = true,
			  .p2p = true,
			  .rtr = XIW_RTR_WRITE,
			  .ird = 16,
			  .ord = 16 }),
		  frame::reply);
	EXPECT_EQ(build({ .revision = 1, .crc = true }), frame::request_rev_1);
}

TEST(xiw_mpa_build, reject_is_said_by_a_reply_alone)
{
	EXPECT_EQ(build({ .revision = 1, .reject = true }), request(0x00, 1, 0));
	EXPECT_EQ(build({ .revision = 1, .reply = true, .reject = true }),
		  as_reply(request(0x20, 1, 0)));
}

TEST(xiw_mpa_build, client_server_model_has_no_rtr)
{
	EXPECT_EQ(build({ .revision = 2,
			  .crc = true,
			  .enhanced = true,
			  .rtr = XIW_RTR_SEND | XIW_RTR_WRITE | XIW_RTR_READ,
			  .ird = 1,
			  .ord = 2 }),
		  enhanced("00 01 00 02"));
}

TEST(xiw_mpa_build, private_data_limits)
{
	const Octets pd(513);
	auto len = [&pd](bool enhanced, uint16_t pd_len) {
		return try_build({ .revision = 2,
				   .enhanced = enhanced,
				   .pd_len = pd_len,
				   .pd = pd.data() })
			.first;
	};

	EXPECT_EQ(len(false, 512), 532);
	EXPECT_EQ(len(false, 513), -EINVAL);
	EXPECT_EQ(len(true, 508), 532);
	EXPECT_EQ(len(true, 509), -EINVAL);
	EXPECT_EQ(len(false, UINT16_MAX), -EINVAL);
	EXPECT_EQ(len(true, 255), 279);
}

TEST(xiw_mpa_build, ird_and_ord_must_fit)
{
	EXPECT_EQ(build({ .revision = 2,
			  .crc = true,
			  .enhanced = true,
			  .ird = open_value,
			  .ord = 0x3ffe }),
		  enhanced("3f ff 3f fe"));
	EXPECT_EQ(try_build({ .revision = 2, .enhanced = true, .ird = 0x4000 }).first, -EINVAL);
	EXPECT_EQ(try_build({ .revision = 2, .enhanced = true, .ord = 0x4000 }).first, -EINVAL);
}

TEST(xiw_mpa_build, parse_reads_it_back)
{
	std::mt19937 random(6581);
	auto coin = [&random] { return random() % 2 != 0; };

	for (int i = 0; i < 100000; i++) {
		Octets pd(random() % 40);
		std::ranges::generate(pd, std::ref(random));
		xiw_mpa mpa = { .revision = uint8_t(1 + coin()),
				.reply = coin(),
				.markers = coin(),
				.crc = coin(),
				.ird = open_value,
				.ord = open_value,
				.pd_len = uint16_t(pd.size()),
				.pd = pd.data() };
		mpa.reject = mpa.reply && coin();
		mpa.enhanced = mpa.revision == 2 && coin();
		if (mpa.enhanced) {
			mpa.p2p = coin();
			mpa.rtr = mpa.p2p ? random() % 8 : 0;
			mpa.ird = random() % 0x4000;
			mpa.ord = random() % 0x4000;
		}
		Octets frame = build(mpa);
		Parsed got = parse(frame, mpa.reply);

		ASSERT_EQ(got.ret, int(frame.size()));
		ASSERT_EQ(got.pd, pd);
		ASSERT_EQ(said(got.mpa), said(mpa));
	}
}

/* The settings of the responder's consumer and device. */
struct Responder {
	bool crc = true;
	uint16_t ird = 8, ord = 8, max_ird = 128;
};

struct Answer {
	int ret;
	xiw_mpa reply;
	xiw_mpa_terms terms;
};

Answer answer(const Octets &request, const Responder &we = {})
{
	Answer out;
	Parsed got = parse(request);

	EXPECT_EQ(got.ret, int(request.size()));
	out.ret = xiw_mpa_answer(&out.reply, &out.terms, &got.mpa, we.crc, we.ird, we.ord,
				 we.max_ird);
	return out;
}

TEST(xiw_mpa_answer, worked_example)
{
	Answer got = answer(frame::request, { .ird = 16, .ord = 16 });

	EXPECT_EQ(got.ret, 0);
	EXPECT_EQ(build(got.reply), frame::reply);
	EXPECT_EQ(
		agreed(got.terms),
		agreed({ .revision = 2, .crc = true, .rtr = XIW_RTR_WRITE, .ird = 16, .ord = 16 }));
}

TEST(xiw_mpa_answer, plain_request_gets_a_plain_reply)
{
	for (uint8_t revision : { 1, 2 }) {
		Answer got = answer(request(0x6f, revision, 2, octets("61 62")));

		EXPECT_EQ(got.ret, 0);
		EXPECT_EQ(build(got.reply), as_reply(request(0x40, revision, 0)));
		EXPECT_EQ(agreed(got.terms),
			  agreed({ .revision = revision, .crc = true, .ird = 8, .ord = 8 }));
	}
	/* In revision 1 the first four octets of private data are the ULP's own. */
	EXPECT_EQ(build(answer(request(0x5f, 1, 4, octets("ff ff ff ff"))).reply),
		  as_reply(request(0x40, 1, 0)));
}

TEST(xiw_mpa_answer, crc_if_either_wants_it)
{
	for (bool theirs : { false, true })
		for (bool ours : { false, true }) {
			Answer got = answer(request(theirs ? 0x40 : 0, 1, 0), { .crc = ours });

			EXPECT_EQ(got.reply.crc, theirs || ours);
			EXPECT_EQ(got.terms.crc, theirs || ours);
		}
}

TEST(xiw_mpa_answer, markers_are_sent_on_request_and_never_wanted)
{
	Answer got = answer(request(0xc0, 1, 0));

	EXPECT_TRUE(got.terms.tx_markers);
	EXPECT_FALSE(got.reply.markers);
	EXPECT_FALSE(answer(request(0x40, 1, 0)).terms.tx_markers);
}

/* The enhanced block of a Request, that of the Reply, and the resulting terms. */
struct Negotiation {
	const char *request;
	uint16_t ird, ord; /* the consumer's */
	const char *reply;
	uint16_t terms_ird, terms_ord;
	uint8_t rtr;
};

void expect_answers(std::span<const Negotiation> cases)
{
	for (const Negotiation &c : cases) {
		SCOPED_TRACE(c.request);
		Answer got = answer(enhanced(c.request), { .ird = c.ird, .ord = c.ord });

		EXPECT_EQ(got.ret, 0);
		EXPECT_EQ(build(got.reply), as_reply(enhanced(c.reply)));
		EXPECT_EQ(agreed(got.terms), agreed({ .revision = 2,
						      .crc = true,
						      .rtr = c.rtr,
						      .ird = c.terms_ird,
						      .ord = c.terms_ord }));
	}
}

TEST(xiw_mpa_answer, ird_and_ord)
{
	const Negotiation cases[] = {
		/* ORD shrinks to the initiator's IRD */
		{ "00 02 00 04", 8, 16, "00 08 00 02", 8, 2, 0 },
		{ "00 00 00 00", 8, 16, "00 08 00 00", 8, 0, 0 },
		{ "00 20 00 04", 8, 16, "00 08 00 10", 8, 16, 0 },
		/* IRD grows to the initiator's ORD, up to the device's 128 */
		{ "00 04 00 09", 8, 4, "00 09 00 04", 9, 4, 0 },
		{ "00 04 00 80", 0, 4, "00 80 00 04", 128, 4, 0 },
		/* a value that the initiator leaves open stays open, and ours is kept */
		{ "3f ff 00 04", 8, 16, "00 08 3f ff", 8, 16, 0 },
		{ "00 02 3f ff", 8, 16, "3f ff 00 02", 8, 2, 0 },
		{ "3f ff 3f ff", 8, 16, "3f ff 3f ff", 8, 16, 0 },
		/* the largest valid IRD is a number like any other */
		{ "3f fe 00 04", 8, 16, "00 08 00 10", 8, 16, 0 },
	};

	expect_answers(cases);
}

TEST(xiw_mpa_answer, more_reads_than_the_device_takes_are_rejected)
{
	for (const char *block : { "00 02 00 81", "00 02 13 88", "00 02 3f fe" }) {
		SCOPED_TRACE(block);
		Answer got = answer(enhanced(block));

		EXPECT_EQ(got.ret, -EMSGSIZE);
		got.reply.reject = true;
		EXPECT_EQ(build(got.reply), as_reply(request(0x70, 2, 4, octets("00 80 00 02"))));
	}
}

TEST(xiw_mpa_answer, rtr)
{
	const Negotiation cases[] = {
		/* client-server: the other flags mean nothing */
		{ "40 04 c0 04", 8, 8, "00 08 00 04", 8, 4, 0 },
		/* Write before Read */
		{ "c0 04 c0 04", 8, 8, "80 08 80 04", 8, 4, XIW_RTR_WRITE },
		{ "80 04 80 04", 8, 8, "80 08 80 04", 8, 4, XIW_RTR_WRITE },
		{ "80 04 40 04", 8, 8, "80 08 40 04", 8, 4, XIW_RTR_READ },
		{ "c0 04 40 04", 8, 8, "80 08 40 04", 8, 4, XIW_RTR_READ },
		/* one must be offered even if the initiator cannot send it */
		{ "c0 04 00 04", 8, 8, "80 08 80 04", 8, 4, XIW_RTR_WRITE },
		{ "80 04 00 04", 8, 8, "80 08 80 04", 8, 4, XIW_RTR_WRITE },
		/* a Read needs room for one */
		{ "80 04 40 00", 0, 8, "80 01 40 04", 1, 4, XIW_RTR_READ },
		{ "80 04 7f ff", 0, 8, "bf ff 40 04", 1, 4, XIW_RTR_READ },
		{ "80 04 80 00", 0, 8, "80 00 80 04", 0, 4, XIW_RTR_WRITE },
	};

	expect_answers(cases);
}

struct Conclusion {
	int ret;
	xiw_mpa_terms terms;
};

Conclusion conclude(const Octets &request, const Octets &reply, uint16_t max_ird = 128)
{
	Conclusion out;
	Parsed sent = parse(request), got = parse_reply(as_reply(reply));

	EXPECT_EQ(sent.ret, int(request.size()));
	EXPECT_EQ(got.ret, int(reply.size()));
	out.ret = xiw_mpa_conclude(&out.terms, &sent.mpa, &got.mpa, max_ird);
	return out;
}

TEST(xiw_mpa_conclude, worked_example)
{
	Conclusion got = conclude(frame::request, frame::reply);

	EXPECT_EQ(got.ret, 0);
	EXPECT_EQ(
		agreed(got.terms),
		agreed({ .revision = 2, .crc = true, .rtr = XIW_RTR_WRITE, .ird = 16, .ord = 16 }));
}

TEST(xiw_mpa_conclude, plain_frames_leave_ird_and_ord_alone)
{
	const xiw_mpa sent = { .revision = 1, .crc = true, .ird = 5, .ord = 7 };
	Parsed got = parse_reply(as_reply(request(0x80, 1, 0)));
	xiw_mpa_terms terms;

	ASSERT_EQ(xiw_mpa_conclude(&terms, &sent, &got.mpa, 128), 0);
	EXPECT_EQ(agreed(terms),
		  agreed({ .revision = 1, .crc = true, .tx_markers = true, .ird = 5, .ord = 7 }));
}

TEST(xiw_mpa_conclude, crc_if_either_wants_it)
{
	for (bool theirs : { false, true })
		for (bool ours : { false, true })
			EXPECT_EQ(conclude(request(ours ? 0x40 : 0, 1, 0),
					   request(theirs ? 0x40 : 0, 1, 0))
					  .terms.crc,
				  theirs || ours);
}

TEST(xiw_mpa_conclude, reply_must_belong_to_the_request)
{
	const Octets rev_1 = request(0x40, 1, 0), rev_2 = request(0x40, 2, 0);
	const Octets block = enhanced("00 04 00 04"), p2p = enhanced("80 04 80 04");

	EXPECT_EQ(conclude(rev_1, rev_2).ret, -EPROTO);
	EXPECT_EQ(conclude(rev_2, rev_1).ret, -EPROTO);
	EXPECT_EQ(conclude(rev_2, block).ret, -EPROTO);
	EXPECT_EQ(conclude(block, rev_2).ret, -EPROTO);
	EXPECT_EQ(conclude(block, rev_1).ret, -EPROTO);
	EXPECT_EQ(conclude(block, p2p).ret, -EPROTO);
	EXPECT_EQ(conclude(rev_1, rev_1).ret, 0);
	EXPECT_EQ(conclude(rev_2, rev_2).ret, 0);
	EXPECT_EQ(conclude(block, block).ret, 0);
	EXPECT_EQ(conclude(p2p, p2p).ret, 0);
}

/* The enhanced blocks of a Request and its Reply, the result, and the terms if that is 0. */
struct Outcome {
	const char *request, *reply;
	int ret;
	uint16_t ird, ord;
	uint8_t rtr;
};

void expect_outcomes(std::span<const Outcome> cases)
{
	for (const Outcome &c : cases) {
		SCOPED_TRACE(std::string(c.request) + " / " + c.reply);
		Conclusion got = conclude(enhanced(c.request), enhanced(c.reply));

		EXPECT_EQ(got.ret, c.ret);
		if (got.ret != 0)
			continue;
		EXPECT_EQ(agreed(got.terms), agreed({ .revision = 2,
						      .crc = true,
						      .rtr = c.rtr,
						      .ird = c.ird,
						      .ord = c.ord }));
	}
}

TEST(xiw_mpa_conclude, ird_and_ord)
{
	const Outcome cases[] = {
		/* ORD shrinks to the responder's IRD */
		{ "00 04 00 08", "00 02 00 04", 0, 4, 2 },
		{ "00 04 00 08", "00 00 00 04", 0, 4, 0 },
		{ "00 04 00 08", "00 20 00 04", 0, 4, 8 },
		{ "00 04 00 08", "3f fe 00 04", 0, 4, 8 },
		/* IRD grows to the responder's ORD, up to the device's 128 */
		{ "00 01 00 08", "00 08 00 05", 0, 5, 8 },
		{ "00 01 00 08", "00 08 00 80", 0, 128, 8 },
		{ "00 01 00 08", "00 08 00 81", -EMSGSIZE },
		{ "00 01 00 08", "00 08 13 88", -EMSGSIZE },
		{ "00 01 00 08", "00 08 3f fe", -EMSGSIZE },
		/* values that the responder leaves open stay as requested */
		{ "00 04 00 08", "3f ff 3f ff", 0, 4, 8 },
		/* values that were left open stay open */
		{ "3f ff 3f ff", "3f ff 3f ff", 0, open_value, open_value },
		{ "3f ff 00 08", "00 08 3f ff", 0, open_value, 8 },
	};

	expect_outcomes(cases);
}

TEST(xiw_mpa_conclude, rtr)
{
	const Outcome cases[] = {
		/* of the types that both name: Write, then Read, then Send */
		{ "80 04 c0 04", "80 04 c0 04", 0, 4, 4, XIW_RTR_WRITE },
		{ "80 04 c0 04", "80 04 80 04", 0, 4, 4, XIW_RTR_WRITE },
		{ "80 04 c0 04", "80 04 40 04", 0, 4, 4, XIW_RTR_READ },
		{ "80 04 40 04", "c0 04 c0 04", 0, 4, 4, XIW_RTR_READ },
		{ "c0 04 00 04", "c0 04 00 04", 0, 4, 4, XIW_RTR_SEND },
		{ "80 04 c0 04", "c0 04 00 04", -EOPNOTSUPP },
		{ "80 04 80 04", "80 04 40 04", -EOPNOTSUPP },
		{ "80 04 c0 04", "80 04 00 04", -EOPNOTSUPP },
		/* a responder that does not know the peer-to-peer model */
		{ "80 04 c0 04", "00 04 00 04", -EOPNOTSUPP },
		/* one Read may be outstanding if the RTR is a Read */
		{ "80 04 40 00", "80 01 40 00", 0, 4, 1, XIW_RTR_READ },
		{ "80 04 80 00", "80 01 80 00", 0, 4, 0, XIW_RTR_WRITE },
		/* client-server: the other flags mean nothing */
		{ "00 04 00 04", "40 04 c0 04", 0, 4, 4 },
	};

	expect_outcomes(cases);
}

/* Negotiates with our own code at both ends. The device takes 128 Reads. */
void expect_agreement(const xiw_mpa &request, uint16_t our_ird, uint16_t our_ord)
{
	xiw_mpa_terms responder, initiator;
	xiw_mpa reply;
	int ret = xiw_mpa_answer(&reply, &responder, &request, false, our_ird, our_ord, 128);

	ASSERT_EQ(ret, request.ord > 128 && request.ord != open_value ? -EMSGSIZE : 0);
	ASSERT_EQ(reply.ird == open_value, request.ord == open_value);
	ASSERT_EQ(reply.ord == open_value, request.ird == open_value);
	ASSERT_LE(responder.ird, 128);
	ASSERT_GE(responder.ird, our_ird);
	ASSERT_LE(responder.ord, our_ord);
	if (ret)
		return;

	ret = xiw_mpa_conclude(&initiator, &request, &reply, 128);
	ASSERT_EQ(ret, request.p2p && !(request.rtr & ~XIW_RTR_SEND) ? -EOPNOTSUPP : 0);
	if (ret)
		return;
	ASSERT_EQ(initiator.rtr, responder.rtr);
	ASSERT_EQ(initiator.crc, responder.crc);
	ASSERT_EQ(initiator.ird, request.ird);
	ASSERT_LE(responder.ord, initiator.ird);
	ASSERT_TRUE(initiator.ord <= responder.ird || request.ord == open_value);
}

TEST(xiw_mpa_conclude, each_read_has_its_place_at_the_other_end)
{
	const uint16_t values[] = { 0, 1, 2, 16, 127, 128, 129, 5000, 0x3ffe, open_value };
	std::vector<xiw_mpa> requests;

	for (uint16_t ird : values)
		for (uint16_t ord : values)
			for (unsigned int p2p_rtr = 0; p2p_rtr < 16; p2p_rtr++)
				requests.push_back({ .revision = 2,
						     .crc = true,
						     .enhanced = true,
						     .p2p = p2p_rtr >= 8,
						     .rtr = uint8_t(p2p_rtr & 7),
						     .ird = ird,
						     .ord = ord });

	for (const xiw_mpa &request : requests) {
		for (uint16_t our_ird : { 0, 1, 16, 128 }) {
			for (uint16_t our_ord : { 0, 1, 16, 0x3ffe }) {
				expect_agreement(request, our_ird, our_ord);
				ASSERT_FALSE(HasFatalFailure())
					<< "IRD " << request.ird << " ORD " << request.ord
					<< " peer-to-peer " << request.p2p << " RTR "
					<< int(request.rtr) << " ours " << our_ird << ' '
					<< our_ord;
			}
		}
	}
}

} /* namespace */
