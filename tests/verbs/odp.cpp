/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Memory registered with on-demand paging: pages come, go and change after the registration. */
#include "cases.hpp"
#include "rdma.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

using namespace rdma;

namespace
{

constexpr std::size_t page = 4096;
constexpr std::uint32_t size = 64 * page;
constexpr int all_rights = Buffer::all_rights | IBV_ACCESS_REMOTE_ATOMIC;

/* Anonymous memory that has not been touched yet, or a shared mapping of a file. */
class Map
{
public:
	explicit Map(int file = -1, int protection = PROT_READ | PROT_WRITE)
		: start_(mmap(nullptr, size, protection,
			      file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0))
	{
		require(start_ != MAP_FAILED, "memory is mapped");
	}

	Map(const Map &) = delete;
	~Map() { munmap(start_, size); }

	std::span<std::uint8_t> bytes() { return { static_cast<std::uint8_t *>(start_), size }; }
	std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(start_); }

	void fill(std::uint32_t seed) { rdma::fill(bytes(), seed); }

	bool holds(std::uint32_t seed, std::size_t offset = 0, std::size_t length = size)
	{
		return rdma::holds(bytes(), seed, offset, length);
	}

	bool is_zero() { return rdma::is_zero(bytes()); }

	/* The number of pages that are present. */
	std::size_t resident()
	{
		std::uint8_t pages[size / page];

		require(!mincore(start_, size, pages), "mincore");
		return static_cast<std::size_t>(std::ranges::count(pages, 1));
	}

	/* Drops all pages. They are zero when the process touches them again. */
	void forget() { require(!madvise(start_, size, MADV_DONTNEED), "madvise"); }

	/* Unmaps a part. */
	void punch(std::size_t offset, std::size_t length)
	{
		require(!munmap(&bytes()[offset], length), "munmap");
	}

	/* Maps new pages in the place of the old ones. */
	void replace()
	{
		void *fresh = mmap(start_, size, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		require(fresh == start_, "memory is replaced");
	}

private:
	void *start_;
};

/* Memory of b, registered on demand, and a connection through which a accesses it. */
struct Setting {
	explicit Setting(const std::string &address, int access = all_rights, int file = -1,
			 int protection = PROT_READ | PROT_WRITE)
		: pair(address), a(pair.a()), b(pair.b()), map(file, protection),
		  mr(reg(b.pd(), map, access)), local(a.pd(), size)
	{
		local.fill(1);
	}

	static Mr reg(ibv_pd *pd, const Map &map, int access = all_rights)
	{
		Mr mr(ibv_reg_mr(pd, reinterpret_cast<void *>(map.address()), size,
				 access | IBV_ACCESS_ON_DEMAND));

		if (!mr && errno == EOPNOTSUPP)
			throw cases::Skip("the kernel has no on-demand paging");
		require(mr != nullptr, "memory is registered on demand");
		return mr;
	}

	ibv_sge sge(std::size_t offset = 0, std::uint32_t length = size) const
	{
		return { map.address() + offset, length, mr->lkey };
	}

	/* The data has been placed when the Read behind the Write is answered. */
	void write(std::uint32_t seed, Where where = Where::current())
	{
		Buffer back(a.pd(), 1);

		local.fill(seed);
		a.write(local.sge(0, size), map.address(), mr->rkey, 1);
		a.read(back.sge(0, 1), map.address(), mr->rkey, 2);
		expect_completion(a.send_cq(), IBV_WC_SUCCESS, 1, where);
		expect_completion(a.send_cq(), IBV_WC_SUCCESS, 2, where);
	}

	void read(Where where = Where::current())
	{
		a.read(local.sge(0, size), map.address(), mr->rkey, 3);
		expect_completion(a.send_cq(), IBV_WC_SUCCESS, 3, where);
	}

	int advise(ibv_advise_mr_advice advice, ibv_sge sge)
	{
		return ibv_advise_mr(b.pd(), advice, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
	}

	Pair pair;
	End &a;
	End &b;
	Map map;
	Mr mr;
	Buffer local;
};

/* The number of accesses that missed pages, of all processes. */
std::uint64_t page_fetches(ibv_pd *pd)
{
	return device_counter(pd->context, "page_fetches");
}

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

