/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Wrong work requests are refused when they are posted, or complete in error. */
#include "cases.hpp"
#include "rdma.hpp"

#include <cerrno>
#include <format>
#include <vector>

using namespace rdma;

namespace
{

/* A connection with a buffer at both ends. */
struct Setting {
	explicit Setting(const std::string &address, const QpOptions &options = {},
			 int b_access = Buffer::all_rights)
		: pair(address, options), a(pair.a()), b(pair.b()), local(a.pd(), 8192),
		  remote(b.pd(), 8192, b_access)
	{
		local.fill(1);
	}

	std::uint32_t rkey() const { return remote.mr()->rkey; }

	Pair pair;
	End &a;
	End &b;
	Buffer local;
	Buffer remote;
};

ibv_send_wr write_request(Setting &setting, std::span<ibv_sge> sges, std::uint64_t wr_id = 1)
{
	ibv_send_wr wr = {};

	wr.wr_id = wr_id;
	wr.sg_list = sges.data();
	wr.num_sge = static_cast<int>(sges.size());
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma = { setting.remote.address(), setting.rkey() };
	return wr;
}

/* The post fails and returns the bad request, and the connection still works. */
void expect_refused(Setting &setting, ibv_send_wr &wr, Where where = Where::current())
{
	ibv_send_wr *bad = nullptr;

	require(setting.a.post(wr, &bad) != 0, "the post is refused", where);
	require(bad == &wr, "the post returns the bad request", where);
	setting.pair.expect_alive(where);
}

void too_many_sges(const std::string &address)
{
	Setting setting(address);
	std::vector<ibv_sge> sges(setting.a.cap().max_send_sge + 1, setting.local.sge(0, 1));
	ibv_send_wr wr = write_request(setting, sges);

	expect_refused(setting, wr);
}

void too_long_inline(const std::string &address)
{
	Setting setting(address);
	ibv_sge sge = setting.local.sge(0, setting.a.cap().max_inline_data + 1);
	ibv_send_wr wr = write_request(setting, { &sge, 1 });

	wr.send_flags |= IBV_SEND_INLINE;
	expect_refused(setting, wr);
}

void wrong_opcode(const std::string &address)
{
	Setting setting(address);
	ibv_sge sge = setting.local.sge(0, 8);

	for (int opcode : { static_cast<int>(IBV_WR_SEND_WITH_IMM), static_cast<int>(IBV_WR_TSO),
			    static_cast<int>(IBV_WR_DRIVER1), 99, 255, -1 }) {
		ibv_send_wr wr = write_request(setting, { &sge, 1 });

		wr.opcode = static_cast<ibv_wr_opcode>(opcode);
		expect_refused(setting, wr);
	}
}

/* A Read Request has no payload that could be inline. */
void inline_read(const std::string &address)
{
	Setting setting(address);
	ibv_sge sge = setting.local.sge(0, 8);
	ibv_send_wr wr = write_request(setting, { &sge, 1 });

	wr.opcode = IBV_WR_RDMA_READ;
	wr.send_flags |= IBV_SEND_INLINE;
	expect_refused(setting, wr);
}

void second_of_three(const std::string &address)
{
	Setting setting(address);
	ibv_sge sge = setting.local.sge(0, 64);
	std::vector<ibv_sge> many(setting.a.cap().max_send_sge + 1, sge);
	ibv_send_wr wrs[] = { write_request(setting, { &sge, 1 }, 1),
			      write_request(setting, many, 2),
			      write_request(setting, { &sge, 1 }, 3) };
	ibv_send_wr *bad = nullptr;

	wrs[0].next = &wrs[1];
	wrs[1].next = &wrs[2];
	require(setting.a.post(wrs[0], &bad) != 0, "the list is refused");
	require(bad == &wrs[1], "the post returns the second request");
	expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 1);
	expect_no_completion(setting.a.send_cq());
	setting.pair.expect_alive();
}

/* A request occupies its slot until its completion is polled. Posting without polling must fail
 * with ENOMEM, and never overflow the completion queue.
 */
void full_send_queue(const std::string &address)
{
	Setting setting(address, { .send_wr = 8 });
	ibv_sge sge = setting.local.sge(0, 8000);
	unsigned int taken = 0;
	int err = 0;

	while (!err && taken < 100000) {
		ibv_send_wr wr = write_request(setting, { &sge, 1 }, taken);

		err = setting.a.post(wr);
		taken += !err;
	}
	require(err == ENOMEM, std::format("the post fails with ENOMEM, not {}", err));
	require(taken >= 8, "eight requests fit");
	for (unsigned int wr_id = 0; wr_id < taken; wr_id++)
		expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, wr_id);
	setting.pair.expect_alive();
}

