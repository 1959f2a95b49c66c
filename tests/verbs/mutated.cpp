/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A raw peer holds valid conversations with one thing changed. Whatever that is, the application is
 * told of nothing that did not come, and no other memory changes.
 *
 * XIW_SEED chooses the conversations, XIW_CONVERSATIONS says how many there are. The program prints
 * the seed of a conversation that shows a fault.
 */
#include "../wire/atomics.hpp"
#include "random.hpp"

#include <algorithm>
#include <array>
#include <format>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

/* No payload has this octet, so it shows which octets never came. */
constexpr std::uint8_t untouched = 0xff;

constexpr std::size_t receives = 8, receive_size = 128;
constexpr std::size_t reads = 2, read_size = 48;

/* How much the conversations tested. */
unsigned int good_receives = 0, good_reads = 0;

Octets payload(Random &random, std::size_t size)
{
	Octets octets(size);

	for (std::uint8_t &octet : octets)
		octet = static_cast<std::uint8_t>(below(random, 127));
	return octets;
}

bool is_untouched(std::span<const std::uint8_t> octets)
{
	return std::ranges::all_of(octets, [](std::uint8_t one) { return one == untouched; });
}

bool all_came(std::span<const std::uint8_t> octets)
{
	return std::ranges::none_of(octets, [](std::uint8_t one) { return one == untouched; });
}

/* The application posts receives and Reads into memory that the peer has no right to. */
class Subject
{
public:
	Subject(const std::string &address, Role role)
		: stream(address, role, { .access = atomic_rights }),
		  memory_(stream.end().pd(), 4096, IBV_ACCESS_LOCAL_WRITE)
	{
		std::ranges::fill(memory_.bytes(), untouched);
		for (std::size_t i = 0; i < receives; i++)
			stream.end().receive(memory_.sge(receive_at(i), receive_size), i);
		for (std::size_t i = 0; i < reads; i++) {
			stream.end().read(memory_.sge(read_at(i), read_size), 0, 0x1234, i);
			requests.at(i) = stream.hear().read_request();
		}
	}

	/* To be called when the peer has ended the stream. */
	void expect_only_what_came()
	{
		expect_event(stream.channel(), RDMA_CM_EVENT_DISCONNECTED);
		for (std::size_t i = 0; i < reads; i++)
			judge_read(next_completion(stream.end().send_cq()));
		for (std::size_t i = 0; i < receives; i++)
			judge_receive(next_completion(stream.end().recv_cq()));
		for (std::size_t i = 0; i < receives + reads; i++)
			require(is_untouched(part(receive_at(i) + receive_size, receive_size)),
				"memory between the buffers did not change");
	}

	Stream stream;
	std::array<ReadRequest, reads> requests;

private:
	static std::size_t receive_at(std::size_t i) { return 2 * receive_size * i; }
	static std::size_t read_at(std::size_t i) { return receive_at(receives + i); }

	std::span<const std::uint8_t> part(std::size_t offset, std::size_t size) const
	{
		return memory_.bytes().subspan(offset, size);
	}

	void judge_read(const ibv_wc &wc) const
	{
		good_reads += wc.status == IBV_WC_SUCCESS;
		require(wc.status != IBV_WC_SUCCESS || all_came(part(read_at(wc.wr_id), read_size)),
			"all of a Read that completes has come");
		require(is_untouched(part(read_at(wc.wr_id) + read_size, receive_size - read_size)),
			"nothing behind a Read changed");
	}

	void judge_receive(const ibv_wc &wc) const
	{
		auto buffer = part(receive_at(wc.wr_id), receive_size);

		if (wc.status != IBV_WC_SUCCESS)
			return;
		good_receives++;
		/* With Immediate Data, the length is that of the Write before it. */
		std::size_t length = wc.opcode == IBV_WC_RECV ? wc.byte_len : 0;

		require(length <= receive_size && all_came(buffer.first(length)),
			"all of a Send that was received has come");
		require(is_untouched(buffer.subspan(length)), "nothing behind a Send changed");
	}

	Buffer memory_;
};

/* An FPDU that may be wrong. */
struct Said {
	Octets ulpdu;
	std::optional<std::uint16_t> length = {};
	bool bad_crc = false;

	Octets octets() const
	{
		Octets octets = fpdu(ulpdu);

		if (length) {
			octets.at(0) = static_cast<std::uint8_t>(*length >> 8);
			octets.at(1) = static_cast<std::uint8_t>(*length);
		}
		if (bad_crc)
			octets.back() ^= 0x10;
		return octets;
	}
};

