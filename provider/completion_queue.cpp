// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* completion_queue.cpp - a completion queue: one mapping, one ring */

#include "completion_queue.hpp"

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
	Request<struct ibv_create_cq, ib_uverbs_create_cq> request;
	Answer<ib_uverbs_create_cq_resp, xiw_create_cq_resp> answer;

	auto object = make_object<CompletionQueue>();
	if (!object)
		return nullptr;

	ibv_cq *cq = &object->vcq_.cq;
	if (int err = ibv_cmd_create_cq(context, cqe, channel, comp_vector, cq, request.get(),
					sizeof(request), answer.get(), sizeof(answer)))
		return fail(err);
	if (int err = object->map(answer.driver())) {
		ibv_cmd_destroy_cq(cq);
		return fail(err);
	}
	return &object.release()->vcq_.cq;
}

int CompletionQueue::destroy(ibv_cq *cq) noexcept
{
	if (int err = ibv_cmd_destroy_cq(cq))
		return err;
	delete &from(cq);
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
