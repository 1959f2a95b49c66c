/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The exchange that starts a stream: RFC 5044 section 7.1. */
#include "stream.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <format>
#include <fstream>
#include <thread>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

/* The device hangs up at once, sends no answer, and does not tell the application. */
void expect_refused(Responder &device, const Octets &octets, Where where = Where::current())
{
	Peer peer(device.address());

	peer.say(octets);
	require(peer.is_hung_up(), "the peer is hung up on without an answer", where);
	device.expect_unaware(where);
}

/* Accepts the peer's Request. Returns the Reply. */
Frame expect_accepted(Responder &device, Peer &peer, Where where = Where::current())
{
	device.take_request(where);
	require(!device.accept(), "rdma_accept succeeds", where);

	auto reply = peer.hear_frame();

	require(reply && reply->key == reply_key, "a Reply comes", where);
	require(!(reply->flags & 0x20), "the Reply accepts", where);
	device.expect_established(where);
	return *reply;
}

Frame expect_accepted(Responder &device, const Frame &request, Where where = Where::current())
{
	Peer peer(device.address());

	peer.say(request.octets());

	Frame reply = expect_accepted(device, peer, where);

	peer.abort();
	expect_event(device.channel(), RDMA_CM_EVENT_DISCONNECTED, 10000, where);
	return reply;
}

void wrong_key(const std::string &address)
{
	Responder device(address);

	expect_refused(device, Frame{ .key = "MPA ID Req Framf" }.octets());
	expect_refused(device, Frame{ .key = "nPA ID Req Frame" }.octets());
	expect_refused(device, Frame{ .key = reply_key }.octets());
}

/* The peer answers the device's Request with a Request of its own. */
void request_for_a_reply(const std::string &address)
{
	Initiator device(address);
	Peer peer = device.accept();

	require(peer.hear_frame().has_value(), "the device calls");
	peer.say(Frame{}.octets());
	require(peer.is_hung_up(), "the peer is hung up on, with no Terminate");
	device.expect_failure();
}

void reserved_flags(const std::string &address)
{
	Responder device(address);
	Frame reply = expect_accepted(device, { .flags = 0x67 });

	require(reply.flags == 0x40, std::format("the flags are {:#x}", reply.flags));

	Initiator caller(address);
	Peer called = caller.accept();
	auto request = called.hear_frame();

	require(request && !(request->flags & 0x27),
		"the device's own Request sets no reserved flag");
	reply = Initiator::accepting(*request);
	reply.flags |= 0x07;
	called.say(reply.octets());
	expect_event(caller.channel(), RDMA_CM_EVENT_ESTABLISHED);
}

void wrong_revision(const std::string &address)
{
	Responder device(address);

	for (std::uint8_t revision : { 0, 3, 255 })
		expect_refused(device, Frame{ .revision = revision }.octets());

	for (std::uint8_t revision : { 0, 3, 255 }) {
		Initiator caller(address);
		Peer peer = caller.accept();

		peer.hear_frame();
		peer.say(Frame{ .key = reply_key, .revision = revision }.octets());
		require(peer.is_hung_up(), "a Reply of that revision is hung up on");
		caller.expect_failure();
	}
}

/* Checks whether CRCs are on: whether the device sends them, and whether it checks ours. */
void expect_crc(Stream &stream, bool is_on)
{
	Octets bad = fpdu(Untagged{}.ulpdu(octets_of(1, 9)));

	bad.back() ^= 1;
	stream.end().receive(stream.memory().sge(0, 16), 1);
	stream.end().send(stream.memory().sge(100, 8), 2);
	require(stream.peer().hear_fpdu()->crc_is_good == is_on, "CRCs are sent as agreed");
	stream.peer().say(bad);
	expect_completion(stream.end().recv_cq(), is_on ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS, 1);
	if (!is_on)
		return;

	auto heard = stream.peer().hear_terminate();

	require(heard && *heard == Terminate{ 2, 0, 2 }, "the Terminate is 2/0/2");
}

