/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/crc32c.h - CRC32c */
#ifndef XIW_FUZZ_LINUX_CRC32C_H
#define XIW_FUZZ_LINUX_CRC32C_H

#include <string.h>
#include <asm/byteorder.h>
#include <linux/compiler.h>
#include <linux/types.h>

#define cpu_to_le32	__cpu_to_le32
#define le32_to_cpu	__le32_to_cpu

u32 crc32c(u32 crc, const void *octets, size_t len);

#endif /* XIW_FUZZ_LINUX_CRC32C_H */
