/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* provider_device.hpp - the kernel's side of queue pairs and completion queues, for tests */
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <unistd.h>

#include "completion_queue.hpp"
#include "domain.hpp"
#include "provider_kernel.hpp"
#include "ring.hpp"

/*
 * FakeDevice - has the rings of its queue pairs in a file, which the provider maps as well
 *
 * Only one may exist at a time, because ibv_cmd_create_qp_ex() and the other commands find it by a
 * global pointer.
 */
class FakeDevice
{
public:
	static constexpr uint32_t depth = 4; /* of each send queue */

	FakeDevice();
	~FakeDevice();
	FakeDevice(const FakeDevice &) = delete;
	FakeDevice &operator=(const FakeDevice &) = delete;

	/*
	 * Makes the send queue of a new queue pair. Only the newest max_qps queue pairs keep
	 * theirs.
	 */
	xiw_create_qp_resp grant();

	xiw_queue_ctl &sq(uint32_t qpn) { return reinterpret_cast<xiw_qp_ctl *>(area(qpn))->sq; }

	const xiw_send_slot &slot(uint32_t qpn, uint32_t count)
	{
		return *reinterpret_cast<xiw_send_slot *>(area(qpn) + sizeof(xiw_qp_ctl) +
							  (count % depth) * XIW_SLOT_MIN);
	}

	ibv_pd *pd() { return reinterpret_cast<ibv_pd *>(&domain_); }

	/* How many bytes the provider has written to the device: its doorbells. */
	off_t written() { return lseek(fd_, 0, SEEK_CUR) - off_t(max_qps * area_size); }

	int destroy_result = 0;		  /* of ibv_cmd_destroy_qp() */
	std::function<void()> on_destroy; /* called by it */

private:
	static constexpr uint32_t max_qps = 64;
	static constexpr size_t area_size = 4096; /* bytes */
	static_assert(sizeof(xiw_qp_ctl) + depth * XIW_SLOT_MIN <= area_size);

	std::byte *area(uint32_t qpn) { return areas_ + (qpn % max_qps) * area_size; }

	FakeKernel kernel_;
	xiw::ProtectionDomain domain_;
	int fd_;
	std::byte *areas_ = nullptr;
	uint32_t next_qpn_ = 2;
};

/* FakeCq - a completion queue of the provider, and the kernel's side of its ring */
class FakeCq
{
public:
	static constexpr uint32_t entries = 64;

	FakeCq() { cq_.open(xiw::CompletionRing(&ctl_, slots_.data(), entries)); }

	ibv_cq *get() { return reinterpret_cast<ibv_cq *>(&cq_); }

	void push(const xiw_cqe &cqe);

	/* How many completions the process has polled and given back. */
	uint32_t consumed()
	{
		return xiw::SharedWord(ctl_.consumed).load(std::memory_order_acquire);
	}

	uint32_t produced() const { return produced_; }

	int poll(int max = 1)
	{
		std::array<ibv_wc, 16> wc;

		return cq_.poll(max, wc.data());
	}

private:
	alignas(64) xiw_cq_ctl ctl_ = {};
	alignas(64) std::array<xiw_cqe, entries> slots_ = {};
	uint32_t produced_ = 0;
	xiw::CompletionQueue cq_;
};
