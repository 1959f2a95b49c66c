/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The kernel resizes and flushes long queues in pieces. Completions that come between two pieces
 * are neither lost nor out of order. A test build of the module waits between the pieces; another
 * build may be too fast for the races to happen.
 */
#include "cases.hpp"
#include "rdma.hpp"

#include <chrono>
#include <fstream>
#include <thread>

using namespace rdma;

namespace
{

using namespace std::chrono_literals;

/* Makes a test build wait at a place in the code; other builds ignore it. */
class Pause
{
public:
	explicit Pause(const char *place) { set(place); }
	Pause(const Pause &) = delete;
	~Pause() { set(""); }

private:
	static void set(const char *value)
	{
		std::ofstream("/sys/module/xiw/parameters/pause") << value << std::endl;
	}
};

void resize_beside_completions(const std::string &address)
{
	constexpr std::uint64_t before = 1000, meanwhile = 600;
	Pair pair(address, { .send_wr = 2048, .cq_entries = 2048 }, {});
	Buffer from(pair.a().pd(), 64), to(pair.b().pd(), 64);
	auto write = [&](std::uint64_t first, std::uint64_t count) {
		for (std::uint64_t i = first; i < first + count; i++)
			pair.a().write(from.sge(0, 8), to.address(), to.mr()->rkey, i);
	};

	write(0, before);

	Pause pause("resize 50");
	std::jthread writer([&] {
		std::this_thread::sleep_for(20ms);
		write(before, meanwhile);
	});

	for (int entries : { 4096, 2048, 4096 })
		require(!ibv_resize_cq(pair.a().send_cq(), entries), "the queue is resized");
	writer.join();
	for (std::uint64_t i = 0; i < before + meanwhile; i++)
		expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, i);
	expect_no_completion(pair.a().send_cq());
}

void two_flush_at_once(const std::string &address)
{
	constexpr std::uint64_t before = 2000, after = 40;
	Pair pair(address, { .recv_wr = 4096, .cq_entries = 4096 }, {});
	Buffer into(pair.a().pd(), 64);

	for (std::uint64_t i = 0; i < before; i++)
		pair.a().receive(into.sge(0, 64), i);

	Pause pause("flush 5");
	std::jthread other([&] {
		while (pair.a().state() != IBV_QPS_ERR)
			;
		for (std::uint64_t i = before; i < before + after; i++)
			pair.a().receive(into.sge(0, 64), i);
	});

	pair.a().move_to(IBV_QPS_ERR);
	other.join();
	for (std::uint64_t i = 0; i < before + after; i++)
		expect_completion(pair.a().recv_cq(), IBV_WC_WR_FLUSH_ERR, i);
	expect_no_completion(pair.a().recv_cq());
}

const cases::Case all[] = {
	{ "completions that come while their queue is resized are kept, in order",
	  resize_beside_completions },
	{ "two flushes at once complete each request once, in order", two_flush_at_once },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
