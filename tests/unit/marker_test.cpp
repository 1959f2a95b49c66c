// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* marker_test.cpp - positions of markers, against RFC 5044's figures and a walk over the stream */

extern "C" {
#include <asm/byteorder.h>
#include "wire/marker.h"
}

#include <gtest/gtest.h>

#include <random>

#include "octets.hpp"

namespace
{

/* The FPDU with its markers, @sent octets after the start of the stream. */
Octets marked(const Octets &fpdu, uint32_t sent)
{
	Octets out = fpdu;

	out.resize(fpdu.size() + xiw_markers_max(fpdu.size()));
	out.resize(xiw_markers_insert(out.data(), fpdu.size(), sent));
	return out;
}

TEST(markers_insert, before_the_first_fpdu)
{
	/* RFC 5044 figure 5 */
	Octets fpdu = octets("002a 4143 00000000 00000000 00000001 00000000") + Octets(24);

	EXPECT_EQ(marked(fpdu, 0), octets("00000000") + fpdu);
}

TEST(markers_insert, inside)
{
	/* RFC 5044 figure 6 */
	Octets fpdu = octets("002a 4143 00000000 00000000 00000002 00000000") + Octets(24);

	EXPECT_EQ(marked(fpdu, 512 - 20),
		  slice(fpdu, 0, 20) + octets("00000014") + slice(fpdu, 20, fpdu.size()));
}

TEST(markers_insert, right_before_the_crc)
{
	Octets fpdu(44, 0xaa);

	EXPECT_EQ(marked(fpdu, 1024 - 44), fpdu + octets("0000002c"));
}

TEST(markers_insert, none_is_due)
{
	Octets fpdu(44, 0xaa);

	EXPECT_EQ(marked(fpdu, 4), fpdu);
	EXPECT_EQ(marked(fpdu, 512 - 48), fpdu); /* the next marker comes right behind the CRC */
}

TEST(markers_insert, count_wraps)
{
	Octets fpdu(20, 0xaa);

	EXPECT_EQ(marked(fpdu, 0u - 16),
		  slice(fpdu, 0, 16) + octets("00000010") + slice(fpdu, 16, 20));
}

/* Checks a stream of FPDUs of random sizes octet by octet. */
TEST(markers_insert, everywhere_in_a_stream)
{
	std::mt19937 random(1);
	uint32_t sent = 0;

	for (int i = 0; i < 300; i++) {
		Octets fpdu(4 * (1 + random() % (i % 2 ? 20 : 2000)));

		for (uint8_t &octet : fpdu)
			octet = random();

		Octets out = marked(fpdu, sent), found;
		uint32_t start = sent % 512 ? 0 : 4; /* position of ULPDU_Length */

		for (uint32_t at = 0; at < out.size();) {
			if ((sent + at) % 512) {
				found.push_back(out[at++]);
				continue;
			}
			uint32_t pointer = at < start ? 0 : at - start;

			EXPECT_EQ(slice(out, at, at + 4),
				  octets_of(xiw_mpa_marker{ 0, cpu_to_be16(pointer) }));
			at += 4;
		}
		EXPECT_EQ(found, fpdu);
		sent += out.size() + MPA_CRC_LEN;
	}
}

} /* namespace */
