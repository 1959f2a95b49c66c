/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* rdma/uverbs_ioctl.h - answers to a process for older kernels */
#ifndef XIW_COMPAT_RDMA_UVERBS_IOCTL_H
#define XIW_COMPAT_RDMA_UVERBS_IOCTL_H

#include_next <rdma/uverbs_ioctl.h>

#ifndef ib_respond_udata	/* Linux 7.2 or a little earlier */
static inline int compat_ib_respond_udata(struct ib_udata *udata, const void *answer, size_t len)
{
	size_t part = min(len, udata->outlen);

	if (copy_to_user(udata->outbuf, answer, part) ||
	    clear_user(udata->outbuf + part, udata->outlen - part))
		return -EFAULT;
	return 0;
}

#define ib_respond_udata(udata, answer) \
	compat_ib_respond_udata(udata, &(answer), sizeof(answer))
#endif

#endif /* XIW_COMPAT_RDMA_UVERBS_IOCTL_H */
