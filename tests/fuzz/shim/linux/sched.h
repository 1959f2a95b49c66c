/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/sched.h - the scheduler */
#ifndef XIW_FUZZ_LINUX_SCHED_H
#define XIW_FUZZ_LINUX_SCHED_H

static inline void cond_resched(void)
{
}

#endif /* XIW_FUZZ_LINUX_SCHED_H */
