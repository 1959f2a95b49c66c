/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* show.h - tells `rdma resource show` what the core does not know of our objects */
#ifndef XIW_SHOW_H
#define XIW_SHOW_H

#include <rdma/ib_verbs.h>

/* Members of struct ib_device_ops; kernel-doc is in show.c. */
int xiw_show_qp(struct sk_buff *msg, struct ib_qp *ibqp);
int xiw_show_cq(struct sk_buff *msg, struct ib_cq *ibcq);
int xiw_show_srq(struct sk_buff *msg, struct ib_srq *ibsrq);
int xiw_show_mr(struct sk_buff *msg, struct ib_mr *ibmr);

#endif /* XIW_SHOW_H */
