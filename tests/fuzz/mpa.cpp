// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* mpa.cpp - connection frames: any octets, any cuts, and what xiw builds itself */

extern "C" {
#include "wire/mpa.h"
}

#include <cerrno>
#include <cstring>
#include <tuple>

#include "input.hpp"

using fuzz::require;

namespace
{

/* Everything that a frame says, without its private data. */
auto said(const xiw_mpa &mpa)
{
	return std::tuple(mpa.revision, mpa.reply, mpa.markers, mpa.crc, mpa.reject, mpa.enhanced,
			  mpa.large_fpdus, mpa.p2p, mpa.rtr, mpa.ird, mpa.ord, mpa.pd_len);
}

bool has_pd(const xiw_mpa &mpa, const Octets &pd)
{
	return std::ranges::equal(std::span(mpa.pd, mpa.pd_len), pd);
}

/* Large FPDUs: one flag offers them, and both together agree to them, as siw sends one back. */
bool says_large(uint8_t flags, bool reply)
{
	return reply ? (flags & 0x0c) == 0x0c : (flags & 0x08);
}

/* The fuzzer's own reading, by offsets (RFC 5044 section 7.1.1, RFC 6581 sections 6 and 9). */
struct Reading {
	int ret = 0;
	xiw_mpa mpa = {};
	Octets pd;

