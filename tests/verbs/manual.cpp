/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* States, attributes, errors and limits are as the manual pages of the verbs say. */
#include "cases.hpp"
#include "device.hpp"
#include "full_space.hpp"
#include "raw_peer.hpp"

#include <cerrno>
#include <format>
#include <optional>

using namespace rdma;

namespace
{

/* A queue pair that is not connected, and its CQ. */
struct Idle {
	Idle(const Device &device, ibv_pd *pd)
		: cq(device.create_cq(64)), owned(create_qp(pd, cq.get(), { 4, 4, 1, 1, 0 }))
	{
		require(owned != nullptr, "a queue pair");
	}

	ibv_qp *qp() { return owned.get(); }

	Cq cq;
	Qp owned;
};

/* rdma-core's test_query_rc_qp expects this of an RNIC. */
void new_is_idle(const std::string &address)
{
	Device device(address);
	Idle idle(device, device.pd());

	require(state_of(idle.qp()) == IBV_QPS_INIT, "a new queue pair is in INIT, iWARP's Idle");
	require(!modify(idle.qp(), IBV_QPS_RESET), "it can be reset");
	require(state_of(idle.qp()) == IBV_QPS_RESET, "its state is then RESET");
	require(!modify(idle.qp(), IBV_QPS_INIT), "it can be initialised");
	require(state_of(idle.qp()) == IBV_QPS_INIT, "its state is then INIT");
}

void reset_of_connected(const std::string &address)
{
	Pair pair(address);
	Buffer into(pair.a().pd(), 64);

	for (std::uint64_t i = 0; i < 8; i++)
		pair.a().receive(into.sge(0, 64), i);
	require(!modify(pair.a().qp(), IBV_QPS_RESET), "a connected queue pair can be reset");
	require(state_of(pair.a().qp()) == IBV_QPS_RESET, "its state is RESET");
	pair.expect_disconnect();
	expect_no_completion(pair.a().recv_cq(), 20);
	require(!modify(pair.a().qp(), IBV_QPS_INIT), "it can be initialised again");
}

/* The reset comes after both ends were told of the disconnect, or before. */
void reset_after_disconnect(const std::string &address)
{
	for (unsigned int i = 0; i < 40; i++) {
		Pair pair(address);
		End &goes = i % 2 ? pair.a() : pair.b();

		require(!rdma_disconnect(goes.id()), "rdma_disconnect");
		if (i % 4 > 1)
			pair.expect_disconnect();
		for (ibv_qp *qp : { pair.a().qp(), pair.b().qp() })
			if (int err = modify(qp, IBV_QPS_RESET))
				fail(std::format("reset in round {}", i), err);
		require(pair.a().state() == IBV_QPS_RESET, "the state is RESET");
	}
}

/* "If any of the modify attributes or the modify mask are invalid, none will be modified." */
void no_other_sizes(const std::string &address)
{
	Device device(address);
	Idle idle(device, device.pd());
	ibv_qp_attr attr = {};

	require(!modify(idle.qp(), IBV_QPS_RESET), "it can be reset");
	attr.qp_state = IBV_QPS_INIT;
	attr.cap = { 8, 8, 1, 1, 0 };
	require(ibv_modify_qp(idle.qp(), &attr, IBV_QP_STATE | IBV_QP_CAP) != 0,
		"other sizes are refused");
	require(state_of(idle.qp()) == IBV_QPS_RESET, "nothing was modified");
	require(ibv_modify_qp(idle.qp(), &attr, IBV_QP_STATE | 1 << 23) != 0,
		"an unknown attribute is refused");
	require(state_of(idle.qp()) == IBV_QPS_RESET, "nothing was modified");
}

void unknown_flags(const std::string &address)
{
	Device device(address);
	auto refused = [&](std::uint32_t mask, std::uint32_t flags, int err, const char *what) {
		ibv_cq_init_attr_ex attr = {};

		attr.cqe = 4;
		attr.comp_mask = mask;
		attr.flags = flags;
		errno = 0;
		ibv_cq_ex *cq = ibv_create_cq_ex(device.context(), &attr);
		require(!cq && errno == err, what);
	};

	refused(IBV_CQ_INIT_ATTR_MASK_FLAGS, 1 << 7, EOPNOTSUPP, "an unknown flag");
	refused(1 << 7, 0, EOPNOTSUPP, "an unknown attribute");
	refused(IBV_CQ_INIT_ATTR_MASK_PD, 0, EINVAL, "a missing parent domain");
}

void busy_parent(const std::string &address)
{
	Device device(address);
	ibv_parent_domain_init_attr attr = {};

	attr.pd = device.pd();
	Pd parent(ibv_alloc_parent_domain(device.context(), &attr));
	require(parent != nullptr, "a parent domain");

	std::optional<Buffer> buffer;
	std::optional<Idle> idle(std::in_place, device, parent.get());
	require(ibv_dealloc_pd(parent.get()) == EBUSY, "a queue pair keeps it busy");
	idle.reset();
	buffer.emplace(parent.get(), 64);
	require(ibv_dealloc_pd(parent.get()) == EBUSY, "a region keeps it busy");
	buffer.reset();
	ibv_srq_init_attr init = { nullptr, { 4, 1, 0 } };
	Srq srq(ibv_create_srq(parent.get(), &init));
	require(ibv_dealloc_pd(parent.get()) == EBUSY, "a shared receive queue keeps it busy");
	srq.reset();
	require(!ibv_dealloc_pd(parent.release()), "an empty domain can be deallocated");
}

void crossed_limit(const std::string &address)
{
	Device device(address);
	Srq srq = device.create_srq(16);
	ibv_srq_attr attr = {};

	attr.srq_limit = 4;
	require(!ibv_modify_srq(srq.get(), &attr, IBV_SRQ_LIMIT), "the limit is set");

	ibv_async_event event =
		expect_async_event(device.context(), IBV_EVENT_SRQ_LIMIT_REACHED, 5000);

	require(event.element.srq == srq.get(), "it is the event of this queue");
	require(!ibv_query_srq(srq.get(), &attr) && !attr.srq_limit, "the limit is off again");
}

/* The Write has been sent when the Read in front of it fails, which never gets its Response. */
void all_behind_are_flushed(const std::string &address)
{
	raw::Call call(address);
	Buffer into(call.end.pd(), 4096);

	call.end.receive(into.sge(64, 64), 9); /* the peer has to send the first FPDU */
	call.peer.say(raw::fpdu(raw::Untagged{}.ulpdu(raw::octets_of(1, 8))));
	expect_completion(call.end.recv_cq(), IBV_WC_SUCCESS, 9);
	call.end.read(into.sge(0, 64), 0x1000, 77, 1);
	call.end.write(into.sge(0, 64), 0x2000, 77, 2);
	require(call.peer.hear_fpdu().has_value(), "the Read Request is sent");
	require(call.peer.hear_fpdu().has_value(), "the Write is sent");
	require(!modify(call.end.qp(), IBV_QPS_ERR), "the queue pair goes to error");
	expect_completion(call.end.send_cq(), IBV_WC_WR_FLUSH_ERR, 1);
	expect_completion(call.end.send_cq(), IBV_WC_WR_FLUSH_ERR, 2);
}

void incomplete_requests(const std::string &address)
{
	const std::uint64_t ops = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	Pair pair(address, { .send_ops = ops }, {});
	ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair.a().qp());
	char nothing = 0;

