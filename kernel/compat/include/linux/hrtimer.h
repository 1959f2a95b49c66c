/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/hrtimer.h - setting up a timer with its function */
#ifndef XIW_COMPAT_LINUX_HRTIMER_H
#define XIW_COMPAT_LINUX_HRTIMER_H

#include_next <linux/hrtimer.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void compat_hrtimer_setup(struct hrtimer *timer,
					enum hrtimer_restart (*function)(struct hrtimer *),
					clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}

#define hrtimer_setup compat_hrtimer_setup
#endif

#endif /* XIW_COMPAT_LINUX_HRTIMER_H */
