// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* fpdu.c - writes the parts of one FPDU */

#include <linux/crc32c.h>

#include "carrier/fpdu.h"
#include "wire/marker.h"
#include "wire/opcode.h"

void xiw_fpdu_put_tagged(struct xiw_fpdu *fpdu, u8 opcode, bool last, u32 stag, u64 to)
{
	struct xiw_ddp_tagged *hdr = fpdu->at;

	*hdr = (struct xiw_ddp_tagged){
		.ctrl.ddp = DDP_TAGGED | (last ? DDP_LAST : 0) | DDP_VERSION,
		.ctrl.rdmap = RDMAP_VERSION | opcode,
		.stag = cpu_to_be32(stag),
		.to = cpu_to_be64(to),
	};
	fpdu->at += sizeof(*hdr);
}

void xiw_fpdu_put_untagged(struct xiw_fpdu *fpdu, u8 opcode, bool last, u32 inv_stag, u32 msn,
			     u32 mo)
{
	struct xiw_ddp_untagged *hdr = fpdu->at;

	*hdr = (struct xiw_ddp_untagged){
		.ctrl.ddp = (last ? DDP_LAST : 0) | DDP_VERSION,
		.ctrl.rdmap = RDMAP_VERSION | opcode,
		.inv_stag = cpu_to_be32(inv_stag),
		.qn = cpu_to_be32(xiw_rdmap_ops[opcode].qn),
		.msn = cpu_to_be32(msn),
		.mo = cpu_to_be32(mo),
	};
	fpdu->at += sizeof(*hdr);
}

bool xiw_fpdu_finish(struct xiw_stage *stage, struct xiw_batch *batch, struct xiw_fpdu *fpdu,
		     struct xiw_framing *framing)
{
	u32 ulpdu_len = fpdu->at - fpdu->start - sizeof(struct xiw_fpdu_head);
	u32 pad = xiw_fpdu_pad(ulpdu_len);
	struct xiw_fpdu_head *head = fpdu->start;
	__le32 sum = 0;

	head->ulpdu_len = cpu_to_be16(ulpdu_len);
	memset(fpdu->at, 0, pad);
	fpdu->at += pad;
	if (unlikely(framing->markers))
		fpdu->at = fpdu->start + xiw_markers_insert(fpdu->start, fpdu->at - fpdu->start,
							    framing->sent);
	if (framing->crc)
		sum = cpu_to_le32(~crc32c(~0, fpdu->start, fpdu->at - fpdu->start));
	memcpy(fpdu->at, &sum, MPA_CRC_LEN);
	fpdu->at += MPA_CRC_LEN;
	framing->sent += fpdu->at - fpdu->start;
	return xiw_stage_commit(stage, batch, fpdu->at - fpdu->start);
}
