/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* sender.hpp - peers that send the longest FPDUs in parts, and TCP without memory for the rest */
#pragma once

#include "../verbs/tcp_memory.hpp"
#include "stream.hpp"

#include <sys/sendfile.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <string>

namespace wire
{

/* A peer that sends an FPDU of a whole Send in two parts. */
struct Sender {
	static constexpr std::uint32_t size = 65535 - 18; /* the longest ULPDU */
	static constexpr std::uint32_t first_part = 60000;

	Sender(const std::string &address, Role role, std::uint8_t flags = 0x40)
		: stream(address, role, setup(role, flags)),
		  octets(raw::fpdu(raw::Untagged{}.ulpdu(raw::octets_of(1, size))))
	{
	}
	/* Without CRCs the peer does not look at the FPDU with which the device opens the stream. */
	static Setup setup(Role role, std::uint8_t flags)
	{
		raw::Frame reply = enhanced_reply(peer_to_peer | 16, ready_write | 16);

		reply.flags = flags | 0x10;
		return { .request = { .flags = flags },
			 .reply = reply,
			 .memory = size,
			 .open = (flags & 0x40) || role == Role::responder };
	}
	void begin() { stream.peer().say(raw::first(octets, first_part)); }
	/* Sends the pages of a file, whose octets may change until the device reads them. */
	void begin_from(int file)
	{
		rdma::require(write(file, octets.data(), first_part) == first_part &&
				      sendfile(stream.peer().fd(), file, &at_first, first_part) ==
					      first_part,
			      "the pages of a file are sent");
	}
	void end() { stream.peer().say(raw::after(octets, first_part)); }
	void post() { stream.end().receive(stream.memory().sge(0, size), 1); }
	void expect()
	{
		rdma::expect_completion(stream.end().recv_cq(), IBV_WC_SUCCESS, 1);
		rdma::require(stream.memory().holds(1, 0, size), "the data is right");
	}

	Stream stream;
	raw::Octets octets;
	off_t at_first = 0;
};

/* Many of them, because each CPU has some memory that no limit counts. */
inline std::deque<Sender> begun(const std::string &address, Role role)
{
	std::deque<Sender> senders;

	for (int i = 0; i < 64; i++)
		senders.emplace_back(address, role).begin();
	return senders;
}

/* While TCP has no memory, the rests of FPDUs come. */
inline void send_without_room(const std::string &address, Role role)
{
	std::deque<Sender> senders = begun(address, role);

	for (Sender &sender : senders)
		sender.post();

	const rdma::TcpMemory hardly_any("1 1 1");

	for (Sender &sender : senders)
		sender.end();
	for (Sender &sender : senders)
		sender.expect();
}

} /* namespace wire */
