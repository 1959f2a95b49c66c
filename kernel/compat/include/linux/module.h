/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/module.h - the name of a namespace as a string */
#ifndef XIW_COMPAT_LINUX_MODULE_H
#define XIW_COMPAT_LINUX_MODULE_H

#include_next <linux/module.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#undef MODULE_IMPORT_NS
#define MODULE_IMPORT_NS(ns)	MODULE_INFO(import_ns, ns)
#endif

#endif /* XIW_COMPAT_LINUX_MODULE_H */
