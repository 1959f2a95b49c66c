/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* rdma/ib_verbs.h - the requests that a consumer in the kernel posts, and limits of a queue pair */
#ifndef XIW_FUZZ_RDMA_IB_VERBS_H
#define XIW_FUZZ_RDMA_IB_VERBS_H

#include <errno.h>
#include <string.h>
#include <asm/barrier.h>
#include <linux/limits.h>
#include <linux/stddef.h>
#include <linux/types.h>

struct ib_qp_cap {
	u32	max_send_sge;
	u32	max_inline_data;
};

struct ib_sge {
	u64	addr;
	u32	length;
	u32	lkey;
};

struct ib_recv_wr {
	struct ib_recv_wr	*next;
	u64			wr_id;
	struct ib_sge		*sg_list;
	int			num_sge;
};

#endif /* XIW_FUZZ_RDMA_IB_VERBS_H */
