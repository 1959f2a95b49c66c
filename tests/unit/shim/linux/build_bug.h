/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/build_bug.h - static_assert() */
#ifndef XIW_SHIM_LINUX_BUILD_BUG_H
#define XIW_SHIM_LINUX_BUILD_BUG_H

#include <assert.h>

#endif /* XIW_SHIM_LINUX_BUILD_BUG_H */
