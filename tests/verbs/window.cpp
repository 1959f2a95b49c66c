/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Memory windows, and the invalidation of STags. */
#include "cases.hpp"
#include "device.hpp"

#include <cerrno>
#include <cstdlib>
#include <thread>

using namespace rdma;

namespace
{

constexpr std::uint64_t bind_id = 50, inv_id = 60;
constexpr std::uint32_t no_stag = 0x42; /* no STag has the index 0 */
constexpr int all_remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr int region_rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;

/* b has a region without remote rights, and a window; a is the peer. */
struct Setting {
	Setting(const std::string &address, ibv_mw_type type, int access = region_rights)
		: pair(address), a(pair.a()), b(pair.b()), region(b.pd(), 8192, access),
		  local(a.pd(), 8192), window(ibv_alloc_mw(b.pd(), type))
	{
		require(window != nullptr, "a window");
		local.fill(1);
	}

	ibv_mw_bind_info part(std::size_t offset, std::size_t length, int access = all_remote)
	{
		return { region.mr(), region.address() + offset, length,
			 static_cast<unsigned int>(access) };
	}

	/* For type 1: the library chooses the STag. */
	void bind(const ibv_mw_bind_info &info, Where where = Where::current())
	{
		ibv_mw_bind bind = { bind_id, IBV_SEND_SIGNALED, info };

		if (int err = ibv_bind_mw(b.qp(), window.get(), &bind))
			fail("ibv_bind_mw", err, where);
		expect_bound(where);
	}

	/* For type 2: the program chooses the STag. */
	void post_bind(const ibv_mw_bind_info &info) { b.bind(window.get(), info, bind_id); }

	void expect_bound(Where where = Where::current())
	{
		ibv_wc wc = expect_completion(b.send_cq(), IBV_WC_SUCCESS, bind_id, where);

		require(wc.opcode == IBV_WC_BIND_MW, "the opcode is right", where);
	}

	void expect_bind_refused(const ibv_mw_bind_info &info, Where where = Where::current())
	{
		post_bind(info);
		expect_completion(b.send_cq(), IBV_WC_MW_BIND_ERR, bind_id, where);
		pair.expect_disconnect(where);
	}

	/* a can write and read through the window. */
	void expect_open(std::uint64_t to, Where where = Where::current())
	{
		Buffer back(a.pd(), 64);

		a.write_and_read(local.sge(0, 64), back.sge(0, 64), to, window->rkey, where);
		require(back.holds(1, 0, 64), "the data is read back", where);
	}

	/* A write of a with this STag ends the connection and changes nothing. */
	void expect_shut(std::uint64_t to, std::uint32_t rkey, Where where = Where::current())
	{
		region.fill(9);
		a.write(local.sge(0, 64), to, rkey, 1);
		pair.expect_disconnect(where);
		require(region.holds(9, 0, 8192), "nothing was written", where);
	}

	void invalidate(std::uint32_t stag, ibv_wc_status status, Where where = Where::current())
	{
		ibv_send_wr wr = {};

		wr.wr_id = inv_id;
		wr.opcode = IBV_WR_LOCAL_INV;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.invalidate_rkey = stag;
		require(!b.post(wr), "the request is posted", where);
		expect_completion(b.send_cq(), status, inv_id, where);
	}

	/* a sends a message that invalidates b's STag. */
	void send_with_invalidate(std::uint32_t stag)
	{
		ibv_sge sge = local.sge(0, 16);
		ibv_send_wr wr = signaled(IBV_WR_SEND_WITH_INV, sge, inv_id);

		wr.invalidate_rkey = stag;
		require(!a.post(wr), "the request is posted");
	}

	/* Binds the window to another region on the same memory, which it returns. */
	Mr bind_to_other_region()
	{
		Mr mr(ibv_reg_mr(b.pd(), region.bytes().data(), 4096, region_rights));

		require(mr != nullptr, "a region");
		bind({ mr.get(), region.address(), 64, all_remote });
		return mr;
	}

	Pair pair;
	End &a;
	End &b;
	Buffer region;
	Buffer local;
	Mw window;
};

void type1_opens_its_part(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_1);

