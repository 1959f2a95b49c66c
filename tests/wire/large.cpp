/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* FPDUs that span TCP segments, which both ends have to agree on. RFC 5044 section 5.1 asks for FPDUs
 * that fit a segment.
 */
#include "../verbs/device.hpp"
#include "sender.hpp"
#include "stream.hpp"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <format>
#include <thread>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

/* The flags of a Request that offers them, and of a Reply that agrees. */
constexpr std::uint8_t offers = 0x08, agrees = 0x0c;

/* The flag of a peer besides that of the CRC. Its TCP takes segments of 536 octets. */
Setup with_flags(std::uint8_t request, std::uint8_t reply)
{
	Frame frame = enhanced_reply(peer_to_peer | 16, ready_write | 16);

	frame.flags |= reply;
	return { .request = { .flags = std::uint8_t(0x40 | request) },
		 .reply = frame,
		 .segment_size = 536,
		 .memory = 300000 };
}

/* The longest ULPDU of a Write and a Send, whose data has to be right. */
std::size_t longest_of_messages(Stream &stream)
{
	constexpr std::uint32_t size = 200000;
	std::size_t longest = 0;

	stream.memory().fill(3);
	stream.end().write(stream.memory().sge(0, size), 0, 1, 1);
	stream.end().send(stream.memory().sge(0, size), 2);
	for (bool tagged : { true, false }) {
		std::size_t heard = 0;

		while (heard < size) {
			Fpdu fpdu = stream.hear();
			Octets payload = fpdu.payload();

			require(fpdu.is_tagged() == tagged, "first comes the Write");
			require((tagged ? fpdu.tagged_offset() : fpdu.message_offset()) == heard,
				"nothing is left out");
			require(payload == octets_of(3, payload.size(), heard),
				"the data is right");
			longest = std::max(longest, fpdu.ulpdu.size());
			heard += payload.size();
			require(fpdu.is_last() == (heard == size),
				"only the last one is marked so");
		}
		expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, tagged ? 1 : 2);
	}
	return longest;
}

void both_want_them(const std::string &address, Role role)
{
	Stream stream(address, role, with_flags(offers, agrees));

	require((stream.frame().flags & agrees) == (role == Role::initiator ? offers : agrees),
		"the device offers them, or agrees");

	std::size_t longest = longest_of_messages(stream);

	require(longest > 8192 && longest <= 64768, std::format("{} octets", longest));
}

void peer_does_not(const std::string &address, Role role)
{
	Stream stream(address, role, with_flags(0, 0));

	require((stream.frame().flags & agrees) == (role == Role::initiator ? offers : 0),
		"the device offers them, but does not ask for them in a Reply");
	require(longest_of_messages(stream) < 536, "each FPDU fits a segment");
}

/* siw sends back the flags of the Request, and cannot always cope with a header in two segments. */
void peer_sends_flags_back(const std::string &address)
{
	Stream stream(address, Role::initiator, with_flags(0, offers));

	require(longest_of_messages(stream) < 536, "each FPDU fits a segment");
}

void device_does_not(const std::string &address, Role role)
{
	Setting setting(device_setting("large_fpdus"), "0");
	Stream stream(address, role, with_flags(offers, agrees));

	require(!(stream.frame().flags & agrees), "the device does not want them");
	require(longest_of_messages(stream) < 536, "each FPDU fits a segment");
}

/*
 * TCP has no memory
 */

/* The FPDU may be complete before the application posts its receive. */
void no_room_and_no_receive(const std::string &address, Role role)
{
	std::deque<Sender> senders = begun(address, role);
	const TcpMemory hardly_any("1 1 1");

	for (Sender &sender : senders) { /* a Send waits only for a second */
		sender.end();
		sender.post();
	}
	for (Sender &sender : senders)
		sender.expect();
}

/* Three FPDUs, which are one if the first length is that of the longest. */
Octets three_in_one()
{
	Octets octets = fpdu(Untagged{}.ulpdu(octets_of(1, 82))) +
			fpdu(Untagged{ .msn = 2 }.ulpdu(octets_of(2, 10)));
	std::size_t rest = 2 + 65535 + 3 + 4 - octets.size();

	return octets + fpdu(Untagged{ .msn = 3 }.ulpdu(octets_of(3, rest - 2 - 18 - 4)));
}

void length_changes(const std::string &address, Role role)
{
	Setting no_crc(device_setting("crc"), "0");
	int file = memfd_create("fpdu", 0);
	std::deque<Sender> senders = begun(address, role);
	Sender changing(address, role, 0);
	Octets before = be16(65535), after = be16(100);

	changing.octets = three_in_one();
	std::ranges::copy(before, changing.octets.begin());
	for (std::uint64_t i = 1; i <= 3; i++)
		changing.stream.end().receive(changing.stream.memory().sge(0, Sender::size), i);
	changing.begin_from(file);

	const TcpMemory hardly_any("1 1 1");

	require(pwrite(file, after.data(), 2, 0) == 2, "the length changes");
	close(file);
	changing.end();
	for (std::uint64_t i = 1; i <= 3; i++)
		expect_completion(changing.stream.end().recv_cq(), IBV_WC_SUCCESS, i);
}

/* With one octet the length is not known yet. */
void no_room_for_a_length(const std::string &address, Role role)
{
	std::deque<Sender> senders = begun(address, role);
	Sender one(address, role);

	one.post();
	one.stream.peer().say(first(one.octets, 1));
	std::this_thread::sleep_for(std::chrono::milliseconds(100));

	const TcpMemory hardly_any("1 1 1");

	one.stream.peer().say(after(one.octets, 1));
	one.expect();
}

/* TCP tells of an urgent octet before it has it: as if something had come, but nothing has. */
void room_for_all(const std::string &address, Role role)
{
	Stream stream(address, role, { .memory = Sender::size });
	std::uint64_t before = device_counter(stream.end().id()->verbs, "rx_kept");
	Octets octets = fpdu(Untagged{}.ulpdu(octets_of(1, Sender::size)));

	stream.end().receive(stream.memory().sge(0, Sender::size), 1);
	stream.peer().say(first(octets, 4));
	require(send(stream.peer().fd(), octets.data() + 4, 1, MSG_OOB) == 1,
		"one octet is urgent");
	std::this_thread::sleep_for(std::chrono::milliseconds(100));
	stream.peer().say(after(octets, 5));
	expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1);
	require(stream.memory().holds(1, 0, Sender::size), "the data is right");
	require(device_counter(stream.end().id()->verbs, "rx_kept") == before,
		"the FPDU has stayed in the socket");
}

const cases::Case all[] = {
	{ "MPA-30 an FPDU comes for which TCP has no room", in_both_roles<send_without_room> },
	{ "MPA-30 an FPDU for which TCP has no room waits for a receive",
	  in_both_roles<no_room_and_no_receive> },
	{ "MPA-30 the start of an FPDU comes for which TCP has no room",
	  in_both_roles<no_room_for_a_length> },
	{ "MPA-30 an FPDU stays in the socket if TCP has room", in_both_roles<room_for_all> },
	{ "MPA-30 nothing is lost if the length changes while TCP has no room",
	  in_both_roles<length_changes> },
	{ "MPA-31 FPDUs span segments if both ends want that", in_both_roles<both_want_them> },
	{ "MPA-31 no FPDU spans segments if the peer does not want that",
	  in_both_roles<peer_does_not> },
	{ "MPA-31 no FPDU spans segments if the peer sends back the flags of the Request",
	  peer_sends_flags_back },
	{ "MPA-31 no FPDU spans segments if the setting is 0", in_both_roles<device_does_not> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
