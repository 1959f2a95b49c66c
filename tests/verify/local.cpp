/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A side of the programs that is in this process. */
#include "local.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <format>

namespace verify
{

using namespace rdma;

constexpr std::uint8_t guard = 0xa5;

constexpr std::uint64_t all_requests =
	IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
	IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
	IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
	IBV_QP_EX_WITH_SEND_WITH_INV;

constexpr std::uint16_t any_port = 1; /* only to find the way to an address */

Backing::Backing(unsigned int kind)
	: kind_(regions[kind]), memory_(static_cast<std::uint8_t *>(std::aligned_alloc(
						page, (total() + page - 1) / page * page)),
					std::free)
{
	std::memset(memory_.get(), guard, total());
}

void Backing::start(std::uint64_t seed)
{
	std::memcpy(first(), noise(seed), kind_.size);
}

bool Backing::is_guarded() const
{
	auto is_guard = [](std::uint8_t octet) { return octet == guard; };

	return std::all_of(memory_.get(), first(), is_guard) &&
	       std::all_of(first() + kind_.size, memory_.get() + total(), is_guard);
}

std::uint64_t Backing::base() const
{
	return kind_.iova ? kind_.iova + kind_.start : reinterpret_cast<std::uint64_t>(first());
}

Mr Backing::register_at(ibv_pd *pd) const
{
	Mr mr(ibv_reg_mr_iova(pd, first(), kind_.size, base(), kind_.access));

	if (!mr)
		fail("ibv_reg_mr_iova", errno);
	return mr;
}

Local::Local(Side side, const std::string &address)
	: side_(side), address_(address), channel_(create_event_channel())
{
	sockaddr_storage at = parse_address(address, 0);

	if (side == A) {
		probe_ = resolve(channel_.get(), address, any_port);
	} else {
		probe_ = create_id(channel_.get());
		if (rdma_bind_addr(probe_.get(), reinterpret_cast<sockaddr *>(&at)))
			fail("rdma_bind_addr", errno);
	}
	require(probe_->verbs, "a device has the address");
	pd_.reset(ibv_alloc_pd(probe_->verbs));
	if (!pd_)
		fail("ibv_alloc_pd", errno);
	for (unsigned int region = 0; region < region_count; region++)
		backings_.emplace_back(region);
}

void Local::create_queues()
{
	const SideSetup &wanted = setup_.sides[side_];
	const auto entries = setup_.cq_entries();

	if (is_extended()) {
		ibv_cq_init_attr_ex attr = {};

		attr.cqe = entries;
		attr.wc_flags = IBV_WC_STANDARD_FLAGS;

		ibv_cq_ex *cq = ibv_create_cq_ex(probe_->verbs, &attr);

		objects_->cq.reset(cq ? ibv_cq_ex_to_cq(cq) : nullptr);
	} else if (wanted.one_cq) {
		objects_->cq.reset(ibv_create_cq(probe_->verbs, static_cast<int>(entries), nullptr,
						 nullptr, 0));
	}
	if (wanted.one_cq && !objects_->cq)
		fail("a completion queue is created", errno);
	if (wanted.srq) {
		ibv_srq_init_attr attr = { nullptr, { setup_.depth, setup_.sges, 0 } };

		objects_->srq.reset(ibv_create_srq(pd_.get(), &attr));
		if (!objects_->srq)
			fail("ibv_create_srq", errno);
	}
}

Keys Local::begin(const Setup &setup)
{
	Keys keys = {};

	end(); /* what a program that failed has left */
	setup_ = setup;
	objects_.emplace();
	for (unsigned int region = 0; region < region_count; region++) {
		Backing &backing = backings_[region];

		backing.start(setup.seed + 1000u * side_ + 100u * region);
		objects_->mrs[region] = backing.register_at(pd_.get());
		keys.bases[region] = backing.base();
		keys.rkeys[region] = objects_->mrs[region]->rkey;
	}
	create_queues();
	for (unsigned int i = 0; i < setup.qps * windows_of_qp; i++) {
		objects_->windows.emplace_back(ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2));
		if (!objects_->windows.back())
			fail("ibv_alloc_mw", errno);
		keys.windows[i] = objects_->windows.back()->rkey;
	}
	return keys;
}

QpOptions Local::options() const
{
	return { .send_wr = setup_.depth,
		 .recv_wr = setup_.depth,
		 .send_sge = setup_.sges,
		 .recv_sge = setup_.sges,
		 .inline_data = max_inline,
		 .cq_entries = static_cast<int>(2 * setup_.depth),
		 .srq = objects_->srq.get(),
		 .cq = objects_->cq.get(),
		 .pd = pd_.get(),
		 .send_ops = setup_.extended ? all_requests : 0,
		 .ord = static_cast<std::uint8_t>(setup_.ord) };
}

