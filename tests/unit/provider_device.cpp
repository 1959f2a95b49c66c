// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_device.cpp - the kernel's side of queue pairs and completion queues, for tests */

#include "provider_device.hpp"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

static FakeDevice *device;

FakeDevice::FakeDevice() : fd_(memfd_create("rings", 0))
{
	EXPECT_EQ(device, nullptr);
	EXPECT_EQ(ftruncate(fd_, max_qps * area_size), 0);
	void *start =
		mmap(nullptr, max_qps * area_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
	EXPECT_NE(start, MAP_FAILED);
	areas_ = static_cast<std::byte *>(start);
	EXPECT_EQ(lseek(fd_, 0, SEEK_END), off_t(max_qps * area_size))
		<< "doorbells are written behind the rings";
	kernel_.context.cmd_fd = fd_;
	pd()->context = &kernel_.context;
	device = this;
}

FakeDevice::~FakeDevice()
{
	munmap(areas_, max_qps * area_size);
	close(fd_);
	device = nullptr;
}

xiw_create_qp_resp FakeDevice::grant()
{
	const uint32_t qpn = next_qpn_++;

	std::memset(area(qpn), 0, area_size);
	return { .map_key = (qpn % max_qps) * area_size,
		 .map_len = area_size,
		 .qpn = qpn,
		 .sq_offset = sizeof(xiw_qp_ctl),
		 .sq_entries = depth,
		 .sq_slot_size = XIW_SLOT_MIN,
		 .max_inline = 0,
		 .rq_offset = 0,
		 .rq_entries = 0,
		 .rq_slot_size = 0 };
}

void FakeCq::push(const xiw_cqe &cqe)
{
	xiw_cqe &slot = slots_[produced_ & (entries - 1)];

	std::memcpy(&slot, &cqe, offsetof(xiw_cqe, gen));
	xiw::SharedWord(slot.gen).store(xiw_cqe_gen(produced_, entries), std::memory_order_release);
	produced_++;
}

int ibv_cmd_create_qp_ex(ibv_context *context, verbs_qp *vqp, ibv_qp_init_attr_ex *attr,
			 struct ibv_create_qp *, size_t, ib_uverbs_create_qp_resp *resp,
			 size_t resp_size)
{
	ibv_qp *const qp = &vqp->qp;
	const xiw_create_qp_resp granted = device->grant();

	EXPECT_EQ(resp_size, sizeof(*resp) + sizeof(granted));
	EXPECT_EQ(attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS, 0u)
		<< "libibverbs refuses this bit";
	std::memcpy(static_cast<void *>(resp + 1), &granted, sizeof(granted));
	qp->context = context;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->qp_num = granted.qpn;
	qp->state = IBV_QPS_RESET;
	return 0;
}

int ibv_cmd_destroy_qp(ibv_qp *)
{
	if (device->on_destroy)
		device->on_destroy();
	return device->destroy_result;
}

/* A reset drops the requests that were posted. libibverbs itself stores the new state. */
int ibv_cmd_modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask, struct ibv_modify_qp *, size_t)
{
	xiw_queue_ctl &sq = device->sq(qp->qp_num);

	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
		sq.consumed = sq.produced;
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	return 0;
}

int ibv_cmd_query_qp(ibv_qp *, ibv_qp_attr *, int, ibv_qp_init_attr *, struct ibv_query_qp *,
		     size_t)
{
	return ENOSYS;
}
