/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* send_rule.hpp - what a send request of each opcode may carry */
#ifndef XIW_SEND_RULE_HPP
#define XIW_SEND_RULE_HPP

#include <cerrno>
#include <cstdint>

#include "rdma_core.hpp"

namespace xiw
{

static_assert(same_number(IBV_WR_RDMA_WRITE, XIW_OP_WRITE));
static_assert(same_number(IBV_WR_RDMA_WRITE_WITH_IMM, XIW_OP_WRITE_IMM));
static_assert(same_number(IBV_WR_SEND, XIW_OP_SEND));
static_assert(same_number(IBV_WR_RDMA_READ, XIW_OP_READ));
static_assert(same_number(IBV_WR_ATOMIC_CMP_AND_SWP, XIW_OP_CMP_SWP));
static_assert(same_number(IBV_WR_ATOMIC_FETCH_AND_ADD, XIW_OP_FETCH_ADD));
static_assert(same_number(IBV_WR_LOCAL_INV, XIW_OP_LOCAL_INV));
static_assert(same_number(IBV_WR_BIND_MW, XIW_OP_BIND_MW));
static_assert(same_number(IBV_WR_SEND_WITH_INV, XIW_OP_SEND_INV));

static_assert(same_number(IBV_SEND_FENCE, XIW_SEND_FENCE));
static_assert(same_number(IBV_SEND_SIGNALED, XIW_SEND_SIGNALED));
static_assert(same_number(IBV_SEND_SOLICITED, XIW_SEND_SOLICITED));
static_assert(same_number(IBV_SEND_INLINE, XIW_SEND_INLINE));

constexpr std::uint32_t known_send_flags =
	XIW_SEND_FENCE | XIW_SEND_SIGNALED | XIW_SEND_SOLICITED | XIW_SEND_INLINE;

constexpr std::uint64_t atomic_len = 8;

struct SendRule {
	int refused = 0; /* the errno if the opcode cannot be posted */
	std::uint32_t max_sge = 0;
	bool may_inline = false;
	bool atomic = false; /* exactly one SGE, of 8 bytes, after the operands */
};

constexpr SendRule rule_of(std::uint32_t opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return { .max_sge = XIW_MAX_SGE, .may_inline = true };
	case IBV_WR_RDMA_READ:
		return { .max_sge = 1 };
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return { .max_sge = 1, .atomic = true };
	case IBV_WR_LOCAL_INV:
	case IBV_WR_BIND_MW:
		return {};
	case IBV_WR_SEND_WITH_IMM:
		return { .refused = EOPNOTSUPP };
	default:
		return { .refused = EINVAL };
	}
}

/* Cannot overflow: it adds at most XIW_MAX_SGE numbers below 2^32. */
inline std::uint64_t total_length(const ibv_sge *sges, std::uint32_t num_sge)
{
	std::uint64_t len = 0;

	for (std::uint32_t i = 0; i < num_sge; i++)
		len += sges[i].length;
	return len;
}

} /* namespace xiw */

#endif /* XIW_SEND_RULE_HPP */
