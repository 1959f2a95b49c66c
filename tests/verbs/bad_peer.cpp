/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A peer that breaks the protocol loses its own connection, and nobody else notices. */
#include "cases.hpp"
#include "raw_peer.hpp"

#include <algorithm>
#include <cerrno>
#include <format>
#include <optional>
#include <random>

using namespace rdma;
using namespace raw;

namespace
{

/* A listening application with memory, and a good connection that goes on all the time. */
class Victim
{
public:
	explicit Victim(const std::string &address) : bystander_(address), listener_(address) {}

	const sockaddr *address() const { return listener_.address(); }
	rdma_event_channel *channel() const { return listener_.channel(); }

	Id next_request() { return listener_.next_request(); }

	/* What rdma_accept says to a request: 0, or errno. */
	int answer(Id request)
	{
		rdma_conn_param parameters = connection_parameters();

		memory_.reset();
		end_.emplace(std::move(request), QpOptions{});
		memory_.emplace(end_->pd(), 4096);
		return rdma_accept(end_->id(), &parameters) ? errno : 0;
	}

	/* Accepts the peer that has sent a good request. */
	void accept()
	{
		if (int err = answer(next_request()))
			fail("rdma_accept", err);
		expect_event(channel(), RDMA_CM_EVENT_ESTABLISHED);
	}

	/* No connection was offered to the application, and the good one is as it was. */
	void expect_unaware(Where where = Where::current())
	{
		require(next_event(channel(), 0).type < 0, "the application hears nothing", where);
		bystander_.expect_alive(where);
	}

	/* The application hears that this connection has ended, and all is as before. */
	void expect_disconnect(Where where = Where::current())
	{
		expect_event(channel(), RDMA_CM_EVENT_DISCONNECTED, 10000, where);
		require(end_->state() == IBV_QPS_ERR, "the QP is in error", where);
		bystander_.expect_alive(where);
	}

	End &end() { return *end_; }
	Buffer &memory() { return *memory_; }

private:
	Pair bystander_;
	Listener listener_;
	std::optional<End> end_;
	std::optional<Buffer> memory_;
};

Octets count_up(std::size_t octets)
{
	Octets result(octets);

	for (std::size_t i = 0; i < octets; i++)
		result[i] = static_cast<std::uint8_t>(i);
	return result;
}

/* A raw peer with a connection that is established as it should. */
class Connected
{
public:
	explicit Connected(Victim &victim) : peer(victim.address())
	{
		peer.say(Request{}.frame());
		victim.accept();

		Octets reply = peer.hear(20);

		require(reply.size() == 20 && reply[9] == 'p' && !(reply[16] & 0x20),
			"the reply accepts");
		require(reply[16] & 0x40, "the CRC is on");
	}

