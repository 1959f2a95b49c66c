/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/stddef.h - offsetof() and offsetofend() */
#ifndef XIW_SHIM_LINUX_STDDEF_H
#define XIW_SHIM_LINUX_STDDEF_H

#include_next <linux/stddef.h>
#include <stddef.h>

#define offsetofend(type, member)	(offsetof(type, member) + sizeof(((type *)0)->member))

#endif /* XIW_SHIM_LINUX_STDDEF_H */
