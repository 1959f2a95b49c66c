/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* asm/byteorder.h - byte order conversions under the kernel's names */
#ifndef XIW_SHIM_ASM_BYTEORDER_H
#define XIW_SHIM_ASM_BYTEORDER_H

#include_next <asm/byteorder.h>

#define be16_to_cpu	__be16_to_cpu
#define be32_to_cpu	__be32_to_cpu
#define be64_to_cpu	__be64_to_cpu
#define cpu_to_be16	__cpu_to_be16
#define cpu_to_be32	__cpu_to_be32
#define cpu_to_be64	__cpu_to_be64

#endif /* XIW_SHIM_ASM_BYTEORDER_H */