	Peer peer;
};

void garbage(const std::string &address)
{
	Victim victim(address);
	std::mt19937 random(1);

	for (std::size_t size : { 20, 21, 64, 600, 20000 }) {
		Peer peer(victim.address());
		Octets octets(size);

		for (std::uint8_t &octet : octets)
			octet = static_cast<std::uint8_t>(random());
		peer.say(octets);
		require(peer.is_hung_up(),
			std::format("{} octets of garbage are hung up on", size));
		victim.expect_unaware();
	}
}

void expect_hung_up_on(Victim &victim, const Request &request, Where where = Where::current())
{
	Peer peer(victim.address());

	peer.say(request.frame());
	require(peer.is_hung_up(), "the request is hung up on", where);
	victim.expect_unaware(where);
}

void wrong_requests(const std::string &address)
{
	Victim victim(address);

	expect_hung_up_on(victim, { .key = "MPA ID Rep Frame" });
	expect_hung_up_on(victim, { .key = "MPA ID Req Framf" });
	expect_hung_up_on(victim, { .revision = 0 });
	expect_hung_up_on(victim, { .revision = 3 });
	expect_hung_up_on(victim, { .revision = 255 });
	expect_hung_up_on(victim, { .length = 513 });
	expect_hung_up_on(victim, { .length = 65535 });
}

/* The revision 2 block of 4 octets is promised by a flag, and has to be there. */
void short_enhanced_requests(const std::string &address)
{
	Victim victim(address);

	for (std::size_t size = 0; size < 4; size++)
		expect_hung_up_on(victim,
				  { .flags = 0x50, .revision = 2, .private_data = count_up(size) });
}

void closes_in_request(const std::string &address)
{
	Victim victim(address);
	Octets frame = Request{ .private_data = count_up(12) }.frame();

	for (std::size_t size = 0; size < frame.size(); size++) {
		Peer peer(victim.address());

		peer.say(std::span(frame).first(size));
	}
	victim.expect_unaware();
}

void resets_in_request(const std::string &address)
{
	Victim victim(address);
	Octets frame = Request{ .private_data = count_up(12) }.frame();

	for (std::size_t size = 0; size < frame.size(); size++) {
		Peer peer(victim.address());

		peer.say(std::span(frame).first(size));
		peer.abort();
	}
	victim.expect_unaware();
}

/* Silence is ended by a deadline, and keeps nobody else from connecting meanwhile. */
void stops_in_request(const std::string &address)
{
	Victim victim(address);
	Octets frame = Request{}.frame();
	Peer peer(victim.address());
	std::optional<Peer> more[16];

	peer.say(std::span(frame).first(10));
	for (auto &other : more)
		other.emplace(victim.address());
	for (int i = 0; i < 5; i++) {
		{
			Connected good(victim);
		}
		victim.expect_disconnect();
	}
	require(peer.is_hung_up(45000), "a peer that stops is hung up on in time");
	for (auto &other : more)
		require(other->is_hung_up(45000), "and so is one that says nothing");
	victim.expect_unaware();
}

/* The application has not answered when the peer goes: the answer fails at once, or is followed
 * by the event of a connection that has ended.
 */
void goes_before_reply(const std::string &address)
{
	Victim victim(address);

	for (int i = 0; i < 20; i++) {
		std::optional<Peer> peer(victim.address());

		peer->say(Request{}.frame());

		Id request = victim.next_request();

		if (i % 2)
			peer->abort();
		peer.reset();
		if (victim.answer(std::move(request)))
			continue;

		Event event = next_event(victim.channel());

		if (event.type == RDMA_CM_EVENT_ESTABLISHED)
			event = next_event(victim.channel());
		require(event.type == RDMA_CM_EVENT_DISCONNECTED ||
				event.type == RDMA_CM_EVENT_CONNECT_ERROR,
			"the application hears that the peer has gone");
	}
	victim.expect_unaware();
}

/* Reads wait for responses that never come. An empty Write comes first: before that the listening
 * side sends nothing (RFC 5044 section 7.1.2).
 */
void never_answers_reads(const std::string &address)
{
	Victim victim(address);

	for (bool is_reset : { false, true }) {
		{
			Connected connected(victim);

			connected.peer.say(fpdu(Tagged{}.ulpdu({})));
			for (std::uint64_t i = 0; i < 8; i++)
				victim.end().read(victim.memory().sge(i * 8, 8), 0, 0x1234, i);
			require(connected.peer.hear(52).size() == 52, "a Read Request comes");
			if (is_reset)
				connected.peer.abort();
		}
		victim.expect_disconnect();
		for (std::uint64_t i = 0; i < 8; i++)
			expect_completion(victim.end().send_cq(), IBV_WC_WR_FLUSH_ERR, i);
		expect_no_completion(victim.end().send_cq(), 50);
	}
}

/* A Write and a Send: whole, or cut off at any octet. */
Octets write_and_send(Victim &victim)
{
	Tagged write = { .stag = victim.memory().mr()->rkey, .offset = victim.memory().address() };

	return fpdu(write.ulpdu(count_up(8))) + fpdu(Untagged{}.ulpdu(count_up(5)));
}

void closes_in_stream(const std::string &address)
{
	Victim victim(address);
	std::size_t whole = 1;

	for (std::size_t size = 0; size <= whole; size++) {
		bool is_reset = size % 2;
		{
			Connected connected(victim);
			Octets stream = write_and_send(victim);

			whole = stream.size();
			victim.end().receive(victim.memory().sge(100, 100), 3);
			connected.peer.say(std::span(stream).first(size));
			if (is_reset)
				connected.peer.abort();
		}
		victim.expect_disconnect();

		ibv_wc wc = next_completion(victim.end().recv_cq());

		require(wc.wr_id == 3, "the receive completes");
		require(wc.status == IBV_WC_WR_FLUSH_ERR || size == whole,
			"only a whole Send is received");
		expect_no_completion(victim.end().recv_cq(), 5);
	}
}

void octet_by_octet(const std::string &address)
{
	Victim victim(address);
	Peer peer(victim.address());

	peer.say_slowly(Request{ .private_data = count_up(7) }.frame());
	victim.accept();
	require(peer.hear(20).size() == 20, "the request is answered");
	victim.end().receive(victim.memory().sge(100, 100), 3);
	peer.say_slowly(write_and_send(victim));

	ibv_wc wc = expect_completion(victim.end().recv_cq(), IBV_WC_SUCCESS, 3);
	Octets expected = count_up(8), got = count_up(8);

	require(wc.byte_len == 5, "the Send is received");
	std::ranges::copy(victim.memory().bytes().first(8), got.begin());
	require(got == expected, "the Write is placed");
}

/* The stream ends with this Terminate and the event, and memory is as it was. */
void expect_terminate(Victim &victim, const Octets &octets, Terminate expected,
		      Where where = Where::current())
{
	Connected connected(victim);

	connected.peer.say(octets);

	auto heard = connected.peer.hear_terminate();

	require(heard.has_value(), "the peer hears a Terminate, then the end", where);
	require(*heard == expected,
		std::format("the Terminate is {}/{}/{}, not {}/{}/{}", expected.layer,
			    expected.type, expected.code, heard->layer, heard->type, heard->code),
		where);
	victim.expect_disconnect(where);
	require(victim.memory().is_zero(), "nothing was placed", where);
}

void bad_crc(const std::string &address)
{
	Victim victim(address);
	Octets frame = fpdu(Tagged{}.ulpdu({}));

	for (std::size_t place : { frame.size() - 1, frame.size() - 4, std::size_t{ 9 } }) {
		Octets damaged = frame;

		damaged[place] ^= 0x10;
		expect_terminate(victim, damaged, { 2, 0, 2 });
	}
}

/* ULPDUs too short for the header that their first octets promise. */
void short_ulpdus(const std::string &address)
{
	Victim victim(address);

	for (std::size_t size = 0; size < 18; size++) {
		Octets ulpdu = Untagged{}.ulpdu({});

		ulpdu.resize(size);

		Connected connected(victim);

		connected.peer.say(fpdu(ulpdu));
		require(connected.peer.hear_terminate().has_value(),
			std::format("{} octets are answered with a Terminate", size));
		victim.expect_disconnect();
	}
}

void wrong_headers(const std::string &address)
{
	Victim victim(address);
	auto untagged = [](Untagged header) { return fpdu(header.ulpdu({})); };
	auto tagged = [](Tagged header) { return fpdu(header.ulpdu({})); };

	expect_terminate(victim, tagged({ .ddp = 0xc0 }), { 1, 1, 4 });
	expect_terminate(victim, untagged({ .ddp = 0x42 }), { 1, 2, 6 });
	expect_terminate(victim, untagged({ .rdmap = 0x83 }), { 0, 2, 5 });
	for (std::uint8_t opcode = 12; opcode < 16; opcode++)
		expect_terminate(victim,
				 untagged({ .rdmap = static_cast<std::uint8_t>(0x40 | opcode) }),
				 { 0, 2, 6 });
	expect_terminate(victim, untagged({ .queue = 4 }), { 1, 2, 1 });
	expect_terminate(victim, untagged({ .queue = ~0u }), { 1, 2, 1 });
	expect_terminate(victim, untagged({ .msn = 0 }), { 1, 2, 3 });
	expect_terminate(victim, untagged({ .msn = 2 }), { 1, 2, 3 });
}

void unexpected_messages(const std::string &address)
{
	Victim victim(address);
	Tagged write = { .stag = 0x12345678, .offset = 0 };
	Octets read = be32(1) + be64(0) + be32(16) + be32(0x12345678) + be64(0);

	expect_terminate(victim, fpdu(Untagged{}.ulpdu(count_up(5))), { 1, 2, 2 });
	expect_terminate(victim, fpdu(write.ulpdu(count_up(5))), { 1, 1, 0 });
	expect_terminate(victim, fpdu(Untagged{ .rdmap = 0x41, .queue = 1 }.ulpdu(read)),
			 { 0, 1, 0 });
}

/* Damage anywhere in good frames: whatever comes of it, it is the end of this connection, or
 * nothing at all.
 */
void damaged_streams(const std::string &address)
{
	Victim victim(address);
	std::mt19937 random(42);

	for (int i = 0; i < 150; i++) {
		{
			Connected connected(victim);
			Octets stream = write_and_send(victim);
			std::size_t cut = 4 * (random() % (stream.size() / 4));

			if (i % 2) {
				stream[random() % stream.size()] ^= 1 << random() % 8;
			} else {
				Octets ulpdu(1 + random() % 200);

				for (std::uint8_t &octet : ulpdu)
					octet = static_cast<std::uint8_t>(random());
				if (random() % 2)
					ulpdu[0] = 0x41;
				stream.resize(cut);
				stream = fpdu(ulpdu) + stream;
			}
			victim.end().receive(victim.memory().sge(0, 100), 3);
			connected.peer.say(stream);
		}
		victim.expect_disconnect();
	}
}

const cases::Case all[] = {
	{ "garbage instead of a request is hung up on", garbage },
	{ "wrong requests are hung up on", wrong_requests },
	{ "an enhanced request without its block is hung up on", short_enhanced_requests },
	{ "a peer may close at any octet of its request", closes_in_request },
	{ "a peer may reset at any octet of its request", resets_in_request },
	{ "a peer that stops in its request is hung up on", stops_in_request },
	{ "a peer may go before it was answered", goes_before_reply },
	{ "reads that are never answered are flushed", never_answers_reads },
	{ "a peer may close or reset at any octet of its stream", closes_in_stream },
	{ "a peer may send octet by octet", octet_by_octet },
	{ "a bad CRC is answered with 2/0/2", bad_crc },
	{ "a ULPDU shorter than its header is answered", short_ulpdus },
	{ "wrong headers are answered with their codes", wrong_headers },
	{ "unexpected messages are answered with their codes", unexpected_messages },
	{ "damaged streams end their own connection", damaged_streams },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
