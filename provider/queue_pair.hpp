/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* queue_pair.hpp - a queue pair: its mapping, its send queue and its receive queue */
#ifndef XIW_QUEUE_PAIR_HPP
#define XIW_QUEUE_PAIR_HPP

#include <cstdint>

#include "completion_queue.hpp"
#include "domain.hpp"
#include "mapping.hpp"
#include "rdma_core.hpp"
#include "work_queue.hpp"

namespace xiw
{

class QueuePair
{
public:
	static QueuePair &from(ibv_qp *qp) noexcept { return *reinterpret_cast<QueuePair *>(qp); }

	static ibv_qp *create(ibv_pd *pd, ibv_qp_init_attr *attr) noexcept;
	static ibv_qp *create_extended(ibv_context *, ibv_qp_init_attr_ex *attr) noexcept;
	static int destroy(ibv_qp *qp) noexcept;

	int modify(ibv_qp_attr *attr, int mask) noexcept;
	int query(ibv_qp_attr *attr, int mask, ibv_qp_init_attr *init_attr) noexcept;

	/* in post.cpp */
	int post_send(ibv_send_wr *wr, ibv_send_wr **bad) noexcept;
	int post_recv(ibv_recv_wr *wr, ibv_recv_wr **bad) noexcept;

	/* in extended_post.cpp: sets the functions that ibv_wr_*() call */
	void fill_extended_post_ops() noexcept;
	static void fill_batch_ops(ibv_qp_ex &ops) noexcept;
	static void fill_request_ops(ibv_qp_ex &ops) noexcept;
	static void fill_payload_ops(ibv_qp_ex &ops) noexcept;

private:
	static SendQueue &send_queue(ibv_qp_ex *qp) noexcept { return from(&qp->qp_base).sq_; }

	/* Adds a request for memory of the peer. Returns its slot, or nullptr after an error. */
	static xiw_send_slot *wr_add_remote(ibv_qp_ex *qp, std::uint8_t opcode, std::uint32_t rkey,
					    std::uint64_t addr) noexcept
	{
		xiw_send_slot *const slot = send_queue(qp).wr_add(opcode, *qp);

		if (slot) {
			slot->rkey = rkey;
			slot->remote_addr = addr;
		}
		return slot;
	}

	int open(const xiw_create_qp_resp &granted, const ibv_qp_init_attr_ex &attr) noexcept;

	CompletionQueue &send_cq() noexcept { return CompletionQueue::from(vqp_.qp.send_cq); }
	CompletionQueue &recv_cq() noexcept { return CompletionQueue::from(vqp_.qp.recv_cq); }

	void attach() noexcept;
	void remove_doorbells() noexcept;
	void detach() noexcept;
	void reset() noexcept;

	/*
	 * This is the state that libibverbs has stored. RESET is the only one to rely on: the
	 * connection manager changes the state in the kernel, and libibverbs does not learn of
	 * that.
	 */
	bool is_reset() const noexcept { return vqp_.qp.state == IBV_QPS_RESET; }

	verbs_qp vqp_ = {};
	Mapping mapping_;
	ReceiveQueue rq_;
	SendQueue sq_;
	ParentDomainRef parent_domain_;
};

static_assert(std::is_standard_layout_v<QueuePair>, "starts with its ibv_qp");

} /* namespace xiw */

#endif /* XIW_QUEUE_PAIR_HPP */
