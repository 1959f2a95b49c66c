/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* limit.h - counts the objects of a device, and enforces the limits that it reports */
#ifndef XIW_LIMIT_H
#define XIW_LIMIT_H

#include <rdma/ib_verbs.h>

struct xiw_device;

/* Kinds of objects for which ibv_query_device() reports a limit. */
enum xiw_kind {
	XIW_PDS,
	XIW_CQS,
	XIW_SRQS,
	XIW_QPS,
	XIW_MRS,
	XIW_MWS,
	XIW_NUM_KINDS
};

/* Returns how many objects of a kind a device may have. A test build can lower the limits. */
unsigned int xiw_limit(enum xiw_kind kind);

/**
 * xiw_limit_take - count a new object
 * @dev: its device
 * @kind: its kind
 *
 * Return: 0, or -ENOMEM if the device has reached its limit.
 */
int xiw_limit_take(struct xiw_device *dev, enum xiw_kind kind);

/* Uncounts an object that has been destroyed, or could not be created. */
void xiw_limit_give_back(struct xiw_device *dev, enum xiw_kind kind);

#endif /* XIW_LIMIT_H */
