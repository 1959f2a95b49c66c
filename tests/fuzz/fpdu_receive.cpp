// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* fpdu_receive.cpp - any stream of FPDUs, in any cuts: what is placed depends only on the stream */

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

/* A plan for the pieces: six bits of length, then whether it repeats, then whether xiw looks. */
class Pieces
{
public:
	Pieces(const Octets &stream, const Octets &plan, uint32_t seq, bool crc)
		: stream_(stream), plan_(plan), crc_(crc), rx_(kernel_receiver_new(crc, seq))
	{
		placed = &out_.placed;
		tries = 0;
	}
	~Pieces() { kernel_receiver_free(rx_); }
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
				look(from);
		}
		waits = {};
		look(from);
		look(from);
		out_.cause = kernel_cause(rx_);
		out_.open = kernel_open(rx_);
		out_.consumed = kernel_consumed(rx_);
		return out_;
	}

private:
	void look(size_t arrived)
	{
		waited = false;
		kernel_receive(rx_);
		require(kernel_consumed(rx_) <= arrived, "only octets that have come are read");
		require(kernel_holds(rx_) == (out_.placed.empty() && !ended_well()),
			"the first good FPDU lets a responder send");
		if (!waited && stream_.size() <= 512)
			require(kernel_consumed(rx_) ==
					read(slice(stream_, 0, arrived), crc_).consumed,
				"each FPDU is placed as soon as it is complete");
	}
	/* A malformed Terminate counts as an FPDU, too. */
	bool ended_well() const { return !kernel_open(rx_) && !kernel_cause(rx_); }

	const Octets &stream_;
	const Octets &plan_;
	bool crc_;
	kernel_receiver *rx_;
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
 * Flags (1: CRCs are on, 2: CRCs are mended, 4: also octet by octet), the lengths of the plan and
 * of the waits, the first sequence number, the plan, the waits, the stream.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz::Input in(data, size);
	uint8_t flags = in.octet(), lengths = in.octet();
	uint32_t seq = in.take<uint16_t>() - 0x8000;
	Octets plan = in.octets(lengths & 0xf), holds = in.octets(lengths >> 4), stream = in.rest();
	bool crc = flags & 1;

	if (flags & 2)
		mend(stream);

	Outcome expected = read(stream, crc);

	require(Pieces(stream, {}, seq, crc).run({}) == expected, "both receivers place the same");
	require(Pieces(stream, plan, seq, crc).run(holds) == expected, "the cuts change nothing");
	if (flags & 4 && stream.size() <= 256) {
		Octets octet_by_octet = { 0x80 };

		require(Pieces(stream, octet_by_octet, seq, crc).run(holds) == expected,
			"single octets change nothing");
	}
	return 0;
}
