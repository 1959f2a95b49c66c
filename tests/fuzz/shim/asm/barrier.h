/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* asm/barrier.h - accesses to shared memory, around each of which the other side has its turn */
#ifndef XIW_FUZZ_ASM_BARRIER_H
#define XIW_FUZZ_ASM_BARRIER_H

#include <linux/compiler.h>

#define barrier()		fuzz_other_side()
#define smp_mb()		fuzz_other_side()
#define smp_load_acquire(p)	READ_ONCE(*(p))
#define smp_store_release(p, v)	WRITE_ONCE(*(p), v)

#endif /* XIW_FUZZ_ASM_BARRIER_H */
