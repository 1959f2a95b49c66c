/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Measures costs other than time on the wire, and prints them as members of a JSON object.
 *
 *	cost idle ADDRESS COUNT		kernel memory of an end of an idle connection, in bytes, and
 *					the time to open and to close a connection, in us
 *	cost idle-tcp ADDRESS COUNT	kernel memory of one end of a plain TCP connection, in bytes
 *	cost register ADDRESS		time to register and deregister memory, in us per MiB
 */
#include "../verbs/raw_peer.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <format>
#include <fstream>
#include <iostream>
#include <limits>
#include <list>
#include <map>
#include <thread>

using namespace rdma;

namespace
{

/* Free pages in the per-CPU lists, in KiB. MemFree does not count them; there may be 10 MiB. */
std::int64_t pages_at_hand()
{
	std::ifstream file("/proc/zoneinfo");
	std::string word;
	std::int64_t pages = 0, count;

	while (file >> word)
		if (word == "count:" && file >> count)
			pages += count;
	return pages * sysconf(_SC_PAGESIZE) / 1024;
}

/* Memory in use by the kernel itself, in KiB, after caches were dropped. */
std::int64_t kernel_memory()
{
	std::map<std::string, std::int64_t> info;
	std::ifstream file("/proc/meminfo");
	std::string name, unit;
	std::int64_t value;

	sync();
	std::ofstream("/proc/sys/vm/drop_caches") << 3 << std::flush;
	std::this_thread::sleep_for(std::chrono::seconds(1)); /* RCU frees memory late */
	while (file >> name >> value) {
		std::getline(file, unit);
		info[name] = value;
	}
	return info["MemTotal:"] - info["MemFree:"] - pages_at_hand() - info["AnonPages:"] -
	       info["Cached:"] - info["Buffers:"] - info["PageTables:"] - info["SReclaimable:"];
}

using Microseconds = std::chrono::duration<double, std::micro>;
using Clock = std::chrono::steady_clock;

void print_growth(std::int64_t before, unsigned int ends)
{
	std::cout << std::format("\"memory\":{}", (kernel_memory() - before) * 1024 / ends);
}

/* Connections of queue pairs that share a PD and a completion queue, both ends in this process. */
class Connections
{
public:
	explicit Connections(const std::string &address)
		: listener_(address), channel_(create_event_channel())
	{
		Id id = resolve(channel_.get(), listener_.address());

		pd_.reset(ibv_alloc_pd(id->verbs));
		cq_.reset(ibv_create_cq(id->verbs, 64, nullptr, nullptr, 0));
		require(pd_ && cq_, "a PD and a CQ");
	}

	void open()
	{
		const QpOptions options = { .send_wr = 16,
					    .recv_wr = 16,
					    .send_sge = 1,
					    .recv_sge = 1,
					    .inline_data = 0,
					    .cq = cq_.get(),
					    .pd = pd_.get() };
		End &a = ends_.emplace_back(resolve(channel_.get(), listener_.address()), options);

		a.connect();

		End &b = ends_.emplace_back(listener_.next_request(), options);

		b.accept();
		expect_event(channel_.get(), RDMA_CM_EVENT_ESTABLISHED);
		expect_event(listener_.channel(), RDMA_CM_EVENT_ESTABLISHED);
	}

	/* Closes the oldest connection. */
	void close()
	{
		if (rdma_disconnect(ends_.front().id()))
			fail("rdma_disconnect", errno);
		expect_event(channel_.get(), RDMA_CM_EVENT_DISCONNECTED);
		expect_event(listener_.channel(), RDMA_CM_EVENT_DISCONNECTED);
		ends_.pop_front();
		ends_.pop_front();
	}

private:
	Listener listener_;
	EventChannel channel_;
	Pd pd_;
	Cq cq_;
	std::list<End> ends_;
};

void idle(const std::string &address, unsigned int count)
{
	Connections connections(address);

	connections.open(); /* allocates what is needed once only */

	std::int64_t before = kernel_memory();
	auto start = Clock::now();

	for (unsigned int i = 0; i < count; i++)
		connections.open();

	Microseconds opening = Clock::now() - start;

	print_growth(before, 2 * count);
	start = Clock::now();
	for (unsigned int i = 0; i < count; i++)
		connections.close();

	Microseconds closing = Clock::now() - start;

	std::cout << std::format(",\"connect\":{:.1f},\"disconnect\":{:.1f}",
				 opening.count() / count, closing.count() / count);
}

void idle_tcp(const std::string &address, unsigned int count)
{
	raw::Acceptor acceptor(address);
	sockaddr_storage to = parse_address(address, acceptor.port());
	std::list<raw::Peer> peers;
	std::int64_t before = kernel_memory();

	for (unsigned int i = 0; i < count; i++) {
		peers.emplace_back(reinterpret_cast<sockaddr *>(&to));
		peers.push_back(acceptor.accept());
	}
	print_growth(before, 2 * count);
}

/* The best of five rounds, in us per MiB. */
double registration(ibv_pd *pd, int advice)
{
	constexpr std::size_t huge_page = 2 << 20, size = 64 << 20;
	double best = std::numeric_limits<double>::max();
	void *area = mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		fail("mmap", errno);

	auto start = (reinterpret_cast<std::uintptr_t>(area) + huge_page - 1) & ~(huge_page - 1);
	auto *memory = reinterpret_cast<std::uint8_t *>(start);

	if (madvise(memory, size, advice))
		fail("madvise", errno);
	std::fill_n(memory, size, 1);
	for (int i = 0; i < 5; i++) {
		auto begin = Clock::now();
		Mr mr(ibv_reg_mr(pd, memory, size, Buffer::all_rights));

		require(mr != nullptr, "memory can be registered");
		mr.reset();

		Microseconds time = Clock::now() - begin;

		best = std::min(best, time.count() / (size >> 20));
	}
	munmap(area, size + huge_page);
	return best;
}

void register_memory(const std::string &address)
{
	Pair pair(address);

	std::cout << std::format("\"4 KiB pages\":{:.2f},\"huge pages\":{:.2f}",
				 registration(pair.a().pd(), MADV_NOHUGEPAGE),
				 registration(pair.a().pd(), MADV_HUGEPAGE));
}

} /* namespace */

int main(int argc, char **argv)
{
	const std::vector<std::string> words(argv + 1, argv + argc);
	const rlimit files = { 65536, 65536 };

	setrlimit(RLIMIT_NOFILE, &files);
	try {
		if (words.size() == 3 && words[0] == "idle")
			idle(words[1], std::stoul(words[2]));
		else if (words.size() == 3 && words[0] == "idle-tcp")
			idle_tcp(words[1], std::stoul(words[2]));
		else if (words.size() == 2 && words[0] == "register")
			register_memory(words[1]);
		else
			throw std::invalid_argument(
				"usage: cost idle|idle-tcp ADDRESS COUNT | cost register ADDRESS");
	} catch (const std::exception &error) {
		std::cerr << error.what() << '\n';
		return 1;
	}
	return 0;
}
