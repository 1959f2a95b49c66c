// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* negotiation.cpp - what two frames agree on, seen from both ends and by RFC 6581's rules */

extern "C" {
#include "wire/mpa.h"
}

#include <bit>
#include <cerrno>
#include <cstring>

#include "input.hpp"

using fuzz::require;

namespace
{

const uint16_t open_value = 0x3fff; /* IRD or ORD that is not negotiated */

/* What a frame says after it has crossed the wire. */
struct Sent {
	Octets octets = Octets(XIW_MPA_FRAME_MAX);
	xiw_mpa mpa = {};

	explicit Sent(const xiw_mpa &from)
	{
		int len = xiw_mpa_build(octets.data(), &from);

		require(len > 0, "the frame can be built");
		require(xiw_mpa_parse(&mpa, octets.data(), len, from.reply) == len,
			"the other end takes the frame");
	}
};

/* IRD and ORD have 14 bits; the highest one of the IRD's 16 says whether large FPDUs are wanted. */
xiw_mpa any_frame(fuzz::Input &in, bool reply)
{
	uint8_t bits = in.octet();
	xiw_mpa mpa = {};

	mpa.reply = reply;
	mpa.revision = bits & 1 ? 2 : 1;
	mpa.enhanced = mpa.revision == 2 && (bits & 2);
	mpa.markers = bits & 4;
	mpa.crc = bits & 8;
	mpa.p2p = mpa.enhanced && (bits & 16);
	mpa.rtr = mpa.p2p ? bits >> 5 : 0;

	uint16_t ird = in.take<uint16_t>();

	mpa.large_fpdus = ird & 0x8000;
	mpa.ird = ird & open_value;
	mpa.ord = in.take<uint16_t>() & open_value;
	return mpa;
}

xiw_mpa_offer any_offer(fuzz::Input &in)
{
	uint8_t bits = in.octet();
	xiw_mpa_offer offer = {};

	offer.crc = bits & 1;
	offer.large_fpdus = bits & 2;
	offer.max_ird = 1 + in.up_to(0x3ffd);
	offer.ird = in.up_to(offer.max_ird);
	offer.ord = in.up_to(0x3ffe);
	return offer;
}

struct Responder {
	xiw_mpa_offer offer;
	xiw_mpa reply = {};
	xiw_mpa_terms terms = {};
	int ret = 0;

