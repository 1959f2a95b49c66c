/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/bits.h - single bits */
#ifndef XIW_FUZZ_LINUX_BITS_H
#define XIW_FUZZ_LINUX_BITS_H

#define BIT(n)	(1ul << (n))

#endif /* XIW_FUZZ_LINUX_BITS_H */
