/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Queues stay usable when threads come, go and are cancelled. */
#include "cases.hpp"
#include "rdma.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <thread>

using namespace rdma;

namespace
{

/* Runs work in a thread of its own. If the thread hangs, fails and leaves it behind. */
template <class Work>
void within_seconds(int seconds, const std::string &what, Work work, Where where = Where::current())
{
	auto done = std::make_shared<std::promise<void>>();
	auto end = done->get_future();

	std::thread([done, work] {
		try {
			work();
			done->set_value();
		} catch (...) {
			done->set_exception(std::current_exception());
		}
	}).detach();
	if (end.wait_for(std::chrono::seconds(seconds)) != std::future_status::ready)
		fail(what, 0, where);
	end.get();
}

/* The thread may be cancelled anywhere, also in a doorbell that it rings while it polls or arms. */
void cancelled_poller(const std::string &address)
{
	Pair pair(address, { .send_wr = 256, .cq_entries = 512, .notify = true });
	Buffer from(pair.a().pd(), 64), to(pair.b().pd(), 64);
	End *const end = &pair.a();
	const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
	auto poll_all = [end] {
		ibv_wc wc[16];

		while (ibv_poll_cq(end->send_cq(), 16, wc) > 0)
			;
	};

	for (unsigned int i = 0; i < 400 && std::chrono::steady_clock::now() < deadline; i++) {
		std::atomic<bool> runs = false;
		std::thread poller([&] {
			pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
			for (unsigned int n = 0; n < 8 + i % 5; n++)
				end->write(from.sge(0, 8), to.address(), to.mr()->rkey, n);
			runs = true;
			pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
			for (;;) {
				poll_all();
				ibv_req_notify_cq(end->send_cq(), 0);
				pthread_testcancel();
			}
		});

		while (!runs)
			std::this_thread::yield();
		pthread_cancel(poller.native_handle());
		poller.join();
		within_seconds(5, "the queue was left locked", poll_all);
	}
}

struct Extended {
	explicit Extended(const std::string &address, std::uint32_t flags = 0) : probe(address)
	{
		ibv_cq_init_attr_ex attr = {};

		attr.cqe = 4096;
		attr.wc_flags = IBV_WC_STANDARD_FLAGS;
		if (flags)
			attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
		attr.flags = flags;
		cq.reset(ibv_create_cq_ex(probe.a().id()->verbs, &attr));
		require(cq != nullptr, "an extended completion queue");
	}

	ibv_cq *plain() { return ibv_cq_ex_to_cq(cq.get()); }
	ibv_pd *pd() { return probe.a().pd(); }

	ibv_qp *create_qp()
	{
		ibv_qp_init_attr attr = {};

		attr.send_cq = attr.recv_cq = plain();
		attr.cap = { 1, 1, 1, 1, 0 };
		attr.qp_type = IBV_QPT_RC;
		return ibv_create_qp(pd(), &attr);
	}

	Pair probe;
	CqEx cq;
};

/* Between ibv_start_poll() and ibv_end_poll() a thread may use the queue in all other ways. */
void all_else_in_a_batch(const std::string &address)
{
	auto extended = std::make_shared<Extended>(address);
	auto pair =
		std::make_shared<Pair>(address, QpOptions{ .cq = extended->plain() }, QpOptions());
	auto from = std::make_shared<Buffer>(pair->a().pd(), 64);
	auto to = std::make_shared<Buffer>(pair->b().pd(), 64);

	within_seconds(10, "the thread deadlocks with itself", [=] {
		ibv_poll_cq_attr attr = {};

		for (unsigned int i = 0; i < 3; i++)
			pair->a().write(from->sge(0, 8), to->address(), to->mr()->rkey, i);
		while (ibv_start_poll(extended->cq.get(), &attr))
			;
		require(!ibv_req_notify_cq(extended->plain(), 0), "the queue is armed");
		ibv_qp *qp = extended->create_qp();
		require(qp && !ibv_destroy_qp(qp), "a queue pair is created and destroyed");
		require(!ibv_resize_cq(extended->plain(), 8000), "the queue is resized");
		require(extended->cq->wr_id == 0, "the completion can still be read");
		ibv_end_poll(extended->cq.get());
		for (unsigned int i = 1; i < 3; i++)
			expect_completion(extended->plain(), IBV_WC_SUCCESS, i);
	});
}

/* Queue pairs are created and destroyed while one thread polls the completions of two others. */
void create_beside_poller(const std::string &address)
{
	Extended extended(address, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	Pair one(address, { .cq = extended.plain() }, {});
	Pair other(address, { .cq = extended.plain() }, {});
	std::atomic<bool> end = false, bad = false;
	std::thread poller([&] {
		Buffer from_one(one.a().pd(), 64), to_one(one.b().pd(), 64);
		Buffer from_other(other.a().pd(), 64), to_other(other.b().pd(), 64);

		while (!end && !bad) {
			for (unsigned int i = 0; i < 4; i++) {
				one.a().write(from_one.sge(0, 8), to_one.address(),
					      to_one.mr()->rkey, i);
				other.a().write(from_other.sge(0, 8), to_other.address(),
						to_other.mr()->rkey, i);
			}
			for (unsigned int i = 0; i < 8; i++)
				bad = bad ||
				      next_completion(extended.plain()).status != IBV_WC_SUCCESS;
		}
	});
	const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);

	while (!bad && std::chrono::steady_clock::now() < deadline) {
		std::deque<ibv_qp *> qps;

		for (unsigned int i = 0; i < 40; i++)
			qps.push_back(extended.create_qp());
		for (ibv_qp *qp : qps)
			bad = bad || !qp || ibv_destroy_qp(qp);
	}
	end = true;
	poller.join();
	require(!bad, "all calls and requests succeed");
}

const cases::Case all[] = {
	{ "a thread that is cancelled while it polls leaves the queue unlocked", cancelled_poller },
	{ "a thread that reads a batch may use the queue for everything else",
	  all_else_in_a_batch },
	{ "queue pairs come and go while one thread polls without locks", create_beside_poller },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
