// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* mpa_negotiation_test.cpp - what two ends agree on by their connection frames */

#include "mpa_frames.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <span>
#include <string>
#include <vector>

namespace
{

/* The settings of the responder's consumer and device. */
struct Responder {
	bool crc = true, large_fpdus = true;
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
	const xiw_mpa_offer offer = { .crc = we.crc,
				      .large_fpdus = we.large_fpdus,
				      .ird = we.ird,
				      .ord = we.ord,
				      .max_ird = we.max_ird };

	EXPECT_EQ(got.ret, int(request.size()));
	out.ret = xiw_mpa_answer(&out.reply, &out.terms, &got.mpa, &offer);
	return out;
}

TEST(xiw_mpa_answer, worked_example)
{
	Answer got = answer(frame::request, { .ird = 16, .ord = 16 });

	EXPECT_EQ(got.ret, 0);
	EXPECT_EQ(build(got.reply), frame::reply);
	EXPECT_EQ(agreed(got.terms), agreed(example_terms));
}

TEST(xiw_mpa_answer, plain_request_gets_a_plain_reply)
{
	for (uint8_t revision : { 1, 2 }) {
		Answer got = answer(request(0x67, revision, 2, octets("61 62")));

		EXPECT_EQ(got.ret, 0);
		EXPECT_EQ(build(got.reply), as_reply(request(0x40, revision, 0)));
		EXPECT_EQ(agreed(got.terms), agreed({ .crc = true, .ird = 8, .ord = 8 }));
	}
	/* In revision 1 the first four octets of private data are the ULP's own. */
	EXPECT_EQ(build(answer(request(0x57, 1, 4, octets("ff ff ff ff"))).reply),
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

/* In both revisions: siw sends 0x08 with either. */
TEST(xiw_mpa_answer, large_fpdus_if_both_want_them)
{
	for (bool theirs : { false, true })
		for (bool ours : { false, true })
			for (uint8_t revision : { 1, 2 }) {
				uint8_t flags = theirs ? 0x48 : 0x40;
				Answer got = answer(request(flags, revision, 0),
						    { .large_fpdus = ours });

				EXPECT_EQ(got.ret, 0);
				EXPECT_EQ(got.terms.tx_large_fpdus, theirs && ours);
				EXPECT_EQ(build(got.reply),
					  as_reply(request(theirs && ours ? 0x4c : 0x40, revision,
							   0)));
			}
}

/* The other flag is that of a Reply. In a Request it is reserved. */
TEST(xiw_mpa_answer, large_fpdus_are_offered_by_one_flag)
{
	EXPECT_FALSE(answer(request(0x44, 1, 0)).terms.tx_large_fpdus);
	EXPECT_EQ(build(answer(request(0x44, 1, 0)).reply), as_reply(request(0x40, 1, 0)));
	EXPECT_TRUE(answer(request(0x4c, 1, 0)).terms.tx_large_fpdus);
}

/* The initiator may send large FPDUs, because the Reply asks for no markers. */
TEST(xiw_mpa_answer, large_fpdus_are_not_sent_with_markers)
{
	Answer got = answer(request(0xc8, 1, 0));

	EXPECT_TRUE(got.terms.tx_markers);
	EXPECT_FALSE(got.terms.tx_large_fpdus);
	EXPECT_EQ(build(got.reply), as_reply(request(0x4c, 1, 0)));
}

TEST(xiw_mpa_answer, large_fpdus_are_answered_in_a_rejection)
{
	Answer got = answer(request(0x58, 2, 4, octets("00 02 00 81")));

	EXPECT_EQ(got.ret, -EMSGSIZE);
	got.reply.reject = true;
	EXPECT_EQ(build(got.reply), as_reply(request(0x7c, 2, 4, octets("00 80 00 02"))));
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
		EXPECT_EQ(agreed(got.terms), agreed({ .crc = true,
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
	EXPECT_EQ(agreed(got.terms), agreed(example_terms));
}

TEST(xiw_mpa_conclude, plain_frames_leave_ird_and_ord_alone)
{
	const xiw_mpa sent = { .revision = 1, .crc = true, .ird = 5, .ord = 7 };
	Parsed got = parse_reply(as_reply(request(0x80, 1, 0)));
	xiw_mpa_terms terms;

	ASSERT_EQ(xiw_mpa_conclude(&terms, &sent, &got.mpa, 128), 0);
	EXPECT_EQ(agreed(terms), agreed({ .crc = true, .tx_markers = true, .ird = 5, .ord = 7 }));
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

/* Flags of a Request and of its Reply, and whether large FPDUs may be sent. */
struct LargeFlags {
	uint8_t request, reply;
	bool large;
};

TEST(xiw_mpa_conclude, large_fpdus_if_both_want_them)
{
	const LargeFlags cases[] = {
		{ 0x48, 0x4c, true },
		{ 0x48, 0x40, false },
		{ 0x40, 0x40, false },
		/* siw sends the flags of the Request back, and does not mean them */
		{ 0x48, 0x48, false },
		{ 0x48, 0x44, false },
		/* what was not offered cannot be agreed to */
		{ 0x40, 0x4c, false },
		{ 0x44, 0x4c, false },
		/* each FPDU starts in a segment of its own if the responder wants markers */
		{ 0x48, 0xcc, false },
		/* our markers are those of the other direction */
		{ 0xc8, 0x4c, true },
	};

	for (const LargeFlags &c : cases)
		for (uint8_t revision : { 1, 2 }) {
			Conclusion got = conclude(request(c.request, revision, 0),
						  request(c.reply, revision, 0));

			EXPECT_EQ(got.ret, 0);
			EXPECT_EQ(got.terms.tx_large_fpdus, c.large)
				<< std::hex << int(c.request) << ' ' << int(c.reply);
		}
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
		EXPECT_EQ(agreed(got.terms),
			  agreed({ .crc = true, .rtr = c.rtr, .ird = c.ird, .ord = c.ord }));
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
	const xiw_mpa_offer offer = { .ird = our_ird, .ord = our_ord, .max_ird = 128 };
	int ret = xiw_mpa_answer(&reply, &responder, &request, &offer);

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
