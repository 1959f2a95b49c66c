/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* counter.h - counters of chosen queue pairs, "rdma statistic qp" */
#ifndef XIW_COUNTER_H
#define XIW_COUNTER_H

#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>

/* struct xiw_counter - what the core allocates for a counter; nothing of it is ours */
struct xiw_counter {
	struct rdma_counter	counter;
};

/* Members of struct ib_device_ops; kernel-doc is in counter.c. */
void xiw_counter_init(struct rdma_counter *counter);
struct rdma_hw_stats *xiw_counter_alloc_stats(struct rdma_counter *counter);
int xiw_counter_bind(struct rdma_counter *counter, struct ib_qp *ibqp, u32 port);
int xiw_counter_unbind(struct ib_qp *ibqp, u32 port);
int xiw_counter_update(struct rdma_counter *counter);
int xiw_counter_dealloc(struct rdma_counter *counter);

#endif /* XIW_COUNTER_H */
