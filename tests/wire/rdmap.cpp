/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Operations: RFC 5040. The rules for Reads are in reads.cpp. */
#include "stream.hpp"

#include <algorithm>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

void version(const std::string &address, Role role)
{
	for (std::uint8_t version : { 0x00, 0x80, 0xc0 }) {
		expect_refusal(address, role, { 0, 2, 5 }, [version](Stream &) {
			std::uint8_t rdmap = version | 3;

			return fpdu(Untagged{ .rdmap = rdmap }.ulpdu({}));
		});
		expect_refusal(address, role, { 0, 2, 5 }, [version](Stream &stream) {
			Tagged write = stream.application().write_to();

			write.rdmap = version;
			return fpdu(write.ulpdu(octets_of(1, 5)));
		});
	}
}

void reserved_fields(const std::string &address, Role role)
{
	Stream stream(address, role);
	Untagged send = { .rdmap = 0x43 | 0x30, .invalidate = ~0u };
	Tagged write = stream.application().write_to();

	write.rdmap |= 0x30;
	stream.end().receive(stream.memory().sge(100, 10), 1);
	stream.peer().say(fpdu(write.ulpdu(octets_of(1, 9))) +
			  fpdu(send.ulpdu(octets_of(2, 9, 100))));

	ibv_wc wc = expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1);

	require(!(wc.wc_flags & IBV_WC_WITH_INV), "nothing is invalidated");

	Untagged read = { .rdmap = 0x41 | 0x30, .invalidate = ~0u, .queue = 1 };

	stream.peer().say(fpdu(read.ulpdu(stream.application().read_from(0, 9).octets())));
	require(stream.hear().payload() == octets_of(1, 9), "the Read is answered");
	require(stream.memory().holds(2, 100, 9), "the Send is delivered");
}

void unknown_opcodes(const std::string &address, Role role)
{
	for (std::uint8_t opcode = 12; opcode < 16; opcode++) {
		std::uint8_t rdmap = 0x40 | opcode;

		expect_refusal(address, role, { 0, 2, 6 }, [rdmap](Stream &) {
			return fpdu(Untagged{ .rdmap = rdmap }.ulpdu(octets_of(1, 9)));
		});
		expect_refusal(address, role, { 0, 2, 6 }, [rdmap](Stream &stream) {
			Tagged header = stream.application().write_to();

			header.rdmap = rdmap;
			return fpdu(header.ulpdu(octets_of(1, 9)));
		});
	}
}

void writes_are_silent(const std::string &address, Role role)
{
	Stream stream(address, role);

	stream.end().receive(stream.memory().sge(0, 1), 1);
	for (std::uint64_t i = 0; i < 100; i++)
		stream.peer().say(
			fpdu(stream.application().write_to(i * 8).ulpdu(octets_of(3, 8, i * 8))));
	stream.expect_alive();
	require(stream.memory().holds(3, 0, 800), "all Writes are placed");
	expect_no_completion(stream.end().recv_cq(), 0);
	expect_no_completion(stream.end().send_cq(), 0);
	stream.peer().say(fpdu(Untagged{}.ulpdu({})));
	expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1);
}

/* DDP has no error code for missing rights, so this is reported as an invalid STag. */
void write_needs_its_right(const std::string &address, Role role)
{
	for (int access :
	     { 0, int{ IBV_ACCESS_LOCAL_WRITE }, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ })
		expect_refusal(
			address, role, { 1, 1, 0 },
			[](Stream &stream) {
				return fpdu(stream.application().write_to().ulpdu(octets_of(1, 5)));
			},
			{ .access = access });
}

void sends_in_order(const std::string &address, Role role)
{
	Stream stream(address, role);

	for (std::uint32_t i = 1; i <= 20; i++)
		stream.end().receive(stream.memory().sge(i * 100, 100), i);
	for (std::uint32_t i = 1; i <= 20; i++)
		stream.peer().say(
			fpdu(Untagged{ .msn = i }.ulpdu(octets_of(1, i % 3 * 5, i * 100))));
	for (std::uint32_t i = 1; i <= 20; i++) {
		ibv_wc wc = expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, i);

		require(wc.byte_len == i % 3 * 5 && wc.opcode == IBV_WC_RECV,
			"length and opcode are right");
		require(stream.memory().holds(1, i * 100, wc.byte_len), "the data is right");
	}
}

Octets send_with_invalidate(std::uint32_t stag, std::uint32_t msn = 1)
{
	return fpdu(Untagged{ .rdmap = 0x44, .invalidate = stag, .msn = msn }.ulpdu({}));
}

void wrong_invalidations(const std::string &address, Role role)
{
	expect_refusal(address, role, { 0, 2, 9 },
		       [](Stream &) { return send_with_invalidate(0x12345678); });
	expect_refusal(address, role, { 0, 2, 9 }, [](Stream &stream) {
		return send_with_invalidate(stream.memory().mr()->rkey ^ 1);
	});
	/* The same error for a Send with SE. */
	expect_refusal(address, role, { 0, 2, 9 }, [](Stream &) {
		return fpdu(Untagged{ .rdmap = 0x46, .invalidate = 1 }.ulpdu({}));
	});

	Stream other(address, role);

	expect_refusal(address, role, { 0, 1, 9 }, [&other](Stream &) {
		return send_with_invalidate(other.memory().mr()->rkey);
	});
	other.peer().say(fpdu(other.application().write_to().ulpdu(octets_of(1, 5))));
	other.expect_alive();
	require(other.memory().holds(1, 0, 5), "the region of the other stream is still valid");
}

