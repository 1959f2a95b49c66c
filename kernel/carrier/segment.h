/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* segment.h - sends one segment: as an FPDU over TCP, or directly to a peer on this host */
#ifndef XIW_SEGMENT_H
#define XIW_SEGMENT_H

#include "carrier/cursor.h"
#include "carrier/fpdu.h"
#include "mem/mem.h"
#include "stream/qp.h"

/* Results of building a segment, besides a negative errno. */
enum xiw_segment_result {
	TX_NOTHING,	/* no work, or waiting for an event */
	TX_CUT,		/* the batch must be sent first */
	TX_STAGED,
};

/**
 * struct xiw_run - one transmit run
 * @qp: the queue pair that sends
 * @sk: its socket, locked
 * @stage: where FPDUs are written
 * @budget: bytes that it may stage, see xiw_tx_run()
 * @staged: bytes staged so far
 * @turns: how often it has looked for something to do
 * @hdr: headers of a segment for a peer on this host; used instead of @stage
 * @payload: where the payload of that segment is, with a reference to the region
 * @payload_len: length of that payload in bytes
 */
struct xiw_run {
	struct xiw_qp		*qp;
	struct sock		*sk;
	struct xiw_stage	stage;
	size_t			budget;
	size_t			staged;
	size_t			turns;
	struct xiw_headers	hdr;
	struct xiw_cursor	payload;
	u32			payload_len;
};

/*
 * Whether a segment with @payload bytes is the last one of its message, of which @left bytes have
 * not been sent. Within one host, a segment that invalidates an STag must carry no payload: the
 * peer waits until no access to the STag's memory is under way, and this payload may be read from
 * that memory.
 */
static inline bool xiw_segment_is_last(const struct xiw_qp *qp, u32 payload, u32 left,
				       bool invalidates)
{
	return payload == left && !(qp->loop && invalidates && payload);
}

/* segment.c APIs; the caller holds the lock that drives the queue pair */

/*
 * Adapts to the current EMSS before a batch is started: MULPDU = EMSS - (6 + EMSS mod 4), RFC 5044
 * section 4.5, less 4 * ceil(EMSS / 512) with markers. An FPDU of that size fills a segment unless
 * EMSS is not a multiple of 4, or markers are used: their number varies from segment to segment.
 */
void xiw_segment_measure(struct xiw_tx *tx, const struct sock *sk);

/**
 * xiw_segment_begin - find room for a segment and choose how much of a message it carries
 * @run: the transmit run
 * @fpdu: result
 * @hdr_len: bytes of DDP and RDMAP headers
 * @payload: in: bytes left of the message; out: bytes that this segment carries. A segment
 *	without payload is never split
 *
 * Return: TX_STAGED if there is room; TX_NOTHING if the peer on this host has ended; TX_CUT if the
 * batch must be sent first; or -ENOMEM.
 */
int xiw_segment_begin(struct xiw_run *run, struct xiw_fpdu *fpdu, u32 hdr_len, u32 *payload);

/**
 * xiw_segment_add - add registered memory to the payload
 * @run: the transmit run
 * @fpdu: from xiw_segment_begin(), with its headers written
 * @stag: STag of the region
 * @addr: address of the first byte
 * @len: number of bytes
 * @access: rights that are required
 *
 * A segment for a peer on this host takes its payload from one region only.
 *
 * Return: as xiw_mr_get().
 */
enum xiw_mem_fault xiw_segment_add(struct xiw_run *run, struct xiw_fpdu *fpdu, u32 stag, u64 addr,
				   u32 len, int access);

/*
 * Adds @len bytes of kernel memory to the payload. @data must stay unchanged until the segment
 * ends.
 */
void xiw_segment_add_data(struct xiw_run *run, struct xiw_fpdu *fpdu, const void *data, u32 len);

/**
 * xiw_segment_end - add an FPDU to the batch, or place a segment at the peer
 * @run: the transmit run
 * @fpdu: complete except for length, pad and CRC
 *
 * Return: TX_STAGED; or TX_NOTHING if the peer cannot take it now, and it must be built again.
 */
int xiw_segment_end(struct xiw_run *run, struct xiw_fpdu *fpdu);

/*
 * Sends an untagged message of one segment that has no payload; @body is its RDMAP header. Return:
 * as xiw_segment_begin() and xiw_segment_end().
 */
int xiw_segment_message(struct xiw_run *run, u8 opcode, const void *body, u32 len);

#endif /* XIW_SEGMENT_H */
