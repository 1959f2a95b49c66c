/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/limits.h - maximum values of the kernel's types */
#ifndef XIW_FUZZ_LINUX_LIMITS_H
#define XIW_FUZZ_LINUX_LIMITS_H

#include_next <linux/limits.h>

#define U16_MAX	((u16)~0u)
#define U32_MAX	((u32)~0u)

#endif /* XIW_FUZZ_LINUX_LIMITS_H */