	ibv_wr_start(qp);
	ibv_wr_rdma_read(qp, 1, 0x1000);
	ibv_wr_set_inline_data(qp, &nothing, 0);
	require(ibv_wr_complete(qp) == EINVAL, "an empty inline Read is refused");
	ibv_wr_start(qp);
	ibv_wr_atomic_fetch_add(qp, 1, 0x1000, 1);
	require(ibv_wr_complete(qp) == EINVAL, "an Atomic without an SGE is refused");
	pair.expect_alive();
}

/* When mapping the new queue fails, the kernel has already moved the completions there. The
 * provider maps it as soon as it can.
 */
void resize_without_space(const std::string &address)
{
	Device device(address);
	Cq cq = device.create_cq(64);
	Pair pair(address, { .cq = cq.get() }, {});
	Buffer from(pair.a().pd(), 64), to(pair.b().pd(), 64);
	ibv_wc wc;
	int err, polled;

	pair.a().write(from.sge(0, 8), to.address(), to.mr()->rkey, 1);
	{
		FullSpace full;

		err = ibv_resize_cq(cq.get(), 1 << 16);
		polled = ibv_poll_cq(cq.get(), 1, &wc);
	}
	require(err == ENOMEM, std::format("the resize fails with ENOMEM, not {}", err));
	require(polled < 0, "polling fails");
	pair.a().write(from.sge(0, 8), to.address(), to.mr()->rkey, 2);
	expect_completion(cq.get(), IBV_WC_SUCCESS, 1);
	expect_completion(cq.get(), IBV_WC_SUCCESS, 2);
}

void srq_resize_without_space(const std::string &address)
{
	Device device(address);
	Srq srq = device.create_srq(8);
	Buffer into(device.pd(), 64);
	ibv_srq_attr attr = { 1 << 14, 0, 0 };
	ibv_sge sge = into.sge(0, 64);
	ibv_recv_wr wr = { 1, nullptr, &sge, 1 }, *bad = nullptr;
	int err, post_err;
	{
		FullSpace full;

		err = ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR);
		post_err = ibv_post_srq_recv(srq.get(), &wr, &bad);
	}
	require(err == ENOMEM, std::format("the resize fails with ENOMEM, not {}", err));
	require(post_err == ENOMEM && bad == &wr, "nothing can be posted meanwhile");
	Pair pair(address, {}, { .srq = srq.get() });
	Buffer from(pair.a().pd(), 64);

	post(srq.get(), sge, 1); /* afterwards it can */
	pair.a().send(from.sge(0, 64), 1);
	expect_completion(pair.b().recv_cq(), IBV_WC_SUCCESS, 1);
}

const cases::Case all[] = {
	{ "a new queue pair is idle, which is called INIT", new_is_idle },
	{ "a connected queue pair can be reset", reset_of_connected },
	{ "a queue pair can be reset just after a disconnect", reset_after_disconnect },
	{ "the sizes of a queue pair cannot be modified", no_other_sizes },
	{ "unknown flags are refused", unknown_flags },
	{ "a parent domain stays while something is in it", busy_parent },
	{ "a limit that is already crossed is reported at once", crossed_limit },
	{ "all requests behind the first that failed are flushed", all_behind_are_flushed },
	{ "invalid requests are refused when they are posted", incomplete_requests },
	{ "a resized queue that could not be mapped is mapped later", resize_without_space },
	{ "a resized shared queue that could not be mapped is mapped later",
	  srq_resize_without_space },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
