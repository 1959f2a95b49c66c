/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* work_queue.hpp - the queues that work requests are posted to */
#ifndef XIW_WORK_QUEUE_HPP
#define XIW_WORK_QUEUE_HPP

#include <atomic>
#include <cstdint>

#include "doorbell.hpp"
#include "latecomers.hpp"
#include "lock.hpp"
#include "retired.hpp"
#include "ring.hpp"

namespace xiw
{

/* What a send queue takes, as the kernel granted it. */
struct SendLimits {
	std::uint32_t max_sge = 0;
	std::uint32_t max_inline = 0; /* octets */
	bool signal_all = false;      /* each request completes with an entry */
};

class SendQueue
{
public:
	void open(const WorkRing &ring, const SendLimits &limits) noexcept
	{
		ring_ = ring;
		limits_ = limits;
	}

	/* Whoever polls one of these rings for it when the kernel wants that done later. */
	void join(Latecomers &send_cq, Latecomers &recv_cq) noexcept
	{
		at_send_cq_.join(send_cq, doorbell_, late_);
		if (&recv_cq != &send_cq)
			at_recv_cq_.join(recv_cq, doorbell_, late_);
	}

	Doorbell &doorbell() noexcept { return doorbell_; }

	/* Each guarded by the lock of its completion queue, but for being added. */
	Latecomer &at_send_cq() noexcept { return at_send_cq_; }
	Latecomer &at_recv_cq() noexcept { return at_recv_cq_; }

	/* Guarded by the lock of the completion queue. */
	RetiredCount &retired() noexcept { return retired_; }

	/* Requests that the kernel is done with, polled or not. */
	std::uint32_t returned() const noexcept
	{
		return ring_.consumed().load(std::memory_order_acquire);
	}

	/* The program promises that one thread at a time uses it. */
	void skip_lock() noexcept { lock_.skip(); }

	int post(ibv_send_wr *wr, ibv_send_wr **bad) noexcept;

	/*
	 * In extended_post.cpp: what ibv_wr_start() begins and ibv_wr_complete()
	 * or ibv_wr_abort() ends, with the queue locked in between. The first
	 * error is kept: then nothing more is added, and nothing is posted.
	 */
	void start_draft(int err) noexcept;
	xiw_send_slot *add_to_draft(std::uint8_t opcode, const ibv_qp_ex &qp) noexcept;
	void set_sge(const ibv_sge &sge) noexcept;
	void set_sges(std::size_t num_sge, const ibv_sge *sges) noexcept;
	void set_inline(std::size_t num_buf, const ibv_data_buf *bufs) noexcept;
	int post_draft() noexcept;
	void drop_draft() noexcept { lock_.release(); }

private:
	struct Draft {
		xiw_send_slot *slot; /* of the last request, nullptr if it was not added */
		ibv_sge *sges;	     /* where its SGEs go */
		std::uint32_t max_sge;
		std::uint32_t max_inline;
		bool may_inline;
		std::uint32_t exact_len; /* 0 if any length goes */
		std::uint32_t produced;	 /* slots of the ring with those of the draft */
		int err;
	};

	int check(const ibv_send_wr &wr) const noexcept;
	int fill(std::uint32_t count, const ibv_send_wr &wr) noexcept;
	void finish_request() noexcept;
	int tell(std::uint32_t flags) noexcept;

	Lock lock_;
	WorkRing ring_;
	SendLimits limits_;
	Doorbell doorbell_;
	std::atomic<bool> late_ = false; /* it is to be rung by who finds nothing to poll */
	Latecomer at_send_cq_;
	Latecomer at_recv_cq_; /* listed nowhere if that is the same */
	RetiredCount retired_;
	Draft draft_ = {}; /* guarded by lock_ */
};

class ReceiveQueue
{
public:
	/* @shared: a request has its place until it is taken, and not until it is polled. */
	void open(const WorkRing &ring, std::uint32_t max_sge, bool shared = false) noexcept
	{
		ring_ = ring;
		max_sge_ = max_sge;
		shared_ = shared;
	}

	/* False if the queue pair has none, but a shared one. */
	bool is_open() const noexcept { return ring_.is_open(); }

	/* For who takes the ring to other memory. */
	Lock &lock() noexcept { return lock_; }
	WorkRing &ring() noexcept { return ring_; }

	Doorbell &doorbell() noexcept { return doorbell_; }

	/* Guarded by the lock of the completion queue; not used if it is shared. */
	RetiredCount &retired() noexcept { return retired_; }

	/* Requests that the kernel is done with, polled or not. */
	std::uint32_t returned() const noexcept
	{
		return ring_.consumed().load(std::memory_order_acquire);
	}

	/* The program promises that one thread at a time uses it. */
	void skip_lock() noexcept { lock_.skip(); }

	int post(ibv_recv_wr *wr, ibv_recv_wr **bad) noexcept;

private:
	int fill(std::uint32_t count, const ibv_recv_wr &wr) noexcept;

	/* Counts the requests whose places are free again. */
	SharedWord freed() noexcept { return shared_ ? ring_.consumed() : retired_.word(); }

	Lock lock_;
	WorkRing ring_;
	RetiredCount retired_;
	std::uint32_t max_sge_ = 0;
	bool shared_ = false;
	Doorbell doorbell_;
};

} /* namespace xiw */

#endif /* XIW_WORK_QUEUE_HPP */
