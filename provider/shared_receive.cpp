// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* shared_receive.cpp - a shared receive queue: one mapping, one receive queue */

#include "shared_receive.hpp"

#include <mutex>

#include "object.hpp"
#include "uncancelled.hpp"

namespace xiw
{

/* Maps the ring that the kernel made, and puts the queue on it. */
int SharedReceive::open(const xiw_create_srq_resp &granted, const ibv_srq_attr &attr) noexcept
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

ibv_srq *SharedReceive::create(ibv_pd *pd, ibv_srq_init_attr *attr) noexcept
{
	Request<struct ibv_create_srq, ib_uverbs_create_srq> request;
	Answer<ib_uverbs_create_srq_resp, xiw_create_srq_resp> answer;

	auto object = make_object<SharedReceive>();
	if (!object)
		return nullptr;

	ibv_srq *srq = &object->vsrq_.srq;
	if (int err = ibv_cmd_create_srq(pd, srq, attr, request.get(), sizeof(request),
					 answer.get(), sizeof(answer)))
		return fail(err);
	if (int err = object->open(answer.driver(), attr->attr)) {
		ibv_cmd_destroy_srq(srq);
		return fail(err);
	}
	if (Domain::from(pd).is_single_threaded())
		object->queue_.skip_lock();
	object->domain_ = DomainUse(pd);
	return &object.release()->vsrq_.srq;
}

int SharedReceive::destroy(ibv_srq *srq) noexcept
{
	if (int err = ibv_cmd_destroy_srq(srq))
		return err;
	delete &from(srq);
	return 0;
}

/* While it is resized nobody posts: the kernel moves what waits to other memory. */
int SharedReceive::modify(ibv_srq_attr *attr, int mask) noexcept
{
	xiw_create_srq_resp granted;
	Request<struct ibv_modify_srq, ib_uverbs_modify_srq, xiw_modify_srq> request(
		{ .response = reinterpret_cast<std::uintptr_t>(&granted) });
	std::unique_lock guard(queue_.lock(), std::defer_lock);
	Uncancelled uncancelled;

	if (mask & IBV_SRQ_MAX_WR) {
		guard.lock();
		if (int err = follow())
			return err;
	}
	if (int err = ibv_cmd_modify_srq(&vsrq_.srq, attr, mask, request.get(), sizeof(request)))
		return err;
	if (!(mask & IBV_SRQ_MAX_WR))
		return 0;
	moved_ = granted;
	return follow();
}

/*
 * Maps the memory to which the kernel has moved the queue. If there is no room for it now, nothing
 * can be posted until there is.
 */
int SharedReceive::follow() noexcept
{
	Mapping mapping;
	int err;

	if (!moved_)
		return 0;
	err = mapping.map(vsrq_.srq.context->cmd_fd, moved_->map_key, moved_->map_len);
	has_moved_ = err;
	if (err) {
		queue_.ring().close();
		return err;
	}
	queue_.ring().move(mapping.at<xiw_queue_ctl>(0),
			   mapping.at<std::byte>(moved_->slots_offset), moved_->entries);
	mapping_ = std::move(mapping);
	moved_.reset();
	return 0;
}

int SharedReceive::follow_if_moved() noexcept
{
	if (!has_moved_.load(std::memory_order_relaxed)) [[likely]]
		return 0;
	std::lock_guard guard(queue_.lock());
	return follow();
}

int SharedReceive::post_recv(ibv_recv_wr *wr, ibv_recv_wr **bad) noexcept
{
	if (int err = follow_if_moved()) {
		*bad = wr;
		return err;
	}
	return queue_.post(wr, bad);
}

int SharedReceive::query(ibv_srq_attr *attr) noexcept
{
	Request<struct ibv_query_srq, ib_uverbs_query_srq> request;

	return ibv_cmd_query_srq(&vsrq_.srq, attr, request.get(), sizeof(request));
}

} /* namespace xiw */
