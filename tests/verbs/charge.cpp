/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Memory that the kernel allocates for a process is charged to the process's control group. */
#include "../wire/stream.hpp"
#include "cases.hpp"
#include "control_group.hpp"
#include "device.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace rdma;

namespace
{

constexpr std::size_t mebibyte = 1024 * 1024;

/* A control group that is charged for memory. */
class Group : public ControlGroup
{
public:
	Group()
	{
		if (!knows("memory"))
			throw cases::Skip("the kernel has no control groups of memory");
		write(root() / "cgroup.subtree_control", "+memory");
	}

	std::size_t charged() const
	{
		std::size_t octets = 0;

		std::ifstream(path() / "memory.current") >> octets;
		return octets;
	}

	/* Only the kernel's own memory, without the pages of the process. */
	std::size_t charged_kernel() const { return charged_for("kernel"); }

	/* Only memory in socket buffers. */
	std::size_t charged_sockets() const { return charged_for("sock"); }

	void limit(std::size_t octets) const
	{
		write(path() / "memory.max", std::to_string(octets).c_str());
	}

	/* Sets the limit to what is charged now: any further charge has to reclaim memory or to
	 * kill a process. Returns the limit.
	 */
	std::size_t close() const
	{
		const std::size_t now = charged();

		limit(now);
		return now;
	}

private:
	bool knows(const std::string &controller) const
	{
		std::ifstream all(root() / "cgroup.controllers");

		for (std::string one; all >> one;)
			if (one == controller)
				return true;
		return false;
	}

	std::size_t charged_for(const std::string &kind) const
	{
		std::ifstream stat(path() / "memory.stat");
		std::size_t octets = 0;

		for (std::string name; stat >> name >> octets;)
			if (name == kind)
				return octets;
		fail("the control group reports what is charged for " + kind, ENOENT);
	}
};

/* Makes an object of at least this size and destroys it. Its memory may be free only some time after
 * that, for example after a grace period of RCU.
 */
void expect_charge(std::size_t octets, auto make)
{
	Group group;
	std::size_t before = group.charged();

	{
		auto object = make();

		require(object != nullptr, "the object is made");
		require(group.charged() >= before + octets, "all of it is charged");
	}
	await("the charge ends with the object",
	      [&] { return group.charged() < before + octets / 2; });
}

void rings(const std::string &address)
{
	Pair pair(address);

	expect_charge(16 * mebibyte, [&] {
		return Cq(ibv_create_cq(pair.a().id()->verbs, 16 * mebibyte / 64, nullptr, nullptr,
					0));
	});
}

void device_memory(const std::string &address)
{
	Pair pair(address);

	expect_charge(8 * mebibyte, [&] {
		ibv_alloc_dm_attr attr = { 8 * mebibyte, 0, 0 };

		return Dm(ibv_alloc_dm(pair.a().id()->verbs, &attr));
	});
}

/* Makes many objects. Each must be charged with at least this much of the kernel's memory. */
void expect_kernel_charge(std::size_t count, std::size_t octets, auto make)
{
	Group group;
	std::size_t before = group.charged_kernel();
	std::vector<decltype(make())> objects;

	for (std::size_t i = 0; i < count; i++) {
		objects.push_back(make());
		require(objects.back() != nullptr, "each object is made");
	}
	const std::size_t charged = group.charged_kernel() - before;

	std::cout << charged / count << " bytes are charged for each of " << count << '\n';
	require(charged >= count * octets, "each object is charged");
	objects.clear();
	await("the charge ends with the objects",
	      [&] { return group.charged_kernel() < before + charged / 2; });
}

/* An STag, its region or window, and usually a leaf of the tree of STags. */
constexpr std::size_t stag_octets = 900;

void regions(const std::string &address)
{
	Pair pair(address);
	Buffer buffer(pair.a().pd(), 4096);

	expect_kernel_charge(8192, stag_octets, [&] {
		return Mr(ibv_reg_mr(pair.a().pd(), buffer.bytes().data(), 4096, 0));
	});
}

void windows(const std::string &address)
{
	Pair pair(address);

	expect_kernel_charge(8192, stag_octets,
			     [&] { return Mw(ibv_alloc_mw(pair.a().pd(), IBV_MW_TYPE_2)); });
}

/* The ring has 2 MiB, and the kernel keeps another 24 bytes for each of its slots. */
void send_requests(const std::string &address)
{
	constexpr std::uint32_t entries = 32768;
	Pair pair(address);

	expect_kernel_charge(4, entries * (64 + 24), [&] {
		return create_qp(pair.a().pd(), pair.a().send_cq(), { entries, 1, 1, 1, 0 });
	});
}

/* An endpoint and its buffers for the handshake. */
constexpr std::size_t endpoint_octets = 1024;

/* The beginning of an FPDU waits in the socket for the rest. The queue pairs are made outside of the
 * group, so it is the listener that makes the group pay.
 */
void callers(const std::string &address)
{
	constexpr std::size_t size = 60000;
	constexpr std::size_t count = 16;
	Group group;
	Listener listener(address);
	const std::size_t before = group.charged_kernel();

	group.leave();

	std::deque<raw::Peer> peers;
	std::vector<Id> calls;

	for (std::size_t i = 0; i < count; i++) {
		peers.emplace_back(listener.address()).say(raw::Frame().octets());
		calls.push_back(listener.next_request());
	}
	await("the endpoint of each call is charged", /* the kernel may count some time later */
	      [&] { return group.charged_kernel() >= before + count * endpoint_octets; });

	std::deque<rdma::End> accepted;
	const raw::Octets begun =
		raw::first(raw::fpdu(raw::Untagged().ulpdu(raw::Octets(size))), size);

	for (std::size_t i = 0; i < count; i++) {
		accepted.emplace_back(std::move(calls[i]), QpOptions{}).accept();
		expect_event(listener.channel(), RDMA_CM_EVENT_ESTABLISHED);
		peers[i].say(begun);
	}
	await("the callers' data is charged",
	      [&] { return group.charged_sockets() >= count * size; });
	std::cout << group.charged_sockets() / count << " bytes are charged for each of " << count
		  << " connections\n";
	accepted.clear();
	peers.clear();
	await("the charge ends with the connections",
	      [&] { return group.charged_sockets() < size; });
}

/* This process in a group of its own, which calls a raw peer. */
struct Caller {
	Caller(const std::string &address, std::size_t size)
		: acceptor(address), end(resolve(channel.get(), address, acceptor.port()), {}),
		  from(end.pd(), size)
	{
	}

