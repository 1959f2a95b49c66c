// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* memory_window.cpp - memory windows */

#include "memory_window.hpp"

#include "object.hpp"
#include "queue_pair.hpp"

namespace xiw
{

ibv_mw *MemoryWindow::create(ibv_pd *pd, ibv_mw_type type) noexcept
{
	Request<struct ibv_alloc_mw, ib_uverbs_alloc_mw> request;
	ib_uverbs_alloc_mw_resp response;

	auto window = make_object<MemoryWindow>();
	if (!window)
		return nullptr;
	if (int err = ibv_cmd_alloc_mw(pd, type, &window->mw_, request.get(), sizeof(request),
				       &response, sizeof(response)))
		return fail(err);
	window->parent_domain_ = ParentDomainRef(pd);
	return &window.release()->mw_;
}

/* libibverbs calls this for windows of type 1. Each bind gives the window a new STag. */
int MemoryWindow::bind(ibv_qp *qp, const ibv_mw_bind *bind) noexcept
{
	ibv_send_wr wr = {};
	ibv_send_wr *bad;

	wr.wr_id = bind->wr_id;
	wr.opcode = IBV_WR_BIND_MW;
	wr.send_flags = bind->send_flags;
	wr.bind_mw.mw = &mw_;
	wr.bind_mw.rkey = ibv_inc_rkey(mw_.rkey);
	wr.bind_mw.bind_info = bind->bind_info;
	if (int err = QueuePair::from(qp).post_send(&wr, &bad))
		return err;
	mw_.rkey = wr.bind_mw.rkey;
	return 0;
}

int MemoryWindow::destroy(ibv_mw *mw) noexcept
{
	if (int err = ibv_cmd_dealloc_mw(mw))
		return err;
	delete &from(mw);
	return 0;
}

} /* namespace xiw */
