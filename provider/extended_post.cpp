// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* extended_post.cpp - ibv_wr_*(): builds work requests in the slots of the ring */

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "memory_window.hpp"
#include "queue_pair.hpp"
#include "send_rule.hpp"
#include "work_queue.hpp"

namespace xiw
{

void SendQueue::wr_start(int err) noexcept
{
	lock_.hold();
	batch_.slot = nullptr;
	batch_.produced = ring_.produced();
	batch_.err = err;
}

/* Nothing more is set in the last request. Fails the batch if that is an Atomic without its SGE. */
void SendQueue::check_last_request() noexcept
{
	if (batch_.slot && batch_.exact_len && !batch_.slot->num_sge && !batch_.err) [[unlikely]]
		batch_.err = EINVAL;
}

/* Returns the slot, whose header names neither data nor target yet, or nullptr after an error. */
xiw_send_slot *SendQueue::wr_add(std::uint8_t opcode, const ibv_qp_ex &qp) noexcept
{
	const SendRule rule = rule_of(opcode);

	check_last_request();
	batch_.slot = nullptr;
	if (batch_.err) [[unlikely]]
		return nullptr;
	if (qp.wr_flags & ~known_send_flags) [[unlikely]] {
		batch_.err = EINVAL;
		return nullptr;
	}
	if (!ring_.has_room(batch_.produced, finished_.word())) [[unlikely]] {
		batch_.err = ENOMEM;
		return nullptr;
	}

	auto *slot = reinterpret_cast<xiw_send_slot *>(ring_.slot(batch_.produced++));

	slot->wr_id = qp.wr_id;
	slot->opcode = opcode;
	/* wr_set_inline_data_list() sets XIW_SEND_INLINE; the program's flag is ignored */
	slot->flags = static_cast<std::uint8_t>(qp.wr_flags & ~std::uint32_t{ XIW_SEND_INLINE });
	if (limits_.signal_all)
		slot->flags |= XIW_SEND_SIGNALED;
	slot->num_sge = 0;
	slot->reserved = 0;
	slot->inline_len = 0;
	slot->remote_addr = 0;
	slot->rkey = 0;
	slot->imm_inv = 0;

	batch_.slot = slot;
	batch_.sges = reinterpret_cast<ibv_sge *>(slot->data);
	if (rule.atomic)
		batch_.sges++; /* the operands come first, and are as large as one SGE */
	batch_.max_sge = std::min(rule.max_sge, limits_.max_sge);
	batch_.exact_len = rule.atomic ? atomic_len : 0;
	batch_.may_inline = rule.may_inline;
	batch_.max_inline = limits_.max_inline;
	return slot;
}

void SendQueue::wr_set_sge(const ibv_sge &sge) noexcept
{
	if (!batch_.slot) [[unlikely]]
		return;
	if (!batch_.max_sge || (batch_.exact_len && sge.length != batch_.exact_len)) [[unlikely]] {
		batch_.err = EINVAL;
		return;
	}
	batch_.slot->num_sge = 1;
	*batch_.sges = sge;
}

void SendQueue::wr_set_sge_list(std::size_t num_sge, const ibv_sge *sges) noexcept
{
	if (!batch_.slot) [[unlikely]]
		return;
	if (num_sge > batch_.max_sge) [[unlikely]] {
		batch_.err = EINVAL;
		return;
	}

	const auto len = total_length(sges, static_cast<std::uint32_t>(num_sge));
	if (len > UINT32_MAX || (batch_.exact_len && len != batch_.exact_len)) [[unlikely]] {
		batch_.err = EINVAL;
		return;
	}
	batch_.slot->num_sge = static_cast<std::uint8_t>(num_sge);
	std::copy_n(sges, num_sge, batch_.sges);
}

void SendQueue::wr_set_inline_data_list(std::size_t num_buf, const ibv_data_buf *bufs) noexcept
{
	xiw_send_slot *const slot = batch_.slot;
	std::uint32_t len = 0;

	if (!slot) [[unlikely]]
		return;
	if (!batch_.may_inline) [[unlikely]] {
		batch_.err = EINVAL;
		return;
	}
	for (const ibv_data_buf *buf = bufs; buf != bufs + num_buf; buf++) {
		if (buf->length > batch_.max_inline - len) [[unlikely]] {
			batch_.err = EINVAL;
			return;
		}
		if (buf->length)
			std::memcpy(slot->data + len, buf->addr, buf->length);
		len += static_cast<std::uint32_t>(buf->length);
	}
	slot->flags |= XIW_SEND_INLINE;
	slot->inline_len = len;
}

/* Rings without the lock: see post_list(). */
int SendQueue::wr_complete() noexcept
{
	std::uint32_t flags = 0;

	check_last_request();
	const int err = batch_.err;
	if (!err && batch_.produced != ring_.produced())
		flags = ring_.publish(batch_.produced);
	lock_.release();
	return flags ? notify_kernel(flags) : err;
}

void QueuePair::fill_batch_ops(ibv_qp_ex &ops) noexcept
{
	ops.wr_start = [](ibv_qp_ex *qp) {
		QueuePair &queue_pair = from(&qp->qp_base);

		queue_pair.sq_.wr_start(queue_pair.is_reset() ? EINVAL : 0);
	};
	ops.wr_complete = [](ibv_qp_ex *qp) { return send_queue(qp).wr_complete(); };
	ops.wr_abort = [](ibv_qp_ex *qp) { send_queue(qp).wr_abort(); };
}

void QueuePair::fill_request_ops(ibv_qp_ex &ops) noexcept
{
	ops.wr_send = [](ibv_qp_ex *qp) { send_queue(qp).wr_add(XIW_OP_SEND, *qp); };
	ops.wr_send_inv = [](ibv_qp_ex *qp, std::uint32_t rkey) {
		if (auto *slot = send_queue(qp).wr_add(XIW_OP_SEND_INV, *qp))
			slot->imm_inv = rkey;
	};
	ops.wr_local_inv = [](ibv_qp_ex *qp, std::uint32_t rkey) {
		if (auto *slot = send_queue(qp).wr_add(XIW_OP_LOCAL_INV, *qp))
			slot->rkey = rkey;
	};
	ops.wr_bind_mw = [](ibv_qp_ex *qp, ibv_mw *, std::uint32_t rkey,
			    const ibv_mw_bind_info *info) {
		if (auto *slot = send_queue(qp).wr_add(XIW_OP_BIND_MW, *qp)) {
			slot->rkey = rkey;
			slot->bind = bind_of(*info);
		}
	};
	ops.wr_rdma_write = [](ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t addr) {
		wr_add_remote(qp, XIW_OP_WRITE, rkey, addr);
	};
	ops.wr_rdma_write_imm = [](ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t addr,
				   __be32 imm) {
		if (auto *slot = wr_add_remote(qp, XIW_OP_WRITE_IMM, rkey, addr))
			slot->imm_inv = imm;
	};
	ops.wr_rdma_read = [](ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t addr) {
		wr_add_remote(qp, XIW_OP_READ, rkey, addr);
	};
	ops.wr_atomic_cmp_swp = [](ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t addr,
				   std::uint64_t compare, std::uint64_t swap) {
		if (auto *slot = wr_add_remote(qp, XIW_OP_CMP_SWP, rkey, addr))
			slot->atomic = { .compare_add = compare, .swap = swap };
	};
	ops.wr_atomic_fetch_add = [](ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t addr,
				     std::uint64_t add) {
		if (auto *slot = wr_add_remote(qp, XIW_OP_FETCH_ADD, rkey, addr))
			slot->atomic = { .compare_add = add, .swap = 0 };
	};
}

void QueuePair::fill_payload_ops(ibv_qp_ex &ops) noexcept
{
	ops.wr_set_sge = [](ibv_qp_ex *qp, std::uint32_t lkey, std::uint64_t addr,
			    std::uint32_t length) {
		send_queue(qp).wr_set_sge({ .addr = addr, .length = length, .lkey = lkey });
	};
	ops.wr_set_sge_list = [](ibv_qp_ex *qp, std::size_t num_sge, const ibv_sge *sges) {
		send_queue(qp).wr_set_sge_list(num_sge, sges);
	};
	ops.wr_set_inline_data = [](ibv_qp_ex *qp, void *addr, std::size_t length) {
		const ibv_data_buf buf = { .addr = addr, .length = length };

		send_queue(qp).wr_set_inline_data_list(1, &buf);
	};
	ops.wr_set_inline_data_list = [](ibv_qp_ex *qp, std::size_t num_buf,
					 const ibv_data_buf *bufs) {
		send_queue(qp).wr_set_inline_data_list(num_buf, bufs);
	};
}

void QueuePair::fill_extended_post_ops() noexcept
{
	vqp_.comp_mask |= VERBS_QP_EX;
	fill_batch_ops(vqp_.qp_ex);
	fill_request_ops(vqp_.qp_ex);
	fill_payload_ops(vqp_.qp_ex);
}

} /* namespace xiw */
