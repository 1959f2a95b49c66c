/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* area.h - memory that a process shares with the kernel */
#ifndef XIW_AREA_H
#define XIW_AREA_H

#include <rdma/ib_verbs.h>

/**
 * struct xiw_area - memory shared with one process, or owned by a kernel consumer
 * @entry: handle by which the process maps it; unused for kernel consumers
 * @mem: zeroed memory, charged to the memory cgroup of the process that created the area
 * @len: length in bytes
 */
struct xiw_area {
	struct rdma_user_mmap_entry	entry;
	void				*mem;
	size_t				len;
};

/* area.c APIs */

/**
 * xiw_area_create - allocate memory for rings or for device memory
 * @len: bytes wanted, rounded up to pages
 * @uctx: context of the process that will map it; NULL for a kernel consumer
 *
 * Return: the area, or ERR_PTR(-ENOMEM) or another negative errno.
 */
struct xiw_area *xiw_area_create(size_t len, struct ib_ucontext *uctx);

/* The offset by which the process maps @area; it is part of the answer to the verb. */
static inline u64 xiw_area_key(struct xiw_area *area)
{
	return rdma_user_mmap_get_offset(&area->entry);
}

/* Destroys @area. The kernel must not use it any more; the mapping of a process stays valid. */
void xiw_area_destroy(struct xiw_area *area, struct ib_ucontext *uctx);

/* For struct ib_device_ops: map an area, and free one that is not mapped any more. */
int xiw_area_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma);
void xiw_area_mmap_free(struct rdma_user_mmap_entry *entry);

#endif /* XIW_AREA_H */
