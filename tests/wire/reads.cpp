/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Reads: RFC 5040. */
#include "stream.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <thread>
#include <vector>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

/* The Terminate repeats the DDP and RDMAP headers of a Read Request. */
void expect_read_headers(const Fpdu &terminate, Where where = Where::current())
{
	require(terminate.ulpdu.size() == 70 && terminate.field(20, 2) == 0xe000 &&
			terminate.field(22, 2) == 46,
		"M, D, R, and the length of the segment", where);
}

void read_is_judged(const std::string &address, Role role)
{
	auto judged = [&](Terminate expected, auto change, Where where = Where::current()) {
		Octets said;
		Fpdu answer = expect_refusal(
			address, role, expected,
			[&](Stream &stream) {
				ReadRequest read = stream.application().read_from(0, 16);

				change(read);
				said = read.ulpdu();
				return fpdu(said);
			},
			{ .memory = 1000 }, where);

		expect_read_headers(answer, where);
		require(after(answer.ulpdu, 24) == said, "the headers are those of the request",
			where);
	};

	judged({ 0, 1, 0 }, [](ReadRequest &read) { read.source_stag ^= 1; });
	judged({ 0, 1, 0 }, [](ReadRequest &read) { read.source_stag ^= 0x100; });
	judged({ 0, 1, 1 }, [](ReadRequest &read) { read.source_offset -= 1; });
	judged({ 0, 1, 1 }, [](ReadRequest &read) { read.source_offset += 985; });
	judged({ 0, 1, 1 }, [](ReadRequest &read) { read.size = 1001; });
	judged({ 0, 1, 1 }, [](ReadRequest &read) { read.size = ~0u; });
	judged({ 0, 1, 4 }, [](ReadRequest &read) { read.source_offset = ~std::uint64_t{ 7 }; });

	Stream other(address, role);

	judged({ 0, 1, 3 }, [&other](ReadRequest &read) {
		ReadRequest there = other.application().read_from(0, 16);

		read.source_stag = there.source_stag;
		read.source_offset = there.source_offset;
	});
}

void read_needs_its_right(const std::string &address, Role role)
{
	for (int access : { 0, int{ IBV_ACCESS_LOCAL_WRITE },
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE }) {
		Fpdu answer = expect_refusal(
			address, role, { 0, 1, 2 },
			[](Stream &stream) {
				return fpdu(stream.application().read_from(0, 16).ulpdu());
			},
			{ .access = access });

		expect_read_headers(answer);
	}
}

void empty_reads(const std::string &address, Role role)
{
	Stream stream(address, role, { .memory = 1 << 20 });
	Octets said;

	for (std::uint32_t msn = 1; msn <= 8; msn++)
		said = said +
		       fpdu(ReadRequest{ .sink_stag = msn, .source_offset = ~0ul }.ulpdu(msn));
	stream.end().write(stream.memory().sge(0, 1 << 20), 0, 0x1234, 1);
	stream.peer().say(said);

	std::uint32_t answers = 0;
	std::size_t written = 0;

	while (answers < 8 || written < 1 << 20) {
		Fpdu heard = stream.hear();

		if (heard.opcode() == 0) {
			written += heard.payload().size();
			continue;
		}
		require(heard.opcode() == 2 && heard.is_last() && heard.payload().empty() &&
				heard.stag() == ++answers && heard.tagged_offset() == 0x1000,
			"each Read is answered with an empty Response");
	}
}

void response_names_the_sink(const std::string &address, Role role)
{
	constexpr std::uint32_t size = 100 * 1024;
	Stream stream(address, role, { .memory = size });
	ReadRequest read = stream.application().read_from(0, size);
	std::size_t heard_size = 0;

	read.sink_offset = 0xfffffffffffffff0; /* not interpreted here, so it may wrap */
	stream.memory().fill(4);
	stream.peer().say(fpdu(read.ulpdu()));
	while (heard_size < size) {
		Fpdu heard = stream.hear();

		require(heard.opcode() == 2 && heard.stag() == 0xdeadbeef &&
				heard.tagged_offset() == read.sink_offset + heard_size,
			"STag and TO are those of the sink");
		require(heard.payload() == octets_of(4, heard.payload().size(), heard_size),
			"the data is that of the source");
		heard_size += heard.payload().size();
		require(heard.is_last() == (heard_size == size), "only the last segment has L");
	}
}