/* Every stream of a PD can use a region of ibv_reg_mr(). A peer that tries to invalidate it ends
 * its own stream. The other streams can still write and read with the same STag.
 */
void shared_regions_stay_valid(const std::string &address, Role role)
{
	for (std::uint8_t rdmap : { 0x44, 0x46 }) {
		Stream other(address, role);
		Stream stream(address, role, { .qp = { .pd = other.end().pd() } });
		std::uint32_t stag = other.memory().mr()->rkey;

		stream.end().receive(stream.memory().sge(0, 8), 1);
		stream.peer().say(fpdu(Untagged{ .rdmap = rdmap, .invalidate = stag }.ulpdu({})));
		stream.expect_terminate({ 0, 2, 9 });
		expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 1);

		other.peer().say(fpdu(other.application().write_to(8).ulpdu(octets_of(1, 50, 8))) +
				 fpdu(other.application().read_from(8, 50).ulpdu()));
		require(other.hear().payload() == octets_of(1, 50, 8),
			"the other stream reads the data that it wrote with this STag");
		require(other.memory().holds(1, 8, 50), "the data is in memory");

		/* A later stream and the process itself can use the region, too. */
		Stream later(address, role, { .qp = { .pd = other.end().pd() } });

		later.peer().say(fpdu(other.application().read_from(8, 50).ulpdu()));
		require(later.hear().payload() == octets_of(1, 50, 8),
			"a later stream reads it, too");
		other.end().send(other.memory().sge(8, 50), 2);
		require(other.hear().payload() == octets_of(1, 50, 8), "its lkey is valid, too");
	}
}

void solicited_events(const std::string &address, Role role)
{
	Stream stream(address, role, { .qp = { .notify = true } });
	ibv_cq *cq = stream.end().recv_cq();

	for (std::uint64_t i = 1; i <= 3; i++)
		stream.end().receive(stream.memory().sge(0, 8), i);
	require(!ibv_req_notify_cq(cq, 1), "the queue is armed for solicited events");
	stream.peer().say(fpdu(Untagged{}.ulpdu({})));
	expect_completion(cq, IBV_WC_SUCCESS, 1);
	require(!wait_readable(stream.end().channel()->fd, 100), "a Send raises no event");
	stream.peer().say(fpdu(Untagged{ .rdmap = 0x45, .msn = 2 }.ulpdu({})));
	require(wait_readable(stream.end().channel()->fd, 10000), "a Send with SE raises one");
	expect_completion(cq, IBV_WC_SUCCESS, 2);
}

void completions_in_order(const std::string &address, Role role)
{
	Stream stream(address, role);

	stream.end().read(stream.memory().sge(0, 8), 0, 0x1234, 1);
	stream.end().send(stream.memory().sge(8, 8), 2);
	stream.end().write(stream.memory().sge(8, 8), 0, 0x1234, 3);

	ReadRequest read = stream.hear().read_request();

	require(stream.hear().opcode() == 3 && stream.hear().opcode() == 0,
		"all requests are sent");
	expect_no_completion(stream.end().send_cq(), 100);

	Tagged answer = {
		.ddp = 0x81, .rdmap = 0x42, .stag = read.sink_stag, .offset = read.sink_offset
	};

	stream.peer().say(fpdu(answer.ulpdu(octets_of(1, 4))));
	expect_no_completion(stream.end().send_cq(), 50);
	answer.ddp = 0xc1;
	answer.offset += 4;
	stream.peer().say(fpdu(answer.ulpdu(octets_of(1, 4, 4))));
	for (std::uint64_t i = 1; i <= 3; i++)
		expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, i);
	require(stream.memory().holds(1, 0, 8), "the Read has its data");
}

/* The data of a completed Send has been copied, so its buffer may be used for something else. */
void completed_buffers_are_free(const std::string &address, Role role)
{
	constexpr std::uint32_t size = 1 << 18, count = 48; /* more than TCP buffers */
	Stream stream(address, role, { .memory = size * count });
	unsigned int completed = 0;

	stream.memory().fill(2);
	for (std::uint32_t i = 0; i < count; i++)
		stream.end().send(stream.memory().sge(i * size, size), i);
	do {
		expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, completed);
		std::ranges::fill(stream.memory().bytes().subspan(completed * size, size), 0xee);
		completed++;
	} while (completed < count / 8);
	for (std::uint32_t i = 0; i < count; i++) {
		Octets data;

		while (data.size() < size)
			data = data + stream.hear().payload();
		require(data == octets_of(2, size, i * size), "the original data is sent");
	}
}

const cases::Case all[] = {
	{ "RDP-01 other versions are answered with 0/2/5", in_both_roles<version> },
	{ "RDP-02 reserved fields are ignored", in_both_roles<reserved_fields> },
	{ "RDP-03 unknown opcodes are answered with 0/2/6", in_both_roles<unknown_opcodes> },
	{ "RDP-04 Writes are not told to the application", in_both_roles<writes_are_silent> },
	{ "RDP-06 a Write needs the right to write", in_both_roles<write_needs_its_right> },
	{ "RDP-14 Sends are delivered in order", in_both_roles<sends_in_order> },
	{ "RDP-15 a Send cannot invalidate what is not the stream's",
	  in_both_roles<wrong_invalidations> },
	{ "RDP-16 a Send cannot invalidate a region that streams share",
	  in_both_roles<shared_regions_stay_valid> },
	{ "RDP-17 a Send with SE raises a solicited event", in_both_roles<solicited_events> },
	{ "RDP-19 requests complete in order, a Read when it is answered",
	  in_both_roles<completions_in_order> },
	{ "RDP-20 the buffer of a completed Send may be used again",
	  in_both_roles<completed_buffers_are_free> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