	/* The peer takes the call and accepts it. */
	void be_accepted(raw::Peer &peer)
	{
		auto request = peer.hear_frame();

		require(request.has_value(), "a Request comes");
		peer.say(wire::Initiator::accepting(*request).octets());
		expect_event(channel.get(), RDMA_CM_EVENT_ESTABLISHED);
	}

	raw::Acceptor acceptor;
	Group group;
	EventChannel channel = create_event_channel();
	End end;
	Buffer from;
};

/* A peer of revision 1 is called a second time, by a kernel thread. */
void second_call(const std::string &address)
{
	constexpr std::size_t size = 1 << 20;
	Caller caller(address, size);

	caller.group.leave();
	caller.end.connect();
	{
		raw::Peer first = caller.acceptor.accept();

		require(first.hear_frame().has_value(), "the first Request comes");
	}
	raw::Peer second = caller.acceptor.accept();

	caller.be_accepted(second);
	for (int i = 0; i < 8; i++)
		caller.end.write(caller.from.sge(0, size), 0, 1);
	await("data that the peer does not take is charged",
	      [&] { return caller.group.charged_sockets() >= 65536; });
	std::cout << caller.group.charged_sockets() << " bytes are charged\n";
}

/* A process that only uses memory in a control group. */
class Member
{
public:
	explicit Member(Group &group)
	{
		const std::size_t before = group.charged();

		group.enter();
		pid_ = fork();
		require(pid_ >= 0, "fork");
		if (!pid_) {
			std::vector<char> all(room, 1);

			for (;;)
				pause();
		}
		group.leave();
		await("it has its memory", [&] { return group.charged() >= before + room; });
	}
	Member(const Member &) = delete;
	~Member()
	{
		kill(pid_, SIGKILL);
		waitpid(pid_, nullptr, 0);
	}

	bool lives() const { return !waitpid(pid_, nullptr, WNOHANG); }

private:
	static constexpr std::size_t room = 8 * mebibyte;

	pid_t pid_;
};

/*
 * The group is at its limit and has nothing to reclaim. Connections may exceed the limit a little.
 * Otherwise the kernel would kill a process or reclaim memory with the socket locked, and other
 * processes would wait for both. Requests posted quickly are sent by a worker, those posted after a
 * while by the process itself; the loop below does both.
 */
void no_room(const std::string &address)
{
	constexpr std::size_t size = 65536;
	constexpr int count = 64;
	Caller caller(address, size);

	caller.end.connect();
	caller.group.leave();

	raw::Peer peer = caller.acceptor.accept();

	caller.be_accepted(peer);

	Member member(caller.group);

	/* until its stack and the like are charged, too */
	std::this_thread::sleep_for(std::chrono::milliseconds(100));

	const std::size_t limit = caller.group.close();

	require(member.lives(), "the process lives when the group is at its limit");
	for (int i = 0; i < count; i++) {
		caller.end.write(caller.from.sge(0, size), 0, 1);
		if (i % 2)
			std::this_thread::sleep_for(std::chrono::milliseconds(2));
	}
	await("a batch that the peer does not take is charged",
	      [&] { return caller.group.charged_sockets() >= size; });
	std::this_thread::sleep_for(std::chrono::milliseconds(100));
	std::cout << caller.group.charged_sockets() << " bytes are charged, the limit is " << limit
		  << '\n';
	require(member.lives(), "sending kills no process");
	require(caller.group.charged() < limit + limit / 8 + 8 * size,
		"the group exceeds its limit only a little");
	require(peer.hear(count * size).size() == count * size, "the peer gets all data");
	require(member.lives(), "sending the rest kills no process");
}

const cases::Case all[] = {
	{ "rings are charged", rings },
	{ "device memory is charged", device_memory },
	{ "regions are charged, with their share of the STag tree", regions },
	{ "windows are charged, with their share of the STag tree", windows },
	{ "what the kernel keeps for send requests is charged", send_requests },
	{ "what callers send is charged to the process that they call", callers },
	{ "what a second call sends is charged to the owner of the queue pair", second_call },
	{ "a process in a full control group may send, and no process is killed for it", no_room },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