/* Sends this many Read Requests of different sizes, and checks that the Responses are in order. */
void expect_reads_in_order(Stream &stream, std::uint32_t first_msn, std::uint32_t count)
{
	Octets said;

	for (std::uint32_t i = 0; i < count; i++) {
		ReadRequest read = stream.application().read_from(i, i * 1000);

		read.sink_stag = first_msn + i;
		said = said + fpdu(read.ulpdu(first_msn + i));
	}
	stream.peer().say(said);
	for (std::uint32_t i = 0; i < count; i++) {
		Octets data;
		bool is_last = false;

		while (!is_last) {
			Fpdu heard = stream.hear();

			require(heard.opcode() == 2 && heard.stag() == first_msn + i,
				"Responses are in the order of the requests");
			data = data + heard.payload();
			is_last = heard.is_last();
		}
		require(data == octets_of(4, i * 1000, i), "the data is right");
	}
}

void responses_in_order(const std::string &address, Role role)
{
	Stream stream(address, role, { .memory = 20000 });

	stream.memory().fill(4);
	expect_reads_in_order(stream, 1, 8);
}

void ird_is_enough(const std::string &address, Role role)
{
	Stream stream(address, role, { .memory = 20000 });

	stream.memory().fill(4);
	for (std::uint32_t round = 0; round < 20; round++)
		expect_reads_in_order(stream, 1 + round * 16, 16);
}

void ird_is_a_limit(const std::string &address, Role role)
{
	constexpr std::uint32_t size = 1 << 20; /* more than TCP buffers for a peer that is idle */

	for (std::uint8_t ird : { 3, 1 }) {
		Stream stream(address, role, with_depth(ird, { .memory = size }));
		auto ask = [&](std::uint32_t first_msn, std::uint32_t count) {
			Octets said;

			for (std::uint32_t msn = first_msn; msn < first_msn + count; msn++)
				said = said +
				       fpdu(stream.application().read_from(0, size).ulpdu(msn));
			stream.peer().say(said);
		};

		ask(1, ird);
		for (int answered = 0; answered < ird;) {
			Fpdu heard = stream.hear();

			require(heard.opcode() == 2, "as many Reads as agreed are answered");
			answered += heard.is_last();
		}
		ask(ird + 1u, ird + 1u);

		Fpdu heard = stream.hear();

		while (heard.opcode() == 2)
			heard = stream.hear();
		require(heard.terminate() == Terminate{ 1, 2, 2 }, "one more ends the stream");
		stream.expect_disconnect();
	}
}

void ord_is_a_limit(const std::string &address, Role role)
{
	Stream stream(address, role, with_depth(3));
	std::vector<ReadRequest> reads;

	for (std::uint32_t i = 0; i < 16; i++)
		stream.end().read(stream.memory().sge(i * 8, 8), i, 0x1234, i);
	for (std::uint32_t i = 0; i < 3; i++)
		reads.push_back(stream.hear().read_request());
	for (std::uint32_t i = 0; i < 13; i++) {
		require(stream.peer().hears_nothing(20), "three Reads are outstanding");
		stream.peer().say(fpdu(Tagged{
			.rdmap = 0x42, .stag = reads[i].sink_stag, .offset = reads[i].sink_offset }
					       .ulpdu(octets_of(i, 8))));
		reads.push_back(stream.hear().read_request());
		require(reads.back().source_offset == i + 3, "a Response makes room for the next");
		expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, i);
	}
}

void read_after_write(const std::string &address, Role role)
{
	Stream stream(address, role);

	for (std::uint32_t i = 1; i <= 50; i++) {
		stream.end().receive(stream.memory().sge(100, 50), i);
		stream.peer().say(fpdu(stream.application().write_to(0).ulpdu(octets_of(i, 100))) +
				  fpdu(Untagged{ .msn = i }.ulpdu(octets_of(i, 50, 100))) +
				  fpdu(stream.application().read_from(0, 150).ulpdu(i)));
		require(stream.hear().payload() == octets_of(i, 150), "it reads the written data");
	}
}

void read_request_has_no_payload(const std::string &address, Role role)
{
	for (std::size_t more : { 1, 4 })
		expect_refusal(address, role, { 0, 2, 255 }, [more](Stream &stream) {
			return fpdu(stream.application().read_from(0, 8).ulpdu() +
				    octets_of(1, more));
		});
}

