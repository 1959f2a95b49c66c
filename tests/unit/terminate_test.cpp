// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* terminate_test.cpp - the Terminate for each cause, octet by octet */

/* The header comes first, to test that it compiles alone. */
extern "C" {
#include <asm/byteorder.h>
#include "wire/terminate.h"
}

#include <gtest/gtest.h>

#include <cerrno>
#include <random>
#include <set>
#include <string>

#include "octets.hpp"

namespace
{

/* The ULPDU of a Terminate. It is built in a buffer on the heap that has the maximum size. */
Octets terminate(xiw_cause cause, const Octets &fault = {})
{
	auto room = std::make_unique<uint8_t[]>(XIW_TERMINATE_MAX);
	ExactCopy copy(
		std::span<const uint8_t>(fault).first(std::min(fault.size(), sizeof(xiw_headers))));
	unsigned int len = xiw_terminate_build(room.get(), cause,
					       fault.empty() ? nullptr : copy.as<xiw_headers>());

	EXPECT_LE(len, unsigned(XIW_TERMINATE_MAX));
	return Octets(&room[0], &room[len]);
}

/* Layer and type, code, and the flags for the repeated headers. */
Octets verdict(xiw_cause cause, const Octets &fault)
{
	return slice(terminate(cause, fault), 18, 22);
}

/* An FPDU without its length, pad and CRC. */
Octets ulpdu_of(const Octets &fpdu)
{
	return slice(fpdu, 2, 2 + fpdu[0] * 256 + fpdu[1]);
}

/* The start of an FPDU whose ULPDU has only @ulpdu_len octets. */
Octets cut(Octets fpdu, size_t ulpdu_len)
{
	fpdu.resize(2 + ulpdu_len);
	fpdu[0] = ulpdu_len >> 8;
	fpdu[1] = ulpdu_len;
	return fpdu;
}

struct Row {
	xiw_cause cause;
	const char *on_write, *on_send, *on_read_request;
};

/* RFC 5040 figure 10: M and D for errors of DDP and remote errors of RDMAP, R only for protection
 * errors of a Read Request, none of them for errors of MPA and local errors.
 */
const Row rows[] = {
	{ XIW_BAD_CRC, "20 02 00 00", "20 02 00 00", "20 02 00 00" },
	{ XIW_BAD_FPDU_LENGTH, "20 03 00 00", "20 03 00 00", "20 03 00 00" },
	{ XIW_BAD_IRD, "20 06 00 00", "20 06 00 00", "20 06 00 00" },
	{ XIW_BAD_RTR, "20 07 00 00", "20 07 00 00", "20 07 00 00" },
	{ XIW_SETUP_FAILED, "20 05 00 00", "20 05 00 00", "20 05 00 00" },

	{ XIW_BAD_STAG, "11 00 c0 00", "11 00 c0 00", "11 00 c0 00" },
	{ XIW_BAD_BOUNDS, "11 01 c0 00", "11 01 c0 00", "11 01 c0 00" },
	{ XIW_BAD_PD, "11 02 c0 00", "11 02 c0 00", "11 02 c0 00" },
	{ XIW_BAD_WRAP, "11 03 c0 00", "11 03 c0 00", "11 03 c0 00" },
	{ XIW_BAD_DDP_VERSION_TAGGED, "11 04 c0 00", "11 04 c0 00", "11 04 c0 00" },
	{ XIW_NO_REMOTE_WRITE, "11 00 c0 00", "11 00 c0 00", "11 00 c0 00" },

	{ XIW_BAD_QN, "12 01 c0 00", "12 01 c0 00", "12 01 c0 00" },
	{ XIW_NO_RECEIVE, "12 02 c0 00", "12 02 c0 00", "12 02 c0 00" },
	{ XIW_BAD_MSN, "12 03 c0 00", "12 03 c0 00", "12 03 c0 00" },
	{ XIW_BAD_MO, "12 04 c0 00", "12 04 c0 00", "12 04 c0 00" },
	{ XIW_MESSAGE_TOO_LONG, "12 05 c0 00", "12 05 c0 00", "12 05 c0 00" },
	{ XIW_BAD_DDP_VERSION_UNTAGGED, "12 06 c0 00", "12 06 c0 00", "12 06 c0 00" },

	{ XIW_READ_BAD_STAG, "01 00 c0 00", "01 00 c0 00", "01 00 e0 00" },
	{ XIW_READ_BAD_BOUNDS, "01 01 c0 00", "01 01 c0 00", "01 01 e0 00" },
	{ XIW_READ_NO_RIGHT, "01 02 c0 00", "01 02 c0 00", "01 02 e0 00" },
	{ XIW_READ_BAD_PD, "01 03 c0 00", "01 03 c0 00", "01 03 e0 00" },
	{ XIW_READ_BAD_WRAP, "01 04 c0 00", "01 04 c0 00", "01 04 e0 00" },
	{ XIW_INV_BAD_PD, "01 09 c0 00", "01 09 c0 00", "01 09 e0 00" },

	{ XIW_INV_BAD_STAG, "02 09 c0 00", "02 09 c0 00", "02 09 c0 00" },
	{ XIW_BAD_RDMAP_VERSION, "02 05 c0 00", "02 05 c0 00", "02 05 c0 00" },
	{ XIW_BAD_OPCODE, "02 06 c0 00", "02 06 c0 00", "02 06 c0 00" },
	{ XIW_ATOMIC_UNALIGNED, "02 07 c0 00", "02 07 c0 00", "02 07 c0 00" },
	{ XIW_BAD_LENGTH, "02 ff c0 00", "02 ff c0 00", "02 ff c0 00" },
	{ XIW_TORN_WRITE, "02 ff c0 00", "02 ff c0 00", "02 ff c0 00" },
	{ XIW_IRD_EXCEEDED, "12 02 c0 00", "12 02 c0 00", "12 02 c0 00" },
	{ XIW_UNEXPECTED_RESPONSE, "02 06 c0 00", "02 06 c0 00", "02 06 c0 00" },

	{ XIW_LOCAL_FAULT, "00 00 00 00", "00 00 00 00", "00 00 00 00" },
	{ XIW_LOCAL_ABORT, "00 00 00 00", "00 00 00 00", "00 00 00 00" },
	{ XIW_NO_MEMORY, "00 00 00 00", "00 00 00 00", "00 00 00 00" },
	{ XIW_UNREADABLE, "00 00 00 00", "00 00 00 00", "00 00 00 00" },
};

TEST(xiw_causes, every_cause_is_in_the_rows_above)
{
	EXPECT_EQ(std::size(rows), size_t(XIW_NUM_CAUSES) - 1); /* all but XIW_OK */
}

TEST(xiw_causes, every_cause_has_a_name_of_its_own)
{
	std::set<std::string> names;

	for (const xiw_cause_row &row : xiw_causes) {
		ASSERT_NE(row.name, nullptr) << &row - xiw_causes;
		EXPECT_TRUE(names.insert(row.name).second) << row.name;
		EXPECT_EQ(std::string(row.name).find_first_not_of("abcdefghijklmnopqrstuvwxyz_"),
			  std::string::npos)
			<< row.name;
	}
}

TEST(xiw_causes, every_cause_has_its_terminate)
{
	for (const Row &row : rows) {
		SCOPED_TRACE(xiw_causes[row.cause].name);
		EXPECT_EQ(verdict(row.cause, fpdu::write), octets(row.on_write));
		EXPECT_EQ(verdict(row.cause, fpdu::send), octets(row.on_send));
		EXPECT_EQ(verdict(row.cause, fpdu::read_request), octets(row.on_read_request));
	}
}

TEST(xiw_terminate_build, worked_examples)
{
	Octets bad_write = fpdu::write;

	bad_write[7] = 0x45; /* last octet of the STag */
	EXPECT_EQ(terminate(XIW_BAD_STAG, bad_write), ulpdu_of(fpdu::terminate_write));
	EXPECT_EQ(terminate(XIW_READ_NO_RIGHT, fpdu::read_request), ulpdu_of(fpdu::terminate_read));
	EXPECT_EQ(terminate(XIW_BAD_CRC, fpdu::write), ulpdu_of(fpdu::terminate_crc));
}

TEST(xiw_terminate_build, without_a_fault_there_are_no_headers)
{
	for (const Row &row : rows) {
		Octets ulpdu = terminate(row.cause);

		ASSERT_EQ(ulpdu.size(), 22u) << row.cause;
		EXPECT_EQ(slice(ulpdu, 0, 18),
			  octets("41 47 | 00 00 00 00 | 00 00 00 02 | 00 00 00 01 | 00 00 00 00"));
		EXPECT_EQ(ulpdu[18], octets(row.on_write)[0]) << row.cause;
		EXPECT_EQ(ulpdu[19], octets(row.on_write)[1]) << row.cause;
		EXPECT_EQ(ulpdu[20], 0) << row.cause;
		EXPECT_EQ(ulpdu[21], 0) << row.cause;
	}
}

TEST(xiw_terminate_build, repeats_length_and_ddp_header)
{
	Octets ulpdu = terminate(XIW_NO_RECEIVE, fpdu::send);

	ASSERT_EQ(ulpdu.size(), 42u);
	EXPECT_EQ(slice(ulpdu, 22, 42),
		  octets("00 17 | 41 43 | 00 00 00 00 | 00 00 00 00 | 00 00 00 01 | 00 00 00 00"));
}

/* RFC 7306 section 8.1: Atomics are not Read Requests, so the RDMAP header is not repeated. */
TEST(xiw_terminate_build, atomics_have_no_rdmap_header)
{
	Octets ulpdu = terminate(XIW_READ_BAD_STAG, fpdu::fetch_add);

	ASSERT_EQ(ulpdu.size(), 42u);
	EXPECT_EQ(slice(ulpdu, 18, 22), octets("01 00 c0 00"));
	EXPECT_EQ(slice(ulpdu, 22, 42),
		  octets("00 46 | 41 4a | 00 00 00 00 | 00 00 00 01 | 00 00 00 02 | 00 00 00 00"));
}

/* A tagged segment has no Read Request header, even with the opcode of a Read Request. */
TEST(xiw_terminate_build, tagged_bit_decides_the_header)
{
	Octets mixed = fpdu::write;

	mixed[3] = 0x41;
	EXPECT_EQ(terminate(XIW_READ_BAD_STAG, mixed).size(), 38u);
}

TEST(xiw_terminate_build, headers_that_have_not_come_are_not_repeated)
{
	for (size_t len = 0; len < 14; len++)
		EXPECT_EQ(terminate(XIW_BAD_OPCODE, cut(fpdu::write, len)).size(), 22u) << len;
	EXPECT_EQ(terminate(XIW_BAD_OPCODE, cut(fpdu::write, 14)).size(), 38u);

	for (size_t len = 2; len < 18; len++)
		EXPECT_EQ(terminate(XIW_BAD_OPCODE, cut(fpdu::send, len)).size(), 22u) << len;
	EXPECT_EQ(terminate(XIW_BAD_OPCODE, cut(fpdu::send, 18)).size(), 42u);

	for (size_t len = 18; len < 46; len++)
		EXPECT_EQ(terminate(XIW_READ_BAD_STAG, cut(fpdu::read_request, len)).size(), 22u)
			<< len;
	EXPECT_EQ(terminate(XIW_READ_BAD_STAG, cut(fpdu::read_request, 46)).size(), 70u);
}

/* ASan stops the test on an access beyond the wrong segment or beyond the buffer. */
TEST(xiw_terminate_build, reads_only_what_has_come)
{
	std::mt19937 random(5040);
	std::set<size_t> sizes;

	for (int i = 0; i < 300000; i++) {
		Octets fault(2 + random() % 80);

		std::ranges::generate(fault, [&] { return random(); });
		if (fault.size() > 3 && random() % 2)
			fault[3] = 0x41;
		sizes.insert(terminate(xiw_cause(random() % XIW_NUM_CAUSES),
				       cut(fault, fault.size() - 2))
				     .size());
	}
	EXPECT_EQ(sizes, (std::set<size_t>{ 22, 38, 42, 70 }));
}

} /* namespace */
