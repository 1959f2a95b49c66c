// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* queue_pair.cpp - a queue pair: one mapping, a send queue, a receive queue */

#include "queue_pair.hpp"

#include "object.hpp"

namespace xiw
{

/* Maps the rings that the kernel made, and puts the queues on them. */
int QueuePair::open(const xiw_create_qp_resp &granted, const ibv_qp_init_attr &attr) noexcept
{
	ibv_qp &qp = vqp_.qp;

	if (int err = mapping_.map(qp.context->cmd_fd, granted.map_key, granted.map_len))
		return err;

	auto *ctl = mapping_.at<xiw_qp_ctl>(0);
	sq_.open(WorkRing(&ctl->sq, mapping_.at<std::byte>(granted.sq_offset), granted.sq_entries,
			  granted.sq_slot_size, attr.cap.max_send_wr),
		 { .max_sge = attr.cap.max_send_sge,
		   .max_inline = granted.max_inline,
		   .signal_all = attr.sq_sig_all != 0 },
		 send_cq().latecomers());
	sq_.retired().open(granted.qpn);
	sq_.doorbell().connect(&qp, Doorbell::Queue::send);
	if (!granted.rq_entries)
		return 0;
	rq_.open(WorkRing(&ctl->rq, mapping_.at<std::byte>(granted.rq_offset), granted.rq_entries,
			  granted.rq_slot_size, attr.cap.max_recv_wr),
		 attr.cap.max_recv_sge);
	rq_.doorbell().connect(&qp, Doorbell::Queue::recv);
	return 0;
}

ibv_qp *QueuePair::create(ibv_pd *pd, ibv_qp_init_attr *attr) noexcept
{
	Request<struct ibv_create_qp, ib_uverbs_create_qp> request;
	Answer<ib_uverbs_create_qp_resp, xiw_create_qp_resp> answer;

	auto object = make_object<QueuePair>();
	if (!object)
		return nullptr;

	ibv_qp *qp = &object->vqp_.qp;
	if (int err = ibv_cmd_create_qp(pd, qp, attr, request.get(), sizeof(request), answer.get(),
					sizeof(answer)))
		return fail(err);
	if (int err = object->open(answer.driver(), *attr)) {
		ibv_cmd_destroy_qp(qp);
		return fail(err);
	}
	object->send_cq().attach(object->sq_.retired());
	return &object.release()->vqp_.qp;
}

int QueuePair::destroy(ibv_qp *qp) noexcept
{
	if (int err = ibv_cmd_destroy_qp(qp))
		return err;
	from(qp).send_cq().detach(from(qp).sq_.retired(), from(qp).sq_.latecomer());
	delete &from(qp);
	return 0;
}

int QueuePair::modify(ibv_qp_attr *attr, int mask) noexcept
{
	Request<struct ibv_modify_qp, ib_uverbs_modify_qp> request;

	if (int err = ibv_cmd_modify_qp(&vqp_.qp, attr, mask, request.get(), sizeof(request)))
		return err;
	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
		send_cq().retire(sq_.retired(), sq_.returned());
	return 0;
}

int QueuePair::query(ibv_qp_attr *attr, int mask, ibv_qp_init_attr *init_attr) noexcept
{
	Request<struct ibv_query_qp, ib_uverbs_query_qp> request;

	return ibv_cmd_query_qp(&vqp_.qp, attr, mask, init_attr, request.get(), sizeof(request));
}

} /* namespace xiw */