void crc_if_either_wants(const std::string &address, Role role)
{
	for (bool ours : { false, true }) {
		Setting setting(device_setting("crc"), ours ? "1" : "0");

		for (bool theirs : { false, true }) {
			std::uint8_t flags = theirs ? 0x40 : 0;
			Frame reply = enhanced_reply(peer_to_peer | 16, ready_write | 16);

			reply.flags = 0x10 | flags;

			/* The opening Write may have no CRC, which "open" would require. */
			Stream stream(address, role,
				      { .request = { .flags = flags },
					.reply = reply,
					.open = role == Role::responder });
			bool said = stream.frame().flags & 0x40;

			require(said == (ours || (theirs && role == Role::responder)),
				"the device says what it wants");
			if (role == Role::initiator)
				stream.peer().hear_fpdu();
			expect_crc(stream, ours || theirs);
		}
	}
}

void crc_by_default(const std::string &address)
{
	Initiator device(address);
	auto request = device.accept().hear_frame();

	require(request && request->flags & 0x40, "the Request asks for CRCs");
}

void crc_off_is_ignored(const std::string &address)
{
	Setting setting(device_setting("crc"), "0");
	Stream stream(address, Role::responder, { .request = { .flags = 0 } });
	std::uint32_t msn = 1;

	for (std::uint32_t crc : { 0xdeadbeefu, 0u, ~0u }) {
		Octets frame = fpdu(Untagged{ .msn = msn }.ulpdu(octets_of(msn, 40)));

		stream.end().receive(stream.memory().sge(0, 40), msn);
		stream.peer().say(first(frame, frame.size() - 4) + be32(crc));
		expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, msn);
		require(stream.memory().holds(msn, 0, 40), "the Send is delivered");
		msn++;
	}
}

void long_private_data(const std::string &address)
{
	Responder device(address);

	expect_refused(device, Frame{ .length = 513 }.octets());
	expect_refused(device, Frame{ .length = 65535 }.octets());

	Initiator caller(address);
	Peer peer = caller.accept();

	peer.hear_frame();
	peer.say(Frame{ .key = reply_key, .flags = 0x50, .revision = 2, .length = 513 }.octets());
	require(peer.is_hung_up(), "a Reply is hung up on, too");
	caller.expect_failure();
}

/* The kernel's iw_cm has no room for more than 255 octets of private data. */
void private_data_of_a_reply(const std::string &address)
{
	for (std::size_t size : { 0, 1, 255, 256, 508 }) {
		Octets data = octets_of(7, size);
		Initiator device(address);
		Peer peer = device.accept();
		Frame reply = Initiator::accepting(*peer.hear_frame());

		reply.private_data = reply.private_data + data;
		peer.say(reply.octets());
		if (size > 255) {
			require(peer.is_hung_up(), "longer private data is hung up on");
			device.expect_failure();
			continue;
		}

		Event event = expect_event(device.channel(), RDMA_CM_EVENT_ESTABLISHED);

		require(event.private_data == data, "the caller gets the private data unchanged");
	}
}

void private_data_is_intact(const std::string &address)
{
	Responder device(address);

	for (std::size_t size : { 0, 1, 255 }) {
		Octets data = octets_of(7, size);
		Peer peer(device.address());

		peer.say(Frame{ .private_data = data }.octets());

		Event request = device.take_request();

		require(request.private_data == data,
			"the application gets the private data unchanged");
		device.accept();
		peer.abort();
		while (next_event(device.channel()).type != RDMA_CM_EVENT_DISCONNECTED)
			;
	}
	for (std::size_t size : { 256, 512 })
		expect_refused(device, Frame{ .private_data = octets_of(7, size) }.octets());
}

void octets_after_a_request(const std::string &address)
{
	Responder device(address);

	expect_refused(device, Frame{}.octets() + be32(0));

	/* The consumer has been asked, and has not answered yet. */
	Peer peer(device.address());

	peer.say(Frame{}.octets());
	device.take_request();
	peer.say(fpdu(Tagged().ulpdu({})));
	require(peer.hears_end(2000), "the device ends the stream");
	require(device.accept() == ECONNRESET, "it cannot be accepted any more");
}

