/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Device memory: copies, regions, windows, sharing, and the limit of its size. */
#include "cases.hpp"
#include "rdma.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>

using namespace rdma;

namespace
{

using ImportedDm = Owner<ibv_dm, ibv_unimport_dm>;

constexpr unsigned int remote_rights =
	IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr unsigned int all_rights =
	IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | remote_rights;

/* Returns null and sets errno if the device refuses. */
Dm allocate(ibv_context *context, std::size_t length, std::uint32_t log_align = 0,
	    std::uint32_t comp_mask = 0)
{
	ibv_alloc_dm_attr attr = { length, log_align, comp_mask };

	return Dm(ibv_alloc_dm(context, &attr));
}

/* The size of all device memory together. */
std::size_t limit_of(ibv_context *context)
{
	ibv_device_attr_ex attr = {};

	require(!ibv_query_device_ex(context, nullptr, &attr), "ibv_query_device_ex");
	require(attr.max_dm_size > 0, "the device has memory");
	return attr.max_dm_size;
}

std::size_t page_size()
{
	return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::vector<std::uint8_t> contents(ibv_dm *dm, std::size_t offset, std::size_t length,
				   Where where = Where::current())
{
	std::vector<std::uint8_t> octets(length);

	require(!ibv_memcpy_from_dm(octets.data(), dm, offset, length), "the memory is read",
		where);
	return octets;
}

void fill_dm(ibv_dm *dm, std::size_t length, std::uint32_t seed, Where where = Where::current())
{
	std::vector<std::uint8_t> octets(length);

	fill(octets, seed);
	require(!ibv_memcpy_to_dm(dm, 0, octets.data(), length), "the memory is written", where);
}

bool holds(ibv_dm *dm, std::size_t length, std::uint32_t seed)
{
	return rdma::holds(contents(dm, 0, length), seed, 0, length);
}

/* b has device memory with a region on a part of it; a is the peer. */
struct Setting {
	static constexpr std::size_t size = 5 * 4096, offset = 4096 + 8, length = 2 * 4096;

	explicit Setting(const std::string &address, unsigned int access = all_rights)
		: pair(address), a(pair.a()), b(pair.b()), dm(allocate(b.id()->verbs, size)),
		  local(a.pd(), length)
	{
		require(dm != nullptr, "device memory");
		mr.reset(ibv_reg_dm_mr(b.pd(), dm.get(), offset, length, access));
		require(mr != nullptr, "a region on the device memory");
		fill_dm(dm.get(), size, 9);
		local.fill(1);
	}

	/* The region holds the pattern of this seed, and the memory around it has not changed. */
	void expect_contents(std::uint32_t seed, Where where = Where::current())
	{
		std::vector<std::uint8_t> all = contents(dm.get(), 0, size, where);
		std::span octets(all);

		require(rdma::holds(octets.subspan(offset, length), seed, 0, length),
			"the data is in the region", where);
		require(rdma::holds(octets, 9, 0, offset) &&
				rdma::holds(octets, 9, offset + length, size - offset - length),
			"the bytes around the region are untouched", where);
	}

	/* a's request of this size ends the connection and writes nothing. */
	void expect_refused(ibv_wr_opcode opcode, std::uint64_t at, std::uint32_t octets,
			    Where where = Where::current())
	{
		ibv_sge sge = local.sge(0, octets);
		ibv_send_wr wr = signaled(opcode, sge, 1);

		wr.wr.rdma.remote_addr = at;
		wr.wr.rdma.rkey = mr->rkey;
		require(!a.post(wr), "the request is posted", where);
		pair.expect_disconnect(where);
		require(holds(dm.get(), size, 9), "nothing was written", where);
	}

	Pair pair;
	End &a;
	End &b;
	Dm dm;
	Mr mr;
	Buffer local;
};

void copies(const std::string &address)
{
	constexpr std::size_t size = 3 * 4096 + 4;
	Pair pair(address);
	ibv_context *context = pair.b().id()->verbs;
	Dm dm = allocate(context, size), other = allocate(context, size);

	require(dm && other, "device memory");
	require(is_zero(contents(dm.get(), 0, size)), "new device memory is zero");
	fill_dm(dm.get(), size, 3);
	require(holds(dm.get(), size, 3), "the data is read back");
	require(is_zero(contents(other.get(), 0, size)), "the other memory has not changed");

	std::uint32_t word = 0x01020304;

	require(!ibv_memcpy_to_dm(dm.get(), 4096, &word, 4), "a part is written");

	std::vector<std::uint8_t> octets = contents(dm.get(), 0, size);

	require(!std::memcmp(&octets[4096], &word, 4) && octets[4095] == pattern(3, 4095) &&
			octets[4100] == pattern(3, 4100),
		"only that part has changed");
}

void bad_copies_are_refused(const std::string &address)
{
	constexpr std::size_t size = 100;
	static std::uint8_t octets[2 * size];
	Pair pair(address);
	Dm dm = allocate(pair.b().id()->verbs, size);
	const struct {
		std::uint64_t offset;
		std::size_t length;
		int error;
	} all[] = {
		{ 0, size + 4, EFAULT }, { size, 4, EFAULT },  { size - 4, 8, EFAULT },
		{ -4ull, 8, EFAULT },	 { 4, -4ull, EFAULT }, { size + 4, 0, EFAULT },
		{ 1, 4, EINVAL },	 { 0, 3, EINVAL },
	};

	require(dm != nullptr, "device memory");
	fill_dm(dm.get(), size, 3);
	for (const auto &one : all) {
		require(ibv_memcpy_to_dm(dm.get(), one.offset, octets, one.length) == one.error,
			"the write is refused");
		require(ibv_memcpy_from_dm(octets, dm.get(), one.offset, one.length) == one.error,
			"the read is refused");
	}
	require(holds(dm.get(), size, 3) && is_zero(octets), "nothing was copied");
	require(!ibv_memcpy_to_dm(dm.get(), size, octets, 0),
		"an empty copy at the end is allowed");
}

void peer_reaches_it(const std::string &address)
{
	Setting setting(address);
	Buffer back(setting.a.pd(), Setting::length);

	setting.a.write(setting.local.sge(0, Setting::length), 0, setting.mr->rkey, 1);
	setting.a.read(back.sge(0, Setting::length), 0, setting.mr->rkey, 2);
	expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 1);
	expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 2);
	require(back.holds(1, 0, Setting::length), "the data is read back");
	setting.expect_contents(1);
}

