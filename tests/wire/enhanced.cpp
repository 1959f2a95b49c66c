/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Enhanced setup: RFC 6581. */
#include "stream.hpp"

#include <format>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

constexpr std::uint16_t not_negotiated = 0x3fff;
constexpr std::uint16_t device_limit = 128; /* of IRD and ORD */

/* The Reply of the device, and the event of the Request. */
struct Answered {
	Frame reply;
	Event request;
};

Answered answer_to(const std::string &address, const Frame &request, const Setup &setup = {},
		   Where where = Where::current())
{
	Responder device(address, setup);
	Peer peer(device.address());

	peer.say(request.octets());

	Event event = device.take_request(where);

	device.accept();

	auto reply = peer.hear_frame();

	require(reply && reply->key == reply_key, "a Reply comes", where);
	return { *reply, event };
}

void plain_requests(const std::string &address)
{
	for (std::uint8_t revision : { 1, 2 }) {
		Octets data = { 'a', 'b', 'c', 'd' };
		Answered answered =
			answer_to(address, { .revision = revision, .private_data = data },
				  { .private_data = { 'e', 'f' } });

		require(answered.request.private_data == data, "the private data is intact");
		require(answered.reply.revision == revision, "the Reply has the same revision");
		require(!(answered.reply.flags & 0x10), "the Reply is plain, too");
		require(answered.reply.private_data == Octets{ 'e', 'f' },
			"the Reply has no enhanced block");
	}
}

void enhanced_flag_of_revision_1(const std::string &address)
{
	Octets data = { 'a', 'b' };
	Answered answered = answer_to(address, { .flags = 0x50, .private_data = data });

	require(answered.request.private_data == data, "the private data is intact");
	require(answered.reply.flags == 0x40 && answered.reply.private_data.empty(),
		"the Reply is plain");
}

void request_without_its_block(const std::string &address)
{
	Responder device(address);

	for (std::size_t size = 0; size < 4; size++) {
		Peer peer(device.address());

		peer.say(Frame{ request_key, 0x50, 2, octets_of(1, size) }.octets());
		require(peer.is_hung_up(), std::format("{} octets are hung up on", size));
		device.expect_unaware();
	}
}

void answered_in_kind(const std::string &address)
{
	Octets data = { 'n', 'o' };

	Enhanced(answer_to(address, enhanced_request(4, 4)).reply);

	Responder device(address);
	Peer peer(device.address());

	peer.say(enhanced_request(peer_to_peer | 4, ready_write | 4).octets());
	device.take_request();
	device.reject(data);

	auto reply = peer.hear_frame();

	require(reply && reply->flags & 0x20, "the Reply rejects");
	Enhanced{ *reply };
	require(after(reply->private_data, 4) == data, "it has the application's data");
}

void reply_without_its_block(const std::string &address)
{
	for (std::size_t size = 0; size < 4; size++) {
		Initiator device(address);
		Peer peer = device.accept();

		peer.hear_frame();
		peer.say(Frame{ reply_key, 0x50, 2, octets_of(1, size) }.octets());
		require(peer.is_hung_up(), std::format("{} octets are hung up on", size));
		device.expect_failure();
	}
	for (const Frame &reply :
	     { Frame{ reply_key, 0x40, 2, be32(0) }, Frame{ reply_key, 0x50, 1, be32(0) } }) {
		Initiator device(address);
		Peer peer = device.accept();

		peer.hear_frame();
		peer.say(reply.octets());
		require(peer.is_hung_up(), "a plain Reply is hung up on");
		device.expect_failure();
	}
}

/* The peer hangs up on the first Request. The second Request is plain and has revision 1. */
void reply_of_another_revision(const std::string &address)
{
	Initiator device(address);

	device.accept().hear_frame();

	Peer again = device.accept();

	again.hear_frame();
	again.say(Frame{ .key = reply_key, .revision = 2 }.octets());
	require(again.is_hung_up(), "a Reply of revision 2 is hung up on");
	device.expect_failure();
}

