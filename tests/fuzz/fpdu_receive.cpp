// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* fpdu_receive.cpp - any stream of FPDUs, cut in any way, with room or without: only it counts */

extern "C" {
#include "stream_kernel.h"
}

#include "stream.hpp"

using fuzz::at;
using fuzz::require;

namespace
{

/* What comes of a stream. */
struct Outcome {
	std::vector<Octets>
		placed; /* each segment: its headers, as far as xiw reads them; payload */
	int cause = XIW_OK;
	bool open = true;
	uint32_t consumed = 0;

	bool operator==(const Outcome &) const = default;
};

/* The segment that is being placed, and whether it has to wait first. */
std::vector<Octets> *placed;
std::span<const uint8_t> waits;
size_t tries;
bool waited;

/* The headers and the payload of a segment, which overlap if the payload is short. */
Octets seen(const Octets &fpdu, uint32_t ulpdu_len)
{
	Octets headers = slice(fpdu, 0, std::min<size_t>(2 + ulpdu_len, sizeof(xiw_headers)));

	return headers + slice(fpdu, fpdu[2] & 0x80 ? 16 : 20, 2 + ulpdu_len);
}

/* Reads @stream at once, by the RFCs. */
Outcome read(const Octets &stream, bool crc)
{
	Outcome out;

	while (out.open && stream.size() - out.consumed >= 2) {
		uint32_t len = at<uint16_t>(stream, out.consumed), end = fuzz::before_crc(len);

		if (stream.size() - out.consumed < end + 4)
			break;

		Octets fpdu = slice(stream, out.consumed, out.consumed + end + 4);
		bool terminate = len >= 2 && (fpdu[3] & 0x0f) == 7;
		bool good = !crc || slice(fpdu, end, end + 4) ==
					    fuzz::crc_octets(std::span(fpdu).first(end));

		out.cause = good ? fuzz::judge(fpdu) : XIW_BAD_CRC;
		if (out.cause == XIW_OK)
			out.placed.push_back(seen(fpdu, len));
		else if (good && terminate)
			out.cause = XIW_OK; /* a Terminate ends the stream, good or not */
		else
			out.open = false;
		if (!out.open)
			break;
		out.consumed += end + 4;
		out.open = !terminate;
	}
	return out;
}

/* Bits that describe a look. */
kernel_look look_of(uint8_t bits)
{
	return { .used = bits & 1 ? KERNEL_BUFFER : 0,
		 .refused = bool(bits & 2),
		 .fails = bool(bits & 4),
		 .softirq = bool(bits & 8),
		 .owes = bool(bits & 16),
		 .tcp_is_out = bool(bits & 64),
		 .payer = bool(bits & 32) };
}

/* Whether a receiver may take octets out of TCP that are only a part of an FPDU. */
bool may_keep(const kernel_look &now)
{
	return !now.softirq && !now.fails && (!now.owes || now.tcp_is_out);
}

/* How a stream comes in, and what the receiver finds each time it looks. */
struct Arrival {
	Octets plan; /* of the pieces: six bits of length, whether it repeats, whether xiw looks */
	Octets looks = {};
};

class Pieces
{
public:
	Pieces(const Octets &stream, const Arrival &arrival, uint32_t seq, bool crc)
		: stream_(stream), plan_(arrival.plan), looks_(arrival.looks), crc_(crc),
		  rx_(kernel_receiver_new(crc, seq))
	{
		placed = &out_.placed;
		tries = 0;
	}
	~Pieces()
	{
		kernel_receiver_free(rx_);
		require(!kernel_skbs(), "nothing stays behind");
	}
	Pieces(const Pieces &) = delete;

	Outcome run(std::span<const uint8_t> holds)
	{
		size_t from = 0;

		waits = holds;
		for (size_t i = 0; from < stream_.size(); i++) {
			uint8_t step = plan_.empty() ? 0xff : plan_[i % plan_.size()];
			size_t len = plan_.empty() ? stream_.size() : 1 + (step & 0x3f);
			size_t again = step & 0x40 ? std::min<size_t>(from, 3) : 0;

			len = std::min(len, stream_.size() - from);
			kernel_arrive(rx_, stream_.data() + from, len, again);
			from += len;
			if (step & 0x80)
				look(from, next_look());
		}
		waits = {};
		look(from, {});
		look(from, { .used = KERNEL_BUFFER });
		out_.cause = kernel_cause(rx_);
		out_.open = kernel_open(rx_);
		out_.consumed = kernel_consumed(rx_) - kernel_kept(rx_);
		return out_;
	}

private:
	kernel_look next_look()
	{
		return look_of(looks_.empty() ? 0 : looks_[number_++ % looks_.size()]);
	}

