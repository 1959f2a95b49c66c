/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* opcode.h - table of the RDMAP operations, and checks of a segment against it */
#ifndef XIW_OPCODE_H
#define XIW_OPCODE_H

#include "wire/terminate.h"
#include "wire/wire.h"

/**
 * struct xiw_rdmap_op - what an RDMAP opcode implies (RFC 5040 figure 4, RFC 7306 figure 2)
 * @known: assigned, and handled by this driver
 * @tagged: sent in tagged segments
 * @qn: queue of an untagged message
 * @header_len: octets of RDMAP header that follow the DDP header
 * @fixed_len: required length of everything after the DDP header; 0 if any length is allowed
 * @invalidates: carries an STag to invalidate
 * @solicited: requests an event at the receiver
 */
struct xiw_rdmap_op {
	__u8	known:1;
	__u8	tagged:1;
	__u8	invalidates:1;
	__u8	solicited:1;
	__u8	qn;
	__u8	header_len;
	__u8	fixed_len;
};

extern const struct xiw_rdmap_op xiw_rdmap_ops[RDMAP_NUM_OPCODES];

/**
 * xiw_ddp_check - check the control octets, lengths and queue of one segment
 * @hdr: headers of the FPDU, valid for min(@ulpdu_len + 2, sizeof(*hdr)) octets
 * @ulpdu_len: length of the ULPDU in octets, from the FPDU
 * @cause: result: XIW_OK, or what is wrong (DDP or RDMAP version, unknown opcode, tagged bit that
 *	does not match the opcode, ULPDU too short for its header, wrong fixed length, queue number;
 *	RFC 5041 section 7.1, RFC 5040 section 7.1)
 *
 * Return: the row of the opcode if @cause is XIW_OK, else NULL.
 */
const struct xiw_rdmap_op *xiw_ddp_check(const struct xiw_headers *hdr, __u32 ulpdu_len,
					 enum xiw_cause *cause);

#endif /* XIW_OPCODE_H */