void unexpected_responses(const std::string &address, Role role)
{
	expect_refusal(address, role, { 0, 2, 6 }, [](Stream &stream) {
		Tagged answer = stream.application().write_to();

		answer.rdmap = 0x42;
		return fpdu(answer.ulpdu(octets_of(1, 5)));
	});

	auto answer_badly = [&](auto change, std::size_t size, Where where = Where::current()) {
		Stream stream(address, role);

		stream.end().read(stream.memory().sge(8, 8), 0, 0x1234, 3);

		ReadRequest read = stream.hear().read_request();
		Tagged answer = { .rdmap = 0x42,
				  .stag = read.sink_stag,
				  .offset = read.sink_offset };

		change(answer);
		stream.peer().say(fpdu(answer.ulpdu(octets_of(1, size))));
		require(stream.peer().hear_terminate().has_value(), "a Terminate comes", where);
		expect_completion(stream.end().send_cq(), IBV_WC_WR_FLUSH_ERR, 3, where);
		require(stream.memory().is_zero(), "nothing is placed", where);
	};

	answer_badly([](Tagged &answer) { answer.stag ^= 1; }, 8);
	answer_badly([](Tagged &answer) { answer.offset -= 8; }, 8);
	answer_badly([](Tagged &answer) { answer.offset += 1; }, 8);
	answer_badly([](Tagged &) {}, 9);
	answer_badly([](Tagged &) {}, 7);
	answer_badly([](Tagged &) {}, 0);
}

/* A peer that calls correctly and has a small receive buffer, so that TCP sends it small pieces. */
Peer call_with_little_room(Responder &device, const Setup &setup)
{
	const sockaddr *to = device.address();
	int fd = socket(to->sa_family, SOCK_STREAM, 0), room = 4096, on = 1;
	Peer peer(fd);

	require(!setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)) &&
			!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) &&
			!connect(fd, to,
				 to->sa_family == AF_INET ? sizeof(sockaddr_in)
							  : sizeof(sockaddr_in6)),
		"the peer calls");
	peer.say(setup.request.octets());
	device.take_request();
	require(!device.accept() && peer.hear_frame().has_value(), "the device accepts");
	peer.say(fpdu(Tagged{}.ulpdu({})));
	device.expect_established();
	return peer;
}

/* A transmit run finds that the ORD does not allow the second Read yet. TCP takes the run's second
 * batch in many pieces, and between two pieces it processes what has arrived since the run began.
 * One of that is the Response that allows the second Read, which must then be sent. The pause makes
 * this happen in this order.
 */
void answer_within_a_run(const std::string &address)
{
	const Setup setup = with_depth(1, { .memory = 1 << 16 });
	constexpr std::uint32_t size = 45000;

	Responder device(address, setup);
	Peer peer = call_with_little_room(device, setup);
	ibv_sge large = device.memory().sge(0, size), small = device.memory().sge(0, 8);
	cases::Told slow("pause", "tx_push 500");
	std::jthread first([&] { device.end().read(small, 0, 0x1234, 1); });
	ibv_send_wr write = signaled(IBV_WR_RDMA_WRITE, large, 2);
	ibv_send_wr read = signaled(IBV_WR_RDMA_READ, small, 3);

	write.wr.rdma = read.wr.rdma = { 0, 0x1234 };
	write.next = &read;
	std::this_thread::sleep_for(std::chrono::milliseconds(200)); /* the run has begun */
	require(!device.end().post(write), "the Write and the second Read are posted");

	auto heard = peer.hear_fpdu();

	require(heard && heard->opcode() == 1, "the first Read Request comes");

	ReadRequest request = heard->read_request();

	peer.say(fpdu(
		Tagged{ .rdmap = 0x42, .stag = request.sink_stag, .offset = request.sink_offset }
			.ulpdu(octets_of(1, 8))));
	for (std::size_t written = 0; written < size; written += heard->payload().size()) {
		heard = peer.hear_fpdu();
		require(heard && heard->opcode() == 0, "the Write comes");
	}
	heard = peer.hear_fpdu();
	require(heard && heard->opcode() == 1, "the second Read Request comes");
}

const cases::Case all[] = {
	{ "RDP-05 the source of a Read is checked", in_both_roles<read_is_judged> },
	{ "RDP-06 a Read needs the right to read", in_both_roles<read_needs_its_right> },
	{ "RDP-07 an empty Read is answered, whatever it names", in_both_roles<empty_reads> },
	{ "RDP-08 a Response names the sink of its Read", in_both_roles<response_names_the_sink> },
	{ "RDP-09 Responses come in the order of the Reads", in_both_roles<responses_in_order> },
	{ "RDP-10 more Reads than agreed are answered with 1/2/2", in_both_roles<ird_is_a_limit> },
	{ "RDP-11 the device keeps to its ORD", in_both_roles<ord_is_a_limit> },
	{ "RDP-11 an answer that comes while the device sends lets the next Read go",
	  answer_within_a_run },
	{ "RDP-12 a Read sees what was written before", in_both_roles<read_after_write> },
	{ "RDP-13 a Read Request has 28 octets", in_both_roles<read_request_has_no_payload> },
	{ "RDP-18 a Response that was not asked for is answered with a Terminate",
	  in_both_roles<unexpected_responses> },
	{ "RDP-22 as many Reads as agreed always find room", in_both_roles<ird_is_enough> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
