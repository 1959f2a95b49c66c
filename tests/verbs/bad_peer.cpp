/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A peer that goes away or sends garbage loses its own connection, and no other connection is
 * affected. tests/wire checks how each violation of the protocol is answered.
 */
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

/* A listening application with memory, and a good connection that must stay up all the time. */
class Victim
{
public:
	explicit Victim(const std::string &address) : bystander_(address), listener_(address) {}

	const sockaddr *address() const { return listener_.address(); }
	rdma_event_channel *channel() const { return listener_.channel(); }

	Id next_request() { return listener_.next_request(); }

	/* Accepts a request. Returns 0, or errno. */
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

	/* The application was not told of the peer, and the good connection is up. */
	void expect_unaware(Where where = Where::current())
	{
		require(next_event(channel(), 0).type < 0, "the application hears nothing", where);
		bystander_.expect_alive(where);
	}

	/* The application is told that this connection has ended, and the good one is up. */
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

/* A raw peer that has set up its connection correctly. */
class Connected
{
public:
	explicit Connected(Victim &victim) : peer(victim.address())
	{
		peer.say(Frame{}.octets());
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

/* After each octet of a Request, a peer ends the stream. */
void ends_in_request(const std::string &address, auto end)
{
	Victim victim(address);
	Octets frame = Frame{ .private_data = count_up(12) }.octets();

	for (std::size_t size = 0; size < frame.size(); size++) {
		Peer peer(victim.address());

		peer.say(std::span(frame).first(size));
		end(peer);
	}
	victim.expect_unaware();
}

void closes_in_request(const std::string &address)
{
	ends_in_request(address, [](Peer &) {}); /* its destructor closes it */
}

void resets_in_request(const std::string &address)
{
	ends_in_request(address, [](Peer &peer) { peer.abort(); });
}

/* A deadline ends silent connections. Until then they do not keep other peers from connecting. */
void stops_in_request(const std::string &address)
{
	Victim victim(address);
	Octets frame = Frame{}.octets();
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

/* The peer goes before the application answers. The answer fails at once, or an event tells that
 * the connection has ended.
 */
void goes_before_reply(const std::string &address)
{
	Victim victim(address);

	for (int i = 0; i < 20; i++) {
		std::optional<Peer> peer(victim.address());

		peer->say(Frame{}.octets());

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

/* Reads wait for responses that never come. The peer sends an empty Write first, because the
 * listening side sends nothing before the first FPDU (RFC 5044 section 7.1.2).
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

/* A Write and a Send; the callers cut this off at any octet. */
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

/* Damages frames at random places. At most this connection ends. */
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
	{ "a peer may close at any octet of its request", closes_in_request },
	{ "a peer may reset at any octet of its request", resets_in_request },
	{ "a peer that stops in its request is hung up on", stops_in_request },
	{ "a peer may go before it was answered", goes_before_reply },
	{ "reads that are never answered are flushed", never_answers_reads },
	{ "a peer may close or reset at any octet of its stream", closes_in_stream },
	{ "damaged streams end their own connection", damaged_streams },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
