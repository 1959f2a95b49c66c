/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A message that completes successfully is whole: each octet of it has arrived, once. */
#include "stream.hpp"

#include <array>
#include <format>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

/* A segment of a message. */
struct Segment {
	std::uint32_t offset;
	std::uint32_t size;
};

using Message = std::vector<Segment>;

std::string to_string(const Message &message)
{
	std::string text;

	for (Segment one : message)
		text += std::format(" {}+{}", one.offset, one.size);
	return text;
}

/* True if each segment begins where the one before it ended, from start on. */
bool is_whole(const Message &message, std::uint32_t start = 0)
{
	for (Segment one : message) {
		if (one.size && one.offset != start)
			return false;
		start += one.size;
	}
	return true;
}

std::uint32_t size_of(const Message &message)
{
	std::uint32_t size = 0;

	for (Segment one : message)
		size += one.size;
	return size;
}

constexpr std::uint32_t block = 5; /* octets; odd, so segments are not aligned */
constexpr std::uint32_t blocks = 4;

/* Of the sequences with an error near the start, keep only those with each of the four blocks. */
bool is_telling(const Message &message)
{
	std::size_t in_row = 0;
	unsigned int seen = 0;

	while (in_row < message.size() && message[in_row].offset == in_row * block)
		in_row++;
	for (Segment one : message)
		seen |= 1u << one.offset / block;
	return message.size() <= in_row + 2 || seen == (1u << blocks) - 1;
}

/* All sequences of one to four out of four blocks: every order, every hole, every repeat. Placement
 * does not depend on the role, so one of the roles only gets sequences of up to three blocks.
 */
std::vector<Message> every_sequence(bool is_full)
{
	std::vector<Message> all = { {} };
	std::size_t longest = is_full ? blocks : blocks - 1;

	for (std::size_t i = 0; i < all.size(); i++)
		for (std::uint32_t place = 0; all[i].size() < longest && place < blocks; place++) {
			Message longer = all[i];

			longer.push_back({ place * block, block });
			all.push_back(longer);
		}
	all.erase(all.begin());
	std::erase_if(all, [](const Message &message) { return !is_telling(message); });
	return all;
}

/* Some segments in a row, then one that overlaps the end, lies inside, or leaves a hole. A variant
 * of each adds a segment that makes the sum of the lengths right.
 */
std::vector<Message> every_overlap()
{
	std::vector<Message> all;
	const Message rows[] = {
		{}, { { 0, 0 } }, { { 0, 5 } }, { { 0, 5 }, { 5, 5 } }, { { 0, 5 }, { 5, 0 } }
	};

	for (const Message &row : rows)
		for (std::uint32_t offset : { 0, 4, 6, 9, 11 })
			for (std::uint32_t size : { 1, 6 }) {
				Message askew = row;

				askew.push_back({ offset, size });
				if (is_whole(askew))
					continue;
				all.push_back(askew);
				if (size_of(askew) >= block * blocks)
					continue;
				askew.push_back(
					{ size_of(askew), block * blocks - size_of(askew) });
				all.push_back(askew);
			}
	return all;
}

/* Cut at the end of a full TCP segment, or near it; without error, or with a hole or an overlap of
 * one octet.
 */
std::vector<Message> around_a_segment()
{
	std::vector<Message> all;

	for (std::uint32_t first : { 1406, 1421, 1422, 1423, 1424, 1436, 1448, 1460, 2844, 32768 })
		for (std::int32_t slip : { 0, 1, -1 }) {
			std::uint32_t second = first + static_cast<std::uint32_t>(slip);

			all.push_back({ { 0, first }, { second, first } });
			all.push_back({ { 0, first }, { first, 1 }, { second + 1, first } });
		}
	return all;
}

constexpr std::uint32_t seed = 7;

/* The FPDUs of a message. The last segment has the L bit if the message ends. */
template <typename Header>
Octets said(const Message &message, Header header, std::uint32_t base = 0, bool ends = true)
{
	Octets octets;
	std::uint64_t start = header.offset;

	for (std::size_t i = 0; i < message.size(); i++) {
		if (ends && i + 1 == message.size())
			header.ddp |= 0x40;
		else
			header.ddp &= 0xbf;
		header.offset = static_cast<decltype(header.offset)>(start + message[i].offset);
		octets = octets + fpdu(header.ulpdu(octets_of(seed, message[i].size,
							      base + message[i].offset)));
	}
	return octets;
}

