/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A peer that is a plain TCP socket, and the frames that it says right or wrong things with. */
#pragma once

#include "rdma.hpp"

#include <optional>
#include <string>
#include <vector>

namespace raw
{

using Octets = std::vector<std::uint8_t>;

Octets operator+(Octets first, const Octets &second);

/* value in network order */
Octets be16(std::uint16_t value);
Octets be32(std::uint32_t value);
Octets be64(std::uint64_t value);

std::uint32_t crc32c(std::span<const std::uint8_t> octets);

/* MPA Request, RFC 5044 section 7.1.1. */
struct Request {
	std::string key = "MPA ID Req Frame";
	std::uint8_t flags = 0x40; /* CRC wanted */
	std::uint8_t revision = 1;
	Octets private_data = {};
	std::optional<std::uint16_t> length = {}; /* what the frame says, if not the truth */

	Octets frame() const;
};

/* An FPDU around a ULPDU, RFC 5044 section 4.1: length, pad and CRC. */
Octets fpdu(const Octets &ulpdu);

/* ULPDUs of DDP and RDMAP, RFC 5041 section 4 and RFC 5040 section 4. */
struct Tagged {
	std::uint8_t ddp = 0xc1;   /* tagged, last, version 1 */
	std::uint8_t rdmap = 0x40; /* version 1, RDMA Write */
	std::uint32_t stag = 0;
	std::uint64_t offset = 0;

	Octets ulpdu(const Octets &payload) const;
};

struct Untagged {
	std::uint8_t ddp = 0x41;   /* last, version 1 */
	std::uint8_t rdmap = 0x43; /* version 1, Send */
	std::uint32_t invalidate = 0;
	std::uint32_t queue = 0;
	std::uint32_t msn = 1;
	std::uint32_t offset = 0;

	Octets ulpdu(const Octets &payload) const;
};

/* What a Terminate says, RFC 5040 section 4.8. */
struct Terminate {
	int layer;
	int type;
	int code;

	bool operator==(const Terminate &) const = default;
};

class Peer
{
public:
	explicit Peer(const sockaddr *to);
	Peer(const Peer &) = delete;
	~Peer();

	void say(std::span<const std::uint8_t> octets);
	/* each octet in a segment of its own */
	void say_slowly(std::span<const std::uint8_t> octets);
	/* exactly so many octets; fewer if the stream ends or the time is over */
	Octets hear(std::size_t count, int timeout_ms = 10000);
	/* nothing comes before the stream ends, which it does in time */
	bool is_hung_up(int timeout_ms = 10000);
	/* the next FPDU if it is a Terminate with a good CRC, read to the end of the stream */
	std::optional<Terminate> hear_terminate();
	/* ends the stream with a RST instead of a FIN */
	void abort();

private:
	int fd_;
};

/* A peer that has called, as it should, and the end of the application that it called. */
struct Call {
	explicit Call(const std::string &address, const rdma::QpOptions &options = {});

	rdma::Listener listener;
	Peer peer;
	rdma::End end;
};

} /* namespace raw */
