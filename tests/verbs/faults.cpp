/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Each thing that can fail in a verb fails once: the caller is told, nothing is left of the call,
 * and when the verb is called again it succeeds.
 */
#include "cases.hpp"
#include "odp.hpp"
#include "starved.hpp"

#include <cerrno>

using namespace rdma;
using injection::Call;
using injection::Starved;

namespace
{

constexpr std::size_t octets = std::size_t{ 64 } * 4096;
constexpr int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;

/* The verbs that destroy something return the error, and the object stays. */
void destroy(Call &call, auto object, auto verb)
{
	call.destroy([&] { return verb(object.get()); });
	object.release();
}

void devices(const std::string &address)
{
	Starved starved(address);
	ibv_device *device = starved.context()->device;

	/* If the file cannot be opened, libibverbs looks for other names and reports ENOENT. */
	starved.verb(
		"open_device",
		[&](Call &call) { call.make([&] { return Context(ibv_open_device(device)); }); },
		{ .errors = { ENOENT } });
	starved.verb("query_device", [&](Call &call) {
		ibv_device_attr attr;

		call([&] { return ibv_query_device(starved.context(), &attr); });
	});
	starved.verb("query_device_ex", [&](Call &call) {
		ibv_device_attr_ex attr;

		call([&] { return ibv_query_device_ex(starved.context(), nullptr, &attr); });
	});
	starved.verb("query_port", [&](Call &call) {
		ibv_port_attr attr;

		call([&] { return ibv_query_port(starved.context(), 1, &attr); });
	});
	starved.verb("alloc_pd", [&](Call &call) {
		call.make([&] { return Pd(ibv_alloc_pd(starved.context())); });
	});
	starved.verb("dealloc_pd", [&](Call &call) {
		destroy(call, Pd(ibv_alloc_pd(starved.context())), ibv_dealloc_pd);
	});
	starved.conclude();
}

void regions(const std::string &address)
{
	Starved starved(address);
	odp::Map map;
	auto *start = map.bytes().data();
	auto reg = [&](int access) {
		return Mr(ibv_reg_mr(starved.pd(), start, odp::size, access));
	};

	map.fill(1);
	starved.verb("reg_mr", [&](Call &call) { call.make([&] { return reg(rights); }); });
	starved.verb("reg_mr on demand", [&](Call &call) {
		call.make([&] { return reg(rights | IBV_ACCESS_ON_DEMAND); });
	});
	starved.verb("dereg_mr", [&](Call &call) { destroy(call, reg(rights), ibv_dereg_mr); });
	starved.verb("dereg_mr on demand", [&](Call &call) {
		destroy(call, reg(rights | IBV_ACCESS_ON_DEMAND), ibv_dereg_mr);
	});
	starved.verb("rereg_mr", [&](Call &call) {
		Mr mr = reg(rights);

		call([&] {
			return ibv_rereg_mr(mr.get(),
					    IBV_REREG_MR_CHANGE_TRANSLATION |
						    IBV_REREG_MR_CHANGE_ACCESS,
					    nullptr, start + 4096, 8 * 4096, IBV_ACCESS_LOCAL_WRITE)
				       ? errno
				       : 0;
		});
	});
	starved.verb("advise_mr", [&](Call &call) {
		Mr mr = reg(rights | IBV_ACCESS_ON_DEMAND);
		ibv_sge sge = { map.address(), odp::size, mr->lkey };

		map.forget();
		call([&] {
			return ibv_advise_mr(starved.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
					     IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
		});
	});
	starved.conclude();
}

void windows(const std::string &address)
{
	Starved starved(address);

	starved.verb("alloc_mw", [&](Call &call) {
		call.make([&] { return Mw(ibv_alloc_mw(starved.pd(), IBV_MW_TYPE_2)); });
	});
	starved.verb("dealloc_mw", [&](Call &call) {
		destroy(call, Mw(ibv_alloc_mw(starved.pd(), IBV_MW_TYPE_1)), ibv_dealloc_mw);
	});
	starved.conclude();
}

void completion_queues(const std::string &address)
{
	Starved starved(address);
	ibv_context *context = starved.context();
	CompletionChannel channel(ibv_create_comp_channel(context));

	starved.verb("create_comp_channel", [&](Call &call) {
		call.make([&] { return CompletionChannel(ibv_create_comp_channel(context)); });
	});
	starved.verb("create_cq", [&](Call &call) {
		call.make([&] { return Cq(ibv_create_cq(context, 256, nullptr, nullptr, 0)); });
	});
	/* The first pages that a process may map need memory for the table of such pages. */
	starved.verb("create_cq, the first of a context", [&](Call &call) {
		Context first(ibv_open_device(context->device));

		call.make([&] { return Cq(ibv_create_cq(first.get(), 256, nullptr, nullptr, 0)); });
	});
	starved.verb("create_cq with a channel", [&](Call &call) {
		call.make(
			[&] { return Cq(ibv_create_cq(context, 256, nullptr, channel.get(), 0)); });
	});
	starved.verb("create_cq_ex", [&](Call &call) {
		ibv_cq_init_attr_ex attr = {};

		attr.cqe = 256;
		attr.wc_flags = std::uint64_t{ IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };
		call.make([&] { return CqEx(ibv_create_cq_ex(context, &attr)); });
	});
	starved.verb("resize_cq", [&](Call &call) {
		Cq cq = starved.device().create_cq(64);

		call([&] { return ibv_resize_cq(cq.get(), 512); });
	});
	starved.verb("destroy_cq", [&](Call &call) {
		destroy(call, starved.device().create_cq(64), ibv_destroy_cq);
	});
	starved.conclude();
}

void shared_receive_queues(const std::string &address)
{
	Starved starved(address);

	starved.verb("create_srq", [&](Call &call) {
		ibv_srq_init_attr attr = { nullptr, { 256, 4, 0 } };

		call.make([&] { return Srq(ibv_create_srq(starved.pd(), &attr)); });
	});
	starved.verb("modify_srq, limit", [&](Call &call) {
		Srq srq = starved.device().create_srq(64);
		ibv_srq_attr attr = { 0, 0, 8 };

		call([&] { return ibv_modify_srq(srq.get(), &attr, IBV_SRQ_LIMIT); });
	});
	starved.verb("modify_srq, size", [&](Call &call) {
		Srq srq = starved.device().create_srq(64);
		ibv_srq_attr attr = { 512, 0, 0 };

		call([&] { return ibv_modify_srq(srq.get(), &attr, IBV_SRQ_MAX_WR); });
	});
	starved.verb("query_srq", [&](Call &call) {
		Srq srq = starved.device().create_srq(64);
		ibv_srq_attr attr;

		call([&] { return ibv_query_srq(srq.get(), &attr); });
	});
	starved.verb("destroy_srq", [&](Call &call) {
		destroy(call, starved.device().create_srq(64), ibv_destroy_srq);
	});
	starved.conclude();
}

void queue_pairs(const std::string &address)
{
	Starved starved(address);
	Cq cq = starved.device().create_cq(256);
	Srq srq = starved.device().create_srq(64);
	auto create = [&](ibv_srq *shared) {
		return create_qp(starved.pd(), cq.get(), { 256, shared ? 0U : 256, 4, 4, 64 },
				 shared);
	};

	starved.verb("create_qp", [&](Call &call) { call.make([&] { return create(nullptr); }); });
	starved.verb("create_qp with an SRQ",
		     [&](Call &call) { call.make([&] { return create(srq.get()); }); });
	starved.verb("create_qp_ex", [&](Call &call) {
		ibv_qp_init_attr_ex attr = {};

		attr.send_cq = attr.recv_cq = cq.get();
		attr.cap = { 64, 64, 4, 4, 64 };
		attr.qp_type = IBV_QPT_RC;
		attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.pd = starved.pd();
		attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
		call.make([&] { return Qp(ibv_create_qp_ex(starved.context(), &attr)); });
	});
	starved.verb("modify_qp", [&](Call &call) {
		Qp qp = create(nullptr);

		call([&] { return modify(qp.get(), IBV_QPS_ERR); });
	});
	starved.verb("query_qp", [&](Call &call) {
		Qp qp = create(nullptr);
		ibv_qp_init_attr init;
		ibv_qp_attr attr;

		call([&] { return ibv_query_qp(qp.get(), &attr, IBV_QP_STATE, &init); });
	});
	starved.verb("destroy_qp",
		     [&](Call &call) { destroy(call, create(nullptr), ibv_destroy_qp); });
	starved.conclude();
}

void device_memory(const std::string &address)
{
	Starved starved(address);
	auto alloc = [&] {
		ibv_alloc_dm_attr attr = { octets, 0, 0 };

		return Dm(ibv_alloc_dm(starved.context(), &attr));
	};

	starved.verb("alloc_dm", [&](Call &call) { call.make(alloc); });
	starved.verb("reg_dm_mr", [&](Call &call) {
		Dm dm = alloc();

		call.make([&] {
			return Mr(ibv_reg_dm_mr(starved.pd(), dm.get(), 0, 4096,
						IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE));
		});
	});
	starved.verb("free_dm", [&](Call &call) { destroy(call, alloc(), ibv_free_dm); });
	starved.conclude();
}

const cases::Case all[] = {
	{ "devices and protection domains", devices },
	{ "regions", regions },
	{ "windows", windows },
	{ "completion queues", completion_queues },
	{ "shared receive queues", shared_receive_queues },
	{ "queue pairs", queue_pairs },
	{ "device memory", device_memory },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
