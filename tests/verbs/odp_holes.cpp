/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Memory registered with on-demand paging that cannot be accessed: holes, protected and secret
 * pages.
 */
#include "odp.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

using namespace rdma;
using namespace odp;

namespace
{

/* An access to a hole ends the connection. Another connection can use the same region. */
void expect_hole(Setting &s, const std::string &address, Where where = Where::current())
{
	s.pair.expect_disconnect(where);
	Pair other(address, { .pd = s.a.pd() }, { .pd = s.b.pd() });

	other.a().write_and_read(s.local.sge(0, page), s.local.sge(0, page), s.map.address(),
				 s.mr->rkey, where);
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

	for (unsigned int i = 0; i < count; i++)
		s.a.receive(s.local.sge(0, 1), 0);
	make_list(list);
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

const cases::Case all[] = {
	{ "two holes in one direction end the stream", two_holes },
	{ "a hole in the longer of two parts ends the stream", longer_part },
	{ "a hole is not written", write_to_hole },
	{ "a hole is not read", read_from_hole },
	{ "a hole takes no Atomic", atomic_on_hole },
	{ "a hole receives nothing", receive_into_hole },
	{ "a hole is not sent", send_from_hole },
	{ "a protected page is not written", write_to_protected },
	{ "secret memory is not read", secret_memory },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
