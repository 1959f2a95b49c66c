/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* fpdu.h - writes the parts of one FPDU */
#ifndef XIW_FPDU_H
#define XIW_FPDU_H

#include "carrier/batch.h"
#include "stream/qp.h"

/**
 * struct xiw_fpdu - one FPDU while it is being staged
 * @start: its first byte
 * @at: where the next byte goes
 */
struct xiw_fpdu {
	void	*start;
	void	*at;
};

/* fpdu.c APIs */

/* Writes the DDP and RDMAP headers of a tagged segment at @fpdu->at (RFC 5041 section 4.1). */
void xiw_fpdu_put_tagged(struct xiw_fpdu *fpdu, u8 opcode, bool last, u32 stag, u64 to);

/*
 * Writes the headers of an untagged segment. @inv_stag is 0 if nothing is invalidated (section
 * 4.2).
 */
void xiw_fpdu_put_untagged(struct xiw_fpdu *fpdu, u8 opcode, bool last, u32 inv_stag, u32 msn,
			   u32 mo);

/**
 * xiw_fpdu_finish - add length, pad, markers and CRC, and add the FPDU to a batch
 * @stage: stage that the FPDU was written to
 * @batch: batch to add to
 * @fpdu: the FPDU, complete up to the last byte of payload
 * @framing: framing of the stream; its count of bytes sent is updated
 *
 * Return: as xiw_stage_commit().
 */
bool xiw_fpdu_finish(struct xiw_stage *stage, struct xiw_batch *batch, struct xiw_fpdu *fpdu,
		     struct xiw_framing *framing);

#endif /* XIW_FPDU_H */