/* Connects or accepts with a queue pair of the program. */
void Local::establish(Connection &connection, Id id)
{
	rdma_conn_param parameters = connection_parameters();

	parameters.initiator_depth = static_cast<std::uint8_t>(setup_.ord);
	connection.end.emplace(std::move(id), options());
	if (side_ == A)
		connection.end->connect(parameters);
	else
		connection.end->accept(parameters);
}

std::uint16_t Local::listen()
{
	Connection &connection = objects_->connections.emplace_back();

	connection.listener.emplace(address_);
	/* The port is at the same place in both kinds of address. */
	return ntohs(
		reinterpret_cast<const sockaddr_in *>(connection.listener->address())->sin_port);
}

void Local::call(std::uint16_t port)
{
	Connection &connection = objects_->connections.emplace_back();

	connection.own_channel = create_event_channel();
	establish(connection, resolve(connection.channel(), address_, port));
}

void Local::answer()
{
	Connection &connection = objects_->connections.back();

	establish(connection, connection.listener->next_request());
}

void Local::await_connection()
{
	expect_event(objects_->connections.back().channel(), RDMA_CM_EVENT_ESTABLISHED);
}

void Local::end() noexcept
{
	objects_.reset();
}

void Local::resize(std::uint32_t entries)
{
	if (int err = ibv_resize_cq(objects_->cq.get(), static_cast<int>(entries)))
		fail("ibv_resize_cq", err);
}

void Local::fill(const Step &step)
{
	for (const Piece &piece : step.pieces)
		std::copy_n(noise(step.operand), piece.length,
			    backings_[piece.region].body().begin() + piece.offset);
}

void Local::disconnect(std::uint32_t qp)
{
	if (rdma_disconnect(objects_->connections[qp].end->id()))
		fail("rdma_disconnect", errno);
}

void Local::await_end(std::uint32_t qp)
{
	Connection &connection = objects_->connections[qp];

	expect_event(connection.channel(), RDMA_CM_EVENT_DISCONNECTED);
	if (connection.end->state() != IBV_QPS_ERR)
		throw Mismatch("the queue pair is not in error");
}

void Local::check_guards()
{
	for (unsigned int region = 0; region < region_count; region++)
		if (!backings_[region].is_guarded())
			throw Mismatch(std::format("memory beside region {} has changed", region));
}

/*
 * Completions
 */

std::uint32_t Local::find(std::uint32_t qp_num)
{
	std::uint32_t number = 0;

	while (number < objects_->connections.size() && qp(number)->qp_num != qp_num)
		number++;
	if (number == objects_->connections.size())
		throw Mismatch(std::format("a completion of queue pair {:#x}", qp_num));
	return number;
}

std::vector<ibv_cq *> Local::cqs()
{
	std::vector<ibv_cq *> all;

	if (objects_->cq)
		return { objects_->cq.get() };
	for (const Connection &connection : objects_->connections) {
		all.push_back(connection.end->send_cq());
		all.push_back(connection.end->recv_cq());
	}
	return all;
}

static std::size_t poll_extended(ibv_cq_ex *cq, std::span<ibv_wc> wcs)
{
	ibv_poll_cq_attr attr = {};
	std::size_t count = 0;
	int err = ibv_start_poll(cq, &attr);

	if (err == ENOENT)
		return 0;
	if (err)
		throw Mismatch(std::format("ibv_start_poll returns {}", err));
	do {
		ibv_wc &wc = wcs[count++];

		wc = {};
		wc.wr_id = cq->wr_id;
		wc.status = cq->status;
		wc.opcode = ibv_wc_read_opcode(cq);
		wc.byte_len = ibv_wc_read_byte_len(cq);
		wc.wc_flags = ibv_wc_read_wc_flags(cq);
		wc.qp_num = ibv_wc_read_qp_num(cq);
		if (wc.wc_flags & IBV_WC_WITH_INV)
			wc.invalidated_rkey = ibv_wc_read_invalidated_rkey(cq);
		else
			wc.imm_data = ibv_wc_read_imm_data(cq);
	} while (count < wcs.size() && !ibv_next_poll(cq));
	ibv_end_poll(cq);
	return count;
}

std::vector<Arrival> Local::poll()
{
	std::vector<Arrival> arrived;
	std::array<ibv_wc, 8> wcs;

	for (ibv_cq *cq : cqs()) {
		int count;

		if (is_extended())
			count = static_cast<int>(
				poll_extended(reinterpret_cast<ibv_cq_ex *>(cq), wcs));
		else
			count = ibv_poll_cq(cq, wcs.size(), wcs.data());
		if (count < 0)
			throw Mismatch(std::format("ibv_poll_cq returns {}", count));
		for (const ibv_wc &wc : std::span(wcs).first(static_cast<std::size_t>(count)))
			arrived.push_back({ find(wc.qp_num), wc });
	}
	return arrived;
}

} /* namespace verify */
