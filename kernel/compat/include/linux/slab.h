/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/slab.h - allocating an object by its type */
#ifndef XIW_COMPAT_LINUX_SLAB_H
#define XIW_COMPAT_LINUX_SLAB_H

#include_next <linux/slab.h>

/* Stable releases of 6.12 got these on their way, so the number of the series tells nothing. */
#ifndef kzalloc_obj
#define kmalloc_obj(var, gfp)	kmalloc(sizeof(var), gfp)
#define kzalloc_obj(var, gfp)	kzalloc(sizeof(var), gfp)
#endif

#endif /* XIW_COMPAT_LINUX_SLAB_H */
