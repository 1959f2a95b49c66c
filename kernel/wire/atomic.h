/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* atomic.h - builds Atomic Requests and computes their results */
#ifndef XIW_ATOMIC_H
#define XIW_ATOMIC_H

#include <rdma/xiw-abi.h>

#include "wire/wire.h"

/**
 * xiw_atomic_build - build an Atomic Request (RFC 7306 section 5.2.1)
 * @req: result
 * @slot: work request, already checked
 * @request_id: id that the Response will repeat
 *
 * The verbs support only one field of 64 bits.
 */
void xiw_atomic_build(struct xiw_atomic_req *req, const struct xiw_send_slot *slot,
		      u32 request_id);

/* Whether the operation is assigned (RFC 7306 figure 5); 1 is reserved. */
bool xiw_atomic_known(const struct xiw_atomic_req *req);

/**
 * xiw_atomic_compute - compute the new value of an atomic operation
 * @req: the request; xiw_atomic_known() accepts it
 * @old: the old value, in the byte order of the CPU
 * @new_value: result: the value to store
 *
 * FetchAdd adds field by field: each bit in the mask is the highest bit of a field, and the carry
 * out of it is dropped (RFC 7306 section 5.1.1). CmpSwap compares only the bits in its compare
 * mask, and swaps only the bits in its swap mask (section 5.1.2).
 *
 * Return: false if the comparison failed and nothing is to be stored.
 */
bool xiw_atomic_compute(const struct xiw_atomic_req *req, u64 old, u64 *new_value);

#endif /* XIW_ATOMIC_H */
