/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* rdma/ib_umem.h - the newer name of ib_umem_get() */
#ifndef XIW_COMPAT_RDMA_IB_UMEM_H
#define XIW_COMPAT_RDMA_IB_UMEM_H

#include_next <rdma/ib_umem.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
static inline struct ib_umem *ib_umem_get_va(struct ib_device *ibdev, unsigned long addr,
					     size_t len, int access)
{
	return ib_umem_get(ibdev, addr, len, access);
}
#endif

#endif /* XIW_COMPAT_RDMA_IB_UMEM_H */
