/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A peer on a plain TCP socket, which composes and parses frames, also wrong ones. */
#include "raw_peer.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <format>

namespace raw
{

Octets operator+(Octets first, const Octets &second)
{
	first.insert(first.end(), second.begin(), second.end());
	return first;
}

static Octets::const_iterator at(const Octets &octets, std::size_t place)
{
	return octets.begin() + static_cast<std::ptrdiff_t>(place);
}

Octets first(const Octets &octets, std::size_t count)
{
	return Octets(octets.begin(), at(octets, count));
}

Octets after(const Octets &octets, std::size_t count)
{
	return Octets(at(octets, count), octets.end());
}

static Octets big_endian(std::uint64_t value, unsigned int octets)
{
	Octets result;

	while (octets--)
		result.push_back(static_cast<std::uint8_t>(value >> 8 * octets));
	return result;
}

Octets be16(std::uint16_t value)
{
	return big_endian(value, 2);
}

Octets be32(std::uint32_t value)
{
	return big_endian(value, 4);
}

Octets be64(std::uint64_t value)
{
	return big_endian(value, 8);
}

static constexpr auto crc_table = [] {
	std::array<std::uint32_t, 256> table = {};

	for (std::uint32_t octet = 0; octet < table.size(); octet++) {
		table[octet] = octet;
		for (int bit = 0; bit < 8; bit++)
			table[octet] = table[octet] >> 1 ^ (table[octet] & 1 ? 0x82f63b78 : 0);
	}
	return table;
}();

std::uint32_t crc32c(std::span<const std::uint8_t> octets)
{
	std::uint32_t crc = ~0u;

	for (std::uint8_t octet : octets)
		crc = crc >> 8 ^ crc_table[(crc ^ octet) & 0xff];
	return ~crc;
}

Octets crc_octets(std::uint32_t crc)
{
	Octets octets = be32(crc);

	std::ranges::reverse(octets);
	return octets;
}

Octets octets_of(std::uint32_t seed, std::size_t count, std::size_t place)
{
	Octets octets(count);

	for (std::size_t i = 0; i < count; i++)
		octets[i] = rdma::pattern(seed, place + i);
	return octets;
}

Octets Frame::octets() const
{
	Octets frame(key.begin(), key.end());

	frame.push_back(flags);
	frame.push_back(revision);
	return frame + be16(length.value_or(static_cast<std::uint16_t>(private_data.size()))) +
	       private_data;
}

Octets fpdu(const Octets &ulpdu, std::uint8_t pad)
{
	Octets frame = be16(static_cast<std::uint16_t>(ulpdu.size())) + ulpdu;

	frame.resize((frame.size() + 3) / 4 * 4, pad);
	return frame + crc_octets(crc32c(frame));
}

Octets Tagged::ulpdu(const Octets &payload) const
{
	return Octets{ ddp, rdmap } + be32(stag) + be64(offset) + payload;
}

Octets Untagged::ulpdu(const Octets &payload) const
{
	return Octets{ ddp, rdmap } + be32(invalidate) + be32(queue) + be32(msn) + be32(offset) +
	       payload;
}

Octets ReadRequest::octets() const
{
	return be32(sink_stag) + be64(sink_offset) + be32(size) + be32(source_stag) +
	       be64(source_offset);
}

Octets ReadRequest::ulpdu(std::uint32_t msn) const
{
	return Untagged{ .rdmap = 0x41, .queue = 1, .msn = msn }.ulpdu(octets());
}

std::string to_string(const Terminate &terminate)
{
	return std::format("{}/{}/{}", terminate.layer, terminate.type, terminate.code);
}

std::uint64_t Fpdu::field(std::size_t offset, std::size_t count) const
{
	std::uint64_t value = 0;

	for (std::size_t i = offset; i < offset + count; i++)
		value = value << 8 | ulpdu.at(i);
	return value;
}

Octets Fpdu::payload() const
{
	return after(ulpdu, header_size());
}

ReadRequest Fpdu::read_request() const
{
	return { static_cast<std::uint32_t>(field(18, 4)), field(22, 8),
		 static_cast<std::uint32_t>(field(30, 4)), static_cast<std::uint32_t>(field(34, 4)),
		 field(38, 8) };
}

std::optional<Terminate> Fpdu::terminate() const
{
	if (!crc_is_good || ulpdu.size() < 22 || ulpdu[0] != 0x41 || ulpdu[1] != 0x47 ||
	    invalidate() || queue() != 2 || msn() != 1 || message_offset())
		return std::nullopt;
	return Terminate{ ulpdu[18] >> 4, ulpdu[18] & 15, ulpdu[19] };
}

static int open_socket(int family, int segment_size)
{
	int fd = socket(family, SOCK_STREAM, 0);
	int on = 1; /* accepted sockets inherit it: each say() is a segment of its own */

	if (fd < 0)
		rdma::fail("socket", errno);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (segment_size)
		setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment_size, sizeof(segment_size));
	return fd;
}

Peer::Peer(const sockaddr *to, int segment_size) : fd_(open_socket(to->sa_family, segment_size))
{
	socklen_t length = to->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);

	if (connect(fd_, to, length))
		rdma::fail("connect", errno);
}

Peer::~Peer()
{
	if (fd_ >= 0)
		close(fd_);
}