void peer_adds_to_it(const std::string &address)
{
	constexpr std::uint64_t place = 4096;
	std::uint64_t word = 40, sum;
	Setting setting(address);
	ibv_sge sge = setting.local.sge(0, 8);
	ibv_send_wr wr = signaled(IBV_WR_ATOMIC_FETCH_AND_ADD, sge, 1);

	require(!ibv_memcpy_to_dm(setting.dm.get(), Setting::offset + place, &word, 8),
		"the word is written");
	wr.wr.atomic.remote_addr = place;
	wr.wr.atomic.rkey = setting.mr->rkey;
	wr.wr.atomic.compare_add = 2;
	require(!setting.a.post(wr), "the request is posted");
	expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 1);
	std::memcpy(&word, setting.local.bytes().data(), 8);
	require(!ibv_memcpy_from_dm(&sum, setting.dm.get(), Setting::offset + place, 8),
		"the word is read");
	require(word == 40 && sum == 42, "the peer got the old value and added to it");
}

void no_octet_beyond(const std::string &address)
{
	Setting setting(address);

	setting.expect_refused(IBV_WR_RDMA_WRITE, Setting::length - 8, 9);
}

void no_octet_before(const std::string &address)
{
	Setting setting(address);

	setting.expect_refused(IBV_WR_RDMA_WRITE, -8ull, 8);
}

void rights_are_the_regions(const std::string &address)
{
	Setting setting(address, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_READ);

	setting.a.read(setting.local.sge(0, 64), 0, setting.mr->rkey, 2);
	expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 2);
	setting.expect_refused(IBV_WR_RDMA_WRITE, 0, 64);
}

