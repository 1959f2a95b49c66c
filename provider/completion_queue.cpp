// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* completion_queue.cpp - a completion queue: one mapping, one ring */

#include "completion_queue.hpp"

#include "domain.hpp"
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
	return ibv_cq_ex_to_cq(create_extended(context, attr));
}

/* Fields that no completion of an RC queue pair over IP has are refused. */
static bool can_show(std::uint64_t wc_flags)
{
	constexpr std::uint64_t standard = IBV_WC_STANDARD_FLAGS;
	constexpr std::uint64_t times =
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

	return !(wc_flags & ~(standard | times));
}

static bool is_single_threaded(const ibv_cq_init_attr_ex &attr)
{
	if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
	    (attr.flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED))
		return true;
	return (attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) && attr.parent_domain &&
	       Domain::from(attr.parent_domain).is_single_threaded();
}

ibv_cq_ex *CompletionQueue::create_extended(ibv_context *context,
					    const ibv_cq_init_attr_ex &attr) noexcept
{
	ExtendedRequest<struct ibv_create_cq_ex, ib_uverbs_ex_create_cq> request;
	Answer<ib_uverbs_ex_create_cq_resp, xiw_create_cq_resp> answer;

	if (!can_show(attr.wc_flags))
		return fail(EOPNOTSUPP);

	auto object = make_object<CompletionQueue>();
	if (!object)
		return nullptr;

	verbs_cq *vcq = &object->vcq_;
	if (int err = ibv_cmd_create_cq_ex(context, &attr, vcq, request.get(), sizeof(request),
					   answer.get(), sizeof(answer), 0))
		return fail(err);
	if (int err = object->map(answer.driver())) {
		ibv_cmd_destroy_cq(&vcq->cq);
		return fail(err);
	}
	if (is_single_threaded(attr))
		object->lock_.skip();
	object->offer_extended_poll();
	return &object.release()->vcq_.cq_ex;
}

int CompletionQueue::destroy(ibv_cq *cq) noexcept
{
	if (int err = ibv_cmd_destroy_cq(cq))
		return err;
	delete &from(cq);
	return 0;
}

/* Nobody polls or arms meanwhile: the kernel moves what has not been polled to other memory. */
int CompletionQueue::resize(int cqe) noexcept
{
	Request<struct ibv_resize_cq, ib_uverbs_resize_cq> request;
	Answer<ib_uverbs_resize_cq_resp, xiw_resize_cq_resp> answer;
	std::lock_guard guard(lock_);

	ring_.publish();
	if (int err = ibv_cmd_resize_cq(&vcq_.cq, cqe, request.get(), sizeof(request), answer.get(),
					sizeof(answer)))
		return err;

	const xiw_resize_cq_resp &granted = answer.driver();
	Mapping mapping;
	if (int err = mapping.map(vcq_.cq.context->cmd_fd, granted.map_key, granted.map_len))
		return err;
	ring_.move(mapping.at<xiw_cq_ctl>(0), mapping.at<xiw_cqe>(granted.slots_offset),
		   granted.entries);
	mapping_ = std::move(mapping);
	return 0;
}

int CompletionQueue::request_notification(bool solicited_only) noexcept
{
	std::lock_guard guard(lock_);

	latecomers_.ring();
	ring_.arm(solicited_only);
	return 0;
}

} /* namespace xiw */