/* A valid conversation: messages of all kinds in any order, some of them in several segments. */
class Conversation
{
public:
	Conversation(Subject &subject, Random &random)
		: random_(random), memory_(subject.stream.application())
	{
		for (unsigned int i = 0; i < 6; i++)
			add_message();
		for (const ReadRequest &request : subject.requests)
			add_response(request);
	}

	std::vector<Said> fpdus;

private:
	void add_message()
	{
		switch (below(random_, 5)) {
		case 0:
			return add_write();
		case 1:
			return add_send();
		case 2: {
			ReadRequest read =
				memory_.read_from(below(random_, 512), below(random_, 99));

			return add(read.ulpdu(++requests_));
		}
		case 3: {
			Tagged there = memory_.write_to(8 * below(random_, 64));
			AtomicRequest atomic = { .operation = 2 * below(random_, 2),
						 .stag = there.stag,
						 .offset = there.offset };

			return add(atomic.ulpdu(++requests_));
		}
		default:
			return add(
				Untagged{ .rdmap = 0x48, .msn = ++sends_ }.ulpdu(be64(random_())));
		}
	}

	void add(Octets ulpdu) { fpdus.push_back({ std::move(ulpdu) }); }

	/* Cuts octets in up to three segments, and calls add_one(offset, octets, whether last). */
	void cut(const Octets &octets, auto add_one)
	{
		std::size_t at = 0;

		for (unsigned int i = below(random_, 3); i && at < octets.size(); i--) {
			std::size_t size = below(random_, octets.size() - at);

			add_one(at, first(after(octets, at), size), false);
			at += size;
		}
		add_one(at, after(octets, at), true);
	}

	static std::uint8_t ddp(bool tagged, bool last)
	{
		return static_cast<std::uint8_t>(1 | (tagged ? 0x80 : 0) | (last ? 0x40 : 0));
	}

	void add_write()
	{
		std::uint64_t to = below(random_, 1024);

		cut(payload(random_, below(random_, 200)),
		    [&](std::size_t at, Octets part, bool last) {
			    Tagged segment = memory_.write_to(to + at);

			    segment.ddp = ddp(true, last);
			    add(segment.ulpdu(part));
		    });
	}

	void add_send()
	{
		sends_++;
		cut(payload(random_, below(random_, receive_size + 1)),
		    [&](std::size_t at, Octets part, bool last) {
			    add(Untagged{ .ddp = ddp(false, last),
					  .msn = sends_,
					  .offset = static_cast<std::uint32_t>(at) }
					.ulpdu(part));
		    });
	}

	void add_response(const ReadRequest &request)
	{
		cut(payload(random_, read_size), [&](std::size_t at, Octets part, bool last) {
			add(Tagged{ .ddp = ddp(true, last),
				    .rdmap = 0x42,
				    .stag = request.sink_stag,
				    .offset = request.sink_offset + at }
				    .ulpdu(part));
		});
	}

	Random &random_;
	const Application &memory_;
	std::uint32_t sends_ = 0;
	std::uint32_t requests_ = 0;
};

/* Payload octets keep their highest bit clear. */
void flip_bits(Random &random, Octets &octets)
{
	for (unsigned int i = 1 + below(random, 3); i && !octets.empty(); i--)
		octets.at(below(random, std::min<std::size_t>(octets.size(), 46))) ^=
			static_cast<std::uint8_t>(1 << below(random, 7));
}

void set_word(Random &random, Octets &octets)
{
	/* No octet is "untouched", because a word may become payload. */
	constexpr std::array<std::uint32_t, 8> words = { 0,   1,       2,	   127,
							 128, 0x10000, 0x7f7f7f7f, 0x80000000 };

	if (octets.size() < 18)
		return;
	Octets word = be32(words.at(below(random, words.size())));

	std::ranges::copy(word, octets.begin() + 2 + 4 * below(random, 4));
}

/* Moves a segment within its message or buffer, where its new place may be good. */
void move_a_little(Random &random, Octets &octets)
{
	bool tagged = !octets.empty() && octets.front() & 0x80;
	std::size_t last = tagged ? 13 : 17;

	if (octets.size() > last)
		octets.at(last) ^= static_cast<std::uint8_t>(1 + below(random, 31));
}

/* Changes one thing in a conversation. */
void mutate(Random &random, std::vector<Said> &fpdus)
{
	std::size_t place = below(random, fpdus.size());
	Said &said = fpdus.at(place);

	switch (below(random, 10)) {
	case 0:
		return said.ulpdu.resize(below(random, said.ulpdu.size() + 1));
	case 1:
		said.ulpdu = said.ulpdu + payload(random, below(random, 64));
		return;
	case 2:
		fpdus.insert(fpdus.begin() + below(random, fpdus.size()), Said(said));
		return;
	case 3:
		fpdus.erase(fpdus.begin() + static_cast<std::ptrdiff_t>(place));
		return;
	case 4:
		return std::swap(said, fpdus.at(below(random, fpdus.size())));
	case 5:
		said.bad_crc = true;
		return;
	case 6:
		said.length = static_cast<std::uint16_t>(random());
		return;
	case 7:
		return set_word(random, said.ulpdu);
	case 8:
		return move_a_little(random, said.ulpdu);
	default:
		return flip_bits(random, said.ulpdu);
	}
}

