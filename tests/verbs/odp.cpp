/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Memory registered with on-demand paging: pages come, go and change after the registration. */
#include "odp.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <format>
#include <ranges>
#include <thread>

using namespace rdma;
using namespace odp;

namespace
{

void device_says_so(const std::string &address)
{
	Pair pair(address);
	ibv_device_attr_ex attr = {};

	require(!ibv_query_device_ex(pair.a().qp()->context, nullptr, &attr), "a query");
	if (!attr.odp_caps.general_caps)
		throw cases::Skip("the kernel has no on-demand paging");
	require(attr.odp_caps.general_caps == IBV_ODP_SUPPORT, "explicit regions");
	require(attr.odp_caps.per_transport_caps.rc_odp_caps ==
			(IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE |
			 IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | IBV_ODP_SUPPORT_SRQ_RECV),
		"for all operations");
}

void write_and_read(const std::string &address)
{
	Setting s(address);

	require(!s.map.resident(), "registration touches no page");
	s.read();
	require(s.local.is_zero(), "untouched memory is read as zero");
	s.write(2);
	require(s.map.holds(2), "the data is there");
	s.read();
	require(s.local.holds(2, 0, size), "the data is read back");
}

void first_and_last_octets(const std::string &address)
{
	Setting s(address);
	constexpr std::size_t from = page - 3, length = 5 * page;

	s.a.write_and_read(s.local.sge(from, length), s.local.sge(0, 1), s.map.address() + from,
			   s.mr->rkey);
	require(s.map.holds(1, from, length), "the data is there");
	require(!s.map.bytes()[from - 1] && !s.map.bytes()[from + length],
		"the bytes around it are untouched");
}

void send_and_receive(const std::string &address)
{
	Setting s(address);
	Map from;
	Mr source = Setting::reg(s.a.pd(), from, 0);

	auto send = [&] {
		s.b.receive(s.sge(), 5);
		s.a.send({ from.address(), size, source->lkey }, 6);
		expect_completion(s.a.send_cq(), IBV_WC_SUCCESS, 6);
		expect_completion(s.b.recv_cq(), IBV_WC_SUCCESS, 5);
	};

	s.map.fill(9);
	send();
	require(s.map.is_zero(), "untouched memory is sent as zero");
	from.fill(4);
	s.map.forget();
	send();
	require(s.map.holds(4), "the message is received");
}

void read_into(const std::string &address)
{
	Setting s(address);
	Map into;
	Mr sink = Setting::reg(s.a.pd(), into, IBV_ACCESS_LOCAL_WRITE);

	s.map.fill(3);
	s.a.read({ into.address(), size, sink->lkey }, s.map.address(), s.mr->rkey, 1);
	expect_completion(s.a.send_cq(), IBV_WC_SUCCESS, 1);
	require(into.holds(3), "the data is there");
}

void atomics(const std::string &address)
{
	Setting s(address);
	Map into;
	Mr sink = Setting::reg(s.a.pd(), into, IBV_ACCESS_LOCAL_WRITE);
	std::uint64_t value;

	for (std::uint64_t i = 0; i < 3; i++) {
		ibv_sge sge = { into.address() + i * page, 8, sink->lkey };
		ibv_send_wr wr = signaled(IBV_WR_ATOMIC_FETCH_AND_ADD, sge, i);

		wr.wr.atomic.remote_addr = s.map.address() + 2 * page;
		wr.wr.atomic.rkey = s.mr->rkey;
		wr.wr.atomic.compare_add = 7;
		require(!s.a.post(wr), "an Atomic is posted");
		expect_completion(s.a.send_cq(), IBV_WC_SUCCESS, i);
		std::memcpy(&value, &into.bytes()[i * page], sizeof(value));
		require(value == 7 * i, "the Atomic returns the old value");
	}
	std::memcpy(&value, &s.map.bytes()[2 * page], sizeof(value));
	require(value == 21, "the sum is in the memory");
}

void pages_are_given_back(const std::string &address)
{
	Setting s(address);

	s.write(2);
	s.map.forget();
	s.read();
	require(s.local.is_zero(), "dropped pages are read as zero");
	s.write(5);
	s.map.forget();
	s.write(6);
	require(s.map.holds(6), "dropped pages can be written again");
}

void other_memory_comes_in_its_place(const std::string &address)
{
	Setting s(address);

	s.write(2);
	s.map.replace();
	s.map.fill(3);
	s.read();
	require(s.local.holds(3, 0, size), "the peer reads the new memory");
	s.write(4);
	require(s.map.holds(4), "the peer writes the new memory");
}

/* Pages are dropped all the time. Data that is written after that has stopped stays. */
void pages_go_during_traffic(const std::string &address)
{
	Setting s(address);
	std::atomic<bool> over = false;
	std::jthread thief([&] {
		while (!over)
			madvise(s.map.bytes().data(), size, MADV_DONTNEED);
	});

	for (std::uint32_t round = 0; round < 10; round++) {
		s.write(round);
		s.read();
	}
	over = true;
	thief.join();
	s.write(99);
	require(s.map.holds(99), "the last data is there");
}

/* Pages are dropped while the peer's Write has them fetched, for the last time at any place of it. The
 * device must not keep pages that the process has lost meanwhile. With checkers and small segments, a
 * round takes a second.
 */
void pages_go_while_they_are_fetched(const std::string &address)
{
	using Clock = std::chrono::steady_clock;
	const auto end = Clock::now() + std::chrono::seconds(60);
	Setting s(address);

	for (std::uint32_t round = 0; round < 16 || (round < 200 && Clock::now() < end); round++) {
		s.a.write(s.local.sge(0, size), s.map.address(), s.mr->rkey, 1);
		for (std::uint32_t i = 0; i <= round % 16; i++)
			s.map.forget();
		expect_completion(s.a.send_cq(), IBV_WC_SUCCESS, 1);
		s.write(round + 2);
		require(s.map.holds(round + 2), "the last data is there");
	}
}

/* A child gets its own copy of the memory; the peer reaches that of the parent. */
void fork_copies(const std::string &address)
{
	Setting s(address);
	int go[2], status;

	s.write(2);
	require(!pipe(go), "a pipe");
	pid_t child = fork();
	if (!child) {
		char octet;

		close(go[1]);
		_exit(::read(go[0], &octet, 1) == 0 && s.map.holds(2) ? 0 : 1);
	}
	require(child > 0, "a child");
	s.write(3);
	require(s.map.holds(3), "the parent has the data written after the fork");
	s.map.fill(4);
	s.read();
	require(s.local.holds(4, 0, size), "the peer reads the parent's data");
	close(go[0]);
	close(go[1]);
	require(waitpid(child, &status, 0) == child && status == 0,
		"the child has the data from before the fork");
}

/* The peer reads the current contents of a read-only region, even after the process writes it. */
void only_to_be_read(const std::string &address)
{
	Setting s(address, IBV_ACCESS_REMOTE_READ);

	s.read();
	require(s.local.is_zero(), "untouched memory is read as zero");
	s.map.fill(5);
	s.read();
	require(s.local.holds(5, 0, size), "the peer reads data written after its first read");
}

/* Data that the peer writes to a mapping of a file is in the file. */
void files(const std::string &address)
{
	int file = memfd_create("file", 0);

	require(!ftruncate(file, size), "a file");
	{
		Setting s(address, all_rights, file);

		s.write(2);
		s.map.forget();
		s.write(3);
	}
	Map again(file);

	require(again.holds(3), "the file has the last data");
	close(file);
}

void windows(const std::string &address)
{
	Setting s(address, all_rights | IBV_ACCESS_MW_BIND);
	Mw mw(ibv_alloc_mw(s.b.pd(), IBV_MW_TYPE_1));
	ibv_mw_bind bind = { 7,
			     IBV_SEND_SIGNALED,
			     { s.mr.get(), s.map.address() + page, page,
			       IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ } };

	require(mw && !ibv_bind_mw(s.b.qp(), mw.get(), &bind), "a window is bound");
	expect_completion(s.b.send_cq(), IBV_WC_SUCCESS, 7);
	for (int i = 0; i < 2; i++) {
		s.a.write_and_read(s.local.sge(page, page), s.local.sge(page, page),
				   s.map.address() + page, mw->rkey);
		require(s.map.holds(1, page, page), "the data is written through the window");
		s.map.forget();
	}
	mw.reset();
}

/* Messages that arrive before the disconnect are received, though pages must be fetched first. */
void end_comes_while_pages_are_fetched(const std::string &address)
{
	Setting s(address);

	for (std::uint32_t round = 0; round < 8; round++)
		s.b.receive(s.sge(round * size / 8, size / 8), round);
	for (std::uint32_t round = 0; round < 8; round++)
		s.a.send(s.local.sge(round * size / 8, size / 8), round);
	for (std::uint32_t round = 0; round < 8; round++)
		expect_completion(s.a.send_cq(), IBV_WC_SUCCESS, round);
	require(!rdma_disconnect(s.a.id()), "the sender disconnects");
	for (std::uint32_t round = 0; round < 8; round++)
		expect_completion(s.b.recv_cq(), IBV_WC_SUCCESS, round);
	require(s.map.holds(1), "all data is there");
}

/* Another process may delay a fetch, as that of a FUSE file, for as long as it likes. */
void end_waits_for_no_page(const std::string &address)
{
	constexpr std::chrono::milliseconds pause(2000);
	cases::Told slow("pause", std::format("odp_fetch {}", pause.count()));
	Setting s(address);
	std::uint64_t fetches = page_fetches(s.b.pd());

	s.a.write(s.local.sge(0, 1), s.map.address(), s.mr->rkey, 1);
	s.b.send(s.sge(page, 1), 2);
	await("pages are being fetched", [&] { return page_fetches(s.b.pd()) > fetches; });

	auto start = std::chrono::steady_clock::now();

	rdma_destroy_qp(s.b.id());
	rdma_destroy_qp(s.a.id());
	require(std::chrono::steady_clock::now() - start < std::chrono::seconds(1),
		"the queue pairs end before the pages come");
	/* Until its pages come, a fetch without a queue pair counts against a limit of the host. */
	std::this_thread::sleep_for(pause);
}

/* The fetches that have lost their queue pair take places in a workqueue, so they have a limit. */
void end_waits_if_many_have_not(const std::string &address)
{
	using Clock = std::chrono::steady_clock;
	constexpr std::uint64_t fetches = 66, limit = 64;
	constexpr std::chrono::milliseconds pause(8000);
	cases::Told slow("pause", std::format("odp_fetch {}", pause.count()));
	std::deque<Setting> all;

	for (std::uint64_t i = 0; i < fetches / 2; i++)
		all.emplace_back(address);

	const std::uint64_t before = page_fetches(all.front().b.pd());
	const auto start = Clock::now();

	for (Setting &s : all) { /* each direction fetches a page */
		s.a.write(s.local.sge(0, 1), s.map.address(), s.mr->rkey, 1);
		s.b.send(s.sge(page, 1), 2);
	}
	await("pages are being fetched",
	      [&] { return page_fetches(all.front().b.pd()) == before + fetches; });
	/* A fetch that no thread has taken up would be called off. */
	std::this_thread::sleep_for(std::chrono::seconds(1));
	for (Setting &s : all | std::views::take(limit / 2))
		rdma_destroy_qp(s.b.id());
	require(Clock::now() - start < pause, "queue pairs up to the limit do not wait");
	rdma_destroy_qp(all.back().b.id());
	require(Clock::now() - start >= pause, "the next queue pair waits for its pages");
}

/* Drops TCP's resets on this host, so that an end whose socket has gone is not told by the other. */
class NoResets
{
public:
	NoResets()
	{
		require(!std::system(
				"nft 'table inet no_resets { chain out {"
				" type filter hook output priority 0; tcp flags rst drop; }; }'"),
			"resets are dropped");
	}
	NoResets(const NoResets &) = delete;
	~NoResets()
	{
		[[maybe_unused]] int status = std::system("nft delete table inet no_resets");
	}
};

/* An administrator destroys a socket while the connection waits for pages. */
void socket_goes_while_pages_are_fetched(const std::string &address)
{
	cases::Told slow("pause", "odp_fetch 2000");
	NoResets filter;
	Setting s(address);
	const std::uint64_t fetches = page_fetches(s.b.pd());
	const std::string destroy =
		std::format("ss -HtnK state established '( sport = :{} )' | grep -q .",
			    ntohs(rdma_get_src_port(s.b.id())));

	s.a.write(s.local.sge(0, 1), s.map.address(), s.mr->rkey, 1);
	await("pages are being fetched", [&] { return page_fetches(s.b.pd()) > fetches; });
	require(!std::system(destroy.c_str()), "ss prints the socket that it destroys");
	expect_event(s.pair.b_channel(), RDMA_CM_EVENT_DISCONNECTED);
}

void advice_fetches(const std::string &address)
{
	for (ibv_advise_mr_advice advice :
	     { IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE }) {
		Setting s(address);
		std::uint64_t before;

		require(!s.advise(advice, s.sge(page, size - page)), "advice is taken");
		require(s.map.resident() == size / page - 1, "only these pages are present");
		before = page_fetches(s.b.pd());
		s.a.write_and_read(s.local.sge(0, size - page), s.local.sge(0, page),
				   s.map.address() + page, s.mr->rkey);
		require(page_fetches(s.b.pd()) == before, "no access has missed a page");
	}
}

/* The process has only read the memory: all pages are the zero page, which the prefetch copies. */
void advice_fetches_copies(const std::string &address)
{
	constexpr std::size_t octets = 8 << 20;
	Setting s(address);
	void *start =
		mmap(nullptr, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned int sum = 0;

	require(start != MAP_FAILED, "memory is mapped");
	madvise(start, octets, MADV_NOHUGEPAGE);
	for (std::size_t at = 0; at < octets; at += page)
		sum += static_cast<volatile std::uint8_t *>(start)[at];
	require(!sum, "the memory is zero");

	Mr mr(ibv_reg_mr(s.b.pd(), start, octets, all_rights | IBV_ACCESS_ON_DEMAND));

	require(mr != nullptr, "memory is registered on demand");
	require(!s.advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			  { reinterpret_cast<std::uint64_t>(start), octets, mr->lkey }),
		"advice is taken");
	mr.reset();
	munmap(start, octets);
}

void advice_without_fault(const std::string &address)
{
	Setting s(address);
	std::uint64_t before;

	s.map.bytes()[5 * page] = 1;
	require(!s.advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, s.sge()), "advice is taken");
	require(s.map.resident() == 1, "no page was fetched");
	before = page_fetches(s.b.pd());
	s.a.read(s.local.sge(0, page), s.map.address() + 5 * page, s.mr->rkey, 1);
	expect_completion(s.a.send_cq(), IBV_WC_SUCCESS, 1);
	require(page_fetches(s.b.pd()) == before, "no access has missed the present page");
	s.a.read(s.local.sge(0, page), s.map.address() + 6 * page, s.mr->rkey, 2);
	expect_completion(s.a.send_cq(), IBV_WC_SUCCESS, 2);
	require(page_fetches(s.b.pd()) == before + 1, "an access has missed another page");
}