void segmentation(const std::string &address)
{
	Responder device(address);
	Octets frame = Frame{ .private_data = octets_of(1, 7) }.octets();

	for (std::size_t split : { 1, 16, 19, 20, 21 }) {
		Peer peer(device.address());

		peer.say(first(frame, split));
		peer.say_slowly(after(frame, split));
		expect_accepted(device, peer);
		peer.abort();
		expect_event(device.channel(), RDMA_CM_EVENT_DISCONNECTED);
	}

	Peer peer(device.address());

	peer.say_slowly(frame);
	expect_accepted(device, peer);

	Initiator caller(address);
	Peer called = caller.accept();
	auto request = called.hear_frame();

	called.say_slowly(Initiator::accepting(*request).octets());
	expect_event(caller.channel(), RDMA_CM_EVENT_ESTABLISHED);
}

/* The Reply and the FIN may both arrive before the device looks at the socket. */
void end_behind_a_reply(const std::string &address)
{
	for (unsigned int i = 0; i < 20; i++) {
		Initiator device(address);
		Peer peer = device.accept();
		Frame reply = Initiator::accepting(*peer.hear_frame());

		peer.say(reply.octets());
		peer.end();
		expect_event(device.channel(), RDMA_CM_EVENT_ESTABLISHED);
		expect_event(device.channel(), RDMA_CM_EVENT_DISCONNECTED, 2000);
	}
}

/* What follows a Reply is no frame, also if it looks like one. A thousand of them make an FPDU with
 * a bad CRC.
 */
void second_reply(const std::string &address, bool is_rejection, std::size_t times)
{
	Initiator device(address);
	Peer peer = device.accept();
	Frame reply = Initiator::accepting(*peer.hear_frame());
	const Octets second = reply.octets();

	if (is_rejection)
		reply.flags |= 0x20;

	Octets octets = reply.octets();

	for (std::size_t i = 0; i < times; i++)
		octets.insert(octets.end(), second.begin(), second.end());
	peer.say(octets);
	peer.end();
	if (is_rejection) {
		device.expect_failure();
	} else {
		expect_event(device.channel(), RDMA_CM_EVENT_ESTABLISHED);
		expect_event(device.channel(), RDMA_CM_EVENT_DISCONNECTED);
	}
	require(next_event(device.channel(), 50).type < 0, "no other event comes");
}

void more_replies(const std::string &address)
{
	for (bool is_rejection : { false, true })
		for (std::size_t times : { 1, 1000 })
			second_reply(address, is_rejection, times);
}

void silence_before_a_request(const std::string &address)
{
	Responder device(address);
	Peer peer(device.address());

	require(peer.hears_nothing(200), "the device sends nothing");
	peer.say(first(Frame{}.octets(), 19));
	require(peer.hears_nothing(200), "the device sends nothing after 19 octets");
}

void rejection_by_the_application(const std::string &address)
{
	Responder device(address);
	Peer peer(device.address());
	Octets data = octets_of(2, 20);

	peer.say(Frame{}.octets());
	device.take_request();
	device.reject(data);

	auto reply = peer.hear_frame();

	require(reply && reply->key == reply_key && reply->flags & 0x20, "the Reply rejects");
	require(reply->private_data == data, "the Reply has the application's data");
	require(peer.hears_end(), "no FPDU follows");
}

void rejection_by_the_peer(const std::string &address)
{
	Initiator device(address);
	Peer peer = device.accept();
	auto request = peer.hear_frame();
	Frame reply = Initiator::accepting(*request);

	reply.flags |= 0x20;
	reply.private_data.insert(reply.private_data.end(), { 'n', 'o' });
	peer.say(reply.octets());

	Event event = expect_event(device.channel(), RDMA_CM_EVENT_REJECTED);

	require(event.private_data == Octets{ 'n', 'o' }, "the application gets the peer's data");
	require(peer.is_hung_up(), "no FPDU comes");
}

