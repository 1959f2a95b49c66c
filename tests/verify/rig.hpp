/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The objects of the device that a program uses, and how its steps are posted to them. */
#pragma once

#include "../verbs/rdma.hpp"
#include "model.hpp"

#include <deque>
#include <span>
#include <vector>

namespace verify
{

/* Memory for a region, with guards before and behind it that nobody may change. */
class Backing
{
public:
	explicit Backing(unsigned int kind);

	std::span<std::uint8_t> body() { return { memory_.get() + before(), kind_.size }; }
	void start(std::uint64_t seed);
	bool is_guarded() const;
	std::uint64_t base() const; /* the address that the device knows the first byte by */
	rdma::Mr register_at(ibv_pd *pd) const;

private:
	static constexpr std::size_t page = 4096;

	std::size_t before() const { return page + kind_.start; }
	std::size_t total() const { return before() + kind_.size + page; }
	std::uint8_t *first() const { return memory_.get() + before(); }

	const RegionKind &kind_;
	std::unique_ptr<std::uint8_t, decltype(&std::free)> memory_;
};

/* What all programs of a process share: the devices of both ends, and memory. */
class World
{
public:
	explicit World(const std::string &address);

	const std::string &address() const { return address_; }
	ibv_context *context(Side side) { return pds_[side]->context; }
	ibv_pd *pd(Side side) { return pds_[side].get(); }
	Backing &backing(Side side, unsigned int region) { return backing_[side][region]; }

private:
	std::string address_;
	rdma::Pair probe_; /* keeps the devices open */
	rdma::Pd pds_[2];
	std::deque<Backing> backing_[2];
};

/* rdma::Mw has no linkage, because ibv_dealloc_mw() is an inline function of a C header. */
struct FreeWindow {
	void operator()(ibv_mw *mw) const { ibv_dealloc_mw(mw); }
};
using OwnWindow = std::unique_ptr<ibv_mw, FreeWindow>;

/* Connections, queues, regions and windows of one program. */
class Rig
{
public:
	Rig(World &world, const Setup &setup);

	rdma::Pair &pair(unsigned int qp) { return pairs_[qp]; }
	rdma::End &end(Side side, unsigned int qp)
	{
		return side == A ? pairs_[qp].a() : pairs_[qp].b();
	}
	/* The queue pair with this number, or the number of all. */
	unsigned int find(Side side, std::uint32_t qp_num);
	ibv_cq *shared_cq(Side side) const { return cqs_[side].get(); }
	bool is_extended(ibv_cq *cq) const { return cq == extended_[A] || cq == extended_[B]; }
	std::vector<ibv_cq *> cqs(Side side);
	std::uint32_t window_key(Side side, unsigned int qp, unsigned int window) const
	{
		return windows_[side][qp * windows_of_qp + window]->rkey;
	}

	/* All orders go to one queue, and are posted in one call. These fail if that is refused. */
	void post(std::span<const Order> orders);
	void post_receive(const Order &order);
	void resize(Side side, int entries);

private:
	void create_queues(Side side, const Setup &setup);
	std::vector<ibv_sge> sges(const Order &order) const;
	std::uint64_t target(const Order &order) const;
	std::uint32_t rkey(const Order &order) const;
	ibv_mw_bind_info part(const Order &order) const;
	ibv_mw *window(const Order &order) const
	{
		const Step &step = order.step;

		return windows_[step.side][step.qp * windows_of_qp + step.window].get();
	}
	ibv_send_wr plain(const Order &order, std::vector<ibv_sge> &sges) const;
	void post_extended(std::span<const Order> orders, std::vector<std::vector<ibv_sge>> &sges);
	void build(ibv_qp_ex *qp, const Order &order, std::vector<ibv_sge> &sges) const;
	void stage_inline(const Order &order, std::vector<ibv_sge> &sges,
			  std::vector<std::uint8_t> &copy) const;

	/* In the order of creation: later members refer to earlier ones. */
	World &world_;
	rdma::Mr mrs_[2][region_count];
	rdma::Cq cqs_[2];
	ibv_cq *extended_[2] = {};
	rdma::Srq srqs_[2];
	std::vector<OwnWindow> windows_[2];
	std::deque<rdma::Pair> pairs_;
};

} /* namespace verify */