/* Sends all, or cuts the stream anywhere, in any number of pieces. */
void say(Random &random, Peer &peer, Octets octets)
{
	if (!below(random, 4))
		octets.resize(below(random, octets.size() + 1));
	for (std::size_t at = 0; at < octets.size();) {
		std::size_t size =
			std::min<std::size_t>(1 + below(random, 400), octets.size() - at);

		peer.say(std::span(octets).subspan(at, size));
		at += size;
	}
	if (below(random, 4))
		peer.end();
	else
		peer.abort();
}

void converse(const std::string &address, Role role, std::uint32_t seed)
{
	Random random(seed);
	Subject subject(address, role);
	Conversation conversation(subject, random);
	Octets octets;

	if (below(random, 16))
		mutate(random, conversation.fpdus);
	for (const Said &said : conversation.fpdus)
		octets = octets + said.octets();
	say(random, subject.stream.peer(), octets);
	subject.expect_only_what_came();
}

/* Calls hold(seed) for each conversation, and now and then checks that others are not harmed. */
void many(const std::string &address, auto hold)
{
	auto seed =
		static_cast<std::uint32_t>(cases::number_from("XIW_SEED", std::random_device()()));
	std::uint64_t count = cases::number_from("XIW_CONVERSATIONS", 200);
	Pair bystander(address);

	std::cout << std::format("{} conversations from seed {}\n", count, seed) << std::flush;
	for (std::uint64_t i = 0; i < count; i++, seed++) {
		try {
			hold(seed);
		} catch (const std::exception &error) {
			fail(std::format("XIW_SEED={} XIW_CONVERSATIONS=1 shows: {}", seed,
					 error.what()));
		}
		if (i % 50 == 49)
			bystander.expect_alive();
	}
}

template <Role role>
void conversations(const std::string &address)
{
	many(address, [&](std::uint32_t seed) { converse(address, role, seed); });
	std::cout << std::format("good: {} receives, {} Reads\n", good_receives, good_reads);
	require(good_receives && good_reads, "some requests complete");
}

/* A frame with private data in which some bits are wrong, cut off or continued. */
Octets wrong_frame(Random &random, const Frame &frame)
{
	Octets octets = frame.octets() + payload(random, below(random, 40));

	for (unsigned int i = below(random, 4); i; i--)
		octets.at(below(random, std::min<std::size_t>(octets.size(), 24))) ^=
			static_cast<std::uint8_t>(1 << below(random, 8));
	octets.resize(octets.size() - below(random, std::min<std::size_t>(octets.size(), 40)));
	return octets;
}

void wrong_request(const std::string &address, std::uint32_t seed)
{
	Random random(seed);
	Responder device(address);
	Peer peer(device.address());
	Frame frame = below(random, 2) ? Frame{}
				       : enhanced_request(static_cast<std::uint16_t>(random()),
							  static_cast<std::uint16_t>(random()));

	peer.say(wrong_frame(random, frame));
	if (below(random, 2))
		peer.end();
	if (Event event = next_event(device.channel(), 5);
	    event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		End end(Id(event.id), {});
		rdma_conn_param parameters = connection_parameters();

		rdma_accept(end.id(), &parameters); /* fails if the peer has gone */
	}
}

void wrong_reply(const std::string &address, std::uint32_t seed)
{
	Random random(seed);
	Initiator device(address);
	Peer peer = device.accept();
	Frame reply = Initiator::accepting(*peer.hear_frame());

	if (below(random, 2))
		reply.private_data = reply.private_data + payload(random, below(random, 64));
	peer.say(wrong_frame(random, reply));
	peer.end();
	require(next_event(device.channel()).type >= 0, "the application is told of the outcome");
}

void handshakes(const std::string &address)
{
	many(address, [&](std::uint32_t seed) {
		wrong_request(address, seed);
		wrong_reply(address, seed);
	});
}

const cases::Case all[] = {
	{ "mutated streams of a caller bring nothing that was not sent",
	  conversations<Role::responder> },
	{ "mutated streams of a peer that was called bring nothing that was not sent",
	  conversations<Role::initiator> },
	{ "mutated Requests and Replies end their own call", handshakes },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
