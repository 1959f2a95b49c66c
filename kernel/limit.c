// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* limit.c - how many objects of each kind a device has, and that it has no more than it promises */

#include <linux/moduleparam.h>

#include "cq.h"
#include "device.h"
#include "limit.h"
#include "qp.h"
#include "srq.h"

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

/* Kernel-doc of what other files call is in limit.h. */
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

/* How an attempt to make an object has ended that was counted before. Return: @ret. */
static int limit_settle(struct ib_device *ibdev, enum xiw_kind kind, int ret)
{
	if (ret)
		xiw_limit_give_back(to_xiw_device(ibdev), kind);
	return ret;
}

/* An object that was asked to end. Return: @ret; unless it is 0 the object is still there. */
static int limit_release(struct ib_device *ibdev, enum xiw_kind kind, int ret)
{
	if (!ret)
		xiw_limit_give_back(to_xiw_device(ibdev), kind);
	return ret;
}

/* A protection domain is told from others by its address alone: there is no more to it. */
int xiw_limit_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return xiw_limit_take(to_xiw_device(pd->device), XIW_PDS);
}

int xiw_limit_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return limit_release(pd->device, XIW_PDS, 0);
}

int xiw_limit_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			struct uverbs_attr_bundle *attrs)
{
	int ret = xiw_limit_take(to_xiw_device(ibcq->device), XIW_CQS);

	return ret ?: limit_settle(ibcq->device, XIW_CQS, xiw_cq_create(ibcq, attr, attrs));
}

int xiw_limit_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	return limit_release(ibcq->device, XIW_CQS, xiw_cq_destroy(ibcq, udata));
}

int xiw_limit_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr,
			 struct ib_udata *udata)
{
	int ret = xiw_limit_take(to_xiw_device(ibsrq->device), XIW_SRQS);

	return ret ?: limit_settle(ibsrq->device, XIW_SRQS, xiw_srq_create(ibsrq, attr, udata));
}

int xiw_limit_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	return limit_release(ibsrq->device, XIW_SRQS, xiw_srq_destroy(ibsrq, udata));
}

int xiw_limit_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	int ret = xiw_limit_take(to_xiw_device(ibqp->device), XIW_QPS);

	return ret ?: limit_settle(ibqp->device, XIW_QPS, xiw_qp_create(ibqp, attr, udata));
}

int xiw_limit_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	return limit_release(ibqp->device, XIW_QPS, xiw_qp_destroy(ibqp, udata));
}