void flags_and_values(const std::string &address)
{
	Answered answered = answer_to(address, enhanced_request(peer_to_peer | ready_send | 0x2001,
								ready_write | ready_read | 2));

	require(answered.request.initiator_depth == 255,
		"the application is told the peer's IRD, limited to 255");
	require(answered.request.responder_resources == 2,
		"the application is told the peer's ORD");
	require(Enhanced(answered.reply).ord() == 16, "the application gets all of its ORD");

	/* Values without flags. */
	answered = answer_to(address, enhanced_request(5, 3));
	require(answered.request.initiator_depth == 5, "the application is told the peer's IRD");
	require(answered.request.responder_resources == 3,
		"the application is told the peer's ORD");
}

void private_data_behind_the_block(const std::string &address)
{
	for (std::size_t size : { 0, 1, 251, 252, 255 }) {
		Octets data = octets_of(3, size);
		Initiator device(address, { .private_data = data });
		auto request = device.accept().hear_frame();

		require(request && request->private_data.size() == size + 4,
			"PD_Length counts the block and the data");
		require(after(request->private_data, 4) == data, "it has the application's data");
	}
}

/* Posts Reads and answers none. Returns how many Read Requests the device sends. */
unsigned int reads_of(Stream &stream, unsigned int posted)
{
	unsigned int heard = 0;

	for (unsigned int i = 0; i < posted; i++)
		stream.end().read(stream.memory().sge(i * 8, 8), 0, 0x1234, i);
	while (auto fpdu = stream.peer().hear_fpdu(heard ? 200 : 10000)) {
		require(fpdu->opcode() == 1, "only Read Requests come");
		heard++;
	}
	return heard;
}

void responder_keeps_to_our_ird(const std::string &address)
{
	Stream stream(address, Role::responder, { .request = enhanced_request(2, 4), .ord = 16 });

	require(Enhanced(stream.frame()).ord() == 2, "the ORD in the Reply is the peer's IRD");
	require(reads_of(stream, 8) == 2, "two Reads are outstanding");
}

void responder_takes_our_ord(const std::string &address)
{
	Answered answered = answer_to(address, enhanced_request(4, 4), { .ird = 1 });

	require(!(answered.reply.flags & 0x20) && Enhanced(answered.reply).ird() >= 4,
		"the IRD in the Reply is at least the peer's ORD");
	answered = answer_to(address, enhanced_request(4, 5000));
	require(answered.reply.flags & 0x20, "an ORD that is too large is rejected");
	require(Enhanced(answered.reply).ird() == device_limit, "the Reply has the largest IRD");
}

void initiator_keeps_to_the_reply(const std::string &address)
{
	Stream stream(address, Role::initiator,
		      { .reply = enhanced_reply(peer_to_peer | 3, ready_write | 5),
			.ird = 1,
			.memory = 1 << 20 });

	require(Enhanced(stream.frame()).ird() == 1, "the Request has the application's IRD");
	for (std::uint32_t msn = 1; msn <= 5; msn++)
		stream.peer().say(fpdu(stream.application().read_from(0, 1).ulpdu(msn)));
	for (int i = 0; i < 5; i++)
		require(stream.hear().opcode() == 2, "the device takes as many Reads as our ORD");
	require(reads_of(stream, 8) == 3, "the device sends no more Reads than our IRD");
}

/* The device answers a Reply that it cannot accept with this Terminate. */
void expect_setup_terminate(const std::string &address, const Frame &reply, Terminate expected)
{
	Initiator device(address);
	Peer peer = device.accept();

	peer.hear_frame();
	peer.say(reply.octets());

	auto heard = peer.hear_terminate();

	require(heard.has_value(), "a Terminate comes, then the end");
	require(*heard == expected, "the Terminate is " + to_string(*heard));
	device.expect_failure();
}

void insufficient_ird(const std::string &address)
{
	expect_setup_terminate(address, enhanced_reply(peer_to_peer | 4, ready_write | 5000),
			       { 2, 0, 6 });
}

