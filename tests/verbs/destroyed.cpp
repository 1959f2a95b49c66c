/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The requests of a destroyed queue pair do not complete, because their wr_ids may be dangling. */
#include "cases.hpp"
#include "device.hpp"

using namespace rdma;

namespace
{

/* Creates queue pairs that are never connected, with one completion queue. */
struct Idle {
	explicit Idle(const std::string &address, int entries)
		: device(address), cq(device.create_cq(entries)), buffer(device.pd(), 64)
	{
	}

	/* Creates a queue pair, posts receives, and destroys it. */
	void pass_by(std::uint64_t receives)
	{
		ibv_sge sge = buffer.sge(0, 64);
		ibv_recv_wr *bad;
		Qp qp = create_qp(device.pd(), cq.get(), { 16, 16, 1, 1, 0 });

		require(qp != nullptr, "a queue pair");
		require(!modify(qp.get(), IBV_QPS_INIT),
			"the queue pair goes to INIT, where it takes receives");
		for (std::uint64_t i = 0; i < receives; i++) {
			ibv_recv_wr wr = { i, nullptr, &sge, 1 };

			require(!ibv_post_recv(qp.get(), &wr, &bad), "a receive is posted");
		}
	}

	Device device;
	Cq cq;
	Buffer buffer;
};

void completes_nothing(const std::string &address)
{
	Idle idle(address, 64);

	idle.pass_by(10);
	expect_no_completion(idle.cq.get());
}

/* For example those of connections that are refused one after the other. */
void fills_no_shared_queue(const std::string &address)
{
	Idle idle(address, 16);

	for (int i = 0; i < 4; i++)
		idle.pass_by(10);

	Pair pair(address, { .cq = idle.cq.get(), .pd = idle.device.pd() }, {});
	Buffer to(pair.b().pd(), 64);

	pair.a().write(idle.buffer.sge(0, 8), to.address(), to.mr()->rkey, 77);
	expect_completion(idle.cq.get(), IBV_WC_SUCCESS, 77);
}

const cases::Case all[] = {
	{ "a queue pair that is destroyed completes nothing", completes_nothing },
	{ "queue pairs that are destroyed do not fill the queue of others", fills_no_shared_queue },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
