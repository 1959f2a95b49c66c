// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* shared_receive_queue.cpp - a shared receive queue: its mapping and its receive queue */

#include "shared_receive_queue.hpp"

#include <mutex>

#include "cancel_guard.hpp"
#include "moved_ring.hpp"
#include "object.hpp"

namespace xiw
{

/* Maps the ring that the kernel made and opens the queue on it. Returns 0 or a positive errno. */
int SharedReceiveQueue::open(const xiw_create_srq_resp &granted, const ibv_srq_attr &attr) noexcept
{
	ibv_srq &srq = vsrq_.srq;

	if (int err = mapping_.map(srq.context->cmd_fd, granted.map_key, granted.map_len))
		return err;
	queue_.open(WorkRing(mapping_.at<xiw_queue_ctl>(0),
			     mapping_.at<std::byte>(granted.slots_offset), granted.entries,
			     granted.slot_size, attr.max_wr),
		    attr.max_sge, true);
	queue_.doorbell().connect(&srq);
	return 0;
}

ibv_srq *SharedReceiveQueue::create(ibv_pd *pd, ibv_srq_init_attr *attr) noexcept
{
	Request<struct ibv_create_srq, ib_uverbs_create_srq> request;
	Response<ib_uverbs_create_srq_resp, xiw_create_srq_resp> response;

	auto object = make_object<SharedReceiveQueue>();
	if (!object)
		return nullptr;

	ibv_srq *srq = &object->vsrq_.srq;
	if (int err = ibv_cmd_create_srq(pd, srq, attr, request.get(), sizeof(request),
					 response.get(), sizeof(response)))
		return fail(err);
	if (int err = object->open(response.driver(), attr->attr)) {
		ibv_cmd_destroy_srq(srq);
		return fail(err);
	}
	if (ProtectionDomain::from(pd).is_single_threaded())
		object->queue_.disable_lock();
	object->parent_domain_ = ParentDomainRef(pd);
	return &object.release()->vsrq_.srq;
}

int SharedReceiveQueue::destroy(ibv_srq *srq) noexcept
{
	if (int err = ibv_cmd_destroy_srq(srq))
		return err;
	delete &from(srq);
	return 0;
}

/*
 * A resize holds the lock of the queue, because the kernel moves the requests that wait to other
 * memory and no thread may post meanwhile.
 */
int SharedReceiveQueue::modify(ibv_srq_attr *attr, int mask) noexcept
{
	xiw_create_srq_resp granted;
	Request<struct ibv_modify_srq, ib_uverbs_modify_srq, xiw_modify_srq> request(
		{ .response = reinterpret_cast<std::uintptr_t>(&granted) });
	std::unique_lock guard(queue_.lock(), std::defer_lock);
	CancelGuard no_cancel;

	if (mask & IBV_SRQ_MAX_WR) {
		guard.lock();
		if (int err = map_moved_ring())
			return err;
	}
	if (int err = ibv_cmd_modify_srq(&vsrq_.srq, attr, mask, request.get(), sizeof(request)))
		return err;
	if (!(mask & IBV_SRQ_MAX_WR))
		return 0;
	moved_ = granted;
	return map_moved_ring();
}

/* The caller holds the lock of the queue. Returns 0 or a positive errno. */
int SharedReceiveQueue::map_moved_ring() noexcept
{
	const int err = xiw::map_moved_ring(vsrq_.srq.context, moved_, mapping_, queue_.ring());

	has_moved_ = moved_.has_value();
	return err;
}

int SharedReceiveQueue::map_if_moved() noexcept
{
	if (!has_moved_.load(std::memory_order_relaxed)) [[likely]]
		return 0;
	std::lock_guard guard(queue_.lock());
	return map_moved_ring();
}

int SharedReceiveQueue::post_recv(ibv_recv_wr *wr, ibv_recv_wr **bad) noexcept
{
	if (int err = map_if_moved()) {
		*bad = wr;
		return err;
	}
	return queue_.post(wr, bad);
}

int SharedReceiveQueue::query(ibv_srq_attr *attr) noexcept
{
	Request<struct ibv_query_srq, ib_uverbs_query_srq> request;

	return ibv_cmd_query_srq(&vsrq_.srq, attr, request.get(), sizeof(request));
}

} /* namespace xiw */
