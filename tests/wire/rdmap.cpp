/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Operations: RFC 5040. */
#include "stream.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <format>
#include <thread>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

/* The peer sends these octets. They are answered with a Terminate, and memory does not change. */
Fpdu expect_answer(const std::string &address, Role role, Terminate expected, auto octets_for,
		   const Setup &setup = {}, Where where = Where::current())
{
	Stream stream(address, role, setup);
	Octets octets = octets_for(stream);

	stream.end().receive({ 0, 0, 0 }, 1);
	stream.peer().say(octets);

	Fpdu answer = stream.expect_terminate(expected, where);

	require(stream.memory().is_zero(), "nothing has changed", where);
	expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 1, where);
	return answer;
}

void version(const std::string &address, Role role)
{
	for (std::uint8_t version : { 0x00, 0x80, 0xc0 }) {
		expect_answer(address, role, { 0, 2, 5 }, [version](Stream &) {
			std::uint8_t rdmap = version | 3;

			return fpdu(Untagged{ .rdmap = rdmap }.ulpdu({}));
		});
		expect_answer(address, role, { 0, 2, 5 }, [version](Stream &stream) {
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

		expect_answer(address, role, { 0, 2, 6 }, [rdmap](Stream &) {
			return fpdu(Untagged{ .rdmap = rdmap }.ulpdu(octets_of(1, 9)));
		});
		expect_answer(address, role, { 0, 2, 6 }, [rdmap](Stream &stream) {
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
		Fpdu answer = expect_answer(
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
		Fpdu answer = expect_answer(
			address, role, { 0, 1, 2 },
			[](Stream &stream) {
				return fpdu(stream.application().read_from(0, 16).ulpdu());
			},
			{ .access = access });

		expect_read_headers(answer);
	}
}

/* DDP has no error code for missing rights, so this is reported as an invalid STag. */
void write_needs_its_right(const std::string &address, Role role)
{
	for (int access :
	     { 0, int{ IBV_ACCESS_LOCAL_WRITE }, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ })
		expect_answer(
			address, role, { 1, 1, 0 },
			[](Stream &stream) {
				return fpdu(stream.application().write_to().ulpdu(octets_of(1, 5)));
			},
			{ .access = access });
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
		expect_answer(address, role, { 0, 2, 255 }, [more](Stream &stream) {
			return fpdu(stream.application().read_from(0, 8).ulpdu() +
				    octets_of(1, more));
		});
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
	expect_answer(address, role, { 0, 2, 9 },
		      [](Stream &) { return send_with_invalidate(0x12345678); });
	expect_answer(address, role, { 0, 2, 9 }, [](Stream &stream) {
		return send_with_invalidate(stream.memory().mr()->rkey ^ 1);
	});
	/* The same error for a Send with SE. */
	expect_answer(address, role, { 0, 2, 9 }, [](Stream &) {
		return fpdu(Untagged{ .rdmap = 0x46, .invalidate = 1 }.ulpdu({}));
	});

	Stream other(address, role);

	expect_answer(address, role, { 0, 1, 9 }, [&other](Stream &) {
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

void unexpected_responses(const std::string &address, Role role)
{
	expect_answer(address, role, { 0, 2, 6 }, [](Stream &stream) {
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
	{ "RDP-01 other versions are answered with 0/2/5", in_both_roles<version> },
	{ "RDP-02 reserved fields are ignored", in_both_roles<reserved_fields> },
	{ "RDP-03 unknown opcodes are answered with 0/2/6", in_both_roles<unknown_opcodes> },
	{ "RDP-04 Writes are not told to the application", in_both_roles<writes_are_silent> },
	{ "RDP-05 the source of a Read is checked", in_both_roles<read_is_judged> },
	{ "RDP-06 a Read needs the right to read", in_both_roles<read_needs_its_right> },
	{ "RDP-06 a Write needs the right to write", in_both_roles<write_needs_its_right> },
	{ "RDP-07 an empty Read is answered, whatever it names", in_both_roles<empty_reads> },
	{ "RDP-08 a Response names the sink of its Read", in_both_roles<response_names_the_sink> },
	{ "RDP-09 Responses come in the order of the Reads", in_both_roles<responses_in_order> },
	{ "RDP-10 more Reads than agreed are answered with 1/2/2", in_both_roles<ird_is_a_limit> },
	{ "RDP-11 the device keeps to its ORD", in_both_roles<ord_is_a_limit> },
	{ "RDP-11 an answer that comes while the device sends lets the next Read go",
	  answer_within_a_run },
	{ "RDP-12 a Read sees what was written before", in_both_roles<read_after_write> },
	{ "RDP-13 a Read Request has 28 octets", in_both_roles<read_request_has_no_payload> },
	{ "RDP-14 Sends are delivered in order", in_both_roles<sends_in_order> },
	{ "RDP-15 a Send cannot invalidate what is not the stream's",
	  in_both_roles<wrong_invalidations> },
	{ "RDP-16 a Send cannot invalidate a region that streams share",
	  in_both_roles<shared_regions_stay_valid> },
	{ "RDP-17 a Send with SE raises a solicited event", in_both_roles<solicited_events> },
	{ "RDP-18 a Response that was not asked for is answered with a Terminate",
	  in_both_roles<unexpected_responses> },
	{ "RDP-19 requests complete in order, a Read when it is answered",
	  in_both_roles<completions_in_order> },
	{ "RDP-20 the buffer of a completed Send may be used again",
	  in_both_roles<completed_buffers_are_free> },
	{ "RDP-22 as many Reads as agreed always find room", in_both_roles<ird_is_enough> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
