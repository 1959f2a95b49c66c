// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* poll.cpp - ibv_poll_cq(): copies completions from the ring to ibv_wc */

#include <cerrno>
#include <mutex>

#include "completion_queue.hpp"
#include "patience.hpp"

namespace xiw
{

namespace
{

static_assert(same_number(IBV_WC_SEND, XIW_WC_SEND));
static_assert(same_number(IBV_WC_RDMA_WRITE, XIW_WC_WRITE));
static_assert(same_number(IBV_WC_RDMA_READ, XIW_WC_READ));
static_assert(same_number(IBV_WC_COMP_SWAP, XIW_WC_CMP_SWP));
static_assert(same_number(IBV_WC_FETCH_ADD, XIW_WC_FETCH_ADD));
static_assert(same_number(IBV_WC_BIND_MW, XIW_WC_BIND_MW));
static_assert(same_number(IBV_WC_LOCAL_INV, XIW_WC_LOCAL_INV));
static_assert(same_number(IBV_WC_RECV, XIW_WC_RECV));
static_assert(same_number(IBV_WC_RECV_RDMA_WITH_IMM, XIW_WC_RECV_IMM));

static_assert(same_number(IBV_WC_WITH_IMM, XIW_WC_WITH_IMM));
static_assert(same_number(IBV_WC_WITH_INV, XIW_WC_WITH_INV));

/* Assigns each field, because the compiler would build a whole ibv_wc on the stack and copy it. */
void fill(ibv_wc &wc, const xiw_cqe &cqe)
{
	wc.wr_id = cqe.wr_id;
	wc.status = static_cast<ibv_wc_status>(cqe.status);
	wc.opcode = static_cast<ibv_wc_opcode>(cqe.opcode);
	wc.vendor_err = cqe.vendor_err;
	wc.byte_len = cqe.byte_len;
	wc.imm_data = cqe.imm_inv; /* a union with wc.invalidated_rkey */
	wc.qp_num = cqe.qpn;
	wc.wc_flags = cqe.flags;

	/* datagrams only */
	wc.src_qp = 0;
	wc.pkey_index = 0;
	wc.slid = 0;
	wc.sl = 0;
	wc.dlid_path_bits = 0;
}

} /* namespace */

int CompletionQueue::take(int max, ibv_wc *wc) noexcept
{
	std::lock_guard guard(lock_);
	int n = 0;

	while (n < max) {
		const xiw_cqe *cqe = ring_.peek();
		if (!cqe && !n && make_progress())
			cqe = ring_.peek();
		if (!cqe)
			break;
		fill(wc[n++], *cqe);
		consume_entry(cqe->qpn, cqe->opcode, cqe->sq_count);
	}
	return !n && moved_ ? -ENOMEM : n;
}

int CompletionQueue::poll(int max, ibv_wc *wc) noexcept
{
	const int n = take(max, wc);

	if (n)
		Patience::end();
	else
		Patience::found_nothing();
	return n;
}

} /* namespace xiw */
