/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/log2.h - powers of two */
#ifndef XIW_FUZZ_LINUX_LOG2_H
#define XIW_FUZZ_LINUX_LOG2_H

#include <linux/types.h>

static inline int ilog2(u32 n)
{
	return 31 - __builtin_clz(n);
}

static inline u32 roundup_pow_of_two(u32 n)
{
	return n < 2 ? 1 : 1u << (32 - __builtin_clz(n - 1));
}

#endif /* XIW_FUZZ_LINUX_LOG2_H */