	explicit Responder(fuzz::Input &in) : offer(any_offer(in)) {}
	void answer(const xiw_mpa &request)
	{
		ret = xiw_mpa_answer(&reply, &terms, &request, &offer);
	}
	void obeys_rules(const xiw_mpa &request) const;
	void obeys_depths(const xiw_mpa &request) const;
};

/* RFC 6581 section 9.1 */
void Responder::obeys_depths(const xiw_mpa &request) const
{
	require(terms.ird <= offer.max_ird, "no more Reads are accepted than the device can");
	require((ret == -EMSGSIZE) == (request.ord != open_value && request.ord > offer.max_ird),
		"exactly an ORD beyond the device is refused");
	if (request.ord == open_value) {
		require(reply.ird == open_value, "IRD is left open if ORD is");
		require(terms.ird >= offer.ird, "an open ORD lowers no IRD");
	} else {
		require(reply.ird == terms.ird, "the Reply names the IRD that is used");
		require(ret || terms.ird >= request.ord, "IRD is at least the initiator's ORD");
		require(!ret || reply.ird == offer.max_ird, "a refusal names the device's limit");
		require(ret || terms.ird == std::max({ offer.ird, request.ord,
						       uint16_t(terms.rtr == XIW_RTR_READ) }),
			"IRD is not raised further than needed");
	}
	if (request.ird == open_value) {
		require(reply.ord == open_value, "ORD is left open if IRD is");
		require(terms.ord == offer.ord, "an open IRD changes no ORD");
	} else {
		require(reply.ord == terms.ord, "the Reply names the ORD that is used");
		require(terms.ord <= request.ird, "ORD is at most the initiator's IRD");
		require(terms.ord == offer.ord || terms.ord == request.ird,
			"ORD is not lowered further");
	}
}

void Responder::obeys_rules(const xiw_mpa &request) const
{
	require(reply.reply && !reply.reject && !reply.markers, "the Reply accepts, unmarked");
	require(reply.revision == request.revision, "the Reply has the revision of the Request");
	require(reply.enhanced == request.enhanced, "the Reply is enhanced if the Request is");
	require(reply.p2p == request.p2p, "both frames have the same model");
	require(terms.crc == (offer.crc || request.crc) && reply.crc == terms.crc,
		"CRCs are used if either end wants them");
	require(terms.tx_markers == request.markers, "the initiator gets the markers it wants");
	require(reply.large_fpdus == (offer.large_fpdus && request.large_fpdus),
		"the Reply agrees to large FPDUs if both ends want them");
	require(terms.tx_large_fpdus == (reply.large_fpdus && !request.markers),
		"the initiator gets them then, but not with markers");

	require(reply.rtr == terms.rtr, "the Reply names the RTR message that is expected");
	if (!request.p2p) {
		require(!terms.rtr, "nothing opens a stream of the client-server model");
		return;
	}
	require(std::has_single_bit(terms.rtr), "one RTR message is chosen");
	require(terms.rtr != XIW_RTR_SEND, "no Send opens the stream");
	if (request.rtr & (XIW_RTR_WRITE | XIW_RTR_READ))
		require(terms.rtr & request.rtr, "the chosen one was offered");
	if (request.rtr & XIW_RTR_WRITE || !(request.rtr & XIW_RTR_READ))
		require(terms.rtr == XIW_RTR_WRITE, "a Write is preferred");
	else
		require(terms.ird, "a Read that opens the stream is accepted");
}

/* The initiator's view of any Reply to its Request: RFC 6581 sections 9.1 and 9.2. */
int conclude(xiw_mpa_terms &terms, const xiw_mpa &request, const xiw_mpa &reply, uint16_t max_ird)
{
	int ret = xiw_mpa_conclude(&terms, &request, &reply, max_ird);
	uint8_t common = request.rtr & reply.rtr;

	if (reply.revision != request.revision || reply.enhanced != request.enhanced ||
	    (reply.p2p && !request.p2p)) {
		require(ret == -EPROTO, "a Reply that cannot belong to the Request is refused");
		return ret;
	}
	if (reply.ord != open_value && reply.ord > std::max(request.ird, max_ird)) {
		require(ret == -EMSGSIZE, "a responder's ORD beyond the device is refused");
		return ret;
	}
	if (request.p2p && !common) {
		require(ret == -EOPNOTSUPP, "frames without a common RTR message are refused");
		return ret;
	}
	require(!ret, "nothing else is refused");
	require(terms.crc == (request.crc || reply.crc), "CRCs are used if either end wants them");
	require(terms.tx_markers == reply.markers, "the responder gets the markers it wants");
	require(terms.tx_large_fpdus ==
			(request.large_fpdus && reply.large_fpdus && !reply.markers),
		"the responder gets large FPDUs if both ends want them, but not with markers");
	require(common ? terms.rtr && !(terms.rtr & ~common) && std::has_single_bit(terms.rtr)
		       : !terms.rtr,
		"the RTR message is one that both name");
	require(terms.rtr == XIW_RTR_WRITE || !(common & XIW_RTR_WRITE), "a Write is preferred");

	require(terms.ird >= request.ird, "no IRD is lowered");
	if (reply.ord != open_value)
		require(terms.ird == std::max(request.ird, reply.ord),
			"IRD is the larger of what was promised and what is needed");
	else
		require(terms.ird == request.ird, "an open ORD changes no IRD");

	uint16_t least = terms.rtr == XIW_RTR_READ ? 1 : 0;

	require(terms.ord == std::max(least, std::min(request.ord, reply.ird)),
		"ORD is what was wanted, at most the responder's IRD, and enough for the RTR");
	return ret;
}

/* Both ends are xiw. */
void both_ends(const xiw_mpa &asked, Responder &responder, uint16_t max_ird)
{
	xiw_mpa_terms terms = {};
	Sent request(asked);

	responder.answer(request.mpa);
	responder.obeys_rules(request.mpa);
	responder.obeys_depths(request.mpa);

	Sent reply(responder.reply);
	int ret = conclude(terms, request.mpa, reply.mpa, max_ird);

	require(ret != -EPROTO && ret != -EMSGSIZE, "the initiator can use what xiw answers");
	require((ret == -EOPNOTSUPP) == (asked.p2p && !(request.mpa.rtr & responder.terms.rtr)),
		"it refuses only an RTR message that it did not offer");
	if (ret)
		return;

	const xiw_mpa_terms &theirs = responder.terms;

	require(terms.crc == theirs.crc, "both ends use CRCs or neither does");
	require(terms.rtr == theirs.rtr, "both ends expect the same RTR message");
	require(!terms.tx_markers, "xiw asks for no markers");
	require(terms.tx_large_fpdus == (asked.large_fpdus && responder.offer.large_fpdus),
		"the initiator sends large FPDUs if both ends want them");
	require(!theirs.tx_large_fpdus || terms.tx_large_fpdus,
		"the responder sends large FPDUs only to an end that may send them too");
	if (request.mpa.ord != open_value)
		require(terms.ord <= theirs.ird, "the responder accepts as many as are asked");
	if (request.mpa.ird != open_value)
		require(theirs.ord <= terms.ird, "the initiator accepts as many as are asked");
}

} /* namespace */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz::Input in(data, size);
	xiw_mpa request = any_frame(in, false);
	Responder responder(in);
	uint16_t max_ird = 1 + in.up_to(0x3ffd);
	xiw_mpa_terms terms = {};

	both_ends(request, responder, max_ird);
	conclude(terms, Sent(request).mpa, Sent(any_frame(in, true)).mpa, max_ird);
	return 0;
}
