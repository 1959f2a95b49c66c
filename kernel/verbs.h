/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* verbs.h - the verbs that create and destroy objects; they count the objects of each kind */
#ifndef XIW_VERBS_H
#define XIW_VERBS_H

#include <rdma/ib_verbs.h>

/*
 * Members of struct ib_device_ops. They count the objects and leave the rest to the files of the
 * objects. Regions and windows are counted together with their STags (mem.c).
 */
int xiw_verbs_alloc_pd(struct ib_pd *pd, struct ib_udata *udata);
int xiw_verbs_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata);
int xiw_verbs_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			struct uverbs_attr_bundle *attrs);
int xiw_verbs_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int xiw_verbs_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr,
			 struct ib_udata *udata);
int xiw_verbs_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int xiw_verbs_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata);
int xiw_verbs_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);

#endif /* XIW_VERBS_H */
