// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* limit.c - counts the objects of a device, and enforces the limits that it reports */

#include <linux/moduleparam.h>

#include "device.h"
#include "limit.h"

static unsigned int limits[XIW_NUM_KINDS] = {
	[XIW_PDS] = XIW_MAX_PD,
	[XIW_CQS] = XIW_MAX_CQ,
	[XIW_SRQS] = XIW_MAX_SRQ,
	[XIW_QPS] = XIW_MAX_QP,
	[XIW_MRS] = XIW_MAX_MR,
	[XIW_MWS] = XIW_MAX_MW,
};

#ifdef XIW_TEST
module_param_array(limits, uint, NULL, 0644);
MODULE_PARM_DESC(limits, "how many PDs, CQs, SRQs, QPs, regions, windows a device has at most");
#endif

/* The kernel-doc of public functions is in limit.h. */
unsigned int xiw_limit(enum xiw_kind kind)
{
	return READ_ONCE(limits[kind]);
}

int xiw_limit_take(struct xiw_device *dev, enum xiw_kind kind)
{
	int count = atomic_read(&dev->objects[kind]);

	do {
		if (count >= xiw_limit(kind))
			return -ENOMEM;
	} while (!atomic_try_cmpxchg(&dev->objects[kind], &count, count + 1));
	return 0;
}

void xiw_limit_give_back(struct xiw_device *dev, enum xiw_kind kind)
{
	atomic_dec(&dev->objects[kind]);
}
