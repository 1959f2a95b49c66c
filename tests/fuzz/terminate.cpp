// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* terminate.cpp - the Terminate for any cause and any faulty segment, octet by octet */

extern "C" {
#include "wire/terminate.h"
#include <asm/byteorder.h>
}

#include <set>

#include "reading.hpp"

using fuzz::at;
using fuzz::require;

namespace
{

/* The codes that are assigned: RFC 6580 section 3, RFC 5041 7.2, RFC 5044 8, RFC 6581 8. */
const std::set<uint8_t> codes_of(uint8_t layer_etype)
{
	switch (layer_etype) {
	case 0x00:
		return { 0x00 };
	case 0x01:
		return { 0x00, 0x01, 0x02, 0x03, 0x04, 0x09, 0xff };
	case 0x02:
		return { 0x05, 0x06, 0x07, 0x08, 0x09, 0xff };
	case 0x11:
		return { 0x00, 0x01, 0x02, 0x03, 0x04 };
	case 0x12:
		return { 0x01, 0x02, 0x03, 0x04, 0x05, 0x06 };
	case 0x20:
		return { 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07 };
	default:
		return {};
	}
}

/* How many octets of DDP and RDMAP header have to be repeated: RFC 5040 figure 10. */
size_t repeated(uint8_t layer_etype, const Octets &fault)
{
	if (fault.empty() || layer_etype == 0x00 || layer_etype == 0x20)
		return 0;

	size_t len = at<uint16_t>(fault, 0);

	if (len < 2)
		return 0;

	bool tagged = fault[2] & 0x80;
	size_t wanted = tagged ? 14 : 18;

	if (layer_etype == 0x01 && !tagged && (fault[3] & 0x0f) == 1)
		wanted += 28;
	return wanted <= len ? wanted : 0;
}

/* The octets that RFC 5040 section 4.8 asks for. */
Octets expected(uint8_t layer_etype, uint8_t code, const Octets &fault)
{
	size_t len = repeated(layer_etype, fault);
	uint8_t hdrct = !len ? 0 : len > 18 ? 0xe0 : 0xc0;
	Octets out = octets("4147 00000000 00000002 00000001 00000000") +
		     Octets{ layer_etype, code, hdrct, 0 };

	return len ? out + slice(fault, 0, 2 + len) : out;
}

/* xiw takes its own Terminate, and finds in it what the faulty segment said. */
void is_taken(const Octets &ulpdu, const Octets &fault)
{
	Octets fpdu = Octets{ uint8_t(ulpdu.size() >> 8), uint8_t(ulpdu.size()) } + ulpdu;
	ExactCopy copy(fpdu);
	const auto *hdr = copy.as<xiw_headers>();
	xiw_cause cause;

	require(xiw_ddp_check(hdr, ulpdu.size(), &cause), "the Terminate is well formed");
	require(fuzz::judge(fpdu) == XIW_OK, "so says the second reading");
	if (!(hdr->term.hdrct & RDMAP_TERM_D) || (fault[2] & 0x80))
		return;

	const xiw_terminate_untagged &named = hdr->term_untagged;

	require(be16_to_cpu(named.ulpdu_len) == at<uint16_t>(fault, 0), "it names the length");
	require(be32_to_cpu(named.ddp.qn) == at<uint32_t>(fault, 8), "it names the queue");
	require(be32_to_cpu(named.ddp.msn) == at<uint32_t>(fault, 12), "it names the message");
}

} /* namespace */

/* The first octet is the cause, the second says whether a segment is at fault. Its FPDU follows. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz::Input in(data, size);
	auto cause = xiw_cause(in.octet() % XIW_NUM_CAUSES);
	Octets fault = in.flag() ? in.rest() : Octets();

	if (fault.size() < 2)
		fault.clear();
	else
		fault.resize(std::min<size_t>(2 + at<uint16_t>(fault, 0), sizeof(xiw_headers)));

	const xiw_cause_row &row = xiw_causes[cause];
	uint8_t layer_etype = row.layer << 4 | row.etype;
	auto room = std::make_unique<uint8_t[]>(XIW_TERMINATE_MAX);
	ExactCopy copy(fault);
	unsigned int len = xiw_terminate_build(room.get(), cause,
					       fault.empty() ? nullptr : copy.as<xiw_headers>());

	require(len <= XIW_TERMINATE_MAX, "a Terminate has at most its largest length");

	Octets ulpdu(&room[0], &room[len]);

	require(codes_of(layer_etype).contains(row.code), "the code is an assigned one");
	require(ulpdu == expected(layer_etype, row.code, fault), "it is what RFC 5040 asks for");
	is_taken(ulpdu, fault);
	return 0;
}
