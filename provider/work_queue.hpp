/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* work_queue.hpp - the queues that work requests are posted to */
#ifndef XIW_WORK_QUEUE_HPP
#define XIW_WORK_QUEUE_HPP

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "deferred_doorbell.hpp"
#include "doorbell.hpp"
#include "finished_count.hpp"
#include "lock.hpp"
#include "rdma_core.hpp"
#include "ring.hpp"

namespace xiw
{

/* The limits of a send queue, as the kernel granted them. */
struct SendLimits {
	std::uint32_t max_sge = 0;
	std::uint32_t max_inline = 0; /* bytes */
	bool signal_all = false;      /* complete every request with an entry, signalled or not */
};

class SendQueue
{
public:
	void open(const WorkRing &ring, const SendLimits &limits) noexcept
	{
		ring_ = ring;
		limits_ = limits;
	}

	/* From now on a deferred doorbell goes on these lists of the two completion queues. */
	void defer_doorbell_to(DeferredDoorbellList &of_send_cq,
			       DeferredDoorbellList &of_recv_cq) noexcept
	{
		deferred_on_send_cq_.connect(of_send_cq, doorbell_, doorbell_pending_);
		if (&of_recv_cq != &of_send_cq)
			deferred_on_recv_cq_.connect(of_recv_cq, doorbell_, doorbell_pending_);
	}

	Doorbell &doorbell() noexcept { return doorbell_; }

	/* Guarded by the lock of the send_cq or recv_cq, except that defer() needs no lock. */
	DeferredDoorbell &deferred_on_send_cq() noexcept { return deferred_on_send_cq_; }
	DeferredDoorbell &deferred_on_recv_cq() noexcept { return deferred_on_recv_cq_; }

	/* Guarded by the lock of the send_cq. */
	FinishedCount &finished() noexcept { return finished_; }

	/* Consumer index. It includes requests whose completions have not been polled. */
	std::uint32_t consumed() const noexcept
	{
		return ring_.consumed().load(std::memory_order_acquire);
	}

	/* For queues in a thread domain: see Lock. */
	void disable_lock() noexcept { lock_.disable(); }

	int post(ibv_send_wr *wr, ibv_send_wr **bad) noexcept;

	/*
	 * In extended_post.cpp: the batch of requests from ibv_wr_start() to ibv_wr_complete() or
	 * ibv_wr_abort(). The queue is locked in between. After an error nothing more is added to
	 * the batch, and wr_complete() posts none of it and returns the error.
	 */
	void wr_start(int err) noexcept;
	xiw_send_slot *wr_add(std::uint8_t opcode, const ibv_qp_ex &qp) noexcept;
	void wr_set_sge(const ibv_sge &sge) noexcept;
	void wr_set_sge_list(std::size_t num_sge, const ibv_sge *sges) noexcept;
	void wr_set_inline_data_list(std::size_t num_buf, const ibv_data_buf *bufs) noexcept;
	int wr_complete() noexcept;
	void wr_abort() noexcept { lock_.release(); }

private:
	struct Batch {
		xiw_send_slot *slot; /* of the last request; nullptr if it was refused */
		ibv_sge *sges;	     /* where the SGEs of that request go */
		std::uint32_t max_sge;
		std::uint32_t max_inline;
		bool may_inline;
		std::uint32_t exact_len; /* 0 if the request may have any length */
		std::uint32_t produced;	 /* producer index including the batch */
		int err;
	};

	int check(const ibv_send_wr &wr) const noexcept;
	int fill(std::uint32_t count, const ibv_send_wr &wr) noexcept;
	void check_last_request() noexcept;
	int notify_kernel(std::uint32_t flags) noexcept;

	Lock lock_;
	WorkRing ring_;
	SendLimits limits_;
	Doorbell doorbell_;
	std::atomic<bool> doorbell_pending_ = false; /* see DeferredDoorbell */
	DeferredDoorbell deferred_on_send_cq_;
	DeferredDoorbell deferred_on_recv_cq_; /* unused if the recv_cq is the send_cq */
	FinishedCount finished_;
	Batch batch_ = {}; /* guarded by lock_ */
};

class ReceiveQueue
{
public:
	/*
	 * A request of a shared receive queue (@shared) occupies its slot until the kernel takes
	 * it; a request of a queue pair's own receive queue until its completion has been polled.
	 */
	void open(const WorkRing &ring, std::uint32_t max_sge, bool shared = false) noexcept
	{
		ring_ = ring;
		max_sge_ = max_sge;
		shared_ = shared;
	}

	/* False if the queue pair uses a shared receive queue. */
	bool is_open() const noexcept { return ring_.is_open(); }

	/* For a shared receive queue that is resized. */
	Lock &lock() noexcept { return lock_; }
	WorkRing &ring() noexcept { return ring_; }

	Doorbell &doorbell() noexcept { return doorbell_; }

	/* Guarded by the lock of the recv_cq. Shared receive queues do not use it. */
	FinishedCount &finished() noexcept { return finished_; }

	/* Consumer index. It includes requests whose completions have not been polled. */
	std::uint32_t consumed() const noexcept
	{
		return ring_.consumed().load(std::memory_order_acquire);
	}

	/* For queues in a thread domain: see Lock. */
	void disable_lock() noexcept { lock_.disable(); }

	int post(ibv_recv_wr *wr, ibv_recv_wr **bad) noexcept;

private:
	int fill(std::uint32_t count, const ibv_recv_wr &wr) noexcept;

	/* Counts the requests whose slots may be filled again. */
	SharedWord freed() noexcept { return shared_ ? ring_.consumed() : finished_.word(); }

	Lock lock_;
	WorkRing ring_;
	FinishedCount finished_;
	std::uint32_t max_sge_ = 0;
	bool shared_ = false;
	Doorbell doorbell_;
};

} /* namespace xiw */

#endif /* XIW_WORK_QUEUE_HPP */
