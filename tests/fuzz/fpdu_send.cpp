// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* fpdu_send.cpp - FPDUs that xiw builds, read back by another receiver, with markers and CRCs */

extern "C" {
#include "stream_kernel.h"
}

#include "stream.hpp"

using fuzz::at;
using fuzz::require;

namespace
{

/* A receiver that walks the stream octet by octet and takes the markers out. */
class Receiver
{
public:
	Receiver(bool crc, bool markers, uint32_t seq) : crc_(crc), markers_(markers), at_(seq) {}

	/* One FPDU from its first octet to its CRC. Returns it without markers and CRC. */
	Octets take(const Octets &sent)
	{
		Octets plain;
		size_t i = marker(sent, 0, 0);
		size_t first = i; /* where ULPDU_Length is */

		do {
			require(i < sent.size(), "the FPDU is as long as it says");
			plain.push_back(sent[i++]);
			if (plain.size() % 4 == 0)
				i = marker(sent, i, first);
		} while (plain.size() < 2 ||
			 plain.size() < fuzz::before_crc(at<uint16_t>(plain, 0)));
		require(i + 4 == sent.size(), "a CRC ends the FPDU, whether it is used or not");
		require(slice(sent, i, i + 4) ==
				(crc_ ? fuzz::crc_octets(slice(sent, 0, i)) : Octets(4)),
			"the CRC covers the FPDU with its markers");
		at_ += sent.size();
		return plain;
	}

private:
	/* Checks and skips a marker where one is due (RFC 5044 section 4.3). */
	size_t marker(const Octets &sent, size_t i, size_t first) const
	{
		if (!markers_ || (at_ + uint32_t(i)) % 512)
			return i;
		require(i + 4 <= sent.size(), "the marker is there");
		require(at<uint16_t>(sent, i) == 0, "its reserved half is 0");
		require(at<uint16_t>(sent, i + 2) == i - first, "it points to ULPDU_Length");
		return i + 4;
	}

	bool crc_, markers_;
	uint32_t at_;
};

/* What RFC 5041 sections 4.2 and 4.3 put into an FPDU for this segment. */
Octets expected(const kernel_segment &segment, const Octets &payload)
{
	auto put = [](Octets &to, uint64_t value, int octets) {
		while (octets--)
			to.push_back(value >> 8 * octets);
	};
	Octets out;

	put(out, (segment.tagged ? 14 : 18) + payload.size(), 2);
	out.push_back((segment.tagged ? 0x80 : 0) | (segment.last ? 0x40 : 0) | 1);
	out.push_back(0x40 | segment.opcode);
	put(out, segment.stag, 4);
	if (segment.tagged) {
		put(out, segment.to, 8);
	} else {
		put(out, fuzz::messages[segment.opcode].qn, 4);
		put(out, segment.msn, 4);
		put(out, segment.mo, 4);
	}
	out = out + payload;
	out.resize(fuzz::before_crc(out.size() - 2));
	return out;
}

/* Opcodes of the kind, and lengths near each boundary: of markers, pads, and the field itself. */
kernel_segment segment(fuzz::Input &in, bool may_be_long, Octets &payload)
{
	uint8_t bits = in.octet();
	uint32_t len = in.take<uint16_t>();
	kernel_segment segment = {};

	segment.tagged = bits & 1;
	segment.last = bits & 2;
	segment.opcode = segment.tagged ? bits & 4 ? 2 : 0 : (bits >> 4) % 12;
	if (!segment.tagged && fuzz::messages[segment.opcode].tagged)
		segment.opcode = 3;
	segment.stag = in.take<uint32_t>();
	segment.to = in.take<uint64_t>();
	segment.msn = segment.to >> 32;
	segment.mo = segment.to;
	payload = in.octets(16);
	payload.resize(
		std::min<uint32_t>(may_be_long && bits & 8 ? len : len % 1500, MPA_MAX_ULPDU - 18),
		bits);
	segment.payload = payload.data();
	segment.len = payload.size();
	return segment;
}

} /* namespace */

/* Flags (1: CRCs, 2: markers), the count of octets sent so far in words, and segments. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz::Input in(data, size);
	uint8_t flags = in.octet();
	bool crc = flags & 1, markers = flags & 2;
	uint32_t sent = 4 * in.take<uint32_t>();
	Receiver receiver(crc, markers, sent);

	for (int i = 0; i < 16 && !in.ended(); i++) {
		Octets payload;
		kernel_segment next = segment(in, i == 0, payload);
		uint32_t room = kernel_room(&next, markers), before = sent;
		auto fpdu = std::make_unique_for_overwrite<uint8_t[]>(room);
		uint32_t len = kernel_send(fpdu.get(), &next, crc, markers, &sent);

		require(len <= room, "an FPDU fits the room that is kept for it");
		require(sent == before + len, "every octet is counted");
		require(receiver.take(Octets(&fpdu[0], &fpdu[len])) == expected(next, payload),
			"another receiver reads what was sent");
	}
	return 0;
}
