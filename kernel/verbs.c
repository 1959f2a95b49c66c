// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* verbs.c - the verbs that create and destroy objects; they count the objects of each kind */

#include "device.h"
#include "limit.h"
#include "queue/cq.h"
#include "queue/srq.h"
#include "stream/qp.h"
#include "verbs.h"

/* Uncounts an object whose creation has failed with @ret, if it is not 0. Return: @ret. */
static int verbs_settle(struct ib_device *ibdev, enum xiw_kind kind, int ret)
{
	if (ret)
		xiw_limit_give_back(to_xiw_device(ibdev), kind);
	return ret;
}

/* Uncounts a destroyed object. Unless @ret is 0 the object still exists. Return: @ret. */
static int verbs_release(struct ib_device *ibdev, enum xiw_kind kind, int ret)
{
	if (!ret)
		xiw_limit_give_back(to_xiw_device(ibdev), kind);
	return ret;
}

/* A protection domain has no data: only its address is compared with others. */
int xiw_verbs_alloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return xiw_limit_take(to_xiw_device(pd->device), XIW_PDS);
}

int xiw_verbs_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata)
{
	return verbs_release(pd->device, XIW_PDS, 0);
}

int xiw_verbs_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			struct uverbs_attr_bundle *attrs)
{
	int ret = xiw_limit_take(to_xiw_device(ibcq->device), XIW_CQS);

	return ret ?: verbs_settle(ibcq->device, XIW_CQS, xiw_cq_create(ibcq, attr, attrs));
}

int xiw_verbs_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	return verbs_release(ibcq->device, XIW_CQS, xiw_cq_destroy(ibcq, udata));
}

int xiw_verbs_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr,
			 struct ib_udata *udata)
{
	int ret = xiw_limit_take(to_xiw_device(ibsrq->device), XIW_SRQS);

	return ret ?: verbs_settle(ibsrq->device, XIW_SRQS, xiw_srq_create(ibsrq, attr, udata));
}

int xiw_verbs_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	return verbs_release(ibsrq->device, XIW_SRQS, xiw_srq_destroy(ibsrq, udata));
}

int xiw_verbs_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	int ret = xiw_limit_take(to_xiw_device(ibqp->device), XIW_QPS);

	return ret ?: verbs_settle(ibqp->device, XIW_QPS, xiw_qp_create(ibqp, attr, udata));
}

int xiw_verbs_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	return verbs_release(ibqp->device, XIW_QPS, xiw_qp_destroy(ibqp, udata));
}