	Reading(const Octets &frame, bool reply);

private:
	static int judge(const Octets &frame, bool reply);
};

int Reading::judge(const Octets &frame, bool reply)
{
	const char *key = reply ? "MPA ID Rep Frame" : "MPA ID Req Frame";
	size_t len = frame.size();

	for (size_t i = 0; i < 16 && i < len; i++)
		if (frame[i] != key[i])
			return -EPROTO;
	if (len >= 18 && frame[17] != 1 && frame[17] != 2)
		return -EPROTO;
	if (len < 20)
		return 0;

	int pd_length = frame[18] * 256 + frame[19];
	bool block = frame[17] == 2 && (frame[16] & 0x10);

	if (pd_length > 512 || (block && pd_length < 4))
		return -EPROTO;
	return int(len) < 20 + pd_length ? 0 : 20 + pd_length;
}

Reading::Reading(const Octets &frame, bool reply) : ret(judge(frame, reply))
{
	if (ret <= 0)
		return;
	mpa.reply = reply;
	mpa.markers = frame[16] & 0x80;
	mpa.crc = frame[16] & 0x40;
	mpa.reject = reply && (frame[16] & 0x20);
	mpa.revision = frame[17];
	mpa.enhanced = frame[17] == 2 && (frame[16] & 0x10);
	mpa.large_fpdus = says_large(frame[16], reply);
	mpa.ird = mpa.ord = 0x3fff;
	if (mpa.enhanced) {
		mpa.p2p = frame[20] & 0x80;
		mpa.ird = (frame[20] & 0x3f) * 256 + frame[21];
		mpa.ord = (frame[22] & 0x3f) * 256 + frame[23];
		if (mpa.p2p && (frame[20] & 0x40))
			mpa.rtr |= XIW_RTR_SEND;
		if (mpa.p2p && (frame[22] & 0x80))
			mpa.rtr |= XIW_RTR_WRITE;
		if (mpa.p2p && (frame[22] & 0x40))
			mpa.rtr |= XIW_RTR_READ;
	}
	pd = slice(frame, mpa.enhanced ? 24 : 20, ret);
	mpa.pd_len = pd.size();
}

/* Parses a copy of exactly this size, so ASan sees each octet that is read behind it. */
int parse(const Octets &frame, bool reply)
{
	ExactCopy copy(frame);
	xiw_mpa mpa = {};
	int ret = xiw_mpa_parse(&mpa, copy.get(), frame.size(), reply);
	Reading reading(frame, reply);

	require(ret == reading.ret, "both readings give the same length or refusal");
	if (ret > 0) {
		require(said(mpa) == said(reading.mpa), "both readings say the same");
		require(has_pd(mpa, reading.pd), "both readings find the same private data");
	}
	return ret;
}

Octets build(const xiw_mpa &mpa)
{
	auto room = std::make_unique<uint8_t[]>(XIW_MPA_FRAME_MAX);
	int len = xiw_mpa_build(room.get(), &mpa);

	require(len <= int(XIW_MPA_FRAME_MAX), "a frame has at most its largest length");
	return Octets(&room[0], &room[0] + std::max(len, 0));
}

/* The frame with everything cleared that its receiver has to ignore. */
Octets without_ignored(Octets frame, bool reply)
{
	bool block = frame[17] == 2 && (frame[16] & 0x10);

	uint8_t large = !says_large(frame[16], reply) ? 0 : reply ? 0x0c : 0x08;

	frame[16] &= (block ? 0xd0 : 0xc0) | (reply ? 0x20 : 0) | large;
	if (block && !(frame[20] & 0x80)) {
		frame[20] &= 0x3f;
		frame[22] &= 0x3f;
	}
	return frame;
}

/* A reader of a socket takes what xiw_mpa_wants() says, and no octet behind the frame. */
void read_in_pieces(const Octets &frame, bool reply, int whole)
{
	size_t have = 0;

	for (;;) {
		Octets part = slice(frame, 0, have);
		int ret = parse(part, reply);
		size_t wants = xiw_mpa_wants(ExactCopy(part).get(), have);

		require(wants >= 20 && wants <= XIW_MPA_FRAME_MAX, "a frame has 20 to 532 octets");
		if (ret < 0)
			require(whole < 0, "what is refused early is refused late");
		if (ret > 0)
			require(ret == whole && wants == have, "no octet too many was asked for");
		if (ret)
			return;
		require(wants > have, "an incomplete frame asks for more");
		if (wants > frame.size())
			break;
		have = wants;
	}
	require(whole <= 0, "no frame is taken before its last octet");
}

void any_octets(const Octets &frame, bool reply)
{
	int whole = parse(frame, reply);
	int before = 0;

	for (size_t len = 0; len < frame.size(); len++) {
		if (len > 32 && len + 32 < frame.size() && len != size_t(whole))
			continue;

		int ret = parse(slice(frame, 0, len), reply);

		require(before == 0 || ret == before, "more octets change no verdict");
		before = ret;
	}
	require(before == 0 || whole == before, "the last octet changes no verdict");
	read_in_pieces(frame, reply, whole);
	if (whole <= 0)
		return;

	Reading reading(frame, reply);

	reading.mpa.pd = reading.pd.data();
	require(build(reading.mpa) == without_ignored(slice(frame, 0, whole), reply),
		"what was parsed can be built again");
}

void any_contents(fuzz::Input &in, bool large_fpdus)
{
	uint8_t bits = in.octet();
	xiw_mpa mpa = {};

	mpa.revision = bits & 1 ? 2 : 1;
	mpa.enhanced = mpa.revision == 2 && (bits & 2);
	mpa.reply = bits & 4;
	mpa.markers = bits & 8;
	mpa.crc = bits & 16;
	mpa.reject = mpa.reply && (bits & 32);
	mpa.large_fpdus = large_fpdus;
	mpa.p2p = mpa.enhanced && (bits & 64);
	mpa.rtr = mpa.p2p ? in.octet() & 7 : 0;
	mpa.ird = mpa.enhanced ? in.take<uint16_t>() : 0x3fff;
	mpa.ord = mpa.enhanced ? in.take<uint16_t>() : 0x3fff;

	Octets pd = in.rest();

	pd.resize(std::max<size_t>(pd.size(), bits & 128 ? 500 + pd.size() % 16 : 0));

	ExactCopy copy(pd);

	mpa.pd = copy.as<uint8_t>();
	mpa.pd_len = pd.size();

	bool fits = pd.size() + (mpa.enhanced ? 4 : 0) <= 512 &&
		    (!mpa.enhanced || (mpa.ird <= 0x3fff && mpa.ord <= 0x3fff));
	Octets frame = build(mpa);

	require(frame.empty() == !fits, "exactly what fits is built");
	if (!fits)
		return;

	Reading reading(frame, mpa.reply);

	require(parse(frame, mpa.reply) == int(frame.size()), "what was built can be parsed");
	require(said(reading.mpa) == said(mpa), "it says what was built");
	require(reading.pd == pd, "it has the private data that was given");
	require(without_ignored(frame, mpa.reply) == frame, "reserved bits are sent as 0");
}

} /* namespace */

/*
 * The first octet chooses: build something (2), which offers large FPDUs or agrees to them (4), or
 * parse a Reply (1) or a Request (0).
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz::Input in(data, size);
	uint8_t what = in.octet();

	if (what & 2)
		any_contents(in, what & 4);
	else
		any_octets(in.rest(), what & 1);
	return 0;
}