/* The application posts at once, but the device waits for the first FPDU. */
void responder_waits(const std::string &address)
{
	Stream stream(address, Role::responder, { .open = false });

	stream.memory().fill(5);
	stream.end().send(stream.memory().sge(0, 8), 1);
	stream.end().write(stream.memory().sge(0, 8), 0, 0, 2);
	require(stream.peer().hears_nothing(300), "nothing is sent before an FPDU has come");

	Octets opening = fpdu(Tagged{}.ulpdu({}));

	stream.peer().say(first(opening, opening.size() - 1));
	require(stream.peer().hears_nothing(100), "nothing is sent before all of it has come");
	stream.peer().say(after(opening, opening.size() - 1));
	require(stream.hear().payload() == octets_of(5, 8), "then the Send is sent");
	expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, 1);
	expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, 2);
}

void responder_need_not_wait(const std::string &address)
{
	Setting setting(device_setting("responder_hold"), "0");
	Stream stream(address, Role::responder, { .open = false });

	stream.end().send(stream.memory().sge(0, 8), 1);
	require(stream.hear().payload().size() == 8, "the Send comes first");
}

/* The device hangs up after this time, no sooner and not much later. */
void expect_hung_up_after(Peer &peer, std::chrono::steady_clock::time_point start,
			  std::chrono::seconds time, Where where = Where::current())
{
	using namespace std::chrono_literals;
	auto now = std::chrono::steady_clock::now;
	std::chrono::milliseconds left =
		std::chrono::duration_cast<std::chrono::milliseconds>(start + time + 4s - now());

	require(peer.is_hung_up(static_cast<int>(std::max(left, 1ms).count())),
		std::format("the peer is hung up on after {} s", time.count()), where);
	require(now() > start + time - 500ms, "the peer is not hung up on before", where);
}

/* A responder waits 5 s, an initiator 10 s. All deadlines are tested at the same time. */
void deadlines(const std::string &address)
{
	using namespace std::chrono_literals;
	auto start = std::chrono::steady_clock::now();
	Responder device(address);
	Initiator unanswered(address), half_answered(address);
	Peer called = unanswered.accept(), stops = half_answered.accept();
	Peer silent(device.address()), half(device.address()), slow(device.address());

	stops.hear_frame();
	stops.say(first(Frame{ .key = reply_key }.octets(), 19));
	called.hear_frame();
	half.say(first(Frame{}.octets(), 19));

	/* The deadline is for the whole Request. Further octets do not extend it. */
	Octets request = Frame{ .private_data = octets_of(1, 60) }.octets();
	std::size_t said = 0;

	for (; said < request.size() && slow.hears_nothing(200); said++)
		slow.say(first(after(request, said), 1));
	require(said < 40, "a peer that sends an octet now and then is hung up on");
	for (Peer *peer : { &slow, &silent, &half })
		expect_hung_up_after(*peer, start, 5s);
	for (Peer *peer : { &called, &stops })
		expect_hung_up_after(*peer, start, 10s);
	unanswered.expect_failure();
	half_answered.expect_failure();
	device.expect_unaware();
}

/* In the peer-to-peer model the exchange ends with the RTR (RFC 6581 section 5). */
void deadline_of_the_rtr(const std::string &address)
{
	using namespace std::chrono_literals;
	auto start = std::chrono::steady_clock::now();
	Setup setup = { .request = enhanced_request(peer_to_peer | 4, ready_write | 4),
			.open = false };
	Stream silent(address, Role::responder, setup), slow(address, Role::responder, setup);
	Octets rtr = fpdu(Tagged{}.ulpdu({}));

	/* Octets of the RTR do not extend the deadline. */
	for (std::size_t said = 0; said + 1 < rtr.size() && slow.peer().hears_nothing(800); said++)
		slow.peer().say(first(after(rtr, said), 1));
	for (Stream *stream : { &slow, &silent }) {
		expect_hung_up_after(stream->peer(), start, 10s);
		require(next_event(stream->channel()).status == -ETIMEDOUT,
			"the application is told of a timeout");
	}
}

