/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* dm.h - device memory that processes allocate, map and register */
#ifndef XIW_DM_H
#define XIW_DM_H

#include <rdma/uverbs_ioctl.h>

/* dm.c APIs: verbs for struct ib_device_ops; kernel-doc is in dm.c. */
struct ib_dm *xiw_dm_alloc(struct ib_device *ibdev, struct ib_ucontext *uctx,
			   struct ib_dm_alloc_attr *attr, struct uverbs_attr_bundle *attrs);
int xiw_dm_dealloc(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs);
struct ib_mr *xiw_dm_register(struct ib_pd *pd, struct ib_dm *ibdm, struct ib_dm_mr_attr *attr,
			      struct uverbs_attr_bundle *attrs);

/* Methods that this driver adds: XIW_METHOD_DM_*. */
extern const struct uapi_definition xiw_dm_definitions[];

#endif /* XIW_DM_H */