void expect_terminate(Stream &stream, Terminate expected)
{
	auto heard = stream.peer().hear_terminate();

	require(heard.has_value(), "the stream ends with a Terminate");
	require(*heard == expected,
		std::format("the Terminate is {}, not {}", to_string(expected), to_string(*heard)));
}

/* Proves something for each message. An error names the message. */
void for_each(const std::vector<Message> &messages, auto prove)
{
	unsigned int whole = 0;

	for (const Message &message : messages) {
		try {
			prove(message);
		} catch (const std::exception &error) {
			throw std::runtime_error(to_string(message) + ": " + error.what());
		}
		whole += is_whole(message);
	}
	std::cout << messages.size() << " messages, " << whole << " of them whole\n";
}

/*
 * Sends
 */

/* The receive queue of the stream, or a shared one in the protection domain of another stream. */
class Receives
{
public:
	Receives(const std::string &address, Role role, bool shared)
	{
		ibv_srq_init_attr attr = { nullptr, { 4, 4, 0 } };

		if (!shared)
			return;
		host_.emplace(address, role);
		srq_.reset(ibv_create_srq(host_->end().pd(), &attr));
		require(srq_ != nullptr, "a shared receive queue");
	}

	ibv_srq *srq() { return srq_.get(); }

	void post(Stream &stream, ibv_sge sge)
	{
		ibv_recv_wr wr = {}, *bad;

		wr.wr_id = 1;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		require(srq_ ? !ibv_post_srq_recv(srq_.get(), &wr, &bad) : !stream.end().post(wr),
			"the receive is posted");
	}

private:
	std::optional<Stream> host_;
	Srq srq_;
};

constexpr std::uint32_t room = 1 << 17;

void send_is_whole(const std::string &address, Role role, const Message &message, bool shared)
{
	Receives receives(address, role, shared);
	Setup setup = { .memory = room };

	setup.qp.srq = receives.srq();

	Stream stream(address, role, setup);
	ibv_cq *cq = stream.end().recv_cq();
	std::uint32_t size = size_of(message);
	ibv_wc wc;

	receives.post(stream, stream.memory().sge(0, room));
	stream.peer().say(said(message, Untagged{}));
	if (is_whole(message)) {
		wc = expect_completion(cq, IBV_WC_SUCCESS, 1);
		require(wc.byte_len == size && stream.memory().holds(seed, 0, size),
			"all data is there");
		stream.expect_alive();
		return;
	}
	expect_terminate(stream, { 1, 2, 4 });
	stream.expect_disconnect();
	/* A request of a shared queue that was not taken yet stays there. */
	if (!shared || message[0].offset == 0)
		expect_completion(cq, IBV_WC_WR_FLUSH_ERR, 1);
	expect_no_completion(cq, 0);
}

void sends_in_sequences(const std::string &address, Role role)
{
	for_each(every_sequence(role == Role::responder),
		 [&](const Message &message) { send_is_whole(address, role, message, false); });
}

void sends_with_overlaps(const std::string &address, Role role)
{
	for_each(every_overlap(),
		 [&](const Message &message) { send_is_whole(address, role, message, false); });
}

void sends_around_a_segment(const std::string &address, Role role)
{
	for_each(around_a_segment(),
		 [&](const Message &message) { send_is_whole(address, role, message, false); });
}

void sends_to_a_shared_queue(const std::string &address, Role role)
{
	std::vector<Message> messages = around_a_segment();

	messages.insert(messages.end(), { { { 5, 5 }, { 0, 5 } },
					  { { 0, 5 }, { 0, 5 }, { 10, 5 } },
					  { { 0, 5 }, { 10, 5 } },
					  { { 0, 5 }, { 5, 5 }, { 10, 0 } } });
	for_each(messages,
		 [&](const Message &message) { send_is_whole(address, role, message, true); });
}

/* Messages before the wrong one are delivered, those behind it are not. */
void sends_beside_others(const std::string &address, Role role)
{
	Stream stream(address, role);

	for (std::uint64_t i = 1; i <= 4; i++)
		stream.end().receive(stream.memory().sge(i * 100, 100), i);
	stream.peer().say(said({ { 0, 20 }, { 20, 0 }, { 20, 20 } }, Untagged{}) +
			  said({ { 0, 0 } }, Untagged{ .msn = 2 }) +
			  said({ { 0, 20 }, { 40, 20 } }, Untagged{ .msn = 3 }) +
			  said({ { 0, 20 } }, Untagged{ .msn = 4 }));
	expect_terminate(stream, { 1, 2, 4 });
	require(expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1).byte_len == 40,
		"the first message is whole");
	require(!expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 2).byte_len,
		"the second message is empty");
	expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 3);
	expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 4);
}