void not_negotiated_is_kept(const std::string &address)
{
	Enhanced reply(answer_to(address, enhanced_request(not_negotiated, not_negotiated)).reply);

	require(reply.ird() == not_negotiated && reply.ord() == not_negotiated,
		"the Reply leaves both open");

	Stream stream(address, Role::responder,
		      { .request = enhanced_request(not_negotiated, not_negotiated), .ord = 5 });

	require(reads_of(stream, 8) == 5, "the application's ORD stays in force");
}

void application_is_told(const std::string &address)
{
	Initiator device(address);
	Peer peer = device.accept();

	peer.hear_frame();
	peer.say(enhanced_reply(peer_to_peer | 7, ready_write | 6).octets());

	Event event = expect_event(device.channel(), RDMA_CM_EVENT_ESTABLISHED);

	require(event.initiator_depth == 7 && event.responder_resources == 6,
		"the initiator's application is told the peer's IRD and ORD");

	Answered answered = answer_to(address, enhanced_request(5, 3));

	require(answered.request.initiator_depth == 5 && answered.request.responder_resources == 3,
		"the responder's application is told, too");
}

void client_server_model(const std::string &address)
{
	Stream stream(address, Role::responder,
		      { .request = enhanced_request(ready_send | 4, ready_write | ready_read | 4),
			.open = false }); /* established at once */
	Enhanced reply(stream.frame());

	require(!(reply.first & 0xc000) && !(reply.second & 0xc000), "all flags are zero");
}

void offers_an_rtr(const std::string &address)
{
	struct {
		std::uint16_t first, second;
	} offers[] = { { ready_send, 0 },
		       { 0, ready_write },
		       { 0, ready_read },
		       { ready_send, ready_write | ready_read },
		       { 0, 0 } };

	for (auto [first, second] : offers) {
		Frame request = enhanced_request(peer_to_peer | first | 4, second | 4);
		Enhanced reply(answer_to(address, request).reply);

		require(reply.first & peer_to_peer, "the Reply uses the peer-to-peer model");
		require(reply.second & 0xc000, "the Reply offers a type of RTR");
		require(!(second & 0xc000) || reply.second & second & 0xc000,
			"the peer has offered that type, too, if it is a Write or a Read");
		require(!(reply.first & ready_send), "the Reply offers no Send");
	}
}

void opens_by_rtr(const std::string &address)
{
	Stream by_write(
		address, Role::initiator,
		{ .reply = enhanced_reply(peer_to_peer | 16, ready_write | 16), .open = false });
	Fpdu rtr = by_write.hear();

	require(rtr.opcode() == 0 && rtr.payload().empty() && rtr.is_last(), "an empty Write");

	Stream by_read(
		address, Role::initiator,
		{ .reply = enhanced_reply(peer_to_peer | 16, ready_read | 16), .open = false });

	rtr = by_read.hear();
	require(rtr.opcode() == 1 && rtr.msn() == 1 && !rtr.read_request().size, "an empty Read");

	/* The answer to the RTR completes no request. The next Read has MSN 2. */
	by_read.end().read(by_read.memory().sge(0, 4), 0, 0x1234, 7);
	rtr = by_read.hear();
	require(rtr.msn() == 2, "the next Read is the second message");
	by_read.peer().say(fpdu(Tagged{ .rdmap = 0x42, .stag = 1 }.ulpdu({})));
	by_read.peer().say(fpdu(Tagged{ .rdmap = 0x42,
					.stag = rtr.read_request().sink_stag,
					.offset = rtr.read_request().sink_offset }
					.ulpdu(octets_of(1, 4))));
	expect_completion(by_read.end().send_cq(), IBV_WC_SUCCESS, 7);
}

void no_usable_rtr(const std::string &address)
{
	expect_setup_terminate(address, enhanced_reply(peer_to_peer | ready_send | 4, 4),
			       { 2, 0, 7 });
	/* Without A the other flags mean nothing. */
	expect_setup_terminate(address, enhanced_reply(4, ready_write | 4), { 2, 0, 7 });
}

