// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* atomic.c - builds Atomic Requests and computes their results */

#include <linux/limits.h>
#include <linux/types.h>
#include <asm/byteorder.h>

#include "wire/atomic.h"

/* Kernel-doc of the functions that other files call is in atomic.h. */
void xiw_atomic_build(struct xiw_atomic_req *req, const struct xiw_send_slot *slot, u32 request_id)
{
	bool add = slot->opcode == XIW_OP_FETCH_ADD;
	u64 compare_add = slot->atomic.compare_add;

	*req = (struct xiw_atomic_req){
		.aopcode = cpu_to_be32(add ? RDMAP_ATOMIC_FETCH_ADD : RDMAP_ATOMIC_CMP_SWAP),
		.request_id = cpu_to_be32(request_id),
		.stag = cpu_to_be32(slot->rkey),
		.to = cpu_to_be64(slot->remote_addr),
		.add_swap_data = cpu_to_be64(add ? compare_add : slot->atomic.swap),
		.add_swap_mask = cpu_to_be64(add ? 0 : U64_MAX),
		.compare_data = cpu_to_be64(add ? 0 : compare_add),
		.compare_mask = cpu_to_be64(U64_MAX),
	};
}

static u32 atomic_operation(const struct xiw_atomic_req *req)
{
	return be32_to_cpu(req->aopcode) & RDMAP_ATOMIC_OP_MASK;
}

bool xiw_atomic_known(const struct xiw_atomic_req *req)
{
	u32 operation = atomic_operation(req);

	return operation == RDMAP_ATOMIC_FETCH_ADD || operation == RDMAP_ATOMIC_CMP_SWAP;
}

/* Adds each field without its highest bit, so no carry leaves the field, and then adds that bit. */
static u64 atomic_add_fields(u64 a, u64 b, u64 highest)
{
	return ((a & ~highest) + (b & ~highest)) ^ ((a ^ b) & highest);
}

bool xiw_atomic_compute(const struct xiw_atomic_req *req, u64 old, u64 *new_value)
{
	u64 data = be64_to_cpu(req->add_swap_data);
	u64 mask = be64_to_cpu(req->add_swap_mask);

	if (atomic_operation(req) == RDMAP_ATOMIC_FETCH_ADD) {
		*new_value = atomic_add_fields(old, data, mask);
		return true;
	}
	if ((old ^ be64_to_cpu(req->compare_data)) & be64_to_cpu(req->compare_mask))
		return false;
	*new_value = (old & ~mask) | (data & mask);
	return true;
}
