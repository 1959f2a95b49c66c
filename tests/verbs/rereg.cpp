/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Changes of a registration: rights, protection domain, memory. Regions at any address. */
#include "cases.hpp"
#include "rdma.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

using namespace rdma;

namespace
{

constexpr std::size_t size = 3 * 4096;
constexpr int local_only = IBV_ACCESS_LOCAL_WRITE;

void rereg(ibv_mr *mr, int flags, ibv_pd *pd, void *memory, int access,
	   Where where = Where::current())
{
	if (int err = ibv_rereg_mr(mr, flags, pd, memory, size, access))
		fail("ibv_rereg_mr", err, where);
}

/* a writes to b's region at this address and STag, and reads from it. */
void write(Pair &pair, std::uint64_t to, std::uint32_t rkey)
{
	Buffer from(pair.a().pd(), 64);

	from.fill(7);
	pair.a().write(from.sge(0, 64), to, rkey, 1);
	pair.a().read(from.sge(0, 1), to, rkey, 2);
}

void expect_written(Pair &pair, const std::uint8_t *memory, std::uint64_t to, std::uint32_t rkey,
		    Where where = Where::current())
{
	write(pair, to, rkey);
	expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, 1, where);
	expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, 2, where);
	require(memory[3] == pattern(7, 3) && memory[63] == pattern(7, 63),
		"the data is in the memory", where);
}

void rights_are_given(const std::string &address)
{
	Pair pair(address);
	Buffer to(pair.b().pd(), size, local_only);
	std::uint32_t rkey = to.mr()->rkey;

	rereg(to.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, Buffer::all_rights);
	require(to.mr()->rkey == rkey, "the STag stays");
	expect_written(pair, to.bytes().data(), to.address(), rkey);
}

void rights_are_taken(const std::string &address)
{
	Pair pair(address);
	Buffer to(pair.b().pd(), size);

	expect_written(pair, to.bytes().data(), to.address(), to.mr()->rkey);
	rereg(to.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, local_only);
	to.fill(9);
	write(pair, to.address(), to.mr()->rkey);
	pair.expect_disconnect();
	require(to.holds(9, 0, size), "nothing was written");
}

void domain_changes(const std::string &address)
{
	Pair pair(address);
	Pd other(ibv_alloc_pd(pair.b().id()->verbs));
	Buffer to(other.get(), size);

	rereg(to.mr(), IBV_REREG_MR_CHANGE_PD, pair.b().pd(), nullptr, 0);
	expect_written(pair, to.bytes().data(), to.address(), to.mr()->rkey);
	rereg(to.mr(), IBV_REREG_MR_CHANGE_PD, other.get(), nullptr, 0);
	write(pair, to.address(), to.mr()->rkey);
	pair.expect_disconnect();
}

void memory_changes(const std::string &address)
{
	Pair pair(address);
	Buffer first(pair.b().pd(), size), second(pair.b().pd(), size, local_only);
	std::uint32_t rkey = first.mr()->rkey;

	rereg(first.mr(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, second.bytes().data(), 0);
	require(first.mr()->rkey == rkey, "the STag stays");
	expect_written(pair, second.bytes().data(), second.address(), rkey);
	require(first.is_zero(), "the old memory is untouched");
	write(pair, first.address(), rkey);
	pair.expect_disconnect();
}

/* The peer is writing. After the change it writes no more to the old memory, and no access uses what
 * the registration had before. The changes come at different places of a Write.
 */
void memory_changes_under_way(const std::string &address)
{
	constexpr std::uint32_t length = 16 * 4096;

	for (unsigned int round = 0; round < 40; round++) {
		Pair pair(address);
		Buffer first(pair.b().pd(), length), second(pair.b().pd(), length);
		Buffer from(pair.a().pd(), length);
		auto write = [&](std::uint64_t id) {
			pair.a().write(from.sge(0, length), first.address(), first.mr()->rkey, id);
		};

		from.fill(1);
		for (std::uint64_t id = 0; id < 32; id++)
			write(id);
		expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, 0);
		std::this_thread::sleep_for(std::chrono::microseconds(7 * round));
		require(!ibv_rereg_mr(first.mr(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
				      second.bytes().data(), length, 0),
			"the memory changes");
		first.fill(9);
		write(32);
		pair.expect_disconnect();
		require(first.holds(9, 0, length), "nothing is written to the old memory");
		require(second.is_zero(), "nor to the new memory, at its old address");
	}
}

/* Read-only memory cannot get the right to be written. The old registration stays in place. */
void failure_changes_nothing(const std::string &address)
{
	Pair pair(address);
	void *memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	Mr mr(ibv_reg_mr(pair.b().pd(), memory, size, IBV_ACCESS_REMOTE_READ));
	Buffer into(pair.a().pd(), size);

	require(mr != nullptr, "read-only memory can be registered for reading");
	require(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
			     Buffer::all_rights) != 0,
		"it cannot be registered for writing");
	into.fill(1);
	pair.a().read(into.sge(0, size), reinterpret_cast<std::uint64_t>(memory), mr->rkey, 1);
	expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, 1);
	require(into.is_zero(), "the peer reads it as before");
	mr.reset();
	munmap(memory, size);
}