	setting.bind(setting.part(1000, 200));
	setting.expect_open(setting.region.address() + 1000);
	setting.expect_open(setting.region.address() + 1136);
	setting.expect_shut(setting.region.address() + 1137, setting.window->rkey);
}

void type1_is_bound_anew(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_1);

	setting.bind(setting.part(0, 64));

	std::uint32_t old = setting.window->rkey;

	setting.bind(setting.part(4090, 100));
	require(setting.window->rkey != old, "the window has another STag");
	setting.expect_open(setting.region.address() + 4090);
	setting.expect_shut(setting.region.address(), old);
}

void type1_is_unbound(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_1);

	setting.bind(setting.part(0, 64));

	std::uint32_t old = setting.window->rkey;

	setting.bind({});
	setting.expect_shut(setting.region.address(), old);
}

void type2_is_invalidated(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_2);

	for (std::size_t offset : { 0, 4000 }) {
		setting.post_bind(setting.part(offset, 500));
		setting.expect_bound();
		setting.expect_open(setting.region.address() + offset);
		setting.invalidate(setting.window->rkey, IBV_WC_SUCCESS);
	}
	setting.expect_shut(setting.region.address() + 4000, setting.window->rkey);
}

void peer_invalidates(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_2);

	setting.post_bind(setting.part(0, 500));
	setting.expect_bound();
	setting.expect_open(setting.region.address());
	setting.b.receive(setting.region.sge(4096, 64), 3);
	setting.send_with_invalidate(setting.window->rkey);
	expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, inv_id);

	ibv_wc wc = expect_completion(setting.b.recv_cq(), IBV_WC_SUCCESS, 3);

	require(wc.wc_flags == IBV_WC_WITH_INV, "the completion reports an invalidation");
	require(wc.invalidated_rkey == setting.window->rkey, "it has the window's STag");
	setting.expect_shut(setting.region.address(), setting.window->rkey);
}

/* The peer must not invalidate regions of ibv_reg_mr() and windows of type 1. */
void peer_may_not(const std::string &address, ibv_mw_type type, bool region)
{
	Setting setting(address, type, region_rights | all_remote);

	if (type == IBV_MW_TYPE_1)
		setting.bind(setting.part(0, 500));
	setting.b.receive(setting.region.sge(4096, 64), 3);
	setting.send_with_invalidate(region ? setting.region.mr()->rkey : setting.window->rkey);
	setting.pair.expect_disconnect();
	require(setting.b.state() == IBV_QPS_ERR, "the connection has ended");
}

void peer_spares_regions(const std::string &address)
{
	peer_may_not(address, IBV_MW_TYPE_2, true);
}

void peer_spares_type1(const std::string &address)
{
	peer_may_not(address, IBV_MW_TYPE_1, false);
}

/* Writes and reads one byte over another connection. Returns whether that succeeds. */
bool neighbour_reaches(Pair &neighbour, std::uint64_t to, std::uint32_t rkey)
{
	Buffer from(neighbour.a().pd(), 64);

	neighbour.a().write(from.sge(0, 1), to, rkey, 1);
	neighbour.a().read(from.sge(0, 1), to, rkey, 2);
	expect_completion(neighbour.a().send_cq(), IBV_WC_SUCCESS, 1);
	return next_completion(neighbour.a().send_cq()).status == IBV_WC_SUCCESS;
}

void type1_serves_domain(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_1);
	Pair neighbour(address, {}, { .pd = setting.b.pd() });

	setting.bind(setting.part(0, 500));
	require(neighbour_reaches(neighbour, setting.region.address(), setting.window->rkey),
		"another connection of the domain can use it");
}

void type2_serves_its_qp(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_2);
	Pair neighbour(address, {}, { .pd = setting.b.pd() });

	setting.post_bind(setting.part(0, 500));
	setting.expect_bound();
	require(!neighbour_reaches(neighbour, setting.region.address(), setting.window->rkey),
		"another connection of the domain cannot use it");
	setting.expect_open(setting.region.address());
}

void rights_are_the_windows(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_2);
	Buffer back(setting.a.pd(), 64);

	setting.post_bind(setting.part(0, 500, IBV_ACCESS_REMOTE_READ));
	setting.expect_bound();
	setting.a.read(back.sge(0, 64), setting.region.address(), setting.window->rkey, 1);
	expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 1);
	setting.expect_shut(setting.region.address(), setting.window->rkey);
}

