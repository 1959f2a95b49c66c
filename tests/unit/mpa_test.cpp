// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* mpa_test.cpp - connection frames, octet by octet */

#include "mpa_frames.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <random>

namespace
{

TEST(xiw_mpa_parse, worked_examples)
{
	Parsed request = parse(frame::request);
	ASSERT_EQ(request.ret, 26);
	EXPECT_EQ(said(request.mpa), said(example_request));
	EXPECT_EQ(request.pd, octets("68 69"));

	Parsed reply = parse_reply(frame::reply);
	ASSERT_EQ(reply.ret, 24);
	EXPECT_EQ(said(reply.mpa), said(example_reply));

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
			EXPECT_EQ(got.mpa.large_fpdus,
				  reply ? (flags & 0x0c) == 0x0c : bool(flags & 0x08))
				<< flags;
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

TEST(xiw_mpa_parse, large_fpdus_are_known_in_any_frame)
{
	for (uint8_t revision : { 1, 2 }) {
		EXPECT_TRUE(parse(request(0x48, revision, 0)).mpa.large_fpdus);
		EXPECT_FALSE(parse(request(0x44, revision, 0)).mpa.large_fpdus);
		for (uint8_t rejects : { 0, 0x20 }) {
			auto large = [&](uint8_t flags) {
				return parse_reply(as_reply(request(flags | rejects, revision, 0)))
					.mpa.large_fpdus;
			};

			EXPECT_TRUE(large(0x4c));
			EXPECT_FALSE(large(0x48)) << "as siw sends it back";
			EXPECT_FALSE(large(0x44));
		}
	}
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
	xiw_mpa request = example_request;

	request.pd = hi.data();
	EXPECT_EQ(build(request), frame::request);
	EXPECT_EQ(build(example_reply), frame::reply);
	EXPECT_EQ(build({ .revision = 1, .crc = true }), frame::request_rev_1);
}

TEST(xiw_mpa_build, reject_is_said_by_a_reply_alone)
{
	EXPECT_EQ(build({ .revision = 1, .reject = true }), request(0x00, 1, 0));
	EXPECT_EQ(build({ .revision = 1, .reply = true, .reject = true }),
		  as_reply(request(0x20, 1, 0)));
}

TEST(xiw_mpa_build, large_fpdus_are_offered_by_one_flag_and_agreed_to_by_two)
{
	for (uint8_t revision : { 1, 2 }) {
		xiw_mpa mpa = { .revision = revision, .large_fpdus = true };

		EXPECT_EQ(build(mpa), request(0x08, revision, 0));
		mpa.reply = true;
		EXPECT_EQ(build(mpa), as_reply(request(0x0c, revision, 0)));
		mpa.reject = true;
		EXPECT_EQ(build(mpa), as_reply(request(0x2c, revision, 0)));
	}
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
				.large_fpdus = coin(),
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

} /* namespace */
