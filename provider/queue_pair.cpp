// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* queue_pair.cpp - a queue pair: its mapping, its send queue and its receive queue */

#include "queue_pair.hpp"

#include "object.hpp"

namespace xiw
{

/*
 * Maps the rings that the kernel made, and opens the queues on them. Returns 0 or a positive
 * errno.
 */
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
	sq_.defer_doorbell_to(send_cq().deferred_doorbells(), recv_cq().deferred_doorbells());
	sq_.finished().set_qpn(granted.qpn);
	sq_.doorbell().connect(&qp, Doorbell::Queue::send);
	if (ProtectionDomain::from(attr.pd).is_single_threaded()) {
		sq_.disable_lock();
		rq_.disable_lock();
	}
	if (!granted.rq_entries)
		return 0;
	rq_.open(WorkRing(&ctl->rq, mapping_.at<std::byte>(granted.rq_offset), granted.rq_entries,
			  granted.rq_slot_size, attr.cap.max_recv_wr),
		 attr.cap.max_recv_sge);
	rq_.finished().set_qpn(granted.qpn);
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

	ibv_qp *qp = create_extended(pd->context, &all);
	if (qp)
		attr->cap = all.cap;
	return qp;
}

/* Returns whether this provider has all attributes, flags and ibv_wr_*() that @attr asks for. */
static bool is_supported(const ibv_qp_init_attr_ex &attr)
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

ibv_qp *QueuePair::create_extended(ibv_context *, ibv_qp_init_attr_ex *attr) noexcept
{
	Request<struct ibv_create_qp, ib_uverbs_create_qp> request;
	Response<ib_uverbs_create_qp_resp, xiw_create_qp_resp> response;

	if (!is_supported(*attr))
		return fail(EOPNOTSUPP);

	auto object = make_object<QueuePair>();
	if (!object)
		return nullptr;

	/* ibv_cmd_create_qp_ex() refuses the bit even if no flag is set */
	ibv_qp_init_attr_ex asked = *attr;
	asked.comp_mask &= ~std::uint32_t{ IBV_QP_INIT_ATTR_CREATE_FLAGS };

	ibv_qp *qp = &object->vqp_.qp;
	if (int err = ibv_cmd_create_qp_ex(attr->pd->context, &object->vqp_, &asked, request.get(),
					   sizeof(request), response.get(), sizeof(response)))
		return fail(err);
	attr->cap = asked.cap;
	if (int err = object->open(response.driver(), *attr)) {
		ibv_cmd_destroy_qp(qp);
		return fail(err);
	}
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		object->fill_extended_post_ops();
	object->parent_domain_ = ParentDomainRef(attr->pd);
	object->attach();
	return &object.release()->vqp_.qp;
}

/* From now on the completion queues count the finished requests of this queue pair. */
void QueuePair::attach() noexcept
{
	send_cq().attach_sends(sq_.finished());
	if (rq_.is_open())
		recv_cq().attach_receives(rq_.finished());
}

/* The kernel has destroyed its queue pair, and adds no more completions for it. */
void QueuePair::detach() noexcept
{
	const std::uint32_t qpn = vqp_.qp.qp_num;

	send_cq().detach_sends(sq_.finished());
	send_cq().remove_queue_pair(qpn);
	if (rq_.is_open())
		recv_cq().detach_receives(rq_.finished());
	recv_cq().remove_queue_pair(qpn);
}

/* The kernel has reset its queue pair, and has given all slots back. */
void QueuePair::reset() noexcept
{
	const std::uint32_t qpn = vqp_.qp.qp_num;

	send_cq().reset_queue_pair(qpn, sq_.finished(), sq_.consumed());
	recv_cq().reset_queue_pair(qpn, rq_.finished(), rq_.is_open() ? rq_.consumed() : 0);
}

/*
 * The core refuses to destroy a queue pair while a doorbell of it is in the kernel (EBUSY), and a
 * thread that finds a completion queue empty may ring at any time. If the core refuses for another
 * reason, the next request that the kernel defers puts the doorbell on the lists again.
 */
void QueuePair::remove_doorbells() noexcept
{
	send_cq().remove_doorbell(sq_.deferred_on_send_cq());
	recv_cq().remove_doorbell(sq_.deferred_on_recv_cq());
}

int QueuePair::destroy(ibv_qp *qp) noexcept
{
	from(qp).remove_doorbells();
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