void zero_based(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_2);

	setting.post_bind(setting.part(4000, 500, all_remote | IBV_ACCESS_ZERO_BASED));
	setting.expect_bound();
	setting.expect_open(0);
	setting.expect_open(436);
	require(setting.region.holds(0, 0, 0) && setting.region.bytes()[4000] == pattern(1, 0) &&
			setting.region.bytes()[4436] == pattern(1, 0),
		"the data is at the window's place");
	setting.expect_shut(437, setting.window->rkey);
}

void beyond_region(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_2);

	setting.expect_bind_refused(setting.part(4096, 4097));
}

void wrapping(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_2);

	setting.expect_bind_refused(setting.part(4096, -std::size_t(4096)));
}

void region_forbids(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_2, IBV_ACCESS_LOCAL_WRITE | all_remote);

	setting.expect_bind_refused(setting.part(0, 64));
}

void region_is_read_only(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_2, IBV_ACCESS_MW_BIND);

	setting.expect_bind_refused(setting.part(0, 64));
}

void bound_twice(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_2);

	setting.post_bind(setting.part(0, 64));
	setting.expect_bound();
	setting.expect_bind_refused(setting.part(64, 64));
}

void other_domain(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_2);
	Pd domain(ibv_alloc_pd(setting.b.id()->verbs));
	Buffer foreign(domain.get(), 4096, region_rights);

	setting.expect_bind_refused({ foreign.mr(), foreign.address(), 64, all_remote });
}

void region_stays(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_1);
	Mr mr = setting.bind_to_other_region();

	require(ibv_dereg_mr(mr.get()) == EBUSY, "a region with a window cannot go");
	require(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
			     region_rights) != 0,
		"it cannot be changed");
	setting.expect_open(setting.region.address());
	setting.window.reset();
	require(!ibv_dereg_mr(mr.release()), "without a window it can go");
}

/* A request names the region by its STag, so a window's STag could be passed instead. */
void window_is_no_region(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_2);
	Mw other(ibv_alloc_mw(setting.b.pd(), IBV_MW_TYPE_1));
	ibv_mr region = *setting.region.mr();

	require(other != nullptr, "a window");
	region.lkey = other->rkey;
	setting.expect_bind_refused({ &region, setting.region.address(), 64, all_remote });
}

/* A way to name something that cannot be bound, with the region and the STag that it needs. */
void wrong_binds(const std::string &address)
{
	auto refused = [&](auto change, int access = region_rights) {
		Setting setting(address, IBV_MW_TYPE_2, access);
		ibv_mr region = *setting.region.mr();
		ibv_mw window = *setting.window;
		ibv_mw_bind_info info = setting.part(64, 64);

		info.mr = &region;
		change(setting, info, window);
		setting.b.bind(&window, info, bind_id);
		expect_completion(setting.b.send_cq(), IBV_WC_MW_BIND_ERR, bind_id);
		setting.pair.expect_disconnect();
	};

	refused([](Setting &, auto &info, auto &) { info.addr -= 65; });
	refused([](Setting &, auto &info, auto &) { info.addr += 8129; });
	refused([](Setting &, auto &info, auto &) { info.mw_access_flags |= 1 << 20; });
	refused([](Setting &, auto &info, auto &) { info.mr->lkey ^= 1; });
	refused([](Setting &, auto &info, auto &) { info.mr->lkey = no_stag; });
	refused([](Setting &setting, auto &info, auto &) {
		setting.invalidate(info.mr->lkey, IBV_WC_SUCCESS);
	});
	refused([](Setting &, auto &info,
		   auto &) { info.mw_access_flags = IBV_ACCESS_REMOTE_ATOMIC; },
		IBV_ACCESS_MW_BIND);
	refused([](Setting &, auto &, auto &window) { window.rkey = no_stag; });
	refused([](Setting &, auto &info, auto &window) { window.rkey = info.mr->rkey; });
	refused([](Setting &setting, auto &, auto &window) {
		window.rkey = setting.window->rkey;
		setting.window.reset();
	});
}

