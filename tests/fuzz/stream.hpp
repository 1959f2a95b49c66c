/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* stream.hpp - the fuzzer's own CRC32c, and its own reading of a stream of FPDUs */
#ifndef XIW_FUZZ_STREAM_HPP
#define XIW_FUZZ_STREAM_HPP

#include <array>

#include "reading.hpp"

namespace fuzz
{

/* CRC32c by a table; the kernel's stand-in has none. */
inline uint32_t crc(std::span<const uint8_t> octets)
{
	static const std::array<uint32_t, 256> table = [] {
		std::array<uint32_t, 256> rows;

		for (uint32_t i = 0; i < 256; i++) {
			uint32_t row = i;

			for (int bit = 0; bit < 8; bit++)
				row = row & 1 ? row >> 1 ^ 0x82f63b78 : row >> 1;
			rows[i] = row;
		}
		return rows;
	}();
	uint32_t sum = ~0u;

	for (uint8_t octet : octets)
		sum = sum >> 8 ^ table[(sum ^ octet) & 0xff];
	return ~sum;
}

/* The four octets of a CRC on the wire: the least significant one first (RFC 5044 section 4.4). */
inline Octets crc_octets(std::span<const uint8_t> octets)
{
	uint32_t sum = crc(octets);

	return { uint8_t(sum), uint8_t(sum >> 8), uint8_t(sum >> 16), uint8_t(sum >> 24) };
}

/* Octets of an FPDU from its length to its pad (RFC 5044 section 4.1). */
inline size_t before_crc(uint32_t ulpdu_len)
{
	return (2 + ulpdu_len + 3) / 4 * 4;
}

} /* namespace fuzz */

#endif /* XIW_FUZZ_STREAM_HPP */
