// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* opcode.c - table of the RDMAP operations, and checks of a segment against it */

#include <linux/stddef.h>
#include <asm/byteorder.h>

#include "wire/opcode.h"

const struct xiw_rdmap_op xiw_rdmap_ops[RDMAP_NUM_OPCODES] = {
	[RDMAP_WRITE]		= { .known = 1, .tagged = 1 },
	[RDMAP_READ_REQ]	= { .known = 1, .qn = DDP_QN_READ,
				    .header_len = sizeof(struct xiw_read_req),
				    .fixed_len = sizeof(struct xiw_read_req) },
	[RDMAP_READ_RESP]	= { .known = 1, .tagged = 1 },
	[RDMAP_SEND]		= { .known = 1, .qn = DDP_QN_SEND },
	[RDMAP_SEND_INV]	= { .known = 1, .qn = DDP_QN_SEND, .invalidates = 1 },
	[RDMAP_SEND_SE]		= { .known = 1, .qn = DDP_QN_SEND, .solicited = 1 },
	[RDMAP_SEND_SE_INV]	= { .known = 1, .qn = DDP_QN_SEND, .solicited = 1,
				    .invalidates = 1 },
	[RDMAP_TERMINATE]	= { .known = 1, .qn = DDP_QN_TERMINATE,
				    .header_len = sizeof(struct xiw_terminate) },
	[RDMAP_IMM]		= { .known = 1, .qn = DDP_QN_SEND,
				    .fixed_len = sizeof(struct xiw_imm_data) },
	[RDMAP_IMM_SE]		= { .known = 1, .qn = DDP_QN_SEND, .solicited = 1,
				    .fixed_len = sizeof(struct xiw_imm_data) },
	[RDMAP_ATOMIC_REQ]	= { .known = 1, .qn = DDP_QN_READ,
				    .header_len = sizeof(struct xiw_atomic_req),
				    .fixed_len = sizeof(struct xiw_atomic_req) },
	[RDMAP_ATOMIC_RESP]	= { .known = 1, .qn = DDP_QN_ATOMIC_RESP,
				    .header_len = sizeof(struct xiw_atomic_resp),
				    .fixed_len = sizeof(struct xiw_atomic_resp) },
};

static const struct xiw_rdmap_op *opcode_row(const struct xiw_ddp_ctrl *ctrl)
{
	return &xiw_rdmap_ops[ctrl->rdmap & RDMAP_OPCODE_MASK];
}

/* Checks the two control octets, which determine the meaning of all others. */
static enum xiw_cause opcode_check_ctrl(const struct xiw_ddp_ctrl *ctrl)
{
	const struct xiw_rdmap_op *op = opcode_row(ctrl);
	bool tagged = ctrl->ddp & DDP_TAGGED;

	if ((ctrl->ddp & DDP_VERSION_MASK) != DDP_VERSION)
		return tagged ? XIW_BAD_DDP_VERSION_TAGGED : XIW_BAD_DDP_VERSION_UNTAGGED;
	if ((ctrl->rdmap & RDMAP_VERSION_MASK) != RDMAP_VERSION)
		return XIW_BAD_RDMAP_VERSION;
	if (!op->known || op->tagged != tagged)
		return XIW_BAD_OPCODE;
	return XIW_OK;
}

/* Checks queue and length of an untagged segment. @len octets follow its DDP header. */
static enum xiw_cause opcode_check_untagged(const struct xiw_rdmap_op *op,
					    const struct xiw_ddp_untagged *ddp, __u32 len)
{
	if (be32_to_cpu(ddp->qn) != op->qn)
		return XIW_BAD_QN;
	if (len < op->header_len)
		return XIW_BAD_FPDU_LENGTH;
	if (op->fixed_len && len != op->fixed_len)
		return XIW_BAD_LENGTH;
	return XIW_OK;
}

static enum xiw_cause opcode_check(const struct xiw_headers *hdr, __u32 ulpdu_len)
{
	const struct xiw_rdmap_op *op;
	enum xiw_cause cause;
	__u32 ddp_len;	/* of the DDP header; depends on the tagged bit only */

	if (ulpdu_len < sizeof(hdr->ctrl))
		return XIW_BAD_FPDU_LENGTH;
	ddp_len = hdr->ctrl.ddp & DDP_TAGGED ? sizeof(hdr->tagged) : sizeof(hdr->untagged);
	if (ulpdu_len < ddp_len)
		return XIW_BAD_FPDU_LENGTH;

	cause = opcode_check_ctrl(&hdr->ctrl);
	if (cause)
		return cause;
	op = opcode_row(&hdr->ctrl);
	if (op->tagged)
		return XIW_OK;
	return opcode_check_untagged(op, &hdr->untagged, ulpdu_len - ddp_len);
}

const struct xiw_rdmap_op *xiw_ddp_check(const struct xiw_headers *hdr, __u32 ulpdu_len,
					 enum xiw_cause *cause)
{
	*cause = opcode_check(hdr, ulpdu_len);
	return *cause ? NULL : opcode_row(&hdr->ctrl);
}
