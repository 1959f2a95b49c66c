/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/types.h - definitions that the kernel's header has and that of user space does not */
#ifndef XIW_SHIM_LINUX_TYPES_H
#define XIW_SHIM_LINUX_TYPES_H

#include_next <linux/types.h>
#include <stdbool.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;

#ifndef __packed	/* the kernel's makefiles include it into every file */
#define __packed	__attribute__((__packed__))
#endif

#endif /* XIW_SHIM_LINUX_TYPES_H */