	s.a.write(s.local.sge(from, length), s.map.address() + from, s.mr->rkey, 1);
	s.a.read(s.local.sge(0, 1), s.map.address(), s.mr->rkey, 2);
	expect_completion(s.a.send_cq(), IBV_WC_SUCCESS, 1);
	expect_completion(s.a.send_cq(), IBV_WC_SUCCESS, 2);
	require(s.map.holds(1, from, length), "the data is there");
	require(!s.map.bytes()[from - 1] && !s.map.bytes()[from + length],
		"the bytes around it are untouched");
}

void send_and_receive(const std::string &address)
{
	Setting s(address);
	Map from;
	Mr source = Setting::reg(s.a.pd(), from, 0);

	s.map.fill(9);
	s.b.receive(s.sge(), 5);
	s.a.send({ from.address(), size, source->lkey }, 6);
	expect_completion(s.a.send_cq(), IBV_WC_SUCCESS, 6);
	expect_completion(s.b.recv_cq(), IBV_WC_SUCCESS, 5);
	require(s.map.is_zero(), "untouched memory is sent as zero");
	from.fill(4);
	s.map.forget();
	s.b.receive(s.sge(), 5);
	s.a.send({ from.address(), size, source->lkey }, 6);
	expect_completion(s.a.send_cq(), IBV_WC_SUCCESS, 6);
	expect_completion(s.b.recv_cq(), IBV_WC_SUCCESS, 5);
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
		s.a.write(s.local.sge(page, page), s.map.address() + page, mw->rkey, 1);
		s.a.read(s.local.sge(page, page), s.map.address() + page, mw->rkey, 2);
		expect_completion(s.a.send_cq(), IBV_WC_SUCCESS, 1);
		expect_completion(s.a.send_cq(), IBV_WC_SUCCESS, 2);
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

/* Two SGEs begin at the same address. Only the longer one reaches into a hole. */
void longer_part(const std::string &address)
{
	Setting s(address);
	std::array parts{ s.sge(page - 100, 50), s.sge(page - 100, 200) };
	ibv_send_wr wr = signaled(IBV_WR_SEND, parts[0], 1);
	const std::uint64_t before = page_fetches(s.b.pd());

	wr.num_sge = parts.size();
	s.map.fill(2);
	s.map.punch(page, page);
	s.a.receive(s.local.sge(0, 250), 2);
	require(!s.b.post(wr), "a Send is posted");
	expect_completion(s.b.send_cq(), IBV_WC_LOC_PROT_ERR, 1);
	require(page_fetches(s.b.pd()) < before + 8, "the kernel does not retry for ever");
}

/* Posts Sends in one list: each takes a turn, and so does the end of the run. */
void send_list(Setting &s, unsigned int count)
{
	ibv_sge sge = s.sge(0, 1);
	std::vector<ibv_send_wr> list(count, signaled(IBV_WR_SEND, sge));

	for (unsigned int i = 0; i < count; i++) {
		s.a.receive(s.local.sge(0, 1), 0);
		list[i].next = i + 1 < count ? &list[i + 1] : nullptr;
	}
	require(!s.b.post(list.front()), "Sends are posted");
	for (unsigned int i = 0; i < count; i++) {
		expect_completion(s.b.send_cq(), IBV_WC_SUCCESS, 0);
		expect_completion(s.a.recv_cq(), IBV_WC_SUCCESS, 0);
	}
}

/*
 * A Response and a Send take turns at reading their memory, and both hit a hole. The first failure
 * ends the stream, whichever has the first turn.
 */
void two_holes_with(const std::string &address, bool send_first, unsigned int turns)
{
	std::optional<cases::Told> slow(std::in_place, "pause", "odp_fetch 200");
	Setting s(address);
	Map other;
	Mr mr = Setting::reg(s.b.pd(), other);
	auto send = [&] { s.b.send({ other.address(), 1, mr->lkey }, 2); };

	send_list(s, turns);
	s.map.punch(0, size);
	other.punch(0, size);
	s.a.receive(s.local.sge(0, 1), 3);

	const std::uint64_t before = page_fetches(s.b.pd());

	if (send_first)
		send();
	s.a.read(s.local.sge(0, 1), s.map.address(), s.mr->rkey, 1);
	await("the first page is fetched", [&] { return page_fetches(s.b.pd()) > before; });
	if (!send_first)
		send();
	std::this_thread::sleep_for(std::chrono::milliseconds(50));
	slow.reset(); /* from now on a fetch fails at once */
	require(next_completion(s.a.send_cq(), 5000).status != IBV_WC_SUCCESS, "the Read fails");
	require(next_completion(s.b.send_cq(), 5000).status != IBV_WC_SUCCESS, "the Send fails");
	require(page_fetches(s.b.pd()) < before + 8, "the kernel does not retry for ever");
}

void two_holes(const std::string &address)
{
	for (bool send_first : { true, false })
		for (unsigned int turns : { 1, 2 })
			two_holes_with(address, send_first, turns);
}

/* Another process may delay a fetch, as that of a FUSE file, for as long as it likes. */
void end_waits_for_no_page(const std::string &address)
{
	cases::Told slow("pause", "odp_fetch 3000");
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
}

/* An access to a hole ends the connection. Another connection can use the same region. */
void expect_hole(Setting &s, const std::string &address, Where where = Where::current())
{
	s.pair.expect_disconnect(where);
	Pair other(address, { .pd = s.a.pd() }, { .pd = s.b.pd() });

	other.a().write(s.local.sge(0, page), s.map.address(), s.mr->rkey, 1);
	other.a().read(s.local.sge(0, page), s.map.address(), s.mr->rkey, 2);
	expect_completion(other.a().send_cq(), IBV_WC_SUCCESS, 1, where);
	expect_completion(other.a().send_cq(), IBV_WC_SUCCESS, 2, where);
}

constexpr std::size_t hole = 8 * page;

void write_to_hole(const std::string &address)
{
	Setting s(address);

	s.map.punch(hole, page);
	s.a.write(s.local.sge(0, page), s.map.address() + hole, s.mr->rkey, 1);
	expect_hole(s, address);
}

void read_from_hole(const std::string &address)
{
	Setting s(address);

	s.map.punch(hole, page);
	s.a.read(s.local.sge(0, size), s.map.address(), s.mr->rkey, 1);
	expect_completion(s.a.send_cq(), IBV_WC_REM_ACCESS_ERR, 1);
	expect_hole(s, address);
}

void atomic_on_hole(const std::string &address)
{
	Setting s(address);
	ibv_sge sge = s.local.sge(0, 8);
	ibv_send_wr wr = signaled(IBV_WR_ATOMIC_FETCH_AND_ADD, sge, 1);

	s.map.punch(hole, page);
	wr.wr.atomic.remote_addr = s.map.address() + hole;
	wr.wr.atomic.rkey = s.mr->rkey;
	require(!s.a.post(wr), "an Atomic is posted");
	expect_completion(s.a.send_cq(), IBV_WC_REM_ACCESS_ERR, 1);
	expect_hole(s, address);
}

void receive_into_hole(const std::string &address)
{
	Setting s(address);

	s.map.punch(hole, page);
	s.b.receive(s.sge(hole - page, 3 * page), 1);
	s.a.send(s.local.sge(0, 3 * page), 2);
	expect_completion(s.b.recv_cq(), IBV_WC_LOC_PROT_ERR, 1);
	expect_hole(s, address);
}

void send_from_hole(const std::string &address)
{
	Setting s(address);

	s.map.punch(hole, page);
	s.b.send(s.sge(hole - page, 3 * page), 1);
	expect_completion(s.b.send_cq(), IBV_WC_LOC_PROT_ERR, 1);
	expect_hole(s, address);
}

/* The peer cannot write a page that the process itself may only read. */
void write_to_protected(const std::string &address)
{
	Setting s(address);

	s.map.fill(2);
	require(!mprotect(s.map.bytes().data() + hole, page, PROT_READ), "mprotect");
	s.a.write(s.local.sge(0, page), s.map.address() + hole, s.mr->rkey, 1);
	expect_hole(s, address);
	require(s.map.holds(2, hole, page), "the page is untouched");
}

/* The kernel does not map secret memory; trying to copy from it would be an Oops. */
void secret_memory(const std::string &address)
{
	int file = static_cast<int>(syscall(SYS_memfd_secret, 0));

	if (file < 0)
		throw cases::Skip("no secret memory");
	require(!ftruncate(file, size), "ftruncate");
	Setting s(address, all_rights, file);

	s.map.fill(2);
	s.a.read(s.local.sge(0, page), s.map.address(), s.mr->rkey, 1);
	expect_completion(s.a.send_cq(), IBV_WC_REM_ACCESS_ERR, 1);
	s.pair.expect_disconnect();
	close(file);
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
		s.a.write(s.local.sge(0, size - page), s.map.address() + page, s.mr->rkey, 1);
		s.a.read(s.local.sge(0, page), s.map.address() + page, s.mr->rkey, 2);
		expect_completion(s.a.send_cq(), IBV_WC_SUCCESS, 1);
		expect_completion(s.a.send_cq(), IBV_WC_SUCCESS, 2);
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
	require(s.advise(read, unknown) == ENOENT, "an unknown lkey");
	require(s.advise(read, pinned.sge(0, page)) == EINVAL, "a region without paging");
	require(s.advise(write, sge) == EPERM, "memory that cannot be written");
	require(ibv_advise_mr(other.get(), read, 0, &sge, 1) == EPERM, "another domain");
	require(s.advise(read, s.sge(page, size)) == EFAULT, "memory behind the end");
	s.map.punch(hole, page);
	require(s.advise(read, sge) == EFAULT, "a hole");
	require(!s.advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, sge), "a hole without faults");
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
	{ "a child has its own copy", fork_copies },
	{ "read-only memory is read by the peer", only_to_be_read },
	{ "a file has what was written", files },
	{ "a window is bound to it", windows },
	{ "messages that came before the end are received", end_comes_while_pages_are_fetched },
	{ "the end of a queue pair waits for no page", end_waits_for_no_page },
	{ "two holes in one direction end the stream", two_holes },
	{ "a hole in the longer of two parts ends the stream", longer_part },
	{ "a hole is not written", write_to_hole },
	{ "a hole is not read", read_from_hole },
	{ "a hole takes no Atomic", atomic_on_hole },
	{ "a hole receives nothing", receive_into_hole },
	{ "a hole is not sent", send_from_hole },
	{ "a protected page is not written", write_to_protected },
	{ "secret memory is not read", secret_memory },
	{ "advice fetches pages", advice_fetches },
	{ "advice fetches pages that are copied meanwhile", advice_fetches_copies },
	{ "advice without faults maps the pages that are there", advice_without_fault },
	{ "bad advice is refused", bad_advice },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
