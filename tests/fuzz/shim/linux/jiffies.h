/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/jiffies.h - a clock that stands still */
#ifndef XIW_FUZZ_LINUX_JIFFIES_H
#define XIW_FUZZ_LINUX_JIFFIES_H

#define jiffies			0ul
#define msecs_to_jiffies(ms)	((unsigned long)(ms))
#define jiffies_to_msecs(n)	((unsigned int)(n))
#define time_before_eq(a, b)	((long)((a) - (b)) <= 0)

#endif /* XIW_FUZZ_LINUX_JIFFIES_H */
