/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The extended verbs: posting by ibv_wr_*(), polling by ibv_start_poll(), thread domains. */
#include "cases.hpp"
#include "rdma.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <format>
#include <functional>
#include <vector>

using namespace rdma;

namespace
{

using ImportedMr = Owner<ibv_mr, ibv_unimport_mr>;
using ImportedPd = Owner<ibv_pd, ibv_unimport_pd>;
using Td = Owner<ibv_td, ibv_dealloc_td>;

constexpr std::uint64_t all_requests =
	IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
	IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
	IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
	IBV_QP_EX_WITH_SEND_WITH_INV;

constexpr std::uint64_t all_fields = std::uint64_t{ IBV_WC_STANDARD_FLAGS } |
				     std::uint64_t{ IBV_WC_EX_WITH_COMPLETION_TIMESTAMP } |
				     std::uint64_t{ IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK };

/* An extended completion queue of the device that serves an address. */
Cq create_cq(ibv_context *context, ibv_cq_init_attr_ex attr, Where where = Where::current())
{
	attr.cqe = 256;

	ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);

	if (!cq)
		fail("ibv_create_cq_ex", errno, where);
	return Cq(ibv_cq_ex_to_cq(cq));
}

/* a posts by ibv_wr_*() and polls by ibv_start_poll(). */
struct Setting {
	explicit Setting(const std::string &address, ibv_cq_init_attr_ex attr = all_wanted(),
			 ibv_pd *pd = nullptr)
		: probe(address), cq(create_cq(context(), attr)),
		  pair(address,
		       { .inline_data = 256, .cq = cq.get(), .pd = pd, .send_ops = all_requests },
		       {}),
		  a(pair.a()), b(pair.b()), from(a.pd(), 8192), to(b.pd(), 8192, rights)
	{
		require(qp != nullptr, "the queue pair has the extended verbs");
		qp->wr_flags = IBV_SEND_SIGNALED;
		from.fill(1);
	}

	static ibv_cq_init_attr_ex all_wanted()
	{
		ibv_cq_init_attr_ex attr = {};

		attr.wc_flags = all_fields;
		return attr;
	}

	ibv_context *context() { return probe.a().id()->verbs; }
	ibv_cq_ex *polled() { return reinterpret_cast<ibv_cq_ex *>(cq.get()); }
	std::uint32_t rkey() const { return to.mr()->rkey; }
	std::uint32_t lkey() const { return from.mr()->lkey; }

	/* Posts the request that request() builds. */
	void post(std::uint64_t wr_id, const std::function<void()> &request,
		  Where where = Where::current())
	{
		ibv_wr_start(qp);
		qp->wr_id = wr_id;
		request();
		if (int err = ibv_wr_complete(qp))
			fail("ibv_wr_complete", err, where);
	}

	/* Reads the next completion, which must be good. look() checks its fields. */
	void expect(std::uint64_t wr_id, ibv_wc_opcode opcode,
		    const std::function<void(ibv_cq_ex *)> &look = {},
		    Where where = Where::current())
	{
		ibv_poll_cq_attr attr = {};
		time_t deadline = std::time(nullptr) + 10;
		int err;

		while ((err = ibv_start_poll(polled(), &attr)) == ENOENT)
			require(std::time(nullptr) < deadline, "a completion comes", where);
		require(!err, "the queue can be polled", where);

		bool good = polled()->status == IBV_WC_SUCCESS && polled()->wr_id == wr_id &&
			    ibv_wc_read_opcode(polled()) == opcode &&
			    ibv_wc_read_qp_num(polled()) == a.qp()->qp_num;

		if (look)
			look(polled());
		ibv_end_poll(polled());
		require(good, std::format("completion {} is good", wr_id), where);
	}

	static constexpr int rights = Buffer::all_rights | IBV_ACCESS_REMOTE_ATOMIC;

	Pair probe;
	Cq cq;
	Pair pair;
	End &a;
	End &b;
	Buffer from;
	Buffer to;
	ibv_qp_ex *qp = ibv_qp_to_qp_ex(a.qp());
};