void bad_advice(const std::string &address)
{
	constexpr ibv_advise_mr_advice read = IBV_ADVISE_MR_ADVICE_PREFETCH,
				       write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	Setting s(address, IBV_ACCESS_REMOTE_READ);
	Buffer pinned(s.b.pd(), page);
	Pd other(ibv_alloc_pd(s.b.qp()->context));
	ibv_sge sge = s.sge(), unknown = sge;

	unknown.lkey ^= 1;
	require(s.advise(read, unknown) == ENOENT, "an lkey with another octet");
	unknown.lkey = 0x42; /* no region has the index 0 */
	require(s.advise(read, unknown) == ENOENT, "an unknown lkey");
	require(s.advise(static_cast<ibv_advise_mr_advice>(99), sge) == EOPNOTSUPP,
		"unknown advice");
	require(s.advise(read, pinned.sge(0, page)) == EINVAL, "a region without paging");
	require(s.advise(write, sge) == EPERM, "memory that cannot be written");
	require(ibv_advise_mr(other.get(), read, 0, &sge, 1) == EPERM, "another domain");
	require(s.advise(read, s.sge(page, size)) == EFAULT, "memory behind the end");
	require(!s.advise(read, s.sge(page, 0)), "no memory at all");

	ibv_sge two[] = { pinned.sge(0, page), sge };

	require(ibv_advise_mr(s.b.pd(), read, 0, two, 2) == EINVAL, "the first of two is wrong");
	require(!s.map.resident(), "bad advice fetches nothing");
	s.map.punch(8 * page, page);
	require(s.advise(read, sge) == EFAULT, "a hole");
	require(!s.advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, sge), "a hole without faults");
}

