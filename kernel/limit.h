/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* limit.h - how many objects of each kind a device has, and that it has no more than it promises */
#ifndef XIW_LIMIT_H
#define XIW_LIMIT_H

#include <rdma/ib_verbs.h>

struct xiw_device;

/* Kinds of objects whose number ibv_query_device() tells. */
enum xiw_kind {
	XIW_PDS,
	XIW_CQS,
	XIW_SRQS,
	XIW_QPS,
	XIW_MRS,
	XIW_MWS,
	XIW_NUM_KINDS
};

/* How many objects of a kind a device has at most. A test build can be told to have fewer. */
unsigned int xiw_limit(enum xiw_kind kind);

/**
 * xiw_limit_take - count one object more
 * @dev: its device
 * @kind: what it is
 *
 * Return: 0, or -ENOMEM if the device has as many as it promises.
 */
int xiw_limit_take(struct xiw_device *dev, enum xiw_kind kind);

/* The object is gone, or has not come to be. */
void xiw_limit_give_back(struct xiw_device *dev, enum xiw_kind kind);

/*
 * Verbs that make and end objects, as struct ib_device_ops wants them: they count, and leave the
 * rest to the object. Regions and windows are counted with their STags (mem.c).
 */
int xiw_limit_alloc_pd(struct ib_pd *pd, struct ib_udata *udata);
int xiw_limit_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata);
int xiw_limit_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			struct uverbs_attr_bundle *attrs);
int xiw_limit_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int xiw_limit_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr,
			 struct ib_udata *udata);
int xiw_limit_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int xiw_limit_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata);
int xiw_limit_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);

#endif /* XIW_LIMIT_H */