void every_request(const std::string &address)
{
	Setting setting(address);
	ibv_qp_ex *qp = setting.qp;
	std::uint64_t remote = setting.to.address();

	setting.post(1, [&] {
		ibv_wr_rdma_write(qp, setting.rkey(), remote);
		ibv_wr_set_sge(qp, setting.lkey(), setting.from.address(), 4000);
	});
	setting.expect(1, IBV_WC_RDMA_WRITE);
	setting.post(2, [&] {
		ibv_wr_rdma_read(qp, setting.rkey(), remote);
		ibv_wr_set_sge(qp, setting.lkey(), setting.from.address() + 4096, 4000);
	});
	setting.expect(2, IBV_WC_RDMA_READ, [](ibv_cq_ex *cq) {
		require(ibv_wc_read_byte_len(cq) == 4000, "the length is right");
	});
	require(setting.to.holds(1, 0, 4000), "the data of the write arrived");
	require(std::ranges::equal(setting.from.bytes().first(4000),
				   setting.from.bytes().subspan(4096, 4000)),
		"the read returned it");

	auto *word = reinterpret_cast<std::uint64_t *>(setting.to.bytes().data());

	*word = 40;
	setting.post(3, [&] {
		ibv_wr_atomic_fetch_add(qp, setting.rkey(), remote, 2);
		ibv_wr_set_sge(qp, setting.lkey(), setting.from.address(), 8);
	});
	setting.expect(3, IBV_WC_FETCH_ADD);
	setting.post(4, [&] {
		ibv_wr_atomic_cmp_swp(qp, setting.rkey(), remote, 42, 7);
		ibv_wr_set_sge(qp, setting.lkey(), setting.from.address() + 8, 8);
	});
	setting.expect(4, IBV_WC_COMP_SWAP);
	require(*word == 7, "the atomics were executed");

	Buffer unused(setting.a.pd(), 4096);

	setting.post(5, [&] { ibv_wr_local_inv(qp, unused.mr()->rkey); });
	setting.expect(5, IBV_WC_LOCAL_INV);
}

void messages(const std::string &address)
{
	Setting setting(address);
	ibv_qp_ex *qp = setting.qp;
	ibv_sge pieces[] = { setting.from.sge(0, 1000), setting.from.sge(1000, 500) };

	setting.b.receive(setting.to.sge(0, 4096), 11);
	setting.post(1, [&] {
		ibv_wr_send(qp);
		ibv_wr_set_sge_list(qp, 2, pieces);
	});
	setting.expect(1, IBV_WC_SEND);

	ibv_wc wc = expect_completion(setting.b.recv_cq(), IBV_WC_SUCCESS, 11);

	require(wc.byte_len == 1500 && setting.to.holds(1, 0, 1500), "the pieces arrived");
	setting.b.receive(setting.to.sge(4096, 4096), 12);
	setting.post(2, [&] {
		ibv_wr_rdma_write_imm(qp, setting.rkey(), setting.to.address(), htonl(99));
		ibv_wr_set_sge(qp, setting.lkey(), setting.from.address(), 3000);
	});
	setting.expect(2, IBV_WC_RDMA_WRITE);
	wc = expect_completion(setting.b.recv_cq(), IBV_WC_SUCCESS, 12);
	require(wc.byte_len == 3000 && ntohl(wc.imm_data) == 99, "the immediate data arrived");

	/* The peer must not invalidate a region of ibv_reg_mr(); trying ends the connection. */
	setting.b.receive(setting.to.sge(4096, 4096), 13);
	setting.post(3, [&] {
		ibv_wr_send_inv(qp, setting.rkey());
		ibv_wr_set_sge(qp, setting.lkey(), setting.from.address(), 8);
	});
	expect_completion(setting.b.recv_cq(), IBV_WC_WR_FLUSH_ERR, 13);
	setting.pair.expect_disconnect();
}