void local_error(const std::string &address)
{
	cases::Told fail("fail", "attach");

	expect_setup_terminate(address, enhanced_reply(peer_to_peer | 4, ready_write | 4),
			       { 2, 0, 5 });
}

void never_offers_a_send(const std::string &address)
{
	Initiator device(address);
	auto request = device.accept().hear_frame();

	require(request && !(Enhanced(*request).first & ready_send), "the Request offers no Send");

	/* ENH-14 checks the Reply. If a Send comes nevertheless, it takes a receive. */
	Stream stream(
		address, Role::responder,
		{ .request = enhanced_request(peer_to_peer | ready_send | 4, 4), .open = false });

	stream.end().receive(stream.memory().sge(0, 8), 1);
	stream.peer().say(fpdu(Untagged{}.ulpdu({})));
	expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1);
}

void read_as_rtr_needs_ird(const std::string &address)
{
	Stream stream(address, Role::responder,
		      { .request = enhanced_request(peer_to_peer | 4, ready_read | 0),
			.ird = 0,
			.open = false });
	Enhanced reply(stream.frame());

	require(reply.second & ready_read && reply.ird() >= 1, "the Reply has room for a Read");
	stream.peer().say(fpdu(ReadRequest{}.ulpdu()));

	Fpdu answer = stream.hear();

	require(answer.opcode() == 2 && answer.payload().empty(), "the Read is answered");
	expect_event(stream.channel(), RDMA_CM_EVENT_ESTABLISHED);
}

void established_by_a_whole_rtr(const std::string &address)
{
	Frame request = enhanced_request(peer_to_peer | 4, ready_write | 4);
	Octets rtr = fpdu(Tagged{}.ulpdu({}));
	Stream stream(address, Role::responder, { .request = request, .open = false });

	stream.end().send(stream.memory().sge(0, 8), 1);
	stream.peer().say(first(rtr, rtr.size() - 1));
	require(next_event(stream.channel(), 200).type < 0, "a partial RTR establishes nothing");
	require(stream.peer().hears_nothing(0), "nothing is sent");
	stream.peer().say(after(rtr, rtr.size() - 1));
	expect_event(stream.channel(), RDMA_CM_EVENT_ESTABLISHED);
	require(stream.hear().opcode() == 3, "then the Send comes");

	/* An RTR with a bad CRC does not establish the connection. */
	Stream bad(address, Role::responder, { .request = request, .open = false });

	rtr.back() ^= 1;
	bad.peer().say(rtr);

	auto heard = bad.peer().hear_terminate();

	require(heard && *heard == Terminate{ 2, 0, 2 }, "it is answered with 2/0/2");
	require(next_event(bad.channel()).status != 0, "the application is told of a failure");

	Stream ended(address, Role::responder, { .request = request, .open = false });

	ended.peer().end();
	require(next_event(ended.channel()).status == -ECONNRESET,
		"the application is told of a failure if the peer ends instead");
}

void greedy_requests(const std::string &address)
{
	for (int i = 0; i < 20; i++) {
		Enhanced reply(answer_to(address, enhanced_request(0x3ffe, 0x3ffe)).reply);

		require(reply.ird() <= device_limit && reply.ord() <= device_limit,
			"the Reply stays within the device's limit");
	}
}

/* xiw always wants the peer-to-peer model. Each enhanced Request therefore asks for it, offers the
 * two types of RTR that xiw can send, and has the application's IRD and ORD. If the peer hangs up
 * on that, the next Request is plain and has revision 1.
 */
