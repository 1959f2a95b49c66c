// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* send_kernel.c - the kernel's sending end of a stream of FPDUs, for a caller in C++ */

#include <string.h>

#include "carrier/fpdu.h"
#include "stream_kernel.h"
#include "wire/marker.h"

void fuzz_other_side(void)
{
}

bool xiw_stage_commit(struct xiw_stage *stage, struct xiw_batch *batch, u32 len)
{
	batch->len += len;
	return true;
}

static u32 ulpdu_len(const struct kernel_segment *segment)
{
	return segment->len + (segment->tagged ? sizeof(struct xiw_ddp_tagged) :
						 sizeof(struct xiw_ddp_untagged));
}

__u32 kernel_room(const struct kernel_segment *segment, bool markers)
{
	u32 len = xiw_fpdu_len(ulpdu_len(segment));

	return len + (markers ? xiw_markers_max(len - MPA_CRC_LEN) : 0);
}

__u32 kernel_send(void *room, const struct kernel_segment *segment, bool crc, bool markers,
		  __u32 *sent)
{
	struct xiw_framing framing = { .crc = crc, .markers = markers, .sent = *sent };
	struct xiw_fpdu fpdu = { .start = room, .at = room + sizeof(struct xiw_fpdu_head) };
	struct xiw_batch batch = {};
	struct xiw_stage stage = {};

	if (segment->tagged)
		xiw_fpdu_put_tagged(&fpdu, segment->opcode, segment->last, segment->stag,
				    segment->to);
	else
		xiw_fpdu_put_untagged(&fpdu, segment->opcode, segment->last, segment->stag,
				      segment->msn, segment->mo);
	if (segment->len)
		memcpy(fpdu.at, segment->payload, segment->len);
	fpdu.at += segment->len;
	xiw_fpdu_finish(&stage, &batch, &fpdu, &framing);
	*sent = framing.sent;
	return batch.len;
}