/* A window may be bound by queue pairs of its own domain. */
void window_of_other_domain(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_2);
	Pd domain(ibv_alloc_pd(setting.b.id()->verbs));
	Mw foreign(ibv_alloc_mw(domain.get(), IBV_MW_TYPE_2));

	require(foreign != nullptr, "a window");
	setting.b.bind(foreign.get(), setting.part(0, 64), bind_id);
	expect_completion(setting.b.send_cq(), IBV_WC_MW_BIND_ERR, bind_id);
	setting.pair.expect_disconnect();
}

/* An STag that its owner cannot invalidate ends the owner's connection. */
void wrong_invalidations(const std::string &address)
{
	auto refused = [&](auto stag_of) {
		Setting setting(address, IBV_MW_TYPE_1);

		setting.invalidate(stag_of(setting), IBV_WC_LOC_PROT_ERR);
		setting.pair.expect_disconnect();
	};
	Device device(address);
	Buffer foreign(device.pd(), 64);

	refused([](Setting &) { return no_stag; });
	refused([](Setting &setting) { return setting.region.mr()->lkey ^ 1; });
	refused([&](Setting &) { return foreign.mr()->lkey; });
	refused([](Setting &setting) {
		setting.bind(setting.part(0, 64));
		return setting.window->rkey;
	});
	refused([](Setting &setting) {
		setting.bind(setting.part(0, 64));
		return setting.region.mr()->lkey;
	});
}

/* Writes are in flight when the window is deallocated. After that the peer must not write. */
void window_goes_under_traffic(const std::string &address)
{
	constexpr int writes = 48;
	Setting setting(address, IBV_MW_TYPE_1);

	setting.bind(setting.part(0, 8192));

	std::uint32_t rkey = setting.window->rkey;
	std::thread writer([&] {
		for (int i = 0; i < writes; i++)
			setting.a.write(setting.local.sge(0, 8192), setting.region.address(), rkey,
					i);
	});

	setting.window.reset();
	setting.region.fill(9);
	writer.join();
	setting.a.write(setting.local.sge(0, 8192), setting.region.address(), rkey, writes);
	setting.pair.expect_disconnect();
	require(setting.region.holds(9, 0, 8192), "nothing is written any more");
}

/* At exit the kernel destroys the youngest object first: the region before its window. */
void program_ends(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_1);
	Mr mr = setting.bind_to_other_region();

	setting.expect_open(setting.region.address());
	std::_Exit(EXIT_SUCCESS);
}

void region_is_invalidated(const std::string &address)
{
	Setting setting(address, IBV_MW_TYPE_1, region_rights | all_remote);
	std::uint32_t stag = setting.region.mr()->lkey;

	setting.invalidate(stag, IBV_WC_SUCCESS);
	setting.expect_shut(setting.region.address(), stag);
}

const cases::Case all[] = {
	{ "a window of type 1 opens its part", type1_opens_its_part },
	{ "a window of type 1 is bound again", type1_is_bound_anew },
	{ "a window of type 1 is unbound", type1_is_unbound },
	{ "a window of type 1 serves its domain", type1_serves_domain },
	{ "a window of type 2 is invalidated and bound again", type2_is_invalidated },
	{ "a window of type 2 serves only its QP", type2_serves_its_qp },
	{ "a window of type 2 is not bound twice", bound_twice },
	{ "the peer invalidates a window of type 2", peer_invalidates },
	{ "the peer invalidates no window of type 1", peer_spares_type1 },
	{ "the peer invalidates no region", peer_spares_regions },
	{ "a window has rights of its own", rights_are_the_windows },
	{ "a window may begin at address 0", zero_based },
	{ "no window beyond its region", beyond_region },
	{ "no window so long that it wraps", wrapping },
	{ "no window on a region that forbids it", region_forbids },
	{ "no window that writes a read-only region", region_is_read_only },
	{ "no window on a region of another domain", other_domain },
	{ "a region with a window stays", region_stays },
	{ "a region is invalidated by its owner", region_is_invalidated },
	{ "no window on a window", window_is_no_region },
	{ "no window on what is no region, with other rights, or of what is no window",
	  wrong_binds },
	{ "no window of another domain", window_of_other_domain },
	{ "an invalidation that is refused ends the connection", wrong_invalidations },
	{ "a window goes while it is written through", window_goes_under_traffic },
	{ "a program ends with a window bound", program_ends },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
