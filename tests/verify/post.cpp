/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Posts the steps of a program, by ibv_post_send() or by ibv_wr_*(). */
#include "local.hpp"

#include <arpa/inet.h>

#include <cstring>

namespace verify
{

using namespace rdma;

constexpr std::uint32_t wrong_key = 0x5a5a5a00;
constexpr std::uint32_t zero_based = IBV_ACCESS_ZERO_BASED;

std::vector<ibv_sge> Local::sges(const Order &order) const
{
	const Step &step = order.step;
	std::vector<ibv_sge> all;

	if (step.act == Act::bind)
		return all;
	for (const Piece &piece : step.pieces)
		all.push_back({ backings_[piece.region].base() + piece.offset, piece.length,
				objects_->mrs[piece.region]->lkey });
	if (step.fault == Fault::wrong_lkey)
		all[0].lkey ^= wrong_key;
	return all;
}

std::uint64_t Local::target(const Order &order) const
{
	const Step &step = order.step;

	if (order.zero_based)
		return step.offset - order.part;
	return peer_.bases[step.region] + step.offset;
}

/* The STag that the request names. */
std::uint32_t Local::rkey(const Order &order) const
{
	const Step &step = order.step;
	const std::uint32_t rkey = step.window >= 0 ? order.rkey : peer_.rkeys[step.region];

	return step.fault == Fault::wrong_rkey ? rkey ^ wrong_key : rkey;
}

ibv_mw_bind_info Local::part(const Order &order) const
{
	const Step &step = order.step;
	const Piece &piece = step.pieces[0];

	return { objects_->mrs[piece.region].get(), backings_[piece.region].base() + piece.offset,
		 piece.length, step.access | (step.zero_based ? zero_based : 0u) };
}

static unsigned int flags(const Step &step)
{
	auto flag = [](bool is_set, unsigned int flag) { return is_set ? flag : 0; };

	return flag(step.signaled, IBV_SEND_SIGNALED) | flag(step.fenced, IBV_SEND_FENCE) |
	       flag(step.solicited, IBV_SEND_SOLICITED) | flag(step.inlined, IBV_SEND_INLINE);
}

static ibv_wr_opcode opcode(Act act)
{
	switch (act) {
	case Act::write:
		return IBV_WR_RDMA_WRITE;
	case Act::write_imm:
		return IBV_WR_RDMA_WRITE_WITH_IMM;
	case Act::send_inv:
		return IBV_WR_SEND_WITH_INV;
	case Act::read:
		return IBV_WR_RDMA_READ;
	case Act::fetch_add:
		return IBV_WR_ATOMIC_FETCH_AND_ADD;
	case Act::cmp_swap:
		return IBV_WR_ATOMIC_CMP_AND_SWP;
	case Act::bind:
		return IBV_WR_BIND_MW;
	case Act::local_inv:
		return IBV_WR_LOCAL_INV;
	default:
		return IBV_WR_SEND;
	}
}

ibv_send_wr Local::plain(const Order &order, std::vector<ibv_sge> &sges) const
{
	const Step &step = order.step;
	ibv_send_wr wr = {};

	wr.wr_id = order.wr_id;
	wr.sg_list = sges.data();
	wr.num_sge = static_cast<int>(sges.size());
	wr.opcode = opcode(step.act);
	wr.send_flags = flags(step);
	if (step.act == Act::bind) {
		wr.bind_mw = { window(order), order.rkey, part(order) };
	} else if (step.act == Act::local_inv || step.act == Act::send_inv) {
		wr.invalidate_rkey = rkey(order);
	} else if (is_atomic(step.act)) {
		wr.wr.atomic = { target(order), step.operand, step.swap, rkey(order) };
	} else if (has_target(step.act)) {
		wr.imm_data = htonl(static_cast<std::uint32_t>(step.operand));
		wr.wr.rdma = { target(order), rkey(order) };
	}
	return wr;
}

/* Begins one request of a batch. */
static void begin_request(ibv_qp_ex *qp, const ibv_send_wr &wr)
{
	switch (wr.opcode) {
	case IBV_WR_RDMA_WRITE:
		return ibv_wr_rdma_write(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return ibv_wr_rdma_write_imm(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr,
					     wr.imm_data);
	case IBV_WR_SEND_WITH_INV:
		return ibv_wr_send_inv(qp, wr.invalidate_rkey);
	case IBV_WR_RDMA_READ:
		return ibv_wr_rdma_read(qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return ibv_wr_atomic_fetch_add(qp, wr.wr.atomic.rkey, wr.wr.atomic.remote_addr,
					       wr.wr.atomic.compare_add);
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return ibv_wr_atomic_cmp_swp(qp, wr.wr.atomic.rkey, wr.wr.atomic.remote_addr,
					     wr.wr.atomic.compare_add, wr.wr.atomic.swap);
	case IBV_WR_BIND_MW:
		return ibv_wr_bind_mw(qp, wr.bind_mw.mw, wr.bind_mw.rkey, &wr.bind_mw.bind_info);
	case IBV_WR_LOCAL_INV:
		return ibv_wr_local_inv(qp, wr.invalidate_rkey);
	default:
		return ibv_wr_send(qp);
	}
}

void Local::build(ibv_qp_ex *qp, const Order &order, std::vector<ibv_sge> &sges) const
{
	std::vector<ibv_data_buf> parts;

	qp->wr_id = order.wr_id;
	qp->wr_flags = flags(order.step) & ~static_cast<unsigned int>(IBV_SEND_INLINE);
	begin_request(qp, plain(order, sges));
	if (order.step.inlined) {
		for (const ibv_sge &sge : sges)
			parts.push_back({ reinterpret_cast<void *>(sge.addr), sge.length });
		ibv_wr_set_inline_data_list(qp, parts.size(), parts.data());
	} else if (sges.size() == 1) {
		ibv_wr_set_sge(qp, sges[0].lkey, sges[0].addr, sges[0].length);
	} else if (!sges.empty()) {
		ibv_wr_set_sge_list(qp, sges.size(), sges.data());
	}
}

/* Inline data comes from a copy that changes after the post, and no STag names it. */
void Local::stage_inline(const Order &order, std::vector<ibv_sge> &sges,
			 std::vector<std::uint8_t> &copy) const
{
	std::size_t at = 0;

	copy.resize(max_inline);
	for (std::size_t i = 0; i < sges.size(); i++) {
		const Piece &piece = order.step.pieces[i];
		auto body = backings_[piece.region].body();

		std::memcpy(copy.data() + at, body.data() + piece.offset, piece.length);
		sges[i] = { reinterpret_cast<std::uint64_t>(copy.data() + at), piece.length, 0 };
		at += piece.length;
	}
}

void Local::post_extended(std::span<const Order> orders, std::vector<std::vector<ibv_sge>> &sges)
{
	const Step &first = orders[0].step;
	ibv_qp_ex *qp = ibv_qp_to_qp_ex(this->qp(first.qp));

	ibv_wr_start(qp);
	for (std::size_t i = 0; i < orders.size(); i++)
		build(qp, orders[i], sges[i]);
	if (int err = ibv_wr_complete(qp))
		fail("ibv_wr_complete, " + text(first), err);
}

void Local::post(std::span<const Order> orders)
{
	const Step &first = orders[0].step;
	std::vector<std::vector<std::uint8_t>> copies(orders.size());
	std::vector<std::vector<ibv_sge>> sges;
	std::vector<ibv_send_wr> requests;

	for (std::size_t i = 0; i < orders.size(); i++) {
		sges.push_back(this->sges(orders[i]));
		if (orders[i].step.inlined)
			stage_inline(orders[i], sges[i], copies[i]);
	}
	if (first.extended) {
		post_extended(orders, sges);
	} else {
		for (std::size_t i = 0; i < orders.size(); i++)
			requests.push_back(plain(orders[i], sges[i]));
		make_list(requests);
		if (int err = objects_->connections[first.qp].end->post(requests[0]))
			fail("ibv_post_send, " + text(first), err);
	}
	for (auto &copy : copies)
		std::ranges::fill(copy, 0xee);
}

void Local::post_receive(const Order &order)
{
	const Step &step = order.step;
	std::vector<ibv_sge> sges = this->sges(order);
	ibv_recv_wr wr = { order.wr_id, nullptr, sges.data(), static_cast<int>(sges.size()) };
	ibv_recv_wr *bad;
	ibv_srq *srq = objects_->srq.get();

	if (int err = srq ? ibv_post_srq_recv(srq, &wr, &bad)
			  : objects_->connections[step.qp].end->post(wr))
		fail("a receive is posted, " + text(step), err);
}

} /* namespace verify */
