/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* mpa_frames.hpp - frames of MPA: composed by hand, parsed and built by the code under test */
#pragma once

/* The header comes first, to test that it compiles alone. */
extern "C" {
#include "wire/mpa.h"
}

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>

#include "octets.hpp"

inline const Octets request_key = slice(frame::request, 0, 16);
inline const Octets reply_key = slice(frame::reply, 0, 16);
constexpr uint16_t open_value = 0x3fff; /* IRD or ORD that is not negotiated */

/* What frame::request and frame::reply say, but for private data, and what follows from them. */
inline const xiw_mpa example_request = { .revision = 2,
					 .crc = true,
					 .enhanced = true,
					 .p2p = true,
					 .rtr = XIW_RTR_WRITE | XIW_RTR_READ,
					 .ird = 16,
					 .ord = 16,
					 .pd_len = 2 };
inline const xiw_mpa example_reply = { .revision = 2,
				       .reply = true,
				       .crc = true,
				       .enhanced = true,
				       .p2p = true,
				       .rtr = XIW_RTR_WRITE,
				       .ird = 16,
				       .ord = 16 };
inline const xiw_mpa_terms example_terms = { .crc = true,
					     .rtr = XIW_RTR_WRITE,
					     .ird = 16,
					     .ord = 16 };

/* All fields of a frame except its private data, and all agreed terms, for comparison. */
inline auto said(const xiw_mpa &mpa)
{
	return std::tuple(mpa.revision, mpa.reply, mpa.markers, mpa.crc, mpa.reject, mpa.enhanced,
			  mpa.large_fpdus, mpa.p2p, mpa.rtr, mpa.ird, mpa.ord, mpa.pd_len);
}

inline auto agreed(const xiw_mpa_terms &terms)
{
	return std::tuple(terms.crc, terms.tx_markers, terms.tx_large_fpdus, terms.rtr, terms.ird,
			  terms.ord);
}

struct Parsed {
	int ret;
	xiw_mpa mpa;
	Octets pd;
};

/* ASan reports any access beyond the octets of @frame. */
inline Parsed parse(const Octets &frame, bool reply = false)
{
	Parsed out = {};
	ExactCopy copy(frame);

	memset(&out.mpa, 0xaa, sizeof(out.mpa));
	out.ret = xiw_mpa_parse(&out.mpa, copy.get(), frame.size(), reply);
	if (out.ret > 0)
		out.pd.assign(out.mpa.pd, out.mpa.pd + out.mpa.pd_len);
	return out;
}

inline Parsed parse_reply(const Octets &frame)
{
	return parse(frame, true);
}

/* A Request with these header fields behind the key, and private data. */
inline Octets request(uint8_t flags, uint8_t revision, uint16_t pd_length, const Octets &pd = {})
{
	return request_key +
	       Octets{ flags, revision, uint8_t(pd_length >> 8), uint8_t(pd_length) } + pd;
}

/* Turns a Request into a Reply. */
inline Octets as_reply(Octets frame)
{
	std::ranges::copy(reply_key, frame.begin());
	return frame;
}

/* A Request of revision 2 with only the enhanced block. */
inline Octets enhanced(const char *block)
{
	return request(0x50, 2, 4, octets(block));
}

inline std::pair<int, Octets> try_build(const xiw_mpa &mpa)
{
	auto room = std::make_unique<uint8_t[]>(XIW_MPA_FRAME_MAX);
	int ret = xiw_mpa_build(room.get(), &mpa);

	return { ret, Octets(&room[0], &room[0] + std::max(ret, 0)) };
}

inline Octets build(const xiw_mpa &mpa)
{
	return try_build(mpa).second;
}
