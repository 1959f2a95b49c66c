// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* terminate.c - maps a cause to its Terminate message and counter */

#include <linux/stddef.h>
#include <linux/string.h>
#include <asm/byteorder.h>

#include "wire/terminate.h"

/*
 * Layer, error type and code: RFC 5040 section 4.8, RFC 5041 section 7.2, RFC 5044 section 8,
 * RFC 6581 section 8, registry in RFC 6580. Headers to repeat: RFC 5040 figure 10.
 */
#define LOCAL			.layer = TERM_RDMAP, .etype = TERM_CATASTROPHIC
#define PROTECTION(code_)	.layer = TERM_RDMAP, .etype = TERM_PROTECTION, .code = (code_), \
				.ddp_header = 1, .rdmap_header = 1
#define OPERATION(code_)	.layer = TERM_RDMAP, .etype = TERM_OPERATION, .code = (code_), \
				.ddp_header = 1
#define TAGGED(code_)		.layer = TERM_DDP, .etype = TERM_PROTECTION, .code = (code_), \
				.ddp_header = 1
#define UNTAGGED(code_)		.layer = TERM_DDP, .etype = TERM_OPERATION, .code = (code_), \
				.ddp_header = 1
#define MPA(code_)		.layer = TERM_MPA, .etype = TERM_CATASTROPHIC, .code = (code_)

/* What may help. If a cause has none, the peer's driver is to blame. */
#define DAMAGED		.advice = "data was damaged on the way, or the peer computes CRCs wrongly" \
				  ": check cables, memory and the offloads of the interface"
#define NO_ACCESS	.advice = "the peer has used memory that the program has not registered" \
				  " for that: compare STag, address, length and rights"
#define STARVED		.advice = "the program posts receive requests too late or too few; see" \
				  " the setting receive_wait_ms"
#define TOO_SHORT	.advice = "a receive request has less room than the peer's message needs"
#define DEPTH		.advice = "the peer has more Reads under way than the program has granted" \
				  ": compare responder_resources with its initiator_depth"
#define PROGRAM		.advice = "the program has posted a bad request, or its completion queue" \
				  " is too small"
#define UNALIGNED	.advice = "the peer's program has used an address for an Atomic that is" \
				  " no multiple of 8"
#define UNREADABLE	.advice = "the kernel cannot read the memory in which the interface has" \
				  " put what it received"
#define MEMORY		.advice = "the kernel or the program's control group had no memory left"

const struct xiw_cause_row xiw_causes[XIW_NUM_CAUSES] = {
	[XIW_OK]		= { "ok", LOCAL },

	[XIW_BAD_CRC]		= { "bad_crc", MPA(0x02), DAMAGED },
	[XIW_BAD_FPDU_LENGTH]	= { "bad_fpdu_length", MPA(0x03), DAMAGED },
	[XIW_BAD_IRD]		= { "bad_ird", MPA(0x06) },
	[XIW_BAD_RTR]		= { "bad_rtr", MPA(0x07) },
	[XIW_SETUP_FAILED]	= { "setup_failed", MPA(0x05) },

	[XIW_BAD_STAG]		= { "bad_stag", TAGGED(0x00), NO_ACCESS },
	[XIW_BAD_BOUNDS]	= { "bad_bounds", TAGGED(0x01), NO_ACCESS },
	[XIW_BAD_PD]		= { "bad_pd", TAGGED(0x02), NO_ACCESS },
	[XIW_BAD_WRAP]		= { "bad_wrap", TAGGED(0x03), NO_ACCESS },
	[XIW_BAD_DDP_VERSION_TAGGED] = { "bad_ddp_version_tagged", TAGGED(0x04) },
	/* RFC 5041 has no code for missing rights; that of an invalid STag is the closest. */
	[XIW_NO_REMOTE_WRITE]	= { "no_remote_write", TAGGED(0x00), NO_ACCESS },

	[XIW_BAD_QN]		= { "bad_qn", UNTAGGED(0x01) },
	[XIW_NO_RECEIVE]	= { "no_receive", UNTAGGED(0x02), STARVED },
	[XIW_BAD_MSN]		= { "bad_msn", UNTAGGED(0x03) },
	[XIW_BAD_MO]		= { "bad_mo", UNTAGGED(0x04) },
	[XIW_MESSAGE_TOO_LONG]	= { "message_too_long", UNTAGGED(0x05), TOO_SHORT },
	[XIW_BAD_DDP_VERSION_UNTAGGED] = { "bad_ddp_version_untagged", UNTAGGED(0x06) },

	[XIW_READ_BAD_STAG]	= { "read_bad_stag", PROTECTION(0x00), NO_ACCESS },
	[XIW_READ_BAD_BOUNDS]	= { "read_bad_bounds", PROTECTION(0x01), NO_ACCESS },
	[XIW_READ_NO_RIGHT]	= { "read_no_right", PROTECTION(0x02), NO_ACCESS },
	[XIW_READ_BAD_PD]	= { "read_bad_pd", PROTECTION(0x03), NO_ACCESS },
	[XIW_READ_BAD_WRAP]	= { "read_bad_wrap", PROTECTION(0x04), NO_ACCESS },
	[XIW_INV_BAD_PD]	= { "inv_bad_pd", PROTECTION(0x09), NO_ACCESS },

	[XIW_INV_BAD_STAG]	= { "inv_bad_stag", OPERATION(0x09), NO_ACCESS },
	[XIW_BAD_RDMAP_VERSION]	= { "bad_rdmap_version", OPERATION(0x05) },
	[XIW_BAD_OPCODE]	= { "bad_opcode", OPERATION(0x06) },
	[XIW_ATOMIC_UNALIGNED]	= { "atomic_unaligned", OPERATION(0x07), UNALIGNED },
	[XIW_BAD_LENGTH]	= { "bad_length", OPERATION(0xff) },
	[XIW_TORN_WRITE]	= { "torn_write", OPERATION(0xff) },
	[XIW_IRD_EXCEEDED]	= { "ird_exceeded", UNTAGGED(0x02), DEPTH },
	[XIW_UNEXPECTED_RESPONSE] = { "unexpected_response", OPERATION(0x06) },

	[XIW_LOCAL_FAULT]	= { "local_fault", LOCAL, PROGRAM },
	[XIW_LOCAL_ABORT]	= { "local_abort", LOCAL },
	[XIW_NO_MEMORY]		= { "no_memory", LOCAL, MEMORY },
	[XIW_UNREADABLE]	= { "unreadable", LOCAL, UNREADABLE },
};

