/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/limits.h - maximum values of the kernel's types */
#ifndef XIW_SHIM_LINUX_LIMITS_H
#define XIW_SHIM_LINUX_LIMITS_H

#include_next <linux/limits.h>

#define U64_MAX	((u64)~0ull)

#endif /* XIW_SHIM_LINUX_LIMITS_H */
