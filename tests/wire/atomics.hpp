/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Atomic Requests and Responses, RFC 7306 section 5.2, and streams that carry them. */
#pragma once

#include "stream.hpp"

#include <format>

namespace wire
{

constexpr int atomic_rights = rdma::Buffer::all_rights | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::uint64_t ones = ~std::uint64_t{ 0 };
constexpr std::uint32_t fetch_add = 0, compare_swap = 2;
constexpr std::size_t response_size = 30;

/* RFC 7306 section 5.2.1. By default it adds 1 to the whole word. */
struct AtomicRequest {
	std::uint32_t operation = fetch_add;
	std::uint32_t id = 0;
	std::uint32_t stag = 0;
	std::uint64_t offset = 0;
	std::uint64_t data = 1;
	std::uint64_t mask = 0;
	std::uint64_t compare = 0;
	std::uint64_t compare_mask = ones;

	raw::Octets octets() const
	{
		using raw::operator+;

		return raw::be32(operation) + raw::be32(id) + raw::be32(stag) + raw::be64(offset) +
		       raw::be64(data) + raw::be64(mask) + raw::be64(compare) +
		       raw::be64(compare_mask);
	}
	raw::Octets ulpdu(std::uint32_t msn = 1) const
	{
		return raw::Untagged{ .rdmap = 0x4a, .queue = 1, .msn = msn }.ulpdu(octets());
	}
};

/* The header of an Atomic Response. */
inline raw::Untagged response(std::uint32_t msn = 1)
{
	return { .rdmap = 0x4b, .queue = 3, .msn = msn };
}

/* A stream whose peer sends Atomic Requests for the memory of the application. */
class Target : public Stream
{
public:
	Target(const std::string &address, Role role, const Setup &setup = {},
	       int rights = atomic_rights)
		: Stream(address, role, with_rights(setup, rights))
	{
	}

	/* A request for the word at this offset. */
	AtomicRequest request(std::uint64_t octet = 0)
	{
		raw::Tagged there = application().write_to(octet);

		return { .stag = there.stag, .offset = there.offset };
	}

	/* The next FPDU is the Response of this number. Returns the original value in it. */
	std::uint64_t hear_response(std::uint32_t msn, std::uint32_t id,
				    rdma::Where where = rdma::Where::current())
	{
		raw::Fpdu heard = hear(where);

		rdma::require(heard.ulpdu.size() == response_size &&
				      raw::first(heard.ulpdu, 18) == response(msn).ulpdu({}),
			      std::format("Atomic Response {} comes", msn), where);
		rdma::require(heard.field(18, 4) == id, "it has the identifier of its request",
			      where);
		return heard.field(22, 8);
	}

	/* Sends a request and returns the original value. Counts the MSN, so use it only for
	 * streams without other requests.
	 */
	std::uint64_t execute(AtomicRequest request, rdma::Where where = rdma::Where::current())
	{
		msn_++;
		peer().say(raw::fpdu(request.ulpdu(msn_)));
		return hear_response(msn_, request.id, where);
	}

private:
	static Setup with_rights(Setup setup, int rights)
	{
		setup.access = rights;
		return setup;
	}

	std::uint32_t msn_ = 0;
};

/* Posts an Atomic on the word at this remote address, with the result to this word of memory. */
inline void post_atomic(Stream &stream, std::uint64_t remote, std::size_t result,
			std::uint64_t wr_id, ibv_wr_opcode opcode = IBV_WR_ATOMIC_FETCH_AND_ADD)
{
	ibv_sge sge = stream.memory().sge(8 * result, 8);
	ibv_send_wr wr = rdma::signaled(opcode, sge, wr_id);

	wr.wr.atomic = { remote, 0x0102030405060708, 0x1112131415161718, 0x1234 };
	if (int err = stream.end().post(wr))
		rdma::fail("ibv_post_send", err);
}

/* The next FPDU is an Atomic Request of the device with this number. */
inline raw::Fpdu hear_request(Stream &stream, std::uint32_t msn,
			      rdma::Where where = rdma::Where::current())
{
	raw::Fpdu heard = stream.hear(where);

	rdma::require(
		heard.ulpdu.size() == 70 &&
			raw::first(heard.ulpdu, 18) ==
				raw::Untagged{ .rdmap = 0x4a, .queue = 1, .msn = msn }.ulpdu({}),
		std::format("Atomic Request {} comes, with reserved fields zero", msn), where);
	return heard;
}

/* The Atomic Response to a request of the device. */
inline raw::Octets answer(const raw::Fpdu &request, std::uint64_t original,
			  raw::Untagged header = response())
{
	using raw::operator+;

	return header.ulpdu(raw::first(raw::after(request.ulpdu, 22), 4) + raw::be64(original));
}

} /* namespace wire */
