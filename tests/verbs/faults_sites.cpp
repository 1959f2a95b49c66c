/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Each place in the module that allocates memory gets none once. */
#include "../wire/sender.hpp"
#include "cases.hpp"
#include "handshake.hpp"
#include "odp.hpp"
#include "sites.hpp"
#include "starved.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <format>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>

using namespace rdma;
using injection::Faults;
using injection::Site;

namespace
{

/* Something could not be made, which is no fault while memory is short. */
struct NotMade : std::runtime_error {
	using std::runtime_error::runtime_error;
};

void make(auto step)
{
	try {
		step();
	} catch (const cases::Skip &) {
		throw;
	} catch (const std::exception &error) {
		throw NotMade(error.what());
	}
}

/* Makes objects of all kinds. Where one cannot be made, those that need it are not made either. */
void make_objects(const std::string &address)
{
	const Device device(address);
	odp::Map map, untouched;
	const Context context(ibv_open_device(device.context()->device));
	const Mr pinned(
		ibv_reg_mr(device.pd(), map.bytes().data(), odp::size, IBV_ACCESS_LOCAL_WRITE));
	const Mr on_demand(ibv_reg_mr(device.pd(), untouched.bytes().data(), odp::size,
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND));
	const Mw window(ibv_alloc_mw(device.pd(), IBV_MW_TYPE_2));
	const Cq cq = device.create_cq(64);
	const Srq srq = device.create_srq(64);
	const Qp qp = create_qp(device.pd(), cq.get(), { 64, 64, 4, 4, 64 });

	ibv_resize_cq(cq.get(), 512);
	if (on_demand) {
		ibv_sge sge = { untouched.address(), odp::size, on_demand->lkey };

		ibv_advise_mr(device.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			      IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
	}

	ibv_alloc_dm_attr attr = { 4 << 20, 0, 0 }; /* needs page tables of its own */
	const Dm dm(ibv_alloc_dm(device.context(), &attr));

	if (dm)
		Mr(ibv_reg_dm_mr(device.pd(), dm.get(), 0, 4096,
				 IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE));
}

/* Both ends are told in time whether the connection works, and if it does, data goes through it. */
void use_connection(const std::string &address)
{
	std::optional<Handshake> handshake;

	make([&] { handshake.emplace(address); });
	handshake->connect();
	handshake->settle();
	if (!handshake->works())
		return;
	make([&] { handshake->prepare(); });
	if (!handshake->exchange())
		handshake->await_end();
}

void make_link(const std::string &)
{
	std::system("ip link add faults type dummy;"
		    "rdma link add xfaults type xiw netdev faults &&"
		    " rdma statistic show link xfaults/1 >/dev/null;"
		    "echo reno >/sys/class/infiniband/xfaults/xiw/congestion;"
		    "ip link del faults");
}

void run_consumer(const std::string &address)
{
	std::system(
		std::format("modprobe -q xiw_consumer address={} && rmmod xiw_consumer", address)
			.c_str());
}

void fill_sockets(const std::string &address)
{
	wire::send_without_room(address, wire::Role::responder);
}

/* The ways to reach a place, the fastest ones first. */
const std::function<void(const std::string &)> ways[] = {
	[](const std::string &address) { make([&] { make_objects(address); }); },
	use_connection,
	make_link,
	run_consumer,
	[](const std::string &address) { make([&] { fill_sockets(address); }); },
};

/* Places that cannot fail here, by the beginnings of their names, and why. */
struct Exception {
	std::string_view place;
	std::string_view reason;
};

constexpr std::string_view at_load = "runs only while the module is loaded; faults.sh does that";

constexpr Exception exceptions[] = {
	{ "xiw_lanes_init", at_load },
	{ "xiw_devices_init", at_load },
	{ "xiw_odp_init", at_load },
	{ "xiw_tune_init", at_load },
	{ "worker_begin", "another thread allocates for it" },
	{ "xiw_device_create: ref_tracker_alloc", "the kernel does not let it fail" },
	{ "xiw_device_create: pcpu_alloc", "takes from what the kernel keeps ready" },
	{ "xiw_qp_create: xa_store", "xa_alloc_cyclic() has reserved the entry" },
	{ "xiw_sock_listen: kernel_listen", "bind() has allocated all that TCP needs" },
	{ "xiw_stats_alloc", "jumps to what it calls, and so is in no call chain" },
	{ "xiw_mr_reg_dmabuf", "User Mode Linux has no driver that exports memory" },
};

std::string name_of(const Site &site)
{
	return site.caller + ": " + site.callee;
}

const Exception *exception_for(const Site &site)
{
	const std::string name = name_of(site);
	const auto *found = std::ranges::find_if(
		exceptions, [&](const Exception &one) { return name.starts_with(one.place); });

	return found == std::end(exceptions) ? nullptr : found;
}

/* Things that are allocated once and then kept would be there when their place comes. */
std::vector<Site> sites_in_order()
{
	std::vector<Site> all = injection::sites();

	std::ranges::stable_partition(all, [](const Site &site) {
		return site.callee == "mmu_interval_notifier_insert"; /* kept by this process */
	});
	return all;
}

/* The pages in which the module builds what it sends are kept for two seconds. */
void forget_what_is_kept(const Site &site)
{
	if (site.caller == "chunk_alloc")
		std::this_thread::sleep_for(std::chrono::milliseconds(2500));
}

/* Some places try again until they get memory. Others fall back to a second attempt, so that one
 * failure would change nothing.
 */
bool tries_again(const Site &site)
{
	constexpr std::string_view callees[] = { "tcp_sendmsg", "kernel_accept" };

	return site.caller == "chunk_alloc" || site.caller == "xiw_keep_look" ||
	       std::ranges::any_of(
		       callees, [&](std::string_view one) { return site.callee.starts_with(one); });
}

/* Returns whether the place was reached, and got no memory. */
bool fail_at(Faults &faults, const Site &site, const std::string &address,
	     const std::string &loop_address)
{
	const std::uint64_t before = faults.injected();

	faults.only_in(site.after);
	for (const auto &way : ways)
		for (const std::string &one : { address, loop_address }) {
			if (tries_again(site))
				faults.fail_once();
			else
				faults.begin(100);
			try {
				way(one);
			} catch (const NotMade &) {
				if (faults.injected() == before)
					throw;
			} catch (const cases::Skip &) {
				throw;
			} catch (const std::exception &error) {
				fail(name_of(site) + ": " + error.what());
			}
			faults.pause();
			if (faults.injected() != before)
				return true;
		}
	return false;
}

/* LOOP_ADDRESS is that of a device whose connections within this host do not use TCP. */
void each_place(const std::string &address)
{
	const char *loop = std::getenv("LOOP_ADDRESS");
	const std::string loop_address = loop ? loop : address;
	const Device device(address);
	Faults faults;
	unsigned int failed = 0, excused = 0;
	std::string missed;

	use_connection(address);

	const std::string before = injection::objects(device.context());

	for (const Site &site : sites_in_order()) {
		const std::string name = name_of(site);

		forget_what_is_kept(site);
		if (const Exception *exception = exception_for(site)) {
			std::printf("%s: cannot fail: %s\n", name.c_str(),
				    exception->reason.data());
			excused++;
		} else if (fail_at(faults, site, address, loop_address)) {
			std::printf("%s\n", name.c_str());
			failed++;
		} else {
			missed += ", " + name;
		}
	}
	std::printf("%u places got no memory, %u cannot fail here\n", failed, excused);
	faults.anywhere();
	make_objects(address);
	use_connection(address);
	use_connection(loop_address);
	await("no object is left", [&] { return injection::objects(device.context()) == before; });
	require(missed.empty(), "each place has failed; these have not" + missed);
}

const cases::Case all[] = {
	{ "each place that allocates memory gets none once", each_place },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
