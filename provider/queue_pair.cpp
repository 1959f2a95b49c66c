// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* queue_pair.cpp - a queue pair: one mapping, a send queue, a receive queue */

#include "queue_pair.hpp"

#include "domain.hpp"
#include "object.hpp"

namespace xiw
{

/* Maps the rings that the kernel made, and puts the queues on them. */
int QueuePair::open(const xiw_create_qp_resp &granted, const ibv_qp_init_attr_ex &attr) noexcept
{
	ibv_qp &qp = vqp_.qp;

	if (int err = mapping_.map(qp.context->cmd_fd, granted.map_key, granted.map_len))
		return err;

	auto *ctl = mapping_.at<xiw_qp_ctl>(0);
	sq_.open(WorkRing(&ctl->sq, mapping_.at<std::byte>(granted.sq_offset), granted.sq_entries,
			  granted.sq_slot_size, attr.cap.max_send_wr),
		 { .max_sge = attr.cap.max_send_sge,
		   .max_inline = granted.max_inline,
		   .signal_all = attr.sq_sig_all != 0 });
	sq_.join(send_cq().latecomers(), recv_cq().latecomers());
	sq_.retired().open(granted.qpn);
	sq_.doorbell().connect(&qp, Doorbell::Queue::send);
	if (Domain::from(attr.pd).is_single_threaded()) {
		sq_.skip_lock();
		rq_.skip_lock();
	}
	if (!granted.rq_entries)
		return 0;
	rq_.open(WorkRing(&ctl->rq, mapping_.at<std::byte>(granted.rq_offset), granted.rq_entries,
			  granted.rq_slot_size, attr.cap.max_recv_wr),
		 attr.cap.max_recv_sge);
	rq_.retired().open(granted.qpn);
	rq_.doorbell().connect(&qp, Doorbell::Queue::recv);
	return 0;
}

ibv_qp *QueuePair::create(ibv_pd *pd, ibv_qp_init_attr *attr) noexcept
{
	ibv_qp_init_attr_ex all = {};

	all.qp_context = attr->qp_context;
	all.send_cq = attr->send_cq;
	all.recv_cq = attr->recv_cq;
	all.srq = attr->srq;
	all.cap = attr->cap;
	all.qp_type = attr->qp_type;
	all.sq_sig_all = attr->sq_sig_all;
	all.comp_mask = IBV_QP_INIT_ATTR_PD;
	all.pd = pd;

	ibv_qp *qp = create_extended(&all);
	if (qp)
		attr->cap = all.cap;
	return qp;
}

/* Whether it has all that is asked for: attributes, flags, and requests by ibv_wr_*(). */
static bool can_offer(const ibv_qp_init_attr_ex &attr)
{
	constexpr std::uint32_t attributes = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
					     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	constexpr std::uint64_t requests =
		IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
		IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
		IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |
		IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV;

	if ((attr.comp_mask & ~attributes) || !(attr.comp_mask & IBV_QP_INIT_ATTR_PD))
		return false;
	if ((attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr.create_flags)
		return false;
	return !(attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) ||
	       !(attr.send_ops_flags & ~requests);
}

ibv_qp *QueuePair::create_extended(ibv_qp_init_attr_ex *attr) noexcept
{
	Request<struct ibv_create_qp, ib_uverbs_create_qp> request;
	Answer<ib_uverbs_create_qp_resp, xiw_create_qp_resp> answer;

	if (!can_offer(*attr))
		return fail(EOPNOTSUPP);

	auto object = make_object<QueuePair>();
	if (!object)
		return nullptr;

	/* libibverbs hands no flags on, not even none */
	ibv_qp_init_attr_ex asked = *attr;
	asked.comp_mask &= ~std::uint32_t{ IBV_QP_INIT_ATTR_CREATE_FLAGS };

	ibv_qp *qp = &object->vqp_.qp;
	if (int err = ibv_cmd_create_qp_ex(attr->pd->context, &object->vqp_, &asked, request.get(),
					   sizeof(request), answer.get(), sizeof(answer)))
		return fail(err);
	attr->cap = asked.cap;
	if (int err = object->open(answer.driver(), *attr)) {
		ibv_cmd_destroy_qp(qp);
		return fail(err);
	}
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		object->offer_extended_post();
	object->domain_ = DomainUse(attr->pd);
	object->attach();
	return &object.release()->vqp_.qp;
}

/* From here on completions make room in its queues. */
void QueuePair::attach() noexcept
{
	send_cq().attach_sends(sq_.retired());
	if (rq_.is_open())
		recv_cq().attach_receives(rq_.retired());
}

/* The kernel has ended it, and completes nothing of it any more. */
void QueuePair::detach() noexcept
{
	const std::uint32_t qpn = vqp_.qp.qp_num;

	send_cq().detach_sends(sq_.retired());
	send_cq().forget(qpn, sq_.at_send_cq());
	if (rq_.is_open())
		recv_cq().detach_receives(rq_.retired());
	recv_cq().forget(qpn, sq_.at_recv_cq());
}

/* The kernel has returned all that was posted. */
void QueuePair::reset() noexcept
{
	const std::uint32_t qpn = vqp_.qp.qp_num;

	send_cq().reset(qpn, sq_.retired(), sq_.returned());
	recv_cq().reset(qpn, rq_.retired(), rq_.is_open() ? rq_.returned() : 0);
}

int QueuePair::destroy(ibv_qp *qp) noexcept
{
	if (int err = ibv_cmd_destroy_qp(qp))
		return err;
	from(qp).detach();
	delete &from(qp);
	return 0;
}

int QueuePair::modify(ibv_qp_attr *attr, int mask) noexcept
{
	Request<struct ibv_modify_qp, ib_uverbs_modify_qp> request;

	if (int err = ibv_cmd_modify_qp(&vqp_.qp, attr, mask, request.get(), sizeof(request)))
		return err;
	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
		reset();
	return 0;
}

int QueuePair::query(ibv_qp_attr *attr, int mask, ibv_qp_init_attr *init_attr) noexcept
{
	Request<struct ibv_query_qp, ib_uverbs_query_qp> request;

	return ibv_cmd_query_qp(&vqp_.qp, attr, mask, init_attr, request.get(), sizeof(request));
}

} /* namespace xiw */
