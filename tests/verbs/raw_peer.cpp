/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* A peer that is a plain TCP socket, and the frames that it says right or wrong things with. */
#include "raw_peer.hpp"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace raw
{

Octets operator+(Octets first, const Octets &second)
{
	first.insert(first.end(), second.begin(), second.end());
	return first;
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

std::uint32_t crc32c(std::span<const std::uint8_t> octets)
{
	std::uint32_t crc = ~0u;

	for (std::uint8_t octet : octets) {
		crc ^= octet;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

Octets Request::frame() const
{
	Octets frame(key.begin(), key.end());

	frame.push_back(flags);
	frame.push_back(revision);
	return frame + be16(length.value_or(static_cast<std::uint16_t>(private_data.size()))) +
	       private_data;
}

Octets fpdu(const Octets &ulpdu)
{
	Octets frame = be16(static_cast<std::uint16_t>(ulpdu.size())) + ulpdu;

	frame.resize((frame.size() + 3) / 4 * 4);

	Octets crc = be32(crc32c(frame));

	std::ranges::reverse(crc); /* the least significant octet goes first */
	return frame + crc;
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

Peer::Peer(const sockaddr *to) : fd_(socket(to->sa_family, SOCK_STREAM, 0))
{
	socklen_t length = to->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);

	if (fd_ < 0 || connect(fd_, to, length))
		rdma::fail("connect", errno);
}

Peer::~Peer()
{
	close(fd_);
}

/* A peer that has hung up already is what some cases are about, no fault. */
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
	int on = 1;

	setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
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

std::optional<Terminate> Peer::hear_terminate()
{
	Octets length = hear(2);

	if (length.size() < 2)
		return std::nullopt;

	std::size_t ulpdu = length[0] << 8 | length[1];
	Octets frame = length + hear((2 + ulpdu + 3) / 4 * 4 - 2);
	Octets crc = hear(4), expected = be32(crc32c(frame));

	std::ranges::reverse(expected);
	if (ulpdu < 22 || frame.size() < 2 + ulpdu || crc != expected || frame[2] != 0x41 ||
	    frame[3] != 0x47 || frame[11] != 2 || !is_hung_up())
		return std::nullopt;
	return Terminate{ frame[20] >> 4, frame[20] & 15, frame[21] };
}

void Peer::abort()
{
	linger now = { 1, 0 };

	setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd_);
	fd_ = -1;
}

/* The application's end, once the peer has asked for the connection. */
static rdma::End answer(rdma::Listener &listener, Peer &peer, const rdma::QpOptions &options)
{
	rdma_conn_param parameters = rdma::connection_parameters();

	peer.say(Request{}.frame());

	rdma::End end(listener.next_request(), options);

	if (rdma_accept(end.id(), &parameters))
		rdma::fail("rdma_accept", errno);
	rdma::expect_event(listener.channel(), RDMA_CM_EVENT_ESTABLISHED);
	rdma::require(peer.hear(20).size() == 20, "the request is answered");
	return end;
}

Call::Call(const std::string &address, const rdma::QpOptions &options)
	: listener(address), peer(listener.address()), end(answer(listener, peer, options))
{
}

} /* namespace raw */
