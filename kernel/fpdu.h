/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* fpdu.h - the parts of one FPDU, as they are written */
#ifndef XIW_FPDU_H
#define XIW_FPDU_H

#include "batch.h"
#include "qp.h"

/**
 * struct xiw_fpdu - one FPDU while it is being staged
 * @start: first octet
 * @at: where the next octet goes
 */
struct xiw_fpdu {
	void	*start;
	void	*at;
};

/* fpdu.c APIs */

/* Puts the DDP and RDMAP headers of a tagged segment at @fpdu->at (RFC 5041 section 4.1). */
void xiw_fpdu_put_tagged(struct xiw_fpdu *fpdu, u8 opcode, bool last, u32 stag, u64 to);

/* Same of an untagged segment; @inv_stag is 0 where nothing is invalidated (section 4.2). */
void xiw_fpdu_put_untagged(struct xiw_fpdu *fpdu, u8 opcode, bool last, u32 inv_stag, u32 msn,
			   u32 mo);

/**
 * xiw_fpdu_finish - add length, pad, markers and CRC, and file the FPDU with its batch
 * @stage: where it was written
 * @batch: where it belongs
 * @fpdu: the FPDU, up to its last octet of payload
 * @framing: of the stream; counts what is sent
 *
 * Return: as xiw_stage_commit().
 */
bool xiw_fpdu_finish(struct xiw_stage *stage, struct xiw_batch *batch, struct xiw_fpdu *fpdu,
		     struct xiw_framing *framing);

#endif /* XIW_FPDU_H */
