/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A peer on a plain TCP socket, which composes and parses frames, also wrong ones. */
#pragma once

#include "rdma.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace raw
{

using Octets = std::vector<std::uint8_t>;

Octets operator+(Octets first, const Octets &second);

/* first() returns the first count octets, after() the rest. */
Octets first(const Octets &octets, std::size_t count);
Octets after(const Octets &octets, std::size_t count);

/* The value in network byte order. */
Octets be16(std::uint16_t value);
Octets be32(std::uint32_t value);
Octets be64(std::uint64_t value);

std::uint32_t crc32c(std::span<const std::uint8_t> octets);

inline const std::string request_key = "MPA ID Req Frame";
inline const std::string reply_key = "MPA ID Rep Frame";

/* MPA Request or Reply, RFC 5044 section 7.1.1. */
struct Frame {
	std::string key = request_key;
	std::uint8_t flags = 0x40; /* CRC wanted */
	std::uint8_t revision = 1;
	Octets private_data = {};
	std::optional<std::uint16_t> length = {}; /* a wrong PD_Length to send */

	Octets octets() const;
	bool operator==(const Frame &) const = default;
};

/* An FPDU around a ULPDU, RFC 5044 section 4.1: length, pad and CRC. */
Octets fpdu(const Octets &ulpdu, std::uint8_t pad = 0);

/* A CRC as it goes over the wire: the least significant octet first. */
Octets crc_octets(std::uint32_t crc);

/* Returns count octets of the pattern of this seed, from place on. */
Octets octets_of(std::uint32_t seed, std::size_t count, std::size_t place = 0);

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

struct ReadRequest {
	std::uint32_t sink_stag = 0xdeadbeef;
	std::uint64_t sink_offset = 0x1000;
	std::uint32_t size = 0;
	std::uint32_t source_stag = 0;
	std::uint64_t source_offset = 0;

	/* The RDMAP header, which follows the DDP header. */
	Octets octets() const;
	Octets ulpdu(std::uint32_t msn = 1) const;
};

/* The error that a Terminate reports, RFC 5040 section 4.8. */
struct Terminate {
	int layer;
	int type;
	int code;

	bool operator==(const Terminate &) const = default;
};

std::string to_string(const Terminate &terminate);

/* A received FPDU. Its fields are those of the DDP header and of the RDMAP header behind it. */
struct Fpdu {
	Octets octets; /* the whole FPDU */
	Octets ulpdu = {};
	Octets pad = {};
	bool crc_is_good = false;

	std::uint64_t field(std::size_t offset, std::size_t octets) const;
	bool is_tagged() const { return ulpdu.at(0) & 0x80; }
	bool is_last() const { return ulpdu.at(0) & 0x40; }
	unsigned int opcode() const { return ulpdu.at(1) & 15; }
	std::size_t header_size() const { return is_tagged() ? 14 : 18; }
	Octets payload() const;

	std::uint32_t stag() const { return static_cast<std::uint32_t>(field(2, 4)); }
	std::uint64_t tagged_offset() const { return field(6, 8); }

	std::uint32_t invalidate() const { return static_cast<std::uint32_t>(field(2, 4)); }
	std::uint32_t queue() const { return static_cast<std::uint32_t>(field(6, 4)); }
	std::uint32_t msn() const { return static_cast<std::uint32_t>(field(10, 4)); }
	std::uint32_t message_offset() const { return static_cast<std::uint32_t>(field(14, 4)); }

	ReadRequest read_request() const;
	/* Nothing unless this is a well-formed Terminate. */
	std::optional<Terminate> terminate() const;
};

class Peer
{
public:
	/* Connects. segment_size is the MSS that the peer announces; 0 leaves it to TCP. */
	explicit Peer(const sockaddr *to, int segment_size = 0);
	/* Takes over an accepted connection. */
	explicit Peer(int fd) : fd_(fd) {}
	Peer(const Peer &) = delete;
	Peer(Peer &&from) : fd_(std::exchange(from.fd_, -1)) {}
	~Peer();

	void say(std::span<const std::uint8_t> octets);
	/* Sends each octet in a segment of its own. */
	void say_slowly(std::span<const std::uint8_t> octets);
	/* Receives count octets; fewer if the stream ends or the time is over. */
	Octets hear(std::size_t count, int timeout_ms = 10000);
	/* Receives a frame or an FPDU; returns nothing if it does not come whole. */
	std::optional<Frame> hear_frame();
	std::optional<Fpdu> hear_fpdu(int timeout_ms = 10000);
	/* True if nothing comes within the time and the stream does not end. */
	bool hears_nothing(int time_ms = 100);
	/* True if the stream ends by a FIN with nothing before it. */
	bool hears_end(int timeout_ms = 10000);
	/* Sends a FIN. */
	void end();
	/* True if the stream ends at once with nothing before it. All deadlines of the device are
	 * at least 3 s, so with this timeout the device has noticed the error and not just timed
	 * out.
	 */
	bool is_hung_up(int timeout_ms = 2500);
	/* The next FPDU, if it is a Terminate with a good CRC and the stream ends after it. */
	std::optional<Terminate> hear_terminate();
	/* Ends the stream with a RST instead of a FIN. */
	void abort();
	/* TCP's state of this end, such as TCP_CLOSE after a RST. */
	int tcp_state() const;
	/* The port of the device's end. */
	std::uint16_t port() const;
	int fd() const { return fd_; }

private:
	int fd_;
};

/* Listens on a free port. */
class Acceptor
{
public:
	explicit Acceptor(const std::string &address, int segment_size = 0, int backlog = 16);
	Acceptor(const Acceptor &) = delete;
	~Acceptor();

	std::uint16_t port() const;
	Peer accept(int timeout_ms = 10000);

private:
	int fd_;
};

/* A connection that a peer has set up correctly, and the application's end of it. */
struct Call {
	explicit Call(const std::string &address, const rdma::QpOptions &options = {});

	rdma::Listener listener;
	Peer peer;
	rdma::End end;
};

} /* namespace raw */
