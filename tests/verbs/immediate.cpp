/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Writes with immediate data: the data arrives, and a receive completes with the immediate data. */
#include "cases.hpp"
#include "device.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <format>

using namespace rdma;

namespace
{

constexpr std::uint32_t room = 1 << 18;

/* a writes to b's memory "to". b's receives use other memory, "receives". */
struct Setting {
	explicit Setting(const std::string &address, const QpOptions &b_options = {})
		: pair(address, { .inline_data = 128 }, b_options), a(pair.a()), b(pair.b()),
		  from(a.pd(), room), to(b.pd(), room), receives(b.pd(), 4096)
	{
		from.fill(1);
	}

	ibv_send_wr request(ibv_sge &sge, std::uint32_t immediate)
	{
		ibv_send_wr wr = signaled(IBV_WR_RDMA_WRITE_WITH_IMM, sge, immediate);

		wr.imm_data = htonl(immediate);
		wr.wr.rdma = { to.address(), to.mr()->rkey };
		return wr;
	}

	void write(std::uint32_t length, std::uint32_t immediate, unsigned int more_flags = 0)
	{
		ibv_sge sge = from.sge(0, length);
		ibv_send_wr wr = request(sge, immediate);

		wr.send_flags |= more_flags;
		if (int err = a.post(wr))
			fail("ibv_post_send", err);
	}

	Pair pair;
	End &a;
	End &b;
	Buffer from;
	Buffer to;
	Buffer receives;
};

void expect_immediate(ibv_cq *cq, std::uint64_t wr_id, std::uint32_t length,
		      std::uint32_t immediate, Where where = Where::current())
{
	ibv_wc wc = expect_completion(cq, IBV_WC_SUCCESS, wr_id, where);

	require(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM, "it is a write with immediate", where);
	require(wc.wc_flags == IBV_WC_WITH_IMM && ntohl(wc.imm_data) == immediate,
		std::format("the immediate data is {:#x}", immediate), where);
	require(wc.byte_len == length, std::format("{} bytes were written", length), where);
}

void all_sizes(const std::string &address)
{
	Setting setting(address);
	std::uint32_t immediate = 0xdeadbee0;

	for (std::uint32_t size : { 0u, 1u, 8u, 1448u, 4096u, 65483u, 65536u, room }) {
		setting.b.receive(setting.receives.sge(0, 64), size);
		setting.write(size, ++immediate);

		ibv_wc wc = expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, immediate);

		require(wc.opcode == IBV_WC_RDMA_WRITE, "the opcode is that of a write");
		expect_immediate(setting.b.recv_cq(), size, size, immediate);
		require(setting.to.holds(1, 0, size), "the data was placed before");
		std::ranges::fill(setting.to.bytes(), 0);
	}
	require(setting.receives.is_zero(), "the receives' memory is untouched");
}

/* The length in the completion is that of the write with immediate, not of writes before it. */
void among_others(const std::string &address)
{
	Setting setting(address);

	for (std::uint32_t i = 0; i < 5; i++) {
		std::uint64_t offset = std::uint64_t{ i } * 64;

		for (std::uint64_t n = 0; n < 4; n++)
			setting.b.receive(setting.receives.sge(offset, 64), n);
		setting.a.send(setting.from.sge(0, 16), 0);
		setting.a.write(setting.from.sge(0, 5000), setting.to.address(),
				setting.to.mr()->rkey);
		setting.write(300, 7 * i);
		setting.a.send(setting.from.sge(0, 16), 0);
		setting.write(0, 7 * i + 1);

		for (std::uint64_t n = 0; n < 4; n++) {
			if (n % 2) {
				expect_immediate(setting.b.recv_cq(), n, n == 1 ? 300 : 0,
						 7 * i + static_cast<std::uint32_t>(n / 2));
				continue;
			}

			ibv_wc wc = expect_completion(setting.b.recv_cq(), IBV_WC_SUCCESS, n);

			require(wc.opcode == IBV_WC_RECV && wc.byte_len == 16 && !wc.wc_flags,
				"a send completes as a send");
		}
		for (int n = 0; n < 5; n++)
			next_completion(setting.a.send_cq());
	}
}

