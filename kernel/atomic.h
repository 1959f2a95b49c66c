/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* atomic.h - Atomic Requests, and what they make of a value */
#ifndef XIW_ATOMIC_H
#define XIW_ATOMIC_H

#include <rdma/xiw-abi.h>

#include "wire.h"

/**
 * xiw_atomic_build - lay out an Atomic Request (RFC 7306 section 5.2.1)
 * @req: result
 * @slot: work request, judged
 * @request_id: what the Response will name
 *
 * The verbs know one field of 64 bits only.
 */
void xiw_atomic_build(struct xiw_atomic_req *req, const struct xiw_send_slot *slot,
		      u32 request_id);

/* Whether there is such an operation (RFC 7306 figure 5); 1 is reserved. */
bool xiw_atomic_known(const struct xiw_atomic_req *req);

/**
 * xiw_atomic_compute - what an atomic operation makes of a value
 * @req: the request, of an operation that is known
 * @old: the value, as the CPU sees it
 * @new_value: result: the value to be stored
 *
 * FetchAdd adds field by field: a bit of the mask is the highest of its field, and what is carried
 * out of it is dropped (RFC 7306 section 5.1.1). CmpSwap compares and swaps only the bits of its
 * two masks (section 5.1.2).
 *
 * Return: false if nothing is to be stored, because the comparison failed.
 */
bool xiw_atomic_compute(const struct xiw_atomic_req *req, u64 old, u64 *new_value);

#endif /* XIW_ATOMIC_H */