/* Only the process that pinned the memory can have it pinned for other rights. */
void other_process_changes_nothing(const std::string &address)
{
	Pair pair(address);
	Buffer to(pair.b().pd(), size, IBV_ACCESS_REMOTE_READ);
	auto give_rights = [&] {
		return ibv_rereg_mr(to.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
				    Buffer::all_rights)
			       ? errno
			       : 0;
	};
	int status = 0;
	pid_t child = fork();

	if (!child)
		_exit(give_rights());
	require(child > 0 && waitpid(child, &status, 0) == child, "a child has ended");
	require(WIFEXITED(status) && WEXITSTATUS(status) == EPERM, "a child cannot do it");
	require(!give_rights(), "its parent can");
	expect_written(pair, to.bytes().data(), to.address(), to.mr()->rkey);
}

/* What cannot be changed stays as it was. */
void unfit_changes(const std::string &address)
{
	Pair pair(address);
	Buffer to(pair.b().pd(), size), from(pair.a().pd(), 64), back(pair.a().pd(), 64);
	Mr on_demand(ibv_reg_mr(pair.b().pd(), to.bytes().data(), size,
				Buffer::all_rights | IBV_ACCESS_ON_DEMAND));
	auto refused = [](ibv_mr *mr, int access) {
		return ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, access) !=
		       0;
	};

	if (!on_demand && errno == EOPNOTSUPP)
		throw cases::Skip("the kernel has no on-demand paging");
	from.fill(8);
	require(refused(to.mr(), Buffer::all_rights | IBV_ACCESS_ON_DEMAND), "paging on demand");
	require(refused(on_demand.get(), local_only), "a region on demand");
	expect_written(pair, to.bytes().data(), to.address(), to.mr()->rkey);
	pair.a().write_and_read(from.sge(0, 64), back.sge(0, 64), to.address(), on_demand->rkey);
	require(back.holds(8, 0, 64), "the region on demand has its rights");
	for (std::uint64_t iova : { ~0xffful, ~0x1ffful })
		require(!ibv_reg_mr_iova(pair.b().pd(), to.bytes().data(), size, iova, local_only),
			"addresses that wrap");
}

/* The address chosen at registration is used by the peer and by local requests. */
void any_address(const std::string &address)
{
	for (std::uint64_t iova : { 0x0ul, 0x1000ul, 0x123456789abc000ul, ~0xffffful }) {
		Pair pair(address);
		Buffer memory(pair.b().pd(), size);
		Mr mr(ibv_reg_mr_iova(pair.b().pd(), memory.bytes().data(), size, iova,
				      Buffer::all_rights));
		ibv_sge sge = { iova + 4096, 64, 0 };

		require(mr != nullptr, "a region with a chosen address");
		expect_written(pair, memory.bytes().data() + 4000, iova + 4000, mr->rkey);
		sge.lkey = mr->lkey;
		pair.b().receive(sge, 5);
		pair.a().send(sge = { iova, 0, 0 }, 6);
		expect_completion(pair.b().recv_cq(), IBV_WC_SUCCESS, 5);
		write(pair, memory.address(), mr->rkey);
		pair.expect_disconnect();
	}
}

const cases::Case all[] = {
	{ "rights are given", rights_are_given },
	{ "rights are taken away", rights_are_taken },
	{ "the protection domain changes", domain_changes },
	{ "the memory changes", memory_changes },
	{ "the memory changes while the peer writes", memory_changes_under_way },
	{ "a change that fails has no effect", failure_changes_nothing },
	{ "a child cannot change what its parent has registered", other_process_changes_nothing },
	{ "a change that does not fit is refused", unfit_changes },
	{ "memory is registered under any address", any_address },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
