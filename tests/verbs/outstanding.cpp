/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A request is outstanding until its completion has been polled. A completion queue with an entry
 * for each request that may be outstanding therefore never overflows.
 */
#include "cases.hpp"
#include "rdma.hpp"

#include <cerrno>
#include <chrono>
#include <format>
#include <optional>

using namespace rdma;

namespace
{

constexpr std::uint32_t depth = 64;

/* An end whose completion queue has only as many entries as each of its queues. */
class Narrow
{
public:
	explicit Narrow(const std::string &address) : probe_(address)
	{
		ibv_cq_init_attr_ex attr = {};

		attr.cqe = depth;
		attr.wc_flags = IBV_WC_STANDARD_FLAGS;
		cq_.reset(ibv_create_cq_ex(probe_.a().id()->verbs, &attr));
		require(cq_ != nullptr, "an extended completion queue");
		pair_.emplace(address,
			      QpOptions{ .send_wr = depth, .recv_wr = depth, .cq = plain() },
			      QpOptions{ .send_wr = 2 * depth, .cq_entries = 4096 });
	}

	ibv_cq_ex *cq() { return cq_.get(); }
	ibv_cq *plain() { return ibv_cq_ex_to_cq(cq_.get()); }
	End &end() { return pair_->a(); }
	Pair &pair() { return *pair_; }

	void expect_good(Where where = Where::current())
	{
		require(!wait_readable(end().id()->verbs->async_fd, 0), "no event has come", where);
		require(end().state() == IBV_QPS_RTS, "the connection is up", where);
	}

private:
	Pair probe_;
	CqEx cq_;
	std::optional<Pair> pair_;
};

/* Reading a completion of a batch makes room for one more request at once. */
void sends_in_a_batch(const std::string &address)
{
	constexpr std::uint32_t total = 20000;
	Narrow narrow(address);
	End &end = narrow.end();
	Buffer from(end.pd(), 64), to(narrow.pair().b().pd(), 64);
	ibv_poll_cq_attr attr = {};
	std::uint32_t posted = 0, polled = 0;
	auto post = [&] { end.write(from.sge(0, 8), to.address(), to.mr()->rkey, posted++); };

	while (posted < depth)
		post();
	auto last = std::chrono::steady_clock::now();
	while (polled < total) {
		const auto now = std::chrono::steady_clock::now();

		require(now - last < std::chrono::seconds(10), "completions keep coming");
		if (ibv_start_poll(narrow.cq(), &attr))
			continue;
		last = now;
		do {
			require(narrow.cq()->status == IBV_WC_SUCCESS, "the write succeeds");
			require(narrow.cq()->wr_id == polled++, "completions are in order");
			if (posted < total)
				post();
		} while (!ibv_next_poll(narrow.cq()));
		ibv_end_poll(narrow.cq());
	}
	narrow.expect_good();
}

void receives_until_polled(const std::string &address)
{
	Narrow narrow(address);
	End &end = narrow.end(), &peer = narrow.pair().b();
	Buffer into(end.pd(), 64), from(peer.pd(), 64);
	ibv_sge sge = into.sge(0, 64);
	std::uint64_t next = 0;
	auto post = [&] {
		ibv_recv_wr wr = { next, nullptr, &sge, 1 };
		int err = end.post(wr);

		next += !err;
		return err;
	};

	while (!post())
		require(next <= depth, "no more receives than promised fit");
	require(next == depth, std::format("{} receives fit", next));
	for (std::uint32_t i = 0; i < depth; i++)
		peer.send(from.sge(0, 64), i);
	for (std::uint32_t i = 0; i < depth; i++)
		expect_completion(peer.send_cq(), IBV_WC_SUCCESS, i);
	require(post() == ENOMEM, "receives are outstanding until they are polled");
	for (std::uint32_t i = 0; i < depth; i++) {
		expect_completion(narrow.plain(), IBV_WC_SUCCESS, i);
		require(!post(), "polling a receive makes room for another");
	}
	require(post() == ENOMEM, "the queue is full again");
	narrow.expect_good();
}

const cases::Case all[] = {
	{ "posting again while a batch is polled overflows no queue", sends_in_a_batch },
	{ "a receive is outstanding until it is polled", receives_until_polled },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