void full_receive_queue(const std::string &address)
{
	Setting setting(address, { .recv_wr = 8 });
	ibv_sge sge = setting.remote.sge(0, 8);
	unsigned int taken = 0;
	int err = 0;

	while (!err && taken < 100000) {
		ibv_recv_wr wr = { taken, nullptr, &sge, 1 };

		err = setting.b.post(wr);
		taken += !err;
	}
	require(err == ENOMEM, std::format("the post fails with ENOMEM, not {}", err));
	require(taken >= 8, "eight receives fit");
	setting.pair.expect_alive();
}

void receive_with_too_many_sges(const std::string &address)
{
	Setting setting(address, { .recv_sge = 2 });
	ibv_qp_attr attr;
	ibv_qp_init_attr init;

	require(!ibv_query_qp(setting.b.qp(), &attr, IBV_QP_CAP, &init), "the caps are known");

	std::vector<ibv_sge> sges(init.cap.max_recv_sge + 1, setting.remote.sge(0, 1));
	ibv_recv_wr wr = { 1, nullptr, sges.data(), static_cast<int>(sges.size()) };
	ibv_recv_wr *bad = nullptr;

	require(setting.b.post(wr, &bad) != 0, "the post is refused");
	require(bad == &wr, "the post returns the bad request");
	setting.pair.expect_alive();
}

/* The request completes in error and the one behind it is flushed. The QP goes to error, and both
 * ends are told of the disconnect.
 */
void expect_local_error(Setting &setting, ibv_sge sge, ibv_wr_opcode opcode,
			Where where = Where::current())
{
	ibv_sge good = setting.local.sge(0, 16);
	ibv_send_wr wrs[] = { write_request(setting, { &sge, 1 }, 1),
			      write_request(setting, { &good, 1 }, 2) };

	wrs[0].opcode = opcode;
	wrs[0].next = &wrs[1];
	require(!setting.a.post(wrs[0]), "the posts are taken", where);
	expect_completion(setting.a.send_cq(), IBV_WC_LOC_PROT_ERR, 1, where);
	expect_completion(setting.a.send_cq(), IBV_WC_WR_FLUSH_ERR, 2, where);
	expect_no_completion(setting.a.send_cq(), 50, where);
	require(setting.a.state() == IBV_QPS_ERR, "the QP is in error", where);
	require(setting.remote.is_zero(), "nothing arrived", where);
	setting.pair.expect_disconnect(where);
}

void unknown_lkey(const std::string &address)
{
	Setting setting(address);
	ibv_sge sge = setting.local.sge(0, 16);

	sge.lkey ^= 0x5a5a5a00;
	expect_local_error(setting, sge, IBV_WR_RDMA_WRITE);
}

void wrong_key_octet(const std::string &address)
{
	Setting setting(address);
	ibv_sge sge = setting.local.sge(0, 16);

	sge.lkey ^= 1;
	expect_local_error(setting, sge, IBV_WR_RDMA_WRITE);
}

void lkey_of_other_pd(const std::string &address)
{
	Setting setting(address);
	Pd pd(ibv_alloc_pd(setting.a.id()->verbs));
	Buffer other(pd.get(), 4096);

	expect_local_error(setting, other.sge(0, 16), IBV_WR_RDMA_WRITE);
}

void longer_than_region(const std::string &address)
{
	Setting setting(address);

	expect_local_error(setting, setting.local.sge(0, 8193), IBV_WR_RDMA_WRITE);
}

void before_region(const std::string &address)
{
	Setting setting(address);
	ibv_sge sge = setting.local.sge(0, 16);

	sge.addr--;
	expect_local_error(setting, sge, IBV_WR_RDMA_WRITE);
}

/* addr + length wraps to a small number, so a check of the 64-bit sum would let it pass. */
void wrapping_sge(const std::string &address)
{
	Setting setting(address);
	ibv_sge sge = setting.local.sge(0, 64);

	sge.addr = ~std::uint64_t{ 15 };
	expect_local_error(setting, sge, IBV_WR_RDMA_WRITE);
}