	void look(size_t arrived, const kernel_look &now)
	{
		waited = false;
		kernel_receive(rx_, &now);
		require(kernel_consumed(rx_) <= arrived, "only octets that have come are read");
		require(kernel_holds(rx_) == (out_.placed.empty() && !ended_well()),
			"the first good FPDU lets a responder send");
		if (!waited && stream_.size() <= 512)
			require(kernel_consumed(rx_) - kernel_kept(rx_) ==
					read(slice(stream_, 0, arrived), crc_).consumed,
				"each FPDU is placed as soon as it is complete");
		judge_room(arrived - kernel_consumed(rx_), now);
	}

	/* With @left octets in TCP. */
	void judge_room(size_t left, const kernel_look &now)
	{
		bool refused = refused_ || now.refused;

		lacked_ |= now.used || now.refused;
		refused_ = refused && left;
		require(lacked_ || !kernel_skbs(), "FPDUs stay in TCP while there is room");
		require(!kernel_left_closed(rx_), "the peer goes on when all was read");
		if (!left || waited || !kernel_open(rx_) || !(now.used || refused))
			return;
		require(!may_keep(now), "an FPDU is taken out if TCP has no room for it");
		require(kernel_looks_again(rx_), "who has to leave it there looks again");
	}

	/* A malformed Terminate counts as an FPDU, too. */
	bool ended_well() const { return !kernel_open(rx_) && !kernel_cause(rx_); }

	const Octets &stream_;
	const Octets &plan_;
	const Octets &looks_;
	bool crc_;
	kernel_receiver *rx_;
	size_t number_ = 0;
	bool lacked_ = false;  /* TCP had no room or memory at some time */
	bool refused_ = false; /* TCP had no memory, and its queue was not emptied since */
	Outcome out_;
};

/* Gives each FPDU its CRC, so that the fuzzer need not guess it. */
void mend(Octets &stream)
{
	size_t from = 0;

	while (stream.size() - from >= 2) {
		size_t end = fuzz::before_crc(at<uint16_t>(stream, from));

		if (stream.size() - from < end + 4)
			return;
		std::ranges::copy(fuzz::crc_octets(std::span(stream).subspan(from, end)),
				  stream.begin() + from + end);
		from += end + 4;
	}
}

} /* namespace */

extern "C" int fuzz_place(const void *headers, uint32_t ulpdu_len, const void *payload,
			  uint32_t len)
{
	if (tries < waits.size()) {
		uint8_t wait = waits[tries++];

		waited = wait & 1;
		if (waited)
			return wait & 2 ? XIW_NO_RECEIVE : XIW_NOT_YET;
	}

	const auto *header = static_cast<const uint8_t *>(headers);
	const auto *first = static_cast<const uint8_t *>(payload);
	size_t header_len = std::min<size_t>(2 + ulpdu_len, sizeof(xiw_headers));

	placed->push_back(Octets(header, header + header_len) + Octets(first, first + len));
	return XIW_OK;
}

/*
 * Flags (1: CRCs are on, 2: CRCs are mended, 4: also octet by octet, 8: TCP may lack room), the
 * lengths of the plan and of the waits, the first sequence number, the plan, the waits, with flag 8
 * the number of looks and the looks, the stream.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz::Input in(data, size);
	uint8_t flags = in.octet(), lengths = in.octet();
	uint32_t seq = in.take<uint16_t>() - 0x8000;
	Arrival arrival = { .plan = in.octets(lengths & 0xf) };
	Octets holds = in.octets(lengths >> 4);
	bool crc = flags & 1;

	if (flags & 8)
		arrival.looks = in.octets(in.octet() & 0xf);

	Octets stream = in.rest();

	if (flags & 2)
		mend(stream);

	Outcome expected = read(stream, crc);

	const Arrival at_once;

	require(Pieces(stream, at_once, seq, crc).run({}) == expected,
		"both receivers place the same");
	require(Pieces(stream, arrival, seq, crc).run(holds) == expected,
		"the cuts change nothing");
	if (flags & 4 && stream.size() <= 256) {
		arrival.plan = { 0x80 };
		require(Pieces(stream, arrival, seq, crc).run(holds) == expected,
			"single octets change nothing");
	}
	return 0;
}