/*
 * Read Responses
 */

void response_is_whole(const std::string &address, Role role, const Message &message,
		       std::uint32_t size)
{
	Stream stream(address, role, { .memory = room });
	ibv_cq *cq = stream.end().send_cq();

	stream.end().read(stream.memory().sge(0, size), 0, 0x1234, 1);

	ReadRequest read = stream.hear().read_request();

	stream.peer().say(
		said(message,
		     Tagged{ .rdmap = 0x42, .stag = read.sink_stag, .offset = read.sink_offset }));
	if (is_whole(message) && size_of(message) == size) {
		expect_completion(cq, IBV_WC_SUCCESS, 1);
		require(stream.memory().holds(seed, 0, size), "all data is there");
		stream.expect_alive();
		return;
	}
	expect_terminate(stream, { 1, 1, 1 });
	expect_completion(cq, IBV_WC_WR_FLUSH_ERR, 1);
	expect_no_completion(cq, 0);
}

void responses_in_sequences(const std::string &address, Role role)
{
	for_each(every_sequence(role == Role::initiator), [&](const Message &message) {
		response_is_whole(address, role, message, block * blocks);
	});
}

void responses_with_overlaps(const std::string &address, Role role)
{
	for_each(every_overlap(), [&](const Message &message) {
		response_is_whole(address, role, message, block * blocks);
	});
}

void responses_around_a_segment(const std::string &address, Role role)
{
	for_each(around_a_segment(), [&](const Message &message) {
		response_is_whole(address, role, message, size_of(message));
	});
}

/*
 * Immediate Data
 */

Octets immediate(std::uint32_t msn)
{
	return fpdu(Untagged{ .rdmap = 0x48, .msn = msn }.ulpdu(be64(0)));
}

/* The Write is always placed. If it is not in one piece, Immediate Data after it is refused. */
void length_is_whole(const std::string &address, Role role, const Message &message,
		     bool ends = true)
{
	Stream stream(address, role, { .memory = room });
	ibv_cq *cq = stream.end().recv_cq();

	stream.end().receive({ 0, 0, 0 }, 1);
	stream.end().receive({ 0, 0, 0 }, 2);
	stream.peer().say(said(message, stream.application().write_to(), 0, ends));
	stream.expect_alive();
	for (Segment one : message)
		require(stream.memory().holds(seed, one.offset, one.size), "the Write is placed");

	stream.peer().say(immediate(1));
	if (ends && is_whole(message, message[0].offset)) {
		require(expect_completion(cq, IBV_WC_SUCCESS, 1).byte_len == size_of(message),
			"the length is that of the Write");
		stream.expect_alive(2);
		return;
	}
	expect_terminate(stream, { 0, 2, 255 });
	expect_completion(cq, IBV_WC_WR_FLUSH_ERR, 1);
	expect_completion(cq, IBV_WC_WR_FLUSH_ERR, 2);
}

void lengths_of_sequences(const std::string &address, Role role)
{
	for_each(every_sequence(role == Role::responder),
		 [&](const Message &message) { length_is_whole(address, role, message); });
}

void lengths_around_a_segment(const std::string &address, Role role)
{
	for_each(around_a_segment(),
		 [&](const Message &message) { length_is_whole(address, role, message); });
}

void length_of_an_open_write(const std::string &address, Role role)
{
	for_each({ { { 0, 5 } }, { { 0, 5 }, { 5, 5 } }, { { 0, 0 } } },
		 [&](const Message &message) { length_is_whole(address, role, message, false); });
}

/* Only the last Write before the Immediate Data must be in one piece. */
void length_of_the_last_write(const std::string &address, Role role)
{
	Stream stream(address, role);
	Tagged write = stream.application().write_to();
	const Message torn = { { 20, 20 }, { 0, 20 } };
	auto expect_length = [&](std::uint64_t wr_id, std::uint32_t size) {
		require(expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, wr_id).byte_len ==
				size,
			std::format("message {} has {} octets", wr_id, size));
	};

	for (std::uint64_t i = 1; i <= 5; i++)
		stream.end().receive(stream.memory().sge(1000, 8), i);
	stream.peer().say(said(torn, write) + said({ { 0, 20 }, { 20, 10 } }, write) +
			  immediate(1));
	expect_length(1, 30);
	stream.peer().say(said(torn, write) + said({ { 0, 8 } }, Untagged{ .msn = 2 }) +
			  immediate(3));
	expect_length(2, 8);
	expect_length(3, 0);
	/* Empty segments have no valid TO, so a Write with some in between is in one piece. */
	stream.peer().say(said({ { 100, 20 }, { 7, 0 }, { 120, 20 }, { 0, 0 } }, write) +
			  immediate(4));
	expect_length(4, 40);
	stream.peer().say(said(torn, write) + immediate(5));
	expect_terminate(stream, { 0, 2, 255 });
	expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 5);
}

