/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* When a connection ends, each posted request completes exactly once, in order. */
#include "cases.hpp"
#include "rdma.hpp"

using namespace rdma;

namespace
{

constexpr unsigned int count = 40;

void post_receives(End &end, const Buffer &buffer)
{
	for (unsigned int i = 0; i < count; i++)
		end.receive(buffer.sge(0, 64), 100 + i);
}

void expect_receives_flushed(End &end, unsigned int first = 0, Where where = Where::current())
{
	for (unsigned int i = first; i < count; i++)
		expect_completion(end.recv_cq(), IBV_WC_WR_FLUSH_ERR, 100 + i, where);
	expect_no_completion(end.recv_cq(), 50, where);
}

/* Both ends have posted receives when a ends the connection. */
void expect_all_flushed(const std::string &address, auto end)
{
	Pair pair(address);
	Buffer a_buffer(pair.a().pd(), 4096), b_buffer(pair.b().pd(), 4096);

	post_receives(pair.a(), a_buffer);
	post_receives(pair.b(), b_buffer);
	end(pair.a());
	pair.expect_disconnect();
	expect_receives_flushed(pair.a());
	expect_receives_flushed(pair.b());
}

void after_disconnect(const std::string &address)
{
	expect_all_flushed(address,
			   [](End &a) { require(!rdma_disconnect(a.id()), "disconnect"); });
}

void after_modify(const std::string &address)
{
	expect_all_flushed(address, [](End &a) { a.move_to(IBV_QPS_ERR); });
}

/* Receives that messages have used are not flushed. */
void after_some_were_used(const std::string &address)
{
	Pair pair(address);
	Buffer a_buffer(pair.a().pd(), 4096), b_buffer(pair.b().pd(), 4096);

	post_receives(pair.b(), b_buffer);
	for (unsigned int i = 0; i < 7; i++)
		pair.a().send(a_buffer.sge(0, 64), i);
	for (unsigned int i = 0; i < 7; i++) {
		expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, i);
		expect_completion(pair.b().recv_cq(), IBV_WC_SUCCESS, 100 + i);
	}
	require(!rdma_disconnect(pair.b().id()), "disconnect");
	pair.expect_disconnect();
	expect_receives_flushed(pair.b(), 7);
}

/* The bad request completes first, and only its status says what was wrong. All requests behind it
 * get a flushed completion, even unsignaled ones.
 */
void behind_the_culprit(const std::string &address)
{
	Pair pair(address);
	Buffer from(pair.a().pd(), 4096), to(pair.b().pd(), 4096);
	ibv_sge good = from.sge(0, 64), bad = good;
	ibv_send_wr wrs[count] = {};

	bad.lkey ^= 1;
	for (unsigned int i = 0; i < count; i++) {
		wrs[i].wr_id = i;
		wrs[i].sg_list = i == 10 ? &bad : &good;
		wrs[i].num_sge = 1;
		wrs[i].opcode = IBV_WR_RDMA_WRITE;
		wrs[i].send_flags = i <= 10 || i % 2 ? IBV_SEND_SIGNALED : 0;
		wrs[i].wr.rdma = { to.address(), to.mr()->rkey };
	}
	make_list(wrs);
	require(!pair.a().post(wrs[0]), "the list is taken");
	for (unsigned int i = 0; i < 10; i++)
		expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, i);
	expect_completion(pair.a().send_cq(), IBV_WC_LOC_PROT_ERR, 10);
	for (unsigned int i = 11; i < count; i++)
		expect_completion(pair.a().send_cq(), IBV_WC_WR_FLUSH_ERR, i);
	expect_no_completion(pair.a().send_cq());
	pair.expect_disconnect();
}

/* A request posted to a QP in error is either refused or flushed. */
void posted_in_error(const std::string &address)
{
	Pair pair(address);
	Buffer buffer(pair.a().pd(), 4096);
	ibv_sge sge = buffer.sge(0, 64);
	ibv_send_wr send = {};
	ibv_recv_wr receive = { 2, nullptr, &sge, 1 };

	send.wr_id = 1;
	send.sg_list = &sge;
	send.num_sge = 1;
	send.opcode = IBV_WR_SEND;
	pair.a().move_to(IBV_QPS_ERR);
	pair.expect_disconnect();
	if (!pair.a().post(send))
		expect_completion(pair.a().send_cq(), IBV_WC_WR_FLUSH_ERR, 1);
	if (!pair.a().post(receive))
		expect_completion(pair.a().recv_cq(), IBV_WC_WR_FLUSH_ERR, 2);
	expect_no_completion(pair.a().send_cq(), 50);
	expect_no_completion(pair.a().recv_cq(), 50);
}

/* A flushed completion has the number of its QP. */
void names_the_qp(const std::string &address)
{
	Pair pair(address);
	Buffer buffer(pair.a().pd(), 4096);

	pair.a().receive(buffer.sge(0, 64), 3);
	pair.a().move_to(IBV_QPS_ERR);

	ibv_wc wc = expect_completion(pair.a().recv_cq(), IBV_WC_WR_FLUSH_ERR, 3);

	require(wc.qp_num == pair.a().qp()->qp_num, "the completion has the number of its QP");
}

/* Requests complete in the order in which they were posted, whatever finishes first on the wire. */
void order_of_read_and_send(const std::string &address)
{
	constexpr std::uint32_t size = 1 << 20;
	Pair pair(address);
	Buffer into(pair.a().pd(), size), from(pair.b().pd(), size);

	from.fill(3);
	pair.b().receive(from.sge(0, 64), 9);
	pair.a().read(into.sge(64, size - 64), from.address() + 64, from.mr()->rkey, 1);
	pair.a().send(into.sge(0, 64), 2);
	pair.a().write(into.sge(0, 64), from.address(), from.mr()->rkey, 3);
	expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, 1);
	require(into.holds(3, 64, size - 64), "the read has all its data when it completes");
	expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, 2);
	expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, 3);
	expect_completion(pair.b().recv_cq(), IBV_WC_SUCCESS, 9);
}

const cases::Case all[] = {
	{ "receives are flushed after a disconnect", after_disconnect },
	{ "receives are flushed after a move to error", after_modify },
	{ "only receives that were not used are flushed", after_some_were_used },
	{ "requests behind a bad one are flushed in order", behind_the_culprit },
	{ "a post to a QP in error is not forgotten", posted_in_error },
	{ "a flushed completion names its QP", names_the_qp },
	{ "a send does not complete before an earlier read", order_of_read_and_send },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
