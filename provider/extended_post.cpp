// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* extended_post.cpp - from ibv_wr_*() to the ring: requests are put together in their slots */

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "memory_window.hpp"
#include "queue_pair.hpp"
#include "send_rule.hpp"
#include "work_queue.hpp"

namespace xiw
{

void SendQueue::start_draft(int err) noexcept
{
	lock_.hold();
	draft_.slot = nullptr;
	draft_.produced = ring_.produced();
	draft_.err = err;
}

/* The last request of the draft is complete: an Atomic has its SGE. */
void SendQueue::finish_request() noexcept
{
	if (draft_.slot && draft_.exact_len && !draft_.slot->num_sge && !draft_.err) [[unlikely]]
		draft_.err = EINVAL;
}

/* Its slot, with a header that names neither data nor target; or nullptr. */
xiw_send_slot *SendQueue::add_to_draft(std::uint8_t opcode, const ibv_qp_ex &qp) noexcept
{
	const SendRule rule = rule_of(opcode);

	finish_request();
	draft_.slot = nullptr;
	if (draft_.err) [[unlikely]]
		return nullptr;
	if (qp.wr_flags & ~known_send_flags) [[unlikely]] {
		draft_.err = EINVAL;
		return nullptr;
	}
	if (!ring_.has_room(draft_.produced, retired_.word())) [[unlikely]] {
		draft_.err = ENOMEM;
		return nullptr;
	}

	auto *slot = reinterpret_cast<xiw_send_slot *>(ring_.slot(draft_.produced++));

	slot->wr_id = qp.wr_id;
	slot->opcode = opcode;
	/* whether data is inline is said by who sets it */
	slot->flags = static_cast<std::uint8_t>(qp.wr_flags & ~std::uint32_t{ XIW_SEND_INLINE });
	if (limits_.signal_all)
		slot->flags |= XIW_SEND_SIGNALED;
	slot->num_sge = 0;
	slot->reserved = 0;
	slot->inline_len = 0;
	slot->remote_addr = 0;
	slot->rkey = 0;
	slot->imm_inv = 0;

	draft_.slot = slot;
	draft_.sges = reinterpret_cast<ibv_sge *>(slot->data);
	if (rule.atomic)
		draft_.sges++; /* the operands are of the same size */
	draft_.max_sge = std::min(rule.max_sge, limits_.max_sge);
	draft_.exact_len = rule.atomic ? atomic_len : 0;
	draft_.may_inline = rule.may_inline;
	draft_.max_inline = limits_.max_inline;
	return slot;
}

void SendQueue::set_sge(const ibv_sge &sge) noexcept
{
	if (!draft_.slot) [[unlikely]]
		return;
	if (!draft_.max_sge || (draft_.exact_len && sge.length != draft_.exact_len)) [[unlikely]] {
		draft_.err = EINVAL;
		return;
	}
	draft_.slot->num_sge = 1;
	*draft_.sges = sge;
}

void SendQueue::set_sges(std::size_t num_sge, const ibv_sge *sges) noexcept
{
	if (!draft_.slot) [[unlikely]]
		return;
	if (num_sge > draft_.max_sge) [[unlikely]] {
		draft_.err = EINVAL;
		return;
	}

	const auto len = total_length(sges, static_cast<std::uint32_t>(num_sge));
	if (len > UINT32_MAX || (draft_.exact_len && len != draft_.exact_len)) [[unlikely]] {
		draft_.err = EINVAL;
		return;
	}
	draft_.slot->num_sge = static_cast<std::uint8_t>(num_sge);
	std::copy_n(sges, num_sge, draft_.sges);
}

void SendQueue::set_inline(std::size_t num_buf, const ibv_data_buf *bufs) noexcept
{
	xiw_send_slot *const slot = draft_.slot;
	std::uint32_t len = 0;

	if (!slot) [[unlikely]]
		return;
	if (!draft_.may_inline) [[unlikely]] {
		draft_.err = EINVAL;
		return;
	}
	for (const ibv_data_buf *buf = bufs; buf != bufs + num_buf; buf++) {
		if (buf->length > draft_.max_inline - len) [[unlikely]] {
			draft_.err = EINVAL;
			return;
		}
		if (buf->length)
			std::memcpy(slot->data + len, buf->addr, buf->length);
		len += static_cast<std::uint32_t>(buf->length);
	}
	slot->flags |= XIW_SEND_INLINE;
	slot->inline_len = len;
}

/* It rings without the lock, like ibv_post_send(). */
int SendQueue::post_draft() noexcept
{
	std::uint32_t flags = 0;

	finish_request();
	const int err = draft_.err;
	if (!err && draft_.produced != ring_.produced())
		flags = ring_.publish(draft_.produced);
	lock_.release();
	return flags ? tell(flags) : err;
}

void QueuePair::offer_extended_post() noexcept
{
	ibv_qp_ex &qp = vqp_.qp_ex;

	vqp_.comp_mask |= VERBS_QP_EX;
	qp.wr_start = [](ibv_qp_ex *of) {
		QueuePair &queue_pair = from(&of->qp_base);

		queue_pair.sq_.start_draft(queue_pair.is_reset() ? EINVAL : 0);
	};
	qp.wr_complete = [](ibv_qp_ex *of) { return send_queue(of).post_draft(); };
	qp.wr_abort = [](ibv_qp_ex *of) { send_queue(of).drop_draft(); };

	qp.wr_send = [](ibv_qp_ex *of) { send_queue(of).add_to_draft(XIW_OP_SEND, *of); };
	qp.wr_send_inv = [](ibv_qp_ex *of, std::uint32_t rkey) {
		if (auto *slot = send_queue(of).add_to_draft(XIW_OP_SEND_INV, *of))
			slot->imm_inv = rkey;
	};
	qp.wr_local_inv = [](ibv_qp_ex *of, std::uint32_t rkey) {
		if (auto *slot = send_queue(of).add_to_draft(XIW_OP_LOCAL_INV, *of))
			slot->rkey = rkey;
	};
	qp.wr_bind_mw = [](ibv_qp_ex *of, ibv_mw *, std::uint32_t rkey,
			   const ibv_mw_bind_info *info) {
		if (auto *slot = send_queue(of).add_to_draft(XIW_OP_BIND_MW, *of)) {
			slot->rkey = rkey;
			slot->bind = bind_of(*info);
		}
	};
	qp.wr_rdma_write = [](ibv_qp_ex *of, std::uint32_t rkey, std::uint64_t addr) {
		add_with_target(of, XIW_OP_WRITE, rkey, addr);
	};
	qp.wr_rdma_write_imm = [](ibv_qp_ex *of, std::uint32_t rkey, std::uint64_t addr,
				  __be32 imm) {
		if (auto *slot = add_with_target(of, XIW_OP_WRITE_IMM, rkey, addr))
			slot->imm_inv = imm;
	};
	qp.wr_rdma_read = [](ibv_qp_ex *of, std::uint32_t rkey, std::uint64_t addr) {
		add_with_target(of, XIW_OP_READ, rkey, addr);
	};
	qp.wr_atomic_cmp_swp = [](ibv_qp_ex *of, std::uint32_t rkey, std::uint64_t addr,
				  std::uint64_t compare, std::uint64_t swap) {
		if (auto *slot = add_with_target(of, XIW_OP_CMP_SWP, rkey, addr))
			slot->atomic = { .compare_add = compare, .swap = swap };
	};
	qp.wr_atomic_fetch_add = [](ibv_qp_ex *of, std::uint32_t rkey, std::uint64_t addr,
				    std::uint64_t add) {
		if (auto *slot = add_with_target(of, XIW_OP_FETCH_ADD, rkey, addr))
			slot->atomic = { .compare_add = add, .swap = 0 };
	};

	qp.wr_set_sge = [](ibv_qp_ex *of, std::uint32_t lkey, std::uint64_t addr,
			   std::uint32_t length) {
		send_queue(of).set_sge({ .addr = addr, .length = length, .lkey = lkey });
	};
	qp.wr_set_sge_list = [](ibv_qp_ex *of, std::size_t num_sge, const ibv_sge *sges) {
		send_queue(of).set_sges(num_sge, sges);
	};
	qp.wr_set_inline_data = [](ibv_qp_ex *of, void *addr, std::size_t length) {
		const ibv_data_buf buf = { .addr = addr, .length = length };

		send_queue(of).set_inline(1, &buf);
	};
	qp.wr_set_inline_data_list = [](ibv_qp_ex *of, std::size_t num_buf,
					const ibv_data_buf *bufs) {
		send_queue(of).set_inline(num_buf, bufs);
	};
}

} /* namespace xiw */
