// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* crc32c.c - CRC32c under the kernel's name, bit by bit (RFC 3385) */

#include <linux/crc32c.h>

u32 crc32c(u32 crc, const void *octets, size_t len)
{
	const u8 *octet = octets;
	int bit;

	while (len--) {
		crc ^= *octet++;
		for (bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return crc;
}
