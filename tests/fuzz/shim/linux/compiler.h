/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/compiler.h - hints, and accesses to shared memory */
#ifndef XIW_FUZZ_LINUX_COMPILER_H
#define XIW_FUZZ_LINUX_COMPILER_H

#define likely(x)	(x)
#define unlikely(x)	(x)
#define fallthrough	__attribute__((__fallthrough__))

/* What the other side of shared memory does while the kernel looks elsewhere. */
void fuzz_other_side(void);

#define READ_ONCE(x) ({							\
	__typeof__(x) read_ = *(const volatile __typeof__(x) *)&(x);	\
	fuzz_other_side();						\
	read_;								\
})

#define WRITE_ONCE(x, v) do {						\
	fuzz_other_side();						\
	*(volatile __typeof__(x) *)&(x) = (v);				\
	fuzz_other_side();						\
} while (0)

#endif /* XIW_FUZZ_LINUX_COMPILER_H */