/* Ignores errors: in some cases the device has hung up already. */
void Peer::say(std::span<const std::uint8_t> octets)
{
	while (!octets.empty()) {
		ssize_t count = send(fd_, octets.data(), octets.size(), MSG_NOSIGNAL);

		if (count < 0)
			return;
		octets = octets.subspan(static_cast<std::size_t>(count));
	}
}

void Peer::say_slowly(std::span<const std::uint8_t> octets)
{
	for (std::size_t i = 0; i < octets.size(); i++)
		say(octets.subspan(i, 1));
}

Octets Peer::hear(std::size_t count, int timeout_ms)
{
	auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
	Octets heard;

	while (heard.size() < count) {
		auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
			deadline - std::chrono::steady_clock::now());
		std::uint8_t octets[4096];

		if (left.count() <= 0 || !rdma::wait_readable(fd_, static_cast<int>(left.count())))
			break;

		ssize_t got = recv(fd_, octets, std::min(sizeof(octets), count - heard.size()), 0);

		if (got <= 0)
			break;
		heard.insert(heard.end(), octets, octets + got);
	}
	return heard;
}

bool Peer::is_hung_up(int timeout_ms)
{
	std::uint8_t octet;

	return rdma::wait_readable(fd_, timeout_ms) && recv(fd_, &octet, 1, 0) <= 0;
}

std::optional<Frame> Peer::hear_frame()
{
	Octets header = hear(20);

	if (header.size() < 20)
		return std::nullopt;

	std::size_t length = header[18] << 8 | header[19];
	Frame frame = { std::string(header.begin(), header.begin() + 16), header[16], header[17],
			hear(length) };

	if (frame.private_data.size() < length)
		return std::nullopt;
	return frame;
}

std::optional<Fpdu> Peer::hear_fpdu(int timeout_ms)
{
	Octets length = hear(2, timeout_ms);

	if (length.size() < 2)
		return std::nullopt;

	std::size_t ulpdu = length[0] << 8 | length[1];
	std::size_t covered = (2 + ulpdu + 3) / 4 * 4;
	Fpdu fpdu = { .octets = length + hear(covered + 4 - 2, timeout_ms) };

	if (fpdu.octets.size() < covered + 4)
		return std::nullopt;

	fpdu.ulpdu = first(after(fpdu.octets, 2), ulpdu);
	fpdu.pad = after(first(fpdu.octets, covered), 2 + ulpdu);
	fpdu.crc_is_good = fpdu.octets == first(fpdu.octets, covered) +
						  crc_octets(crc32c(first(fpdu.octets, covered)));
	return fpdu;
}

std::optional<Terminate> Peer::hear_terminate()
{
	auto fpdu = hear_fpdu();
	auto terminate = fpdu ? fpdu->terminate() : std::nullopt;

	if (!is_hung_up())
		return std::nullopt;
	return terminate;
}

bool Peer::hears_nothing(int time_ms)
{
	return !rdma::wait_readable(fd_, time_ms);
}

bool Peer::hears_end(int timeout_ms)
{
	std::uint8_t octet;

	return rdma::wait_readable(fd_, timeout_ms) && !recv(fd_, &octet, 1, 0);
}

void Peer::end()
{
	shutdown(fd_, SHUT_WR);
}

void Peer::abort()
{
	linger now = { 1, 0 };

	setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd_);
	fd_ = -1;
}

int Peer::tcp_state() const
{
	tcp_info info = {};
	socklen_t length = sizeof(info);

	rdma::require(!getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &length), "TCP_INFO");
	return info.tcpi_state;
}

static std::uint16_t port_by(decltype(getsockname) get, int fd)
{
	sockaddr_storage at = {};
	socklen_t length = sizeof(at);

	get(fd, reinterpret_cast<sockaddr *>(&at), &length);
	/* the port is at the same offset in both families */
	return ntohs(reinterpret_cast<sockaddr_in *>(&at)->sin_port);
}

std::uint16_t Peer::port() const
{
	return port_by(getpeername, fd_);
}

Acceptor::Acceptor(const std::string &address, int segment_size, int backlog)
{
	sockaddr_storage at = rdma::parse_address(address, 0);

	fd_ = open_socket(at.ss_family, segment_size);
	if (bind(fd_, reinterpret_cast<sockaddr *>(&at), sizeof(at)) || listen(fd_, backlog))
		rdma::fail("listen", errno);
}

Acceptor::~Acceptor()
{
	close(fd_);
}

std::uint16_t Acceptor::port() const
{
	return port_by(getsockname, fd_);
}

Peer Acceptor::accept(int timeout_ms)
{
	int fd = rdma::wait_readable(fd_, timeout_ms) ? ::accept(fd_, nullptr, nullptr) : -1;

	if (fd < 0)
		rdma::fail("no connection comes");
	return Peer(fd);
}

/* The peer sends a Request, and the application accepts. Returns the application's end. */
static rdma::End answer(rdma::Listener &listener, Peer &peer, const rdma::QpOptions &options)
{
	peer.say(Frame{}.octets());

	rdma::End end(listener.next_request(), options);

	end.accept();
	rdma::expect_event(listener.channel(), RDMA_CM_EVENT_ESTABLISHED);
	rdma::require(peer.hear(20).size() == 20, "the Request is answered");
	return end;
}

Call::Call(const std::string &address, const rdma::QpOptions &options)
	: listener(address), peer(listener.address()), end(answer(listener, peer, options))
{
}

} /* namespace raw */
