// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* ring_kernel.c - the kernel's side of one ring, for a caller in C++ */

#include <errno.h>
#include <stdlib.h>

#include "device.h"
#include "queue/slot.h"
#include "ring_kernel.h"

struct xiw_ring *kernel_ring(struct xiw_queue_ctl *ctl, void *slots, __u32 entries,
			     __u32 slot_size, __u32 count)
{
	struct xiw_ring *ring = malloc(sizeof(*ring));

	xiw_ring_init(ring, ctl, slots, entries, slot_size);
	ring->taken = count;
	ring->returned = count;
	ring->told = count;
	return ring;
}

void kernel_ring_free(struct xiw_ring *ring)
{
	free(ring);
}

__u32 kernel_recv_slot_size(__u32 max_sge)
{
	return xiw_recv_slot_size(max_sge);
}

__u32 kernel_max_sge_rd(void)
{
	return XIW_MAX_SGE_RD;
}

__u64 kernel_max_message(void)
{
	return XIW_MAX_MESSAGE;
}

/* The fuzzer judges requests by itself, and has errnos for it. */
static const int errnos[] = {
	[XIW_SLOT_GOOD] = 0,
	[XIW_SLOT_MALFORMED] = -EINVAL,
	[XIW_SLOT_TOO_LONG] = -EMSGSIZE,
	[XIW_SLOT_NONE] = -ENOENT,
	[XIW_SLOT_BROKEN] = -EPROTO,
};

int kernel_take_send(struct xiw_send_slot *cur, struct xiw_ring *ring, __u32 max_sge,
		     __u32 max_inline, __u32 *payload)
{
	const struct ib_qp_cap cap = {
		.max_send_sge = max_sge,
		.max_inline_data = max_inline,
	};

	return errnos[xiw_slot_take_send(cur, ring, &cap, payload)];
}

int kernel_take_recv(struct kernel_recv *recv, struct xiw_ring *ring, __u32 max_sge)
{
	struct xiw_recv *taken = calloc(1, sizeof(*taken));	/* ASan sees its end */
	enum xiw_slot_result result = xiw_slot_take_recv(taken, ring, max_sge);

	if (result != XIW_SLOT_NONE) {
		recv->wr_id = taken->wr_id;
		recv->num_sge = taken->num_sge;
		recv->length = taken->length;
		if (taken->num_sge <= XIW_MAX_SGE)
			memcpy(recv->sge, taken->sge, taken->num_sge * sizeof(recv->sge[0]));
	}
	free(taken);
	return errnos[result];
}

void kernel_return(struct xiw_ring *ring, __u32 n)
{
	xiw_ring_return(ring, n);
}

void kernel_return_silently(struct xiw_ring *ring, __u32 n)
{
	xiw_ring_return_silently(ring, n);
}

void kernel_tell(struct xiw_ring *ring)
{
	xiw_ring_tell(ring);
}

__u32 kernel_ready(const struct xiw_ring *ring)
{
	return xiw_ring_ready(ring);
}

__u32 kernel_unwatch(struct xiw_ring *ring)
{
	return xiw_ring_unwatch(ring);
}

void kernel_watch(struct xiw_ring *ring)
{
	xiw_ring_watch(ring);
}

void kernel_defer(struct xiw_ring *ring)
{
	xiw_ring_defer(ring);
}