struct terminate_ulpdu {
	struct xiw_ddp_untagged	ddp;
	struct xiw_terminate	term;
	/*
	 * The DDP segment length before the repeated headers is the ULPDU_Length of the faulty
	 * FPDU, so the FPDU is repeated from its first octet.
	 */
	__u8			fault[offsetofend(struct xiw_headers, read)];
} __packed;
static_assert(sizeof(struct terminate_ulpdu) == XIW_TERMINATE_MAX, "RFC 5040 4.8");

/*
 * Number of header octets to repeat. If a segment is shorter than its headers should be, none are
 * repeated, because they cannot be told from payload.
 */
static unsigned int terminate_header_len(const struct xiw_cause_row *row,
					 const struct xiw_headers *fault)
{
	unsigned int ulpdu_len = be16_to_cpu(fault->mpa.ulpdu_len);
	unsigned int len;

	if (!row->ddp_header || ulpdu_len < sizeof(fault->ctrl))
		return 0;
	if (fault->ctrl.ddp & DDP_TAGGED)
		len = sizeof(fault->tagged);
	else if (row->rdmap_header &&
		 (fault->ctrl.rdmap & RDMAP_OPCODE_MASK) == RDMAP_READ_REQ)
		len = sizeof(fault->untagged) + sizeof(fault->read);
	else
		len = sizeof(fault->untagged);
	return len <= ulpdu_len ? len : 0;
}

unsigned int xiw_terminate_build(void *ulpdu, enum xiw_cause cause,
				 const struct xiw_headers *fault)
{
	const struct xiw_cause_row *row = &xiw_causes[cause];
	unsigned int header_len = fault ? terminate_header_len(row, fault) : 0;
	struct terminate_ulpdu *out = ulpdu;

	out->ddp = (struct xiw_ddp_untagged) {
		.ctrl.ddp = DDP_LAST | DDP_VERSION,
		.ctrl.rdmap = RDMAP_VERSION | RDMAP_TERMINATE,
		.qn = cpu_to_be32(DDP_QN_TERMINATE),
		.msn = cpu_to_be32(1),
	};
	out->term = (struct xiw_terminate) {
		.layer_etype = row->layer << 4 | row->etype,
		.code = row->code,
	};
	if (!header_len)
		return offsetof(struct terminate_ulpdu, fault);

	out->term.hdrct = RDMAP_TERM_M | RDMAP_TERM_D;
	if (header_len > sizeof(fault->untagged))
		out->term.hdrct |= RDMAP_TERM_R;
	memcpy(out->fault, fault, sizeof(fault->mpa) + header_len);
	return offsetof(struct terminate_ulpdu, fault) + sizeof(fault->mpa) + header_len;
}
