/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* segment.h - builds the segments of a message, whatever carries them */
#ifndef XIW_SEGMENT_H
#define XIW_SEGMENT_H

#include "carrier/carrier.h"

/*
 * Whether a segment with @payload bytes is the last one of its message, of which @left bytes have
 * not been sent. If the peer reads the payload from this end's memory, a segment that invalidates
 * an STag must carry none: the peer waits until no access to the STag's memory is under way, and
 * the payload may be read from that memory.
 */
static inline bool xiw_segment_is_last(const struct xiw_qp *qp, u32 payload, u32 left,
				       bool invalidates)
{
	return payload == left && !(qp->carrier->by_reference && invalidates && payload);
}

/* segment.c APIs; the queue pair is locked (see Locking) */

/**
 * xiw_segment_begin - find room for a segment and choose how much of a message it carries
 * @run: the transmit run
 * @fpdu: result
 * @hdr_len: bytes of DDP and RDMAP headers
 * @payload: in: bytes left of the message; out: bytes that this segment carries. A segment
 *	without payload is never split
 *
 * Return: XIW_SEGMENT_STAGED if there is room; XIW_SEGMENT_NONE if the peer on this host has ended;
 * or why there is no room.
 */
static inline enum xiw_segment_result xiw_segment_begin(struct xiw_run *run, struct xiw_fpdu *fpdu,
							u32 hdr_len, u32 *payload)
{
	xiw_carrier_assert_locked(run->qp);

	return run->qp->carrier->begin(run, fpdu, hdr_len, payload);
}

/**
 * xiw_segment_add - add registered memory to the payload
 * @run: the transmit run
 * @fpdu: from xiw_segment_begin(), with its headers written
 * @stag: STag of the region
 * @addr: address of the first byte
 * @len: number of bytes
 * @access: rights that are required
 *
 * A carrier that works by reference takes the payload of a segment from one region only.
 *
 * Return: as xiw_mr_get().
 */
enum xiw_mem_fault xiw_segment_add(struct xiw_run *run, struct xiw_fpdu *fpdu, u32 stag, u64 addr,
				   u32 len, int access);

/*
 * Adds @len bytes of kernel memory to the payload. @data must stay unchanged until the segment
 * ends.
 */
static inline void xiw_segment_add_data(struct xiw_run *run, struct xiw_fpdu *fpdu,
					const void *data, u32 len)
{
	run->qp->carrier->add_data(run, fpdu, data, len);
}

/**
 * xiw_segment_end - add an FPDU to the batch, or place a segment at the peer
 * @run: the transmit run
 * @fpdu: complete except for length, pad and CRC
 *
 * Return: false if the peer cannot take it now, and it must be built again.
 */
static inline bool xiw_segment_end(struct xiw_run *run, struct xiw_fpdu *fpdu)
{
	xiw_carrier_assert_locked(run->qp);

	return run->qp->carrier->end(run, fpdu);
}

/* Stages an untagged message of one segment that has no payload; @body is its RDMAP header. */
enum xiw_segment_result xiw_segment_message(struct xiw_run *run, u8 opcode, const void *body,
					    u32 len);

#endif /* XIW_SEGMENT_H */