void plain_if_nothing_is_wanted(const std::string &address)
{
	for (std::uint8_t depth : { 0, 1, 5, 128 }) {
		std::uint8_t other = static_cast<std::uint8_t>(128 - depth);
		Initiator device(address, { .ird = depth, .ord = other });
		std::optional<Peer> first = device.accept();
		auto request = first->hear_frame();

		require(request && request->flags == 0x58,
			"only the flags S and C are set, and that of large FPDUs");

		Enhanced asked(*request);

		require((asked.first & 0xc000) == peer_to_peer,
			"the Request asks for the peer-to-peer model, and offers no Send");
		require((asked.second & 0xc000) == (ready_write | ready_read),
			"it offers a Write and a Read");
		require(asked.ird() == depth && asked.ord() == other,
			std::format("IRD {} and ORD {} are the application's", asked.ird(),
				    asked.ord()));
		first.reset(); /* hangs up */
		require(device.accept().hear_frame() == Frame{}, "the next Request is plain");
	}
}

template <bool reset>
void peers_of_revision_1(const std::string &address)
{
	Initiator device(address, { .private_data = { 'h', 'i' } });
	std::optional<Peer> first = device.accept();
	std::uint16_t port = first->port();

	first->hear_frame();
	if (reset)
		first->abort();
	first.reset(); /* hangs up */

	Peer again = device.accept();
	auto request = again.hear_frame();

	require(again.port() != port, "the second call uses another port");
	require(request && *request == Frame{ .private_data = { 'h', 'i' } },
		"the second Request has revision 1");
	again.say(Frame{ .key = reply_key }.octets());
	expect_event(device.channel(), RDMA_CM_EVENT_ESTABLISHED);
	device.end().send(device.memory().sge(0, 3), 1);

	auto heard = again.hear_fpdu();

	require(heard && heard->opcode() == 3, "the stream starts without RTR");
}

const cases::Case all[] = {
	{ "ENH-01 plain Requests are answered plainly", plain_requests },
	{ "ENH-02 in revision 1 the S bit is reserved", enhanced_flag_of_revision_1 },
	{ "ENH-03 a Request without its block is hung up on", request_without_its_block },
	{ "ENH-04 an enhanced Request gets an enhanced Reply", answered_in_kind },
	{ "ENH-05 a Reply that does not fit the Request is hung up on", reply_without_its_block },
	{ "ENH-05 a Reply of another revision is hung up on", reply_of_another_revision },
	{ "ENH-06 flags do not mix with the values of IRD and ORD", flags_and_values },
	{ "ENH-07 PD_Length counts the block", private_data_behind_the_block },
	{ "ENH-08 a responder's ORD is at most the initiator's IRD", responder_keeps_to_our_ird },
	{ "ENH-09 a responder's IRD is at least the initiator's ORD", responder_takes_our_ord },
	{ "ENH-10 an initiator follows the Reply's IRD and ORD", initiator_keeps_to_the_reply },
	{ "ENH-10 insufficient IRD is answered with 2/0/6", insufficient_ird },
	{ "ENH-11 IRD and ORD that are not negotiated stay as they are", not_negotiated_is_kept },
	{ "ENH-12 applications are told the peer's IRD and ORD", application_is_told },
	{ "ENH-13 without A the Reply has no flags, and no RTR is awaited", client_server_model },
	{ "ENH-14 a Reply offers a type of RTR", offers_an_rtr },
	{ "ENH-15 an initiator opens by the RTR agreed on", opens_by_rtr },
	{ "ENH-16 no usable RTR is answered with 2/0/7", no_usable_rtr },
	{ "ENH-17 another local error of the setup is reported by 2/0/5", local_error },
	{ "ENH-18 a Send is never offered as RTR", never_offers_a_send },
	{ "ENH-19 a Read as RTR makes room for itself", read_as_rtr_needs_ird },
	{ "ENH-20 only a whole and valid RTR establishes the connection",
	  established_by_a_whole_rtr },
	{ "ENH-21 IRD and ORD are checked before anything is sized", greedy_requests },
	{ "ENH-22 the enhanced format is used for its features only", plain_if_nothing_is_wanted },
	{ "ENH-23 a peer of revision 1 is called again in revision 1", peers_of_revision_1<false> },
	{ "ENH-23 a peer of revision 1 that resets is called again", peers_of_revision_1<true> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
