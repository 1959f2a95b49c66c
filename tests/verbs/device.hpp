/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A device without a connection: its objects, events, counters, and the rings in memory. */
#pragma once

#include "rdma.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace rdma
{

/* The device that has an address, or that of an id, and a PD of it. */
class Device
{
public:
	explicit Device(const std::string &address);
	explicit Device(Id id);

	ibv_context *context() const { return id_->verbs; }
	ibv_pd *pd() const { return pd_.get(); }

	/* These fail if the device refuses. */
	Cq create_cq(int entries) const;
	Srq create_srq(std::uint32_t wr, std::uint32_t sge = 1) const;

private:
	EventChannel channel_;
	Id id_;
	Pd pd_;
};

/* A queue pair that is not connected. Returns null and sets errno if the device refuses. */
Qp create_qp(ibv_pd *pd, ibv_cq *cq, ibv_qp_cap cap, ibv_srq *srq = nullptr);

ibv_qp_state state_of(ibv_qp *qp);

/* Moves a queue pair to a state. Returns the error, or 0. */
int modify(ibv_qp *qp, ibv_qp_state state);

/* Posts a request with one SGE; fails if that is refused. */
void post(ibv_srq *srq, ibv_sge into, std::uint64_t wr_id);

/* The next asynchronous event of a device, already acknowledged, which must have this type. */
ibv_async_event expect_async_event(ibv_context *context, ibv_event_type type,
				   int timeout_ms = 10000, Where where = Where::current());

/* All rings of this process: its mappings of an RDMA device. */
using Words = std::span<volatile std::uint32_t>;
std::vector<Words> mapped_rings();

/* The only one of these rings for which are_those() is true. */
Words the_rings(const std::function<bool(Words)> &are_those);

/* The file in sysfs of a setting of a device. */
std::string setting_file(ibv_device *device, const std::string &name);

/* A counter of a device, by "rdma statistic": sysfs shows no counters inside of a namespace. */
std::uint64_t device_counter(ibv_context *context, const std::string &name);

} /* namespace rdma */