void no_reading_of_what_is_written_only(const std::string &address)
{
	Setting setting(address, all_rights & ~IBV_ACCESS_REMOTE_READ);

	setting.expect_refused(IBV_WR_RDMA_READ, 0, 64);
}

void own_requests_use_it(const std::string &address)
{
	Setting setting(address);
	constexpr std::uint32_t half = Setting::length / 2;
	Buffer sink(setting.a.pd(), half);

	setting.b.receive({ 0, half, setting.mr->lkey }, 1);
	setting.a.send(setting.local.sge(0, half), 2);
	expect_completion(setting.b.recv_cq(), IBV_WC_SUCCESS, 1);
	setting.a.receive(sink.sge(0, half), 3);
	setting.b.send({ 0, half, setting.mr->lkey }, 4);
	expect_completion(setting.a.recv_cq(), IBV_WC_SUCCESS, 3);
	require(sink.holds(1, 0, half), "the region receives and sends the message");
}

void window_on_it(const std::string &address)
{
	Setting setting(address);
	Mw window(ibv_alloc_mw(setting.b.pd(), IBV_MW_TYPE_2));
	Buffer back(setting.a.pd(), 64);

	require(window != nullptr, "a window");
	setting.b.bind(window.get(), { setting.mr.get(), 4096, 64, remote_rights }, 5);
	expect_completion(setting.b.send_cq(), IBV_WC_SUCCESS, 5);
	setting.a.write(setting.local.sge(0, 64), 4096, window->rkey, 1);
	setting.a.read(back.sge(0, 64), 4096, window->rkey, 2);
	expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 1);
	expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 2);
	require(rdma::holds(contents(setting.dm.get(), Setting::offset + 4096, 64), 1, 0, 64) &&
			back.holds(1, 0, 64),
		"the peer reaches the memory through the window");
	setting.a.write(setting.local.sge(0, 64), 4097, window->rkey, 3);
	setting.pair.expect_disconnect();
}

void bad_regions_are_refused(const std::string &address)
{
	constexpr std::size_t size = 4096;
	Pair pair(address);
	Dm dm = allocate(pair.b().id()->verbs, size);
	const struct {
		std::uint64_t offset;
		std::size_t length;
		unsigned int access;
		const char *what;
	} all[] = {
		{ 0, size + 1, all_rights, "one byte too many" },
		{ size, 1, all_rights, "a region behind the end" },
		{ -8ull, 16, all_rights, "a range that wraps" },
		{ 0, size, all_rights & ~IBV_ACCESS_ZERO_BASED, "a region that is not zero-based" },
		{ 0, size, all_rights & ~IBV_ACCESS_LOCAL_WRITE, "remote without local write" },
		{ 0, size, all_rights | IBV_ACCESS_ON_DEMAND, "on-demand paging" },
	};

	require(dm != nullptr, "device memory");
	for (const auto &one : all)
		require(!ibv_reg_dm_mr(pair.b().pd(), dm.get(), one.offset, one.length, one.access),
			one.what);
	require(!ibv_free_dm(dm.release()), "the memory can be freed");
}

void memory_with_region_stays(const std::string &address)
{
	Setting setting(address);

	require(ibv_free_dm(setting.dm.get()) == EBUSY, "memory with a region cannot be freed");
	setting.a.write(setting.local.sge(0, Setting::length), 0, setting.mr->rkey, 1);
	expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 1);
	setting.pair.expect_alive();
	setting.expect_contents(1);
	setting.mr.reset();
	require(!ibv_free_dm(setting.dm.release()), "without a region it can");
}

void bad_sizes_are_refused(const std::string &address)
{
	Pair pair(address);
	ibv_context *context = pair.b().id()->verbs;
	auto log_page = static_cast<std::uint32_t>(std::countr_zero(page_size()));
	auto refused = [&](int error, std::size_t length, std::uint32_t log_align,
			   std::uint32_t comp_mask) {
		return !allocate(context, length, log_align, comp_mask) && errno == error;
	};

	require(refused(EINVAL, limit_of(context) + 1, 0, 0), "more than the limit is refused");
	require(refused(EINVAL, -1ul, 0, 0), "a size that wraps is refused");
	require(refused(EINVAL, 0, 0, 0), "an empty size is refused");
	require(refused(EINVAL, 4096, log_page + 1, 0), "alignment above a page is refused");
	require(refused(EINVAL, 4096, ~0u, 0), "an impossible alignment is refused");
	require(refused(EINVAL, 4096, 0, 1), "an unknown attribute is refused");
	require(allocate(context, 4096, log_page) != nullptr, "alignment to a page is granted");
}