void read_into_read_only(const std::string &address)
{
	Setting setting(address);
	Buffer read_only(setting.a.pd(), 4096, IBV_ACCESS_REMOTE_READ);

	expect_local_error(setting, read_only.sge(0, 16), IBV_WR_RDMA_READ);
}

/* The peer detects the error and terminates the stream. */
void expect_remote_error(Setting &setting, Where where = Where::current())
{
	setting.pair.expect_disconnect(where);
	require(setting.a.state() == IBV_QPS_ERR, "a is in error", where);
	require(setting.b.state() == IBV_QPS_ERR, "b is in error", where);
}

void expect_write_fails(Setting &setting, std::uint64_t to, std::uint32_t rkey,
			Where where = Where::current())
{
	setting.a.write(setting.local.sge(0, 16), to, rkey);
	expect_remote_error(setting, where);
	require(setting.remote.is_zero(), "nothing was written", where);
}

void expect_read_fails(Setting &setting, std::uint64_t from, std::uint32_t rkey,
		       Where where = Where::current())
{
	Buffer into(setting.a.pd(), 4096);

	setting.remote.fill(9);
	setting.a.read(into.sge(0, 16), from, rkey);

	ibv_wc wc = next_completion(setting.a.send_cq(), 10000, where);

	require(wc.status != IBV_WC_SUCCESS, "the read fails", where);
	expect_no_completion(setting.a.send_cq(), 50, where);
	expect_remote_error(setting, where);
	require(into.is_zero(), "nothing was read", where);
}

void write_unknown_stag(const std::string &address)
{
	Setting setting(address);

	expect_write_fails(setting, setting.remote.address(), setting.rkey() ^ 0x5a5a5a00);
}

void write_past_region(const std::string &address)
{
	Setting setting(address);

	expect_write_fails(setting, setting.remote.address() + 8192 - 15, setting.rkey());
}

void write_before_region(const std::string &address)
{
	Setting setting(address);

	expect_write_fails(setting, setting.remote.address() - 1, setting.rkey());
}

void write_wraps(const std::string &address)
{
	Setting setting(address);

	expect_write_fails(setting, ~std::uint64_t{ 7 }, setting.rkey());
}

void write_without_right(const std::string &address)
{
	Setting setting(address, {}, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);

	expect_write_fails(setting, setting.remote.address(), setting.rkey());
}

void write_to_other_pd(const std::string &address)
{
	Setting setting(address);
	Pd pd(ibv_alloc_pd(setting.b.id()->verbs));
	Buffer other(pd.get(), 4096);

	expect_write_fails(setting, other.address(), other.mr()->rkey);
	require(other.is_zero(), "the other region is untouched");
}

void write_deregistered(const std::string &address)
{
	Setting setting(address);
	std::uint32_t rkey;
	std::uint64_t at;

	{
		Buffer gone(setting.b.pd(), 4096);

		rkey = gone.mr()->rkey;
		at = gone.address();
		setting.a.write(setting.local.sge(0, 16), at, rkey);
		expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 0);
		setting.a.read(setting.local.sge(0, 16), at, rkey);
		expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, 0);
	}
	/* Deregister many more regions; the kernel then frees what it still keeps of the first. */
	for (int i = 0; i < 200; i++)
		Buffer(setting.b.pd(), 4096);
	expect_write_fails(setting, at, rkey);
}

void read_unknown_stag(const std::string &address)
{
	Setting setting(address);

	expect_read_fails(setting, setting.remote.address(), setting.rkey() ^ 0x5a5a5a00);
}

void read_past_region(const std::string &address)
{
	Setting setting(address);

	expect_read_fails(setting, setting.remote.address() + 8192 - 15, setting.rkey());
}

