/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A side of the programs that is in this process. */
#pragma once

#include "../verbs/rdma.hpp"
#include "party.hpp"

#include <deque>
#include <memory>
#include <optional>
#include <string>

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

/* rdma::Mw has no linkage, because ibv_dealloc_mw() is an inline function of a C header. */
struct FreeWindow {
	void operator()(ibv_mw *mw) const { ibv_dealloc_mw(mw); }
};
using OwnWindow = std::unique_ptr<ibv_mw, FreeWindow>;

class Local : public Party
{
public:
	/* @address: the device of B has it; A calls it */
	Local(Side side, const std::string &address);

	Keys begin(const Setup &setup) override;
	std::uint16_t listen() override;
	void call(std::uint16_t port) override;
	void answer() override;
	void await_connection() override;
	void meet(const Keys &peer) override { peer_ = peer; }
	void end() noexcept override;

	void post(std::span<const Order> orders) override;
	void post_receive(const Order &order) override;
	void resize(std::uint32_t entries) override;
	void fill(const Step &step) override;

	std::vector<Arrival> poll() override;

	void disconnect(std::uint32_t qp) override;
	void await_end(std::uint32_t qp) override;

	std::span<const std::uint8_t> memory(std::uint32_t region, std::uint32_t offset,
					     std::uint32_t length) override
	{
		return backings_[region].body().subspan(offset, length);
	}
	void check_guards() override;

private:
	struct Connection {
		std::optional<rdma::Listener> listener; /* of B */
		rdma::EventChannel own_channel;		/* of A */
		std::optional<rdma::End> end;

		rdma_event_channel *channel() const
		{
			return listener ? listener->channel() : own_channel.get();
		}
	};

	/* What lasts for one program, in the order of creation: later members refer to earlier ones. */
	struct Objects {
		rdma::Mr mrs[region_count];
		rdma::Cq cq; /* for all queues, or null */
		rdma::Srq srq;
		std::vector<OwnWindow> windows;
		std::deque<Connection> connections;
	};

	void create_queues();
	rdma::QpOptions options() const;
	void establish(Connection &connection, rdma::Id id);
	ibv_qp *qp(std::uint32_t number) { return objects_->connections[number].end->qp(); }
	std::uint32_t find(std::uint32_t qp_num);
	std::vector<ibv_cq *> cqs();
	bool is_extended() const
	{
		return setup_.sides[side_].one_cq && setup_.sides[side_].extended_cq;
	}

	/* post.cpp */
	std::vector<ibv_sge> sges(const Order &order) const;
	std::uint64_t target(const Order &order) const;
	std::uint32_t rkey(const Order &order) const;
	ibv_mw_bind_info part(const Order &order) const;
	ibv_mw *window(const Order &order) const
	{
		const Step &step = order.step;

		return objects_->windows[step.qp * windows_of_qp + step.window].get();
	}
	ibv_send_wr plain(const Order &order, std::vector<ibv_sge> &sges) const;
	void post_extended(std::span<const Order> orders, std::vector<std::vector<ibv_sge>> &sges);
	void build(ibv_qp_ex *qp, const Order &order, std::vector<ibv_sge> &sges) const;
	void stage_inline(const Order &order, std::vector<ibv_sge> &sges,
			  std::vector<std::uint8_t> &copy) const;

	const Side side_;
	const std::string address_;
	rdma::EventChannel channel_; /* of probe_ */
	rdma::Id probe_;	     /* keeps the device open */
	rdma::Pd pd_;
	mutable std::deque<Backing> backings_;
	Setup setup_;
	Keys peer_ = {};
	std::optional<Objects> objects_;
};

} /* namespace verify */