/* The STag of a window, or of a region that was invalidated, names no region. */
void advice_for_no_region(const std::string &address)
{
	Setting s(address, all_rights | IBV_ACCESS_MW_BIND);
	Mw window(ibv_alloc_mw(s.b.pd(), IBV_MW_TYPE_2));
	ibv_sge sge = s.sge();
	ibv_send_wr wr = {};

	require(window != nullptr, "a window");
	s.b.bind(window.get(), { s.mr.get(), s.map.address(), size, IBV_ACCESS_REMOTE_READ });
	expect_completion(s.b.send_cq(), IBV_WC_SUCCESS, 0);
	sge.lkey = window->rkey;
	require(s.advise(IBV_ADVISE_MR_ADVICE_PREFETCH, sge) == EINVAL, "a window");
	window.reset();
	wr.opcode = IBV_WR_LOCAL_INV;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.invalidate_rkey = s.mr->rkey;
	require(!s.b.post(wr), "the region is invalidated");
	expect_completion(s.b.send_cq(), IBV_WC_SUCCESS, 0);
	require(s.advise(IBV_ADVISE_MR_ADVICE_PREFETCH, s.sge()) == ENOENT, "an invalid region");
	require(!s.map.resident(), "nothing was fetched");
}

const cases::Case all[] = {
	{ "the device reports what it supports", device_says_so },
	{ "untouched memory is written and read by the peer", write_and_read },
	{ "parts of pages are written", first_and_last_octets },
	{ "untouched memory is sent, and received into", send_and_receive },
	{ "untouched memory is read into", read_into },
	{ "untouched memory takes Atomics and their answers", atomics },
	{ "pages are given back", pages_are_given_back },
	{ "other memory comes in its place", other_memory_comes_in_its_place },
	{ "pages go during traffic", pages_go_during_traffic },
	{ "pages go while they are fetched", pages_go_while_they_are_fetched },
	{ "a child has its own copy", fork_copies },
	{ "read-only memory is read by the peer", only_to_be_read },
	{ "a file has what was written", files },
	{ "a window is bound to it", windows },
	{ "messages that came before the end are received", end_comes_while_pages_are_fetched },
	{ "the end of a queue pair waits for no page", end_waits_for_no_page },
	{ "the end of a queue pair waits if many fetches have lost theirs",
	  end_waits_if_many_have_not },
	{ "a connection ends if its socket goes while pages are fetched",
	  socket_goes_while_pages_are_fetched },
	{ "advice fetches pages", advice_fetches },
	{ "advice fetches pages that are copied meanwhile", advice_fetches_copies },
	{ "advice without faults maps the pages that are there", advice_without_fault },
	{ "bad advice is refused", bad_advice },
	{ "advice for a window or an invalid region is refused", advice_for_no_region },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
