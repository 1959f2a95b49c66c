// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* dm.c - device memory that processes allocate, map and register */

#include <linux/mm.h>
#include <linux/slab.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_std_types.h>
#include <rdma/xiw-abi.h>

#include "device.h"
#include "mem/dm.h"
#include "mem/mem.h"
#include "queue/area.h"

#define UVERBS_MODULE_NAME xiw
#include <rdma/uverbs_named_ioctl.h>

/**
 * struct xiw_dm - device memory, made of kernel pages because the device itself has none
 * @ibdm: what the core sees
 * @area: the pages
 */
struct xiw_dm {
	struct ib_dm	ibdm;
	struct xiw_area	*area;
};

static struct xiw_dm *to_xiw_dm(struct ib_dm *ibdm)
{
	return container_of(ibdm, struct xiw_dm, ibdm);
}

/* Adds @len bytes to the device memory in use. Return: false if that would exceed the limit. */
static bool dm_take(struct xiw_device *dev, size_t len)
{
	long used = atomic_long_read(&dev->dm_used);

	do {
		if (len > XIW_MAX_DM_SIZE - used)
			return false;
	} while (!atomic_long_try_cmpxchg(&dev->dm_used, &used, used + len));
	return true;
}

static void dm_give_back(struct xiw_device *dev, size_t len)
{
	atomic_long_sub(len, &dev->dm_used);
}

/**
 * xiw_dm_alloc - ibv_alloc_dm()
 * @ibdev: the device
 * @uctx: context of the process that will map it
 * @attr: length in bytes, and log2 of the alignment
 * @attrs: unused
 *
 * The memory starts at a page boundary and is zeroed. XIW_MAX_DM_SIZE limits the total of all
 * processes, which is counted in whole pages.
 *
 * Return: the memory, or an ERR_PTR(); -EINVAL for an impossible length or alignment; -ENOMEM if
 * too little of the total is left.
 */
struct ib_dm *xiw_dm_alloc(struct ib_device *ibdev, struct ib_ucontext *uctx,
			   struct ib_dm_alloc_attr *attr, struct uverbs_attr_bundle *attrs)
{
	struct xiw_device *dev = to_xiw_device(ibdev);
	size_t len = PAGE_ALIGN(attr->length);
	struct xiw_area *area;
	struct xiw_dm *dm;

	if (!attr->length || attr->length > XIW_MAX_DM_SIZE || attr->alignment > PAGE_SHIFT)
		return ERR_PTR(-EINVAL);
	if (!dm_take(dev, len))
		return ERR_PTR(-ENOMEM);

	dm = kzalloc_obj(*dm, XIW_GFP_PROCESS);
	area = dm ? xiw_area_create(len, uctx) : ERR_PTR(-ENOMEM);
	if (IS_ERR(area)) {
		kfree(dm);
		dm_give_back(dev, len);
		return ERR_CAST(area);
	}
	dm->area = area;
	return &dm->ibdm;
}

/**
 * xiw_dm_dealloc - ibv_free_dm()
 * @ibdm: the memory, which no region uses any more
 * @attrs: of the process
 *
 * Return: 0.
 */
int xiw_dm_dealloc(struct ib_dm *ibdm, struct uverbs_attr_bundle *attrs)
{
	struct xiw_dm *dm = to_xiw_dm(ibdm);

	dm_give_back(to_xiw_device(ibdm->device), dm->area->len);
	xiw_area_destroy(dm->area, attrs->context);
	kfree(dm);
	return 0;
}

/**
 * xiw_dm_register - ibv_reg_dm_mr(): register a part of device memory; its addresses start at 0
 * @pd: protection domain
 * @ibdm: the memory; the core keeps it while the region exists
 * @attr: offset and length, which the core has checked, and rights
 * @attrs: unused
 *
 * Return: the region or an ERR_PTR().
 */
struct ib_mr *xiw_dm_register(struct ib_pd *pd, struct ib_dm *ibdm, struct ib_dm_mr_attr *attr,
			      struct uverbs_attr_bundle *attrs)
{
	struct xiw_mr *mr = xiw_mem_alloc(pd, IB_MR_TYPE_DM, attr->access_flags & ~IB_ZERO_BASED);
	int ret;

	if (IS_ERR(mr))
		return ERR_CAST(mr);
	ret = xiw_mem_use_row(mr, to_xiw_dm(ibdm)->area->mem, attr->offset, attr->length);
	if (ret) {
		xiw_mem_free(mr);
		return ERR_PTR(ret);
	}
	mr->ibmr.length = attr->length;	/* the core does not set it for DM */
	mr->valid = true;
	ret = xiw_mem_publish(mr);
	return ret ? ERR_PTR(ret) : &mr->ibmr;
}

/* The core has no method that tells a process how to map device memory. This is ours. */

static int UVERBS_HANDLER(XIW_METHOD_DM_QUERY)(struct uverbs_attr_bundle *attrs)
{
	struct ib_dm *ibdm = uverbs_attr_get_obj(attrs, XIW_ATTR_DM_QUERY_HANDLE);
	struct xiw_query_dm_resp resp = {
		.map_key = xiw_area_key(to_xiw_dm(ibdm)->area),
		.length = ibdm->length,
	};

	return uverbs_copy_to(attrs, XIW_ATTR_DM_QUERY_RESP, &resp, sizeof(resp));
}

DECLARE_UVERBS_NAMED_METHOD(XIW_METHOD_DM_QUERY,
			    UVERBS_ATTR_IDR(XIW_ATTR_DM_QUERY_HANDLE, UVERBS_OBJECT_DM,
					    UVERBS_ACCESS_READ, UA_MANDATORY),
			    UVERBS_ATTR_PTR_OUT(XIW_ATTR_DM_QUERY_RESP,
						UVERBS_ATTR_STRUCT(struct xiw_query_dm_resp,
								   length),
						UA_MANDATORY));

ADD_UVERBS_METHODS(dm_methods, UVERBS_OBJECT_DM, &UVERBS_METHOD(XIW_METHOD_DM_QUERY));

const struct uapi_definition xiw_dm_definitions[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_DM, &dm_methods),
	{}
};
