// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* segment.cpp - the headers of any segment, against a second reading of them */

extern "C" {
#include <asm/byteorder.h>
#include "wire/opcode.h"
}

#include "reading.hpp"

using fuzz::at;
using fuzz::require;

namespace
{

/* The fields of struct xiw_headers lie where the RFCs have them. */
void same_fields(const xiw_headers &hdr, const Octets &fpdu)
{
	require(be16_to_cpu(hdr.mpa.ulpdu_len) == at<uint16_t>(fpdu, 0), "ULPDU_Length is read");
	if (hdr.ctrl.ddp & DDP_TAGGED) {
		require(be32_to_cpu(hdr.tagged.stag) == at<uint32_t>(fpdu, 4), "STag is read");
		require(be64_to_cpu(hdr.tagged.to) == at<uint64_t>(fpdu, 8), "TO is read");
		return;
	}
	require(be32_to_cpu(hdr.untagged.inv_stag) == at<uint32_t>(fpdu, 4),
		"the STag to invalidate is read");
	require(be32_to_cpu(hdr.untagged.qn) == at<uint32_t>(fpdu, 8), "QN is read");
	require(be32_to_cpu(hdr.untagged.msn) == at<uint32_t>(fpdu, 12), "MSN is read");
	require(be32_to_cpu(hdr.untagged.mo) == at<uint32_t>(fpdu, 16), "MO is read");
}

void same_rdmap_fields(const xiw_headers &hdr, const Octets &fpdu)
{
	switch (fpdu[3] & 0x0f) {
	case 1:
		require(be32_to_cpu(hdr.read.sink_stag) == at<uint32_t>(fpdu, 20) &&
				be64_to_cpu(hdr.read.sink_to) == at<uint64_t>(fpdu, 24) &&
				be32_to_cpu(hdr.read.size) == at<uint32_t>(fpdu, 32) &&
				be32_to_cpu(hdr.read.src_stag) == at<uint32_t>(fpdu, 36) &&
				be64_to_cpu(hdr.read.src_to) == at<uint64_t>(fpdu, 40),
			"a Read Request is read");
		break;
	case 7:
		require(hdr.term.layer_etype == fpdu[20] && hdr.term.code == fpdu[21] &&
				hdr.term.hdrct == fpdu[22],
			"a Terminate is read");
		break;
	case 8:
	case 9:
		require(be32_to_cpu(hdr.imm.imm) == at<uint32_t>(fpdu, 20),
			"Immediate Data is read");
		break;
	case 10:
		require(be32_to_cpu(hdr.atomic.request_id) == at<uint32_t>(fpdu, 24) &&
				be32_to_cpu(hdr.atomic.stag) == at<uint32_t>(fpdu, 28) &&
				be64_to_cpu(hdr.atomic.to) == at<uint64_t>(fpdu, 32) &&
				be64_to_cpu(hdr.atomic.compare_mask) == at<uint64_t>(fpdu, 64),
			"an Atomic Request is read");
		break;
	case 11:
		require(be32_to_cpu(hdr.atomic_resp.request_id) == at<uint32_t>(fpdu, 20) &&
				be64_to_cpu(hdr.atomic_resp.original) == at<uint64_t>(fpdu, 24),
			"an Atomic Response is read");
		break;
	default:
		break;
	}
}

void same_row(const xiw_rdmap_op &op, const Octets &fpdu)
{
	unsigned int opcode = fpdu[3] & 0x0f;
	const fuzz::Message &message = fuzz::messages[opcode];

	require(&op == &xiw_rdmap_ops[opcode], "the row is that of the opcode");
	require(op.tagged == message.tagged && op.qn == message.qn, "it has the kind and queue");
	require(op.invalidates == (opcode == 4 || opcode == 6), "it tells what invalidates");
	require(op.solicited == (opcode == 5 || opcode == 6 || opcode == 9),
		"it tells what asks for an event");
	require(op.header_len <= message.least, "what is behind the DDP header holds the RDMAP's");
}

} /* namespace */

/* The input is an FPDU. Its first two octets say how many follow; missing ones are zeros. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;

	Octets fpdu(data, data + size);
	uint32_t len = at<uint16_t>(fpdu, 0);

	/* The receiver copies the headers that have come, and no more. */
	fpdu.resize(std::min<size_t>(2 + len, sizeof(xiw_headers)));

	ExactCopy copy(fpdu);
	xiw_cause cause = XIW_NUM_CAUSES;
	const xiw_headers *hdr = copy.as<xiw_headers>();
	const xiw_rdmap_op *op = xiw_ddp_check(hdr, len, &cause);

	require(cause == fuzz::judge(fpdu), "both readings find the same fault, or none");
	require(!op == (cause != XIW_OK), "a row is given exactly if there is no fault");
	if (!op)
		return 0;
	same_row(*op, fpdu);
	same_fields(*hdr, fpdu);
	same_rdmap_fields(*hdr, fpdu);
	return 0;
}