void deadline_of_the_rtr_is_a_setting(const std::string &address)
{
	using namespace std::chrono_literals;
	Setting setting(device_setting("opening_ms"), "1000");
	auto start = std::chrono::steady_clock::now();
	Setup setup = { .request = enhanced_request(peer_to_peer | 4, ready_write | 4),
			.open = false };
	Stream silent(address, Role::responder, setup);

	expect_hung_up_after(silent.peer(), start, 1s);
}

void no_terminate_to_a_bad_frame(const std::string &address)
{
	Responder device(address);
	auto start = std::chrono::steady_clock::now();

	expect_refused(device, Frame{ .key = "MPA ID Req Framf" }.octets());
	expect_refused(device, Octets{ 'm' });
	require(std::chrono::steady_clock::now() - start < std::chrono::seconds(3),
		"the device closes at once and does not wait for the rest");

	Initiator caller(address);
	Peer peer = caller.accept();

	peer.hear_frame();
	peer.say(Octets(20, 'x'));
	require(peer.is_hung_up(), "an initiator sends no Terminate, either");
	caller.expect_failure();
}

/* TCP sockets in use in this namespace. */
int sockets_in_use()
{
	std::ifstream file("/proc/net/sockstat");
	std::string word;
	int count = -1;

	while (file >> word && word != "TCP:")
		;
	file >> word >> count;
	return count;
}

void nothing_leaks(const std::string &address)
{
	Responder device(address);
	int before = sockets_in_use();

	for (int i = 0; i < 300; i++)
		expect_refused(device, Frame{ .key = "MPA ID Req Framf" }.octets());
	for (int i = 0; i < 20; i++) {
		Peer peer(device.address());

		peer.say(Frame{}.octets());
		device.take_request();
		device.reject();
		require(peer.hear_frame().has_value() && peer.is_hung_up(), "the peer is rejected");
	}
	for (int tries = 0; sockets_in_use() != before; tries++) {
		require(tries < 100, std::format("{} sockets are left, {} were there before",
						 sockets_in_use(), before));
		std::this_thread::sleep_for(std::chrono::milliseconds(50));
	}
	expect_accepted(device, {});
}

const cases::Case all[] = {
	{ "MPA-01 a Request with a wrong key is hung up on", wrong_key },
	{ "MPA-02 an initiator hangs up on a Request", request_for_a_reply },
	{ "MPA-03 reserved flags are ignored, and sent as zero", reserved_flags },
	{ "MPA-04 other revisions are hung up on", wrong_revision },
	{ "MPA-07 CRCs are on if either end wants them", in_both_roles<crc_if_either_wants> },
	{ "MPA-08 CRCs are wanted by default", crc_by_default },
	{ "MPA-09 with CRCs off their field is not looked at", crc_off_is_ignored },
	{ "MPA-10 a PD_Length over 512 is hung up on at once", long_private_data },
	{ "MPA-11 private data is intact, or more than can be taken", private_data_is_intact },
	{ "MPA-11 private data of a Reply is intact, or more than can be taken",
	  private_data_of_a_reply },
	{ "MPA-12 octets after a Request are hung up on", octets_after_a_request },
	{ "MPA-13 frames may come in any segmentation", segmentation },
	{ "MPA-13 a FIN right after a Reply is noticed", end_behind_a_reply },
	{ "MPA-14 a responder is silent before a Request", silence_before_a_request },
	{ "MPA-15 a rejection comes with its data", rejection_by_the_application },
	{ "MPA-16 an initiator hears of a rejection and its data", rejection_by_the_peer },
	{ "MPA-17 a responder waits for the first valid FPDU", responder_waits },
	{ "MPA-17 with responder_hold off a responder does not wait", responder_need_not_wait },
	{ "MPA-18 startup has a deadline on both ends", deadlines },
	{ "MPA-18 the opening message has a deadline", deadline_of_the_rtr },
	{ "MPA-18 the deadline of the opening message is a setting",
	  deadline_of_the_rtr_is_a_setting },
	{ "MPA-19 a bad frame is closed on at once, without Terminate",
	  no_terminate_to_a_bad_frame },
	{ "MPA-19 only the first Reply is an answer", more_replies },
	{ "MPA-20 refused and rejected connections leave nothing behind", nothing_leaks },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