void window(const std::string &address)
{
	Setting setting(address);
	Buffer region(setting.a.pd(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	Buffer back(setting.b.pd(), 4096);
	Mw window(ibv_alloc_mw(setting.a.pd(), IBV_MW_TYPE_2));
	ibv_mw_bind_info info = { region.mr(), region.address(), 4096,
				  IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

	require(window != nullptr, "a window");

	const std::uint32_t rkey = ibv_inc_rkey(window->rkey);

	setting.post(1, [&] { ibv_wr_bind_mw(setting.qp, window.get(), rkey, &info); });
	setting.expect(1, IBV_WC_BIND_MW);
	setting.to.fill(6);
	setting.b.write(setting.to.sge(0, 4096), region.address(), rkey, 2);
	setting.b.read(back.sge(0, 4096), region.address(), rkey, 3);
	expect_completion(setting.b.send_cq(), IBV_WC_SUCCESS, 2);
	expect_completion(setting.b.send_cq(), IBV_WC_SUCCESS, 3);
	require(region.holds(6, 0, 4096) && back.holds(6, 0, 4096),
		"the peer writes and reads through the window");
}

/* Inline data is copied when it is posted, so later changes of the buffer are not sent. */
void inline_data(const std::string &address)
{
	Setting setting(address);
	std::vector<std::uint8_t> own(256);
	ibv_data_buf pieces[] = { { own.data(), 100 }, { own.data() + 100, 56 } };

	std::ranges::copy(setting.from.bytes().first(own.size()), own.begin());
	setting.b.receive(setting.to.sge(0, 256), 11);
	setting.post(1, [&] {
		ibv_wr_send(setting.qp);
		ibv_wr_set_inline_data_list(setting.qp, 2, pieces);
	});
	std::ranges::fill(own, 0);
	setting.expect(1, IBV_WC_SEND);

	ibv_wc wc = expect_completion(setting.b.recv_cq(), IBV_WC_SUCCESS, 11);

	require(wc.byte_len == 156 && setting.to.holds(1, 0, 156), "the pieces arrived");
	std::ranges::copy(setting.from.bytes().first(own.size()), own.begin());
	setting.post(2, [&] {
		ibv_wr_rdma_write(setting.qp, setting.rkey(), setting.to.address());
		ibv_wr_set_inline_data(setting.qp, own.data(), 256);
	});
	std::ranges::fill(own, 0);
	setting.expect(2, IBV_WC_RDMA_WRITE);
	setting.pair.expect_alive();
	require(setting.to.holds(1, 0, 256), "the data of the write arrived");
}

/* Posts many requests between ibv_wr_start() and ibv_wr_complete(). */
void all_or_none(const std::string &address)
{
	Setting setting(address);
	ibv_qp_ex *qp = setting.qp;
	auto write = [&](std::uint64_t wr_id, std::uint32_t length) {
		qp->wr_id = wr_id;
		ibv_wr_rdma_write(qp, setting.rkey(), setting.to.address() + 8 * wr_id);
		ibv_wr_set_sge(qp, setting.lkey(), setting.from.address() + 8 * wr_id, length);
	};

	ibv_wr_start(qp);
	write(0, 8);
	ibv_wr_abort(qp);
	ibv_wr_start(qp);
	write(1, 8);
	ibv_wr_atomic_fetch_add(qp, setting.rkey(), setting.to.address(), 1);
	ibv_wr_set_sge(qp, setting.lkey(), setting.from.address(), 7);
	write(2, 8);
	require(ibv_wr_complete(qp) == EINVAL, "a bad request makes the whole batch fail");
	ibv_wr_start(qp);
	for (std::uint64_t i = 0; i < 65; i++)
		write(i, 8);
	require(ibv_wr_complete(qp) == ENOMEM, "a batch longer than the queue is refused");
	expect_no_completion(setting.cq.get());
	require(setting.to.is_zero(), "nothing was written");

	for (std::uint64_t round = 0; round < 5; round++) {
		ibv_wr_start(qp);
		for (std::uint64_t i = 0; i < 64; i++)
			write(i, 8);
		require(!ibv_wr_complete(qp), "a batch as long as the queue is taken");
		for (std::uint64_t i = 0; i < 64; i++)
			setting.expect(i, IBV_WC_RDMA_WRITE);
	}
	setting.pair.expect_alive();
	require(setting.to.holds(1, 0, 512), "all data was written");
}

std::uint64_t nanoseconds(const timespec &time)
{
	return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
	       static_cast<std::uint64_t>(time.tv_nsec);
}

std::uint64_t realtime()
{
	timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return nanoseconds(now);
}

/* The time of each completion is between the device's clock before the post and after the poll. */
void timestamps(const std::string &address)
{
	Setting setting(address);
	std::uint64_t last = 0, last_wall = 0;
	auto device_time = [&setting] {
		ibv_values_ex values = { IBV_VALUES_MASK_RAW_CLOCK, {} };

		require(!ibv_query_rt_values_ex(setting.context(), &values),
			"the device has a clock");
		return nanoseconds(values.raw_clock);
	};

	for (std::uint64_t i = 0; i < 10; i++) {
		std::uint64_t before = device_time(), before_wall = realtime();

		setting.post(i, [&] {
			ibv_wr_rdma_write(setting.qp, setting.rkey(), setting.to.address());
			ibv_wr_set_sge(setting.qp, setting.lkey(), setting.from.address(), 8);
		});
		setting.expect(i, IBV_WC_RDMA_WRITE, [&](ibv_cq_ex *cq) {
			last = ibv_wc_read_completion_ts(cq);
			last_wall = ibv_wc_read_completion_wallclock_ns(cq);
		});
		require(before <= last && last <= device_time(), "the device's time is right");
		require(before_wall <= last_wall + 1'000'000 && last_wall <= realtime() + 1'000'000,
			"the wall clock time is right");
	}

	ibv_device_attr_ex attr;

	require(!ibv_query_device_ex(setting.context(), nullptr, &attr), "ibv_query_device_ex");
	require(attr.completion_timestamp_mask == ~std::uint64_t{ 0 } &&
			attr.hca_core_clock == 1'000'000,
		"the clock counts nanoseconds");
}

/* ibv_start_poll() to ibv_end_poll() with many completions, mixed with plain ibv_poll_cq(). */
void batches(const std::string &address)
{
	Setting setting(address);
	ibv_poll_cq_attr attr = {};
	std::uint64_t seen = 0;

	for (std::uint64_t i = 0; i < 60; i++)
		setting.a.write(setting.from.sge(0, 8), setting.to.address(), setting.rkey(), i);
	expect_completion(setting.cq.get(), IBV_WC_SUCCESS, seen++);
	while (seen < 60) {
		if (ibv_start_poll(setting.polled(), &attr) == ENOENT)
			continue;
		do {
			require(setting.polled()->wr_id == seen, "completions are in order");
			seen++;
		} while (seen % 7 && !ibv_next_poll(setting.polled()));
		ibv_end_poll(setting.polled());
	}
	require(ibv_start_poll(setting.polled(), &attr) == ENOENT, "there are no more");
}

void unknown_fields(const std::string &address)
{
	Pair pair(address);

	for (std::uint64_t field :
	     { IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG, IBV_WC_EX_WITH_TM_INFO }) {
		ibv_cq_init_attr_ex attr = {};

		attr.cqe = 16;
		attr.wc_flags = field;
		require(!ibv_create_cq_ex(pair.a().id()->verbs, &attr) && errno == EOPNOTSUPP,
			std::format("field {:#x} is refused", field));
	}
}

/* A Write of a can take its data from this memory. */
void expect_valid(Setting &setting, Buffer memory, Where where = Where::current())
{
	memory.fill(5);
	setting.post(1, [&] {
		ibv_wr_rdma_write(setting.qp, setting.rkey(), setting.to.address());
		ibv_wr_set_sge(setting.qp, memory.mr()->lkey, memory.address(), 4096);
	});
	setting.expect(1, IBV_WC_RDMA_WRITE);
	setting.pair.expect_alive(where);
	require(setting.to.holds(5, 0, 4096), "the data is written", where);
}

/* A queue pair and a completion queue of a thread domain work like any others. */
void thread_domain(const std::string &address)
{
	Pair probe(address);
	ibv_context *context = probe.a().id()->verbs;
	ibv_td_init_attr td_attr = {};
	Td td(ibv_alloc_td(context, &td_attr));
	Pd pd(ibv_alloc_pd(context));

	require(td && pd, "there are domains");

	ibv_parent_domain_init_attr attr = {};

	attr.pd = pd.get();
	attr.td = td.get();

	Pd parent(ibv_alloc_parent_domain(context, &attr));

	require(parent != nullptr, "there is a parent domain");
	require(ibv_dealloc_pd(pd.get()) == EBUSY && ibv_dealloc_td(td.get()) == EBUSY,
		"the domains that it joins cannot be destroyed first");

	ibv_cq_init_attr_ex cq_attr = Setting::all_wanted();

	cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD | IBV_CQ_INIT_ATTR_MASK_FLAGS;
	cq_attr.parent_domain = parent.get();
	cq_attr.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;

	Setting setting(address, cq_attr, parent.get());

	/* A region of the PD is valid in the parent domain. */
	expect_valid(setting, Buffer(pd.get(), 4096));
}

/* A second context of the same device file, as another process may have it, imports objects. */
void imported(const std::string &address)
{
	Pair probe(address);
	ibv_context *context = probe.a().id()->verbs;
	Pd pd(ibv_alloc_pd(context));
	Context other(ibv_import_device(dup(context->cmd_fd)));

	require(pd && other, "the device file is shared");

	ImportedPd other_pd(ibv_import_pd(other.get(), pd->handle));
	Setting setting(address, Setting::all_wanted(), pd.get());

	require(other_pd != nullptr, "the domain is shared");

	ImportedMr other_mr(ibv_import_mr(other_pd.get(), setting.from.mr()->handle));

	require(other_mr && other_mr->lkey == setting.lkey() && other_mr->length == 8192,
		"the region is shared");
	require(!ibv_import_mr(other_pd.get(), ~0u), "an unknown handle is refused");

	/* A region of one context is valid in the other. */
	expect_valid(setting, Buffer(other_pd.get(), 4096));
}

const cases::Case all[] = {
	{ "every request by ibv_wr_*", every_request },
	{ "sends and immediate data by ibv_wr_*", messages },
	{ "a window is bound by ibv_wr_*", window },
	{ "inline data by ibv_wr_*", inline_data },
	{ "requests by ibv_wr_* are posted all or none", all_or_none },
	{ "completions carry the time", timestamps },
	{ "completions by ibv_start_poll in batches", batches },
	{ "fields that iWARP does not have are refused", unknown_fields },
	{ "a thread domain works", thread_domain },
	{ "a domain is shared with another context", imported },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
