/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A device without a connection: its objects, events, counters, and the rings in memory. */
#include "device.hpp"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <format>
#include <fstream>
#include <utility>

namespace rdma
{

static Id bound_id(rdma_event_channel *channel, const std::string &address)
{
	sockaddr_storage at = parse_address(address, 0);
	Id id = create_id(channel);

	if (rdma_bind_addr(id.get(), reinterpret_cast<sockaddr *>(&at)))
		fail("rdma_bind_addr", errno);
	return id;
}

Device::Device(Id id) : id_(std::move(id)), pd_(ibv_alloc_pd(context()))
{
	if (!pd_)
		fail("ibv_alloc_pd", errno);
}

Device::Device(const std::string &address)
	: channel_(create_event_channel()), id_(bound_id(channel_.get(), address)),
	  pd_(ibv_alloc_pd(context()))
{
	if (!pd_)
		fail("ibv_alloc_pd", errno);
}

Cq Device::create_cq(int entries) const
{
	Cq cq(ibv_create_cq(context(), entries, nullptr, nullptr, 0));

	if (!cq)
		fail("ibv_create_cq", errno);
	return cq;
}

Srq Device::create_srq(std::uint32_t wr, std::uint32_t sge) const
{
	ibv_srq_init_attr attr = { nullptr, { wr, sge, 0 } };
	Srq srq(ibv_create_srq(pd(), &attr));

	if (!srq)
		fail("ibv_create_srq", errno);
	return srq;
}

Qp create_qp(ibv_pd *pd, ibv_cq *cq, ibv_qp_cap cap, ibv_srq *srq)
{
	ibv_qp_init_attr attr = {};

	attr.send_cq = attr.recv_cq = cq;
	attr.srq = srq;
	attr.cap = cap;
	attr.qp_type = IBV_QPT_RC;
	return Qp(ibv_create_qp(pd, &attr));
}

ibv_qp_state state_of(ibv_qp *qp)
{
	ibv_qp_init_attr init;
	ibv_qp_attr attr;

	if (int err = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init))
		fail("ibv_query_qp", err);
	return attr.qp_state;
}

int modify(ibv_qp *qp, ibv_qp_state state)
{
	ibv_qp_attr attr = {};

	attr.qp_state = state;
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

void post(ibv_srq *srq, ibv_sge into, std::uint64_t wr_id)
{
	ibv_recv_wr wr = { wr_id, nullptr, &into, 1 };
	ibv_recv_wr *bad;

	if (int err = ibv_post_srq_recv(srq, &wr, &bad))
		fail("ibv_post_srq_recv", err);
}

ibv_async_event expect_async_event(ibv_context *context, ibv_event_type type, int timeout_ms,
				   Where where)
{
	ibv_async_event event;

	require(wait_readable(context->async_fd, timeout_ms), "an asynchronous event comes", where);
	if (ibv_get_async_event(context, &event))
		fail("ibv_get_async_event", errno, where);
	ibv_ack_async_event(&event);
	if (event.event_type != type)
		fail(std::format("the event is \"{}\" instead of \"{}\"",
				 ibv_event_type_str(event.event_type), ibv_event_type_str(type)),
		     0, where);
	return event;
}

std::vector<Words> mapped_rings()
{
	std::ifstream maps("/proc/self/maps");
	std::vector<Words> rings;

	for (std::string line; std::getline(maps, line);) {
		std::uintptr_t begin, end;

		if (line.find("/dev/infiniband/uverbs") == line.npos)
			continue;
		if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2)
			rings.emplace_back(reinterpret_cast<volatile std::uint32_t *>(begin),
					   (end - begin) / 4);
	}
	return rings;
}

Words the_rings(const std::function<bool(Words)> &are_those)
{
	std::vector<Words> all = mapped_rings();

	require(std::ranges::count_if(all, are_those) == 1, "one mapped ring matches");
	return *std::ranges::find_if(all, are_those);
}

std::string setting_file(ibv_device *device, const std::string &name)
{
	return std::format("/sys/class/infiniband/{}/xiw/{}", ibv_get_device_name(device), name);
}

std::uint64_t device_counter(ibv_context *context, const std::string &name)
{
	std::string device = ibv_get_device_name(context->device);
	std::unique_ptr<FILE, Destroy<pclose>> counters(
		popen(("rdma statistic show link " + device + "/1").c_str(), "r"));
	std::uint64_t count = 0;
	char found[64];

	while (fscanf(counters.get(), "%63s", found) == 1)
		if (found == name && fscanf(counters.get(), "%" SCNu64, &count) == 1)
			return count;
	fail("there is no counter " + name);
}

} /* namespace rdma */
