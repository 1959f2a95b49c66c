/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* post.h - posting by kernel consumers, and doorbells of processes */
#ifndef XIW_POST_H
#define XIW_POST_H

#include <rdma/ib_verbs.h>

/* post.c APIs */

/* Verbs for struct ib_device_ops; kernel-doc is in post.c. */
int xiw_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		  const struct ib_send_wr **bad_wr);
int xiw_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad_wr);

#endif /* XIW_POST_H */
