/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Markers: RFC 5044 sections 4.3 and 4.4. */
#include "stream.hpp"

#include <algorithm>
#include <format>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

/* A peer that has asked for markers, and removes them from what it receives. */
class Marked
{
public:
	Marked(const std::string &address, Role role, std::size_t memory = 1 << 20)
		: stream(address, role,
			 { .request = { .flags = 0xc0 },
			   .reply = Frame{ reply_key, 0xd0, 2,
					   be16(peer_to_peer | 16) + be16(ready_write | 16) },
			   .memory = memory,
			   .open = role == Role::responder })
	{
		if (role == Role::initiator)
			require(hear().payload().empty(), "the stream is opened");
	}

	/* The next FPDU without its markers. Checks that all markers are in place. */
	Fpdu hear(Where where = Where::current());

	Stream stream;

private:
	/* Receives a marker if one is due, and checks it. */
	void take_marker(Where where);
	/* Receives count octets of the FPDU, and the markers before and between them. */
	Octets take(std::size_t count, Where where);

	std::size_t position_ = 0; /* in the stream */
	std::size_t start_ = 0;	   /* position of the ULPDU_Length of this FPDU */
	Octets covered_;	   /* octets that its CRC covers */
};

void Marked::take_marker(Where where)
{
	bool leads = covered_.empty();
	std::size_t pointer = leads ? 0 : position_ - start_;

	if (position_ % 512)
		return;

	Octets marker = stream.peer().hear(4);

	require(marker == be16(0) + be16(static_cast<std::uint16_t>(pointer)),
		std::format("the marker at {} points to {}", position_, start_), where);
	covered_ = covered_ + marker;
	position_ += 4;
	if (leads)
		start_ = position_;
}

Octets Marked::take(std::size_t count, Where where)
{
	Octets octets;

	while (octets.size() < count) {
		take_marker(where);

		std::size_t until_marker = 512 - position_ % 512;
		Octets more = stream.peer().hear(std::min(count - octets.size(), until_marker));

		require(!more.empty(), "the stream goes on", where);
		octets = octets + more;
		covered_ = covered_ + more;
		position_ += more.size();
	}
	return octets;
}

Fpdu Marked::hear(Where where)
{
	Fpdu fpdu;

	covered_.clear();
	start_ = position_;

	Octets length = take(2, where);
	std::size_t ulpdu = length[0] << 8 | length[1];

	fpdu.ulpdu = take(ulpdu, where);
	take((2 + ulpdu + 3) / 4 * 4 - 2 - ulpdu, where);
	take_marker(where);

	Octets crc = stream.peer().hear(4);

	position_ += 4;
	fpdu.crc_is_good = crc == crc_octets(crc32c(covered_));
	require(fpdu.crc_is_good, "the CRC covers the FPDU and its markers", where);
	return fpdu;
}

void wanted_markers_are_sent(const std::string &address, Role role)
{
	Marked marked(address, role);

	require(!(marked.stream.frame().flags & 0x80), "the device itself wants no markers");
	for (std::uint32_t size = 0; size < 100; size++) {
		marked.stream.end().write(marked.stream.memory().sge(0, size), 0, 1, size);
		require(marked.hear().payload().size() == size, "a Write comes");
		expect_completion(marked.stream.end().send_cq(), IBV_WC_SUCCESS, size);
	}
}

void markers_are_where_they_should_be(const std::string &address, Role role)
{
	Marked marked(address, role);
	Stream &stream = marked.stream;
	std::uint32_t sizes[] = { 1,	 3,	 20,	100000, 490,	 466,  462, 5,
				  70000, 300000, 65536, 512,	1 << 20, 4096, 0,   7 };
	std::uint32_t msn = 1;

	stream.memory().fill(3);
	for (int round = 0; round < 3; round++)
		for (std::uint32_t size : sizes) {
			Octets data;
			Fpdu heard;

			stream.end().send(stream.memory().sge(0, size), size);
			do {
				heard = marked.hear();
				require(heard.msn() == msn && heard.message_offset() == data.size(),
					"MSN and MO are right");
				data = data + heard.payload();
			} while (!heard.is_last());
			require(data == octets_of(3, size), "the message is whole");
			expect_completion(stream.end().send_cq(), IBV_WC_SUCCESS, size);
			msn++;
		}

	/* The peer sends no markers, because the device did not ask for them. */
	stream.end().receive(stream.memory().sge(0, 2000), 1);
	stream.peer().say(fpdu(Untagged{}.ulpdu(octets_of(8, 2000))));
	expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1);
	require(stream.memory().holds(8, 0, 2000), "the message is received");
}

void terminate_has_markers(const std::string &address, Role role)
{
	/* The Terminate comes before, at, or behind a marker. */
	for (std::uint32_t size : { 4, 400, 450, 466 }) {
		Marked marked(address, role);

		marked.stream.end().send(marked.stream.memory().sge(0, size), 1);
		marked.hear();
		marked.stream.peer().say(fpdu(Untagged{ .queue = 4 }.ulpdu({})));
		require(marked.hear().terminate() == Terminate{ 1, 2, 1 }, "a Terminate comes");
		require(marked.stream.peer().hears_end(), "then the end");
	}
}

void unwanted_markers_are_not_sent(const std::string &address, Role role)
{
	Stream stream(address, role, { .memory = 100000 });
	std::size_t heard = 0;

	require(!(stream.frame().flags & 0x80), "the device itself wants no markers");
	stream.memory().fill(3);
	stream.end().write(stream.memory().sge(0, 100000), 0, 1, 1);
	while (heard < 100000) {
		Octets payload = stream.hear().payload(); /* with a good CRC */

		require(payload == octets_of(3, payload.size(), heard), "there is only data");
		heard += payload.size();
	}
}

const cases::Case all[] = {
	{ "MPA-05 a peer that wants markers gets them", in_both_roles<wanted_markers_are_sent> },
	{ "MPA-06 a peer that wants no markers gets none",
	  in_both_roles<unwanted_markers_are_not_sent> },
	{ "MPA-26 markers are every 512 octets, and in the CRC",
	  in_both_roles<markers_are_where_they_should_be> },
	{ "MPA-26 a Terminate has its markers too", in_both_roles<terminate_has_markers> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}
