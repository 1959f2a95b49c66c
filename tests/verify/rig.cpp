/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The objects of the device that a program uses. */
#include "rig.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace verify
{

using namespace rdma;

constexpr std::uint8_t guard = 0xa5;

constexpr std::uint64_t all_requests =
	IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
	IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
	IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
	IBV_QP_EX_WITH_SEND_WITH_INV;

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

World::World(const std::string &address) : address_(address), probe_(address)
{
	for (Side side : { A, B }) {
		End &end = side == A ? probe_.a() : probe_.b();

		pds_[side].reset(ibv_alloc_pd(end.id()->verbs));
		if (!pds_[side])
			fail("ibv_alloc_pd", errno);
		for (unsigned int region = 0; region < region_count; region++)
			backing_[side].emplace_back(region);
	}
}

void Rig::create_queues(Side side, const Setup &setup)
{
	const SideSetup &wanted = setup.sides[side];
	ibv_context *context = world_.context(side);
	const auto entries = static_cast<int>(setup.cq_entries());

	if (wanted.one_cq && wanted.extended_cq) {
		ibv_cq_init_attr_ex attr = {};

		attr.cqe = setup.cq_entries();
		attr.wc_flags = IBV_WC_STANDARD_FLAGS;

		ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);

		cqs_[side].reset(cq ? ibv_cq_ex_to_cq(cq) : nullptr);
		extended_[side] = cqs_[side].get();
	} else if (wanted.one_cq) {
		cqs_[side].reset(ibv_create_cq(context, entries, nullptr, nullptr, 0));
	}
	if (wanted.one_cq && !cqs_[side])
		fail("a completion queue is created", errno);
	if (wanted.srq) {
		ibv_srq_init_attr attr = { nullptr, { setup.depth, setup.sges, 0 } };

		srqs_[side].reset(ibv_create_srq(world_.pd(side), &attr));
		if (!srqs_[side])
			fail("ibv_create_srq", errno);
	}
	for (unsigned int i = 0; i < setup.qps * windows_of_qp; i++) {
		windows_[side].emplace_back(ibv_alloc_mw(world_.pd(side), IBV_MW_TYPE_2));
		if (!windows_[side].back())
			fail("ibv_alloc_mw", errno);
	}
}

Rig::Rig(World &world, const Setup &setup) : world_(world)
{
	QpOptions options[2];

	for (Side side : { A, B }) {
		for (unsigned int region = 0; region < region_count; region++) {
			Backing &backing = world.backing(side, region);

			backing.start(setup.seed + 1000u * side + 100u * region);
			mrs_[side][region] = backing.register_at(world.pd(side));
		}
		create_queues(side, setup);
		options[side] = { .send_wr = setup.depth,
				  .recv_wr = setup.depth,
				  .send_sge = setup.sges,
				  .recv_sge = setup.sges,
				  .inline_data = max_inline,
				  .cq_entries = static_cast<int>(2 * setup.depth),
				  .srq = srqs_[side].get(),
				  .cq = cqs_[side].get(),
				  .pd = world.pd(side),
				  .send_ops = setup.extended ? all_requests : 0,
				  .ord = static_cast<std::uint8_t>(setup.ord) };
	}
	for (unsigned int i = 0; i < setup.qps; i++)
		pairs_.emplace_back(world.address(), options[A], options[B]);
}

unsigned int Rig::find(Side side, std::uint32_t qp_num)
{
	unsigned int qp = 0;

	while (qp < pairs_.size() && end(side, qp).qp()->qp_num != qp_num)
		qp++;
	return qp;
}

std::vector<ibv_cq *> Rig::cqs(Side side)
{
	std::vector<ibv_cq *> all;

	if (cqs_[side])
		return { cqs_[side].get() };
	for (unsigned int qp = 0; qp < pairs_.size(); qp++) {
		all.push_back(end(side, qp).send_cq());
		all.push_back(end(side, qp).recv_cq());
	}
	return all;
}

void Rig::resize(Side side, int entries)
{
	if (int err = ibv_resize_cq(cqs_[side].get(), entries))
		fail("ibv_resize_cq", err);
}

} /* namespace verify */
