// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* atomic.cpp - Atomic Requests and their results, computed once more bit by bit */

extern "C" {
#include "wire/atomic.h"
#include <asm/byteorder.h>
}

#include <cstring>

#include "input.hpp"

using fuzz::at;
using fuzz::require;

namespace
{

/* RFC 7306 section 5.1.1: a set bit of the mask is the highest of a field, and drops its carry. */
uint64_t add_by_bits(uint64_t a, uint64_t b, uint64_t mask)
{
	uint64_t sum = 0;
	bool carry = false;

	for (int i = 0; i < 64; i++) {
		int bits = (a >> i & 1) + (b >> i & 1) + carry;

		sum |= uint64_t(bits & 1) << i;
		carry = bits > 1 && !(mask >> i & 1);
	}
	return sum;
}

/* Section 5.1.2. Returns whether the comparison holds. */
bool swap_by_bits(uint64_t &value, uint64_t data, uint64_t mask, uint64_t compare,
		  uint64_t compare_mask)
{
	for (int i = 0; i < 64; i++)
		if ((compare_mask >> i & 1) && (value >> i & 1) != (compare >> i & 1))
			return false;
	for (int i = 0; i < 64; i++)
		if (mask >> i & 1)
			value = (value & ~(1ull << i)) | (data & 1ull << i);
	return true;
}

void any_request(const Octets &octets, uint64_t old)
{
	ExactCopy copy(octets);
	const auto *req = copy.as<xiw_atomic_req>();
	unsigned int operation = octets[3] & 0x0f;
	uint64_t data = at<uint64_t>(octets, 20), mask = at<uint64_t>(octets, 28);
	uint64_t wanted = old;
	u64 found = old;

	require(xiw_atomic_known(req) == (operation == 0 || operation == 2),
		"FetchAdd and CmpSwap are the assigned operations");
	if (!xiw_atomic_known(req))
		return;

	bool stored = true;

	if (operation == 0)
		wanted = add_by_bits(old, data, mask);
	else
		stored = swap_by_bits(wanted, data, mask, at<uint64_t>(octets, 36),
				      at<uint64_t>(octets, 44));
	require(xiw_atomic_compute(req, old, &found) == stored, "both compare alike");
	require(found == wanted, "both compute the same value");
}

/* What a work request asks for, as the verbs define it. */
void own_request(bool add, const xiw_send_slot &slot, uint32_t id, uint64_t old)
{
	xiw_atomic_req req = {};
	u64 found = old;

	xiw_atomic_build(&req, &slot, id);

	Octets octets = octets_of(req);
	uint64_t operand = slot.atomic.compare_add;

	require(octets.size() == 52 && at<uint32_t>(octets, 0) == (add ? 0 : 2),
		"the operation is named, and reserved bits are 0");
	require(at<uint32_t>(octets, 4) == id, "the id is sent");
	require(at<uint32_t>(octets, 8) == slot.rkey, "the STag is sent");
	require(at<uint64_t>(octets, 12) == slot.remote_addr, "the TO is sent");
	require(xiw_atomic_known(&req), "the operation is an assigned one");

	bool stored = xiw_atomic_compute(&req, old, &found);

	require(stored == (add || old == operand), "a swap is done if the values are equal");
	require(found == (add	   ? old + operand
			  : stored ? slot.atomic.swap
				   : old),
		"the result is that of the verbs");
	any_request(octets, old);
}

} /* namespace */

/* The first octet chooses an Atomic Request of any 52 octets, or a work request. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz::Input in(data, size);
	uint8_t what = in.octet();
	auto old = in.take<uint64_t>();

	if (what & 1) {
		xiw_send_slot slot = {};

		slot.opcode = what & 2 ? XIW_OP_FETCH_ADD : XIW_OP_CMP_SWP;
		slot.rkey = in.take<uint32_t>();
		slot.remote_addr = in.take<uint64_t>();
		slot.atomic.compare_add = what & 4 ? old : in.take<uint64_t>();
		slot.atomic.swap = in.take<uint64_t>();
		own_request(what & 2, slot, in.take<uint32_t>(), old);
		return 0;
	}

	Octets request = in.octets(sizeof(xiw_atomic_req));

	request.resize(sizeof(xiw_atomic_req));
	any_request(request, old);
	return 0;
}
