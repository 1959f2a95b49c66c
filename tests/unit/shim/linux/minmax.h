/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/minmax.h - min() and max(), each argument evaluated once */
#ifndef XIW_SHIM_LINUX_MINMAX_H
#define XIW_SHIM_LINUX_MINMAX_H

#define min(a, b)	({ __auto_type a_ = (a); __auto_type b_ = (b); a_ < b_ ? a_ : b_; })
#define max(a, b)	({ __auto_type a_ = (a); __auto_type b_ = (b); a_ > b_ ? a_ : b_; })

#endif /* XIW_SHIM_LINUX_MINMAX_H */
