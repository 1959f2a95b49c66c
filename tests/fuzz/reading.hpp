/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* reading.hpp - the fuzzer's own reading of a segment, by offsets and from the RFCs' tables */
#ifndef XIW_FUZZ_READING_HPP
#define XIW_FUZZ_READING_HPP

extern "C" {
#include "wire/opcode.h"
}

#include "input.hpp"

namespace fuzz
{

/* RFC 5040 figure 4, RFC 7306 figure 2, and the lengths of each header. */
struct Message {
	bool tagged;
	uint32_t qn;
	int least, most; /* octets behind the DDP header; most is -1 if there is no limit */
};

inline const Message messages[] = {
	{ true, 0, 0, -1 },   /* Write */
	{ false, 1, 28, 28 }, /* Read Request */
	{ true, 0, 0, -1 },   /* Read Response */
	{ false, 0, 0, -1 },  /* Send */
	{ false, 0, 0, -1 },  /* Send with Invalidate */
	{ false, 0, 0, -1 },  /* Send with Solicited Event */
	{ false, 0, 0, -1 },  /* Send with Solicited Event and Invalidate */
	{ false, 2, 4, -1 },  /* Terminate */
	{ false, 0, 8, 8 },   /* Immediate Data */
	{ false, 0, 8, 8 },   /* Immediate Data with Solicited Event */
	{ false, 1, 52, 52 }, /* Atomic Request */
	{ false, 3, 12, 12 }, /* Atomic Response */
};

/* What is wrong with a segment, whose FPDU begins with these octets (RFC 5041 section 7.1). */
inline xiw_cause judge(std::span<const uint8_t> fpdu)
{
	int len = at<uint16_t>(fpdu, 0);

	if (len < 2)
		return XIW_BAD_FPDU_LENGTH;

	bool tagged = fpdu[2] & 0x80;
	unsigned int opcode = fpdu[3] & 0x0f;
	int behind = len - (tagged ? 14 : 18);

	if (behind < 0)
		return XIW_BAD_FPDU_LENGTH;
	if ((fpdu[2] & 0x03) != 1)
		return tagged ? XIW_BAD_DDP_VERSION_TAGGED : XIW_BAD_DDP_VERSION_UNTAGGED;
	if (fpdu[3] >> 6 != 1)
		return XIW_BAD_RDMAP_VERSION;
	if (opcode >= std::size(messages) || messages[opcode].tagged != tagged)
		return XIW_BAD_OPCODE;
	if (tagged)
		return XIW_OK;

	const Message &message = messages[opcode];

	if (at<uint32_t>(fpdu, 8) != message.qn)
		return XIW_BAD_QN;
	/* Both causes end the stream, but a header that is cut off is a matter of MPA. */
	bool has_header = message.most != 8;

	if (behind < message.least)
		return has_header ? XIW_BAD_FPDU_LENGTH : XIW_BAD_LENGTH;
	return message.most >= 0 && behind > message.most ? XIW_BAD_LENGTH : XIW_OK;
}

} /* namespace fuzz */

#endif /* XIW_FUZZ_READING_HPP */