void inline_write(const std::string &address)
{
	Setting setting(address);

	setting.b.receive(setting.receives.sge(0, 64), 1);
	setting.write(100, 5, IBV_SEND_INLINE);
	expect_immediate(setting.b.recv_cq(), 1, 100, 5);
	require(setting.to.holds(1, 0, 100), "the data has arrived");
}

/* The receive needs no memory, because immediate data is not placed in it. */
void empty_receive(const std::string &address)
{
	Setting setting(address);
	ibv_recv_wr wr = { 9, nullptr, nullptr, 0 };

	require(!setting.b.post(wr), "a receive without SGE is taken");
	setting.write(100, 5);
	expect_immediate(setting.b.recv_cq(), 9, 100, 5);
}

void late_receive(const std::string &address)
{
	Setting setting(address);

	for (std::uint32_t i = 0; i < 5; i++) {
		setting.write(64, i);
		expect_no_completion(setting.b.recv_cq());
		setting.b.receive(setting.receives.sge(0, 64), i);
		expect_immediate(setting.b.recv_cq(), i, 64, i);
		expect_completion(setting.a.send_cq(), IBV_WC_SUCCESS, i);
	}
}

void shared_receives(const std::string &address)
{
	Device device(address);
	Srq srq = device.create_srq(16);
	Setting setting(address, { .srq = srq.get() });

	for (std::uint32_t i = 0; i < 16; i++) {
		post(srq.get(), setting.receives.sge(0, 64), i);
		setting.write(i, i);
		expect_immediate(setting.b.recv_cq(), i, i, i);
	}
}

void solicited(const std::string &address)
{
	Setting setting(address, { .notify = true });
	ibv_cq *cq = setting.b.recv_cq();
	void *context;

	setting.b.receive(setting.receives.sge(0, 64), 1);
	setting.b.receive(setting.receives.sge(0, 64), 2);
	require(!ibv_req_notify_cq(cq, 1), "the queue is armed");
	setting.write(8, 1);
	expect_immediate(cq, 1, 8, 1);
	require(!wait_readable(setting.b.channel()->fd, 100), "a plain one raises no event");
	setting.write(8, 2, IBV_SEND_SOLICITED);
	require(wait_readable(setting.b.channel()->fd, 10000), "a solicited one does");
	require(!ibv_get_cq_event(setting.b.channel(), &cq, &context), "the event is there");
	ibv_ack_cq_events(cq, 1);
	expect_immediate(cq, 2, 8, 2);
}

/* The write is refused, so its immediate data must not arrive. */
void write_without_right(const std::string &address)
{
	Setting setting(address);
	Buffer other(setting.b.pd(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	ibv_sge sge = setting.from.sge(0, 64);
	ibv_send_wr wr = setting.request(sge, 5);

	wr.wr.rdma = { other.address(), other.mr()->rkey };
	setting.b.receive(setting.receives.sge(0, 64), 1);
	require(!setting.a.post(wr), "the request is taken");
	expect_completion(setting.b.recv_cq(), IBV_WC_WR_FLUSH_ERR, 1);
	setting.pair.expect_disconnect();
	require(other.is_zero(), "nothing was written");
}

/* iWARP has no Send with immediate data. */
void send_refused(const std::string &address)
{
	Setting setting(address);
	ibv_sge sge = setting.from.sge(0, 8);
	ibv_send_wr wr = setting.request(sge, 5);

	wr.opcode = IBV_WR_SEND_WITH_IMM;
	require(setting.a.post(wr) == EOPNOTSUPP, "the post is refused");
	setting.pair.expect_alive();
}

const cases::Case all[] = {
	{ "writes with immediate of all sizes", all_sizes },
	{ "writes with immediate, writes and sends in order", among_others },
	{ "an inline write with immediate", inline_write },
	{ "a receive without memory takes immediate data", empty_receive },
	{ "immediate data waits for a late receive", late_receive },
	{ "immediate data takes receives of an SRQ", shared_receives },
	{ "immediate data can be solicited", solicited },
	{ "a write that fails brings no immediate data", write_without_right },
	{ "a send with immediate is refused", send_refused },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
