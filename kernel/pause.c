// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* pause.c - lets a test make a test build wait or fail at a named place */

#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sprintf.h>
#include <linux/string.h>

#include "pause.h"

#ifdef XIW_TEST
static char pause_at[64];	/* "PLACE MILLISECONDS", or empty */
module_param_string(pause, pause_at, sizeof(pause_at), 0644);
MODULE_PARM_DESC(pause, "where to wait, and how many milliseconds");

void xiw_pause(const char *place)
{
	char name[sizeof(pause_at)];
	unsigned int ms;
	ktime_t end;

	if (sscanf(pause_at, "%63s %u", name, &ms) != 2 || strcmp(name, place))
		return;
	end = ktime_add_ms(ktime_get(), ms);
	if (preemptible() && !in_softirq())
		msleep(ms);
	while (ktime_before(ktime_get(), end))	/* mdelay() may be shorter than it says */
		mdelay(1);
}

static char fail_at[64];	/* "PLACE", or empty */
module_param_string(fail, fail_at, sizeof(fail_at), 0644);
MODULE_PARM_DESC(fail, "what is to fail");

bool xiw_fails(const char *place)
{
	return unlikely(fail_at[0]) && sysfs_streq(fail_at, place);
}
#endif
