// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* completion_queue.cpp - a completion queue: its mapping and its ring */

#include "completion_queue.hpp"

#include "cancel_guard.hpp"
#include "object.hpp"

namespace xiw
{

int CompletionQueue::map(const xiw_create_cq_resp &granted) noexcept
{
	if (int err = mapping_.map(vcq_.cq.context->cmd_fd, granted.map_key, granted.map_len))
		return err;
	open(CompletionRing(mapping_.at<xiw_cq_ctl>(0), mapping_.at<xiw_cqe>(granted.slots_offset),
			    granted.entries));
	return 0;
}

ibv_cq *CompletionQueue::create(ibv_context *context, int cqe, ibv_comp_channel *channel,
				int comp_vector) noexcept
{
	ibv_cq_init_attr_ex attr = {};

	if (cqe < 0)
		return fail(EINVAL);
	attr.cqe = static_cast<std::uint32_t>(cqe);
	attr.channel = channel;
	attr.comp_vector = static_cast<std::uint32_t>(comp_vector);
	return ibv_cq_ex_to_cq(create_extended(context, &attr));
}

/* Completions of this device have the standard fields and a timestamp. */
static bool supports_fields(std::uint64_t wc_flags)
{
	constexpr std::uint64_t standard = IBV_WC_STANDARD_FLAGS;
	constexpr std::uint64_t times =
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

	return !(wc_flags & ~(standard | times));
}

/*
 * IBV_CREATE_CQ_ATTR_SINGLE_THREADED is accepted but changes nothing: see PollLock.
 * Returns 0 or a positive errno.
 */
static int check_attributes(const ibv_cq_init_attr_ex &attr)
{
	constexpr std::uint32_t attributes = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	constexpr std::uint32_t flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;

	if ((attr.comp_mask & ~attributes) || !supports_fields(attr.wc_flags))
		return EOPNOTSUPP;
	if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) && (attr.flags & ~flags))
		return EOPNOTSUPP;
	if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) && !attr.parent_domain)
		return EINVAL;
	return 0;
}

ibv_cq_ex *CompletionQueue::create_extended(ibv_context *context,
					    ibv_cq_init_attr_ex *attr) noexcept
{
	ExtendedRequest<struct ibv_create_cq_ex, ib_uverbs_ex_create_cq> request;
	Response<ib_uverbs_ex_create_cq_resp, xiw_create_cq_resp> response;

	if (int err = check_attributes(*attr))
		return fail(err);

	auto object = make_object<CompletionQueue>();
	if (!object)
		return nullptr;

	verbs_cq *vcq = &object->vcq_;
	if (int err = call_create_cq_ex(ibv_cmd_create_cq_ex, context, attr, vcq, request.get(),
					sizeof(request), response.get(), sizeof(response), 0))
		return fail(err);
	if (int err = object->map(response.driver())) {
		ibv_cmd_destroy_cq(&vcq->cq);
		return fail(err);
	}
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		object->parent_domain_ = ParentDomainRef(attr->parent_domain);
	object->fill_extended_poll_ops();
	return &object.release()->vcq_.cq_ex;
}

int CompletionQueue::destroy(ibv_cq *cq) noexcept
{
	if (int err = ibv_cmd_destroy_cq(cq))
		return err;
	delete &from(cq);
	return 0;
}

/*
 * Holds the lock throughout, because the kernel moves the completions that have not been polled to
 * other memory and no thread may poll or arm the queue meanwhile.
 */
int CompletionQueue::resize(int cqe) noexcept
{
	Request<struct ibv_resize_cq, ib_uverbs_resize_cq> request;
	Response<ib_uverbs_resize_cq_resp, xiw_resize_cq_resp> response;
	std::lock_guard guard(lock_);
	CancelGuard no_cancel;

	if (int err = map_moved_ring())
		return err;
	if (int err = ibv_cmd_resize_cq(&vcq_.cq, cqe, request.get(), sizeof(request),
					response.get(), sizeof(response)))
		return err;

	moved_ = response.driver();
	return map_moved_ring();
}

int CompletionQueue::request_notification(bool solicited_only) noexcept
{
	std::lock_guard guard(lock_);

	if (int err = map_moved_ring())
		return err;
	deferred_doorbells_.set_awaited(true);
	deferred_doorbells_.ring_all();
	ring_.arm(solicited_only);
	return 0;
}

} /* namespace xiw */