void so_much_and_no_more(const std::string &address)
{
	Pair pair(address);
	ibv_context *context = pair.b().id()->verbs;
	std::size_t limit = limit_of(context);
	std::size_t page = page_size();

	for (int round = 0; round < 3; round++) {
		Dm most = allocate(context, limit - page), rest = allocate(context, 4);

		require(most && rest, "all memory can be allocated");
		require(!allocate(context, 4) && errno == ENOMEM, "and no more");
		rest.reset();
		require(allocate(context, page) != nullptr, "freed memory can be allocated again");
	}
}

[[noreturn]] void take_all_and_end(const std::string &address)
{
	Pair pair(address);
	ibv_context *context = pair.b().id()->verbs;
	Dm dm = allocate(context, limit_of(context));

	if (!dm || !ibv_reg_dm_mr(pair.b().pd(), dm.get(), 0, 4096, all_rights))
		std::_Exit(EXIT_FAILURE);
	std::_Exit(EXIT_SUCCESS);
}

void program_ends(const std::string &address)
{
	int status;
	pid_t child = fork();

	if (!child)
		take_all_and_end(address);
	require(child > 0 && waitpid(child, &status, 0) == child && status == 0,
		"a program allocates all memory, registers it, and ends");

	Pair pair(address);
	ibv_context *context = pair.b().id()->verbs;

	require(allocate(context, limit_of(context)) != nullptr, "all memory is free again");
}

/* A second context stands for another process that was given the device file. */
void shared(const std::string &address)
{
	constexpr std::size_t size = 2 * 4096 + 8;
	Pair pair(address);
	ibv_context *context = pair.b().id()->verbs;
	Context other(ibv_import_device(dup(context->cmd_fd)));
	Dm dm = allocate(context, size);

	require(dm && other, "the device file is shared");

	std::uint32_t handle = dm->handle;
	ImportedDm imported(ibv_import_dm(other.get(), handle));

	require(imported != nullptr, "the memory is shared");
	require(!ibv_import_dm(other.get(), ~0u), "an unknown handle is refused");
	fill_dm(dm.get(), size, 3);
	require(holds(imported.get(), size, 3), "the importer sees the owner's data");
	fill_dm(imported.get(), size, 4);
	require(holds(dm.get(), size, 4), "the owner sees the importer's data");
	require(ibv_memcpy_to_dm(imported.get(), size, &handle, 4) == EFAULT, "the size is known");

	require(!ibv_free_dm(dm.release()), "the owner frees the memory");
	require(holds(imported.get(), size, 4), "the importer keeps its mapping");
	require(!ibv_import_dm(other.get(), handle), "freed memory cannot be imported");
}

const cases::Case all[] = {
	{ "device memory is written and read", copies },
	{ "copies beyond its end, or of parts of words, are refused", bad_copies_are_refused },
	{ "the peer writes and reads a part of it", peer_reaches_it },
	{ "the peer adds to it", peer_adds_to_it },
	{ "the peer reaches no byte beyond its region", no_octet_beyond },
	{ "the peer reaches no byte before its region", no_octet_before },
	{ "the peer cannot write without the right to", rights_are_the_regions },
	{ "the peer cannot read without the right to", no_reading_of_what_is_written_only },
	{ "local requests use it", own_requests_use_it },
	{ "a window is bound to it", window_on_it },
	{ "invalid regions are refused", bad_regions_are_refused },
	{ "memory with a region cannot be freed", memory_with_region_stays },
	{ "invalid sizes are refused", bad_sizes_are_refused },
	{ "there is as much as the device says, and no more", so_much_and_no_more },
	{ "all of it is free again after a program ends", program_ends },
	{ "it is shared with another context", shared },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
