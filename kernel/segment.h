/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* segment.h - one segment on its way out: as an FPDU into TCP's hands, or to a peer on this host */
#ifndef XIW_SEGMENT_H
#define XIW_SEGMENT_H

#include "fpdu.h"
#include "mem.h"
#include "qp.h"
#include "rx.h"

/* What became of a segment, beside a negative errno. */
enum xiw_segment_result {
	TX_NOTHING,	/* no work, or it waits for an event */
	TX_CUT,		/* the batch must go first */
	TX_STAGED,
};

/**
 * struct xiw_run - one transmit run
 * @qp: its queue pair
 * @sk: the socket, locked
 * @stage: where FPDUs are written
 * @budget: octets that it may stage, see xiw_tx_run()
 * @staged: octets so far
 * @turns: how often it has looked for something to do
 * @hdr: to a peer on this host: the segment, in place of the stage
 * @payload: its payload, where it is; with a reference on the region
 * @payload_len: octets of that
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

/* segment.c APIs; the lock of the queue pair is held */

/*
 * Adapts to what the path carries now, before a batch is begun: MULPDU = EMSS - (6 + EMSS mod 4),
 * RFC 5044 section 4.5, less 4 * ceil(EMSS / 512) with markers. Such an FPDU fills a segment unless
 * EMSS is no multiple of 4, or it has markers, whose number changes.
 */
void xiw_segment_measure(struct xiw_tx *tx, const struct sock *sk);

/**
 * xiw_segment_begin - find room for a segment and choose how much of a message it carries
 * @run: this run
 * @fpdu: result
 * @hdr_len: octets of DDP and RDMAP headers
 * @payload: in: octets left of the message; out: octets for this segment. 0 cannot be cut
 *
 * Return: TX_STAGED; TX_NOTHING if the peer on this host has ended; TX_CUT; or -ENOMEM.
 */
int xiw_segment_begin(struct xiw_run *run, struct xiw_fpdu *fpdu, u32 hdr_len, u32 *payload);

/**
 * xiw_segment_add - add registered octets to the payload
 * @run: this run
 * @fpdu: from xiw_segment_begin(), behind the headers
 * @stag: their region
 * @addr: the first of them
 * @len: their number
 * @access: rights that are needed
 *
 * A segment to a peer on this host takes them from one region only.
 *
 * Return: as xiw_mr_get().
 */
enum xiw_mem_fault xiw_segment_add(struct xiw_run *run, struct xiw_fpdu *fpdu, u32 stag, u64 addr,
				   u32 len, int access);

/* The same with octets of the kernel's, which stay until the segment ends. */
void xiw_segment_add_data(struct xiw_run *run, struct xiw_fpdu *fpdu, const void *data, u32 len);

/**
 * xiw_segment_end - file an FPDU with the batch, or place a segment at the peer
 * @run: this run
 * @fpdu: complete but for length, pad and CRC
 *
 * Return: TX_STAGED; TX_NOTHING if the peer cannot take it now: it is to be made again.
 */
int xiw_segment_end(struct xiw_run *run, struct xiw_fpdu *fpdu);

/* Sends an untagged message of one segment that is all header. Return: as begin and end. */
int xiw_segment_message(struct xiw_run *run, u8 opcode, const void *body, u32 len);

#endif /* XIW_SEGMENT_H */