void read_without_right(const std::string &address)
{
	Setting setting(address, {}, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	expect_read_fails(setting, setting.remote.address(), setting.rkey());
}

/* A message that arrived early takes the receive as soon as it is posted. */
void late_receive(const std::string &address)
{
	Pair pair(address);
	Buffer from(pair.a().pd(), 64), into(pair.b().pd(), 64);

	for (unsigned int i = 0; i < 10; i++) {
		from.fill(i);
		pair.a().send(from.sge(0, 64), i);
		expect_no_completion(pair.b().recv_cq());
		pair.b().receive(into.sge(0, 64), i);
		expect_completion(pair.b().recv_cq(), IBV_WC_SUCCESS, i);
		require(into.holds(i, 0, 64), "the data arrived");
		expect_completion(pair.a().send_cq(), IBV_WC_SUCCESS, i);
	}
}

void send_without_receive(const std::string &address)
{
	Setting setting(address);

	setting.a.send(setting.local.sge(0, 16));
	expect_remote_error(setting);
}

void send_longer_than_receive(const std::string &address)
{
	Setting setting(address);

	setting.b.receive(setting.remote.sge(0, 15), 5);
	setting.a.send(setting.local.sge(0, 16));

	ibv_wc wc = next_completion(setting.b.recv_cq());

	require(wc.wr_id == 5 && wc.status != IBV_WC_SUCCESS, "the receive fails");
	expect_no_completion(setting.b.recv_cq(), 50);
	expect_remote_error(setting);
	require(setting.remote.bytes()[15] == 0, "the byte behind the receive is untouched");
}

void receive_with_wrong_lkey(const std::string &address)
{
	Setting setting(address);
	ibv_sge sge = setting.remote.sge(0, 16);

	sge.lkey ^= 1;
	setting.b.receive(sge, 5);
	setting.a.send(setting.local.sge(0, 16));
	expect_completion(setting.b.recv_cq(), IBV_WC_LOC_PROT_ERR, 5);
	expect_remote_error(setting);
	require(setting.remote.is_zero(), "nothing was placed");
}

/* The connection's ORD is 0, so b cannot send any request that needs an answer. */
void without_depth(const std::string &address, ibv_wr_opcode opcode)
{
	Pair pair(address, {}, { .ord = 0 });
	Buffer into(pair.b().pd(), 64), from(pair.a().pd(), 64);
	ibv_sge sge = into.sge(0, 8);
	ibv_send_wr wr = signaled(opcode, sge, 2);

	pair.b().write(sge, from.address(), from.mr()->rkey, 1);
	expect_completion(pair.b().send_cq(), IBV_WC_SUCCESS, 1);
	wr.send_flags = 0;
	if (opcode == IBV_WR_RDMA_READ)
		wr.wr.rdma = { from.address(), from.mr()->rkey };
	else
		wr.wr.atomic = { from.address(), 1, 0, from.mr()->rkey };
	require(!pair.b().post(wr), "the request is posted");
	expect_completion(pair.b().send_cq(), IBV_WC_LOC_QP_OP_ERR, 2);
	pair.expect_disconnect();
}

void read_without_depth(const std::string &address)
{
	without_depth(address, IBV_WR_RDMA_READ);
}

void atomic_without_depth(const std::string &address)
{
	without_depth(address, IBV_WR_ATOMIC_FETCH_AND_ADD);
}

const cases::Case all[] = {
	{ "too many SGEs are refused", too_many_sges },
	{ "too much inline data is refused", too_long_inline },
	{ "wrong opcodes are refused", wrong_opcode },
	{ "an inline read is refused", inline_read },
	{ "a list is posted up to the bad request", second_of_three },
	{ "a full send queue refuses, and recovers", full_send_queue },
	{ "a full receive queue refuses", full_receive_queue },
	{ "a receive with too many SGEs is refused", receive_with_too_many_sges },
	{ "an unknown lkey completes in error", unknown_lkey },
	{ "a wrong key octet completes in error", wrong_key_octet },
	{ "an lkey of another PD completes in error", lkey_of_other_pd },
	{ "an SGE past its region completes in error", longer_than_region },
	{ "an SGE before its region completes in error", before_region },
	{ "an SGE that wraps around completes in error", wrapping_sge },
	{ "a read into memory without local write completes in error", read_into_read_only },
	{ "a write to an unknown STag ends the connection", write_unknown_stag },
	{ "a write past a region ends the connection", write_past_region },
	{ "a write before a region ends the connection", write_before_region },
	{ "a write that wraps around ends the connection", write_wraps },
	{ "a write without the right to it ends the connection", write_without_right },
	{ "a write to another PD ends the connection", write_to_other_pd },
	{ "a write to what was deregistered ends the connection", write_deregistered },
	{ "a read of an unknown STag fails", read_unknown_stag },
	{ "a read on a connection that allows none fails", read_without_depth },
	{ "an atomic on a connection that allows none fails", atomic_without_depth },
	{ "a read past a region fails", read_past_region },
	{ "a read without the right to it fails", read_without_right },
	{ "a receive that comes late is used at once", late_receive },
	{ "a send without a receive ends the connection", send_without_receive },
	{ "a send longer than the receive fails at both ends", send_longer_than_receive },
	{ "a receive with a wrong lkey completes in error", receive_with_wrong_lkey },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