/* A Write to two STags is not in one piece, even if its TOs are contiguous. */
void length_of_a_write_to_two(const std::string &address, Role role)
{
	Stream stream(address, role);
	Buffer &memory = stream.memory();
	Mr other(ibv_reg_mr(stream.end().pd(), memory.bytes().data(), memory.bytes().size(),
			    Buffer::all_rights));
	Tagged write = stream.application().write_to();

	require(other != nullptr, "another region");
	stream.end().receive(memory.sge(1000, 8), 1);
	stream.peer().say(said({ { 0, 20 } }, write, 0, false));
	write.stag = other->rkey;
	stream.peer().say(said({ { 20, 20 } }, write) + immediate(1));
	expect_terminate(stream, { 0, 2, 255 });
	expect_completion(stream.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 1);
}

/*
 * Payload that cannot be copied
 */

void unreadable(const std::string &address, Role role)
{
	Stream sent(address, role), asked(address, role), written(address, role);

	sent.end().receive(sent.memory().sge(0, 100), 1);
	asked.end().read(asked.memory().sge(0, 100), 0, 0x1234, 1);
	written.end().receive(written.memory().sge(0, 100), 1);

	ReadRequest read = asked.hear().read_request();
	cases::Told fail("fail", "place_copy");

	sent.peer().say(said({ { 0, 50 } }, Untagged{}));
	expect_terminate(sent, { 0, 0, 0 });
	expect_completion(sent.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 1);
	asked.peer().say(
		said({ { 0, 100 } },
		     Tagged{ .rdmap = 0x42, .stag = read.sink_stag, .offset = read.sink_offset }));
	expect_terminate(asked, { 0, 0, 0 });
	expect_completion(asked.end().send_cq(), IBV_WC_WR_FLUSH_ERR, 1);
	written.peer().say(said({ { 200, 50 } }, written.application().write_to()) + immediate(1));
	expect_terminate(written, { 0, 0, 0 });
	expect_completion(written.end().recv_cq(), IBV_WC_WR_FLUSH_ERR, 1);
}

const cases::Case all[] = {
	{ "DDP-10 Sends in every sequence of blocks are whole, or end the stream",
	  in_both_roles<sends_in_sequences> },
	{ "DDP-10 Sends with overlaps end the stream", in_both_roles<sends_with_overlaps> },
	{ "DDP-10 Sends cut around a segment of TCP are whole, or end the stream",
	  in_both_roles<sends_around_a_segment> },
	{ "DDP-10 Sends to a shared receive queue are whole, or end the stream",
	  in_both_roles<sends_to_a_shared_queue> },
	{ "DDP-10 a Send with a hole harms none of those before it",
	  in_both_roles<sends_beside_others> },
	{ "DDP-19 what cannot be read is not delivered", in_both_roles<unreadable> },
	{ "RDP-18 Responses in every sequence of blocks are whole, or end the stream",
	  in_both_roles<responses_in_sequences> },
	{ "RDP-18 Responses with overlaps end the stream", in_both_roles<responses_with_overlaps> },
	{ "RDP-18 Responses cut around a segment of TCP are whole, or end the stream",
	  in_both_roles<responses_around_a_segment> },
	{ "EXT-19 Immediate Data tells the length only of a Write in one piece",
	  in_both_roles<lengths_of_sequences> },
	{ "EXT-19 Immediate Data tells the length of a Write cut around a segment of TCP",
	  in_both_roles<lengths_around_a_segment> },
	{ "EXT-19 Immediate Data behind a Write that has not ended ends the stream",
	  in_both_roles<length_of_an_open_write> },
	{ "EXT-19 Immediate Data tells the length of the last Write",
	  in_both_roles<length_of_the_last_write> },
	{ "EXT-19 a Write to two regions is not in one piece",
	  in_both_roles<length_of_a_write_to_two> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
