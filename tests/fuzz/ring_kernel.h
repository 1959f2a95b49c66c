/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* ring_kernel.h - the kernel's side of one ring, for a caller in C++ */
#ifndef XIW_FUZZ_RING_KERNEL_H
#define XIW_FUZZ_RING_KERNEL_H

#include <linux/types.h>
#include <rdma/xiw-abi.h>

struct xiw_ring;

/* struct xiw_recv, which no C++ compiler takes. */
struct kernel_recv {
	__u64		wr_id;
	__u32		num_sge;
	__u64		length;
	struct xiw_sge	sge[XIW_MAX_SGE];
};

struct xiw_ring *kernel_ring(struct xiw_queue_ctl *ctl, void *slots, __u32 entries,
			     __u32 slot_size, __u32 count);
void kernel_ring_free(struct xiw_ring *ring);
__u32 kernel_recv_slot_size(__u32 max_sge);
__u32 kernel_max_sge_rd(void);
__u64 kernel_max_message(void);

int kernel_take_send(struct xiw_send_slot *cur, struct xiw_ring *ring, __u32 max_sge,
		     __u32 max_inline, __u32 *payload);
int kernel_take_recv(struct kernel_recv *recv, struct xiw_ring *ring, __u32 max_sge);
void kernel_return(struct xiw_ring *ring, __u32 n);
void kernel_return_silently(struct xiw_ring *ring, __u32 n);	/* kernel_tell() follows */
void kernel_tell(struct xiw_ring *ring);
__u32 kernel_ready(const struct xiw_ring *ring);
__u32 kernel_unwatch(struct xiw_ring *ring);
void kernel_watch(struct xiw_ring *ring);
void kernel_defer(struct xiw_ring *ring);

#endif /* XIW_FUZZ_RING_KERNEL_H */
