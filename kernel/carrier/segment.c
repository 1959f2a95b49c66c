// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* segment.c - builds the segments of a message, whatever carries them */

#include "carrier/segment.h"
#include "mem/mem.h"
#include "wire/opcode.h"

/* Kernel-doc of the functions that other files call is in segment.h. */
enum xiw_mem_fault xiw_segment_add(struct xiw_run *run, struct xiw_fpdu *fpdu, u32 stag, u64 addr,
				   u32 len, int access)
{
	enum xiw_mem_fault fault;
	struct xiw_mr *mr;

	xiw_carrier_assert_locked(run->qp);

	if (!len)
		return XIW_MEM_OK;
	fault = xiw_mr_get(&mr, &run->qp->tx_accessor, stag, addr, len, access);
	if (unlikely(fault))
		return fault;
	run->qp->carrier->add(run, fpdu, mr, addr, len);
	return XIW_MEM_OK;
}

enum xiw_segment_result xiw_segment_message(struct xiw_run *run, u8 opcode, const void *body,
					    u32 len)
{
	u32 *msn = &run->qp->tx.msn[xiw_rdmap_ops[opcode].qn];
	enum xiw_segment_result result;
	struct xiw_fpdu fpdu;
	u32 payload = 0;

	result = xiw_segment_begin(run, &fpdu, sizeof(struct xiw_ddp_untagged) + len, &payload);
	if (result != XIW_SEGMENT_STAGED)
		return result;
	xiw_fpdu_put_untagged(&fpdu, opcode, true, 0, *msn, 0);
	memcpy(fpdu.at, body, len);
	fpdu.at += len;
	if (!xiw_segment_end(run, &fpdu))
		return XIW_SEGMENT_NONE;
	(*msn)++;
	return XIW_SEGMENT_STAGED;
}
