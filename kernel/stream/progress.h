/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* progress.h - how far a queue pair has got with what it sends and receives */
#ifndef XIW_PROGRESS_H
#define XIW_PROGRESS_H

#include <linux/bits.h>
#include <linux/types.h>
#include <rdma/xiw-abi.h>

#include "carrier/batch.h"
#include "queue/slot.h"
#include "wire/terminate.h"
#include "wire/wire.h"

/**
 * struct xiw_send_wr - a send work request that was taken and is not completed yet
 * @wr_id: as posted
 * @byte_len: bytes of payload
 * @opcode: enum xiw_opcode
 * @flags: XIW_SEND_*
 * @done: it is executed; it completes when all earlier requests have completed
 * @status: enum ib_wc_status
 * @cause: enum xiw_cause behind a bad @status
 */
struct xiw_send_wr {
	u64	wr_id;
	u32	byte_len;
	u8	opcode;
	u8	flags;
	u8	done:1;
	u8	status;
	u8	cause;
};

/**
 * struct xiw_read - a Read or Atomic that this end asked for
 * @sink: where the data goes; each Read Response must name the next byte of it
 * @wr: count of its work request in the send queue
 * @placed: bytes placed so far; the next segment continues there
 * @request_id: of an Atomic
 * @atomic: it is an Atomic, whose Response must name @request_id
 * @invalidate: the STag of @sink becomes invalid when the Read is done
 * @opening: it has no work request, because it opens the stream
 */
struct xiw_read {
	struct xiw_sge	sink;
	u32		wr;
	u32		placed;
	u32		request_id;
	bool		atomic;
	bool		invalidate;
	bool		opening;
};

/**
 * struct xiw_inbound_read - a Read or Atomic that the peer asked for
 * @msn: number of the request
 * @atomic: an Atomic, which was executed already; else a Read
 * @sink_stag: STag of the sink, copied to the Response without a check
 * @sink_to: TO of the sink, copied likewise
 * @src_stag: STag of the source
 * @src_to: TO of the source
 * @size: bytes to read
 * @sent: bytes of them that were sent
 * @request_id: copied to the Response without a check
 * @original: the value that the Atomic found
 */
struct xiw_inbound_read {
	u32	msn;
	bool	atomic;
	union {
		struct {
			u32	sink_stag;
			u32	src_stag;
			u64	sink_to;
			u64	src_to;
			u32	size;
			u32	sent;
		};
		struct {
			u32	request_id;
			u64	original;
		};
	};
};

/**
 * struct xiw_fifo - counters of a FIFO in an array; the size need not be a power of two
 * @size: entries
 * @head: the oldest entry
 * @used: entries in use
 */
struct xiw_fifo {
	u16	size;
	u16	head;
	u16	used;
};

static inline u16 xiw_fifo_at(const struct xiw_fifo *fifo, u16 nth)
{
	return (fifo->head + nth) % fifo->size;
}

static inline void xiw_fifo_pop(struct xiw_fifo *fifo)
{
	fifo->head = xiw_fifo_at(fifo, 1);
	fifo->used--;
}

/**
 * struct xiw_framing - how FPDUs are built
 * @crc: CRCs are generated
 * @markers: the peer wants markers
 * @large: FPDUs may span TCP segments
 * @sent: bytes since the stream began, mod 2^32
 */
struct xiw_framing {
	bool	crc;
	bool	markers;
	bool	large;
	u32	sent;
};

/**
 * enum xiw_request_state - what a queue pair does with its send requests
 * @XIW_REQUEST_NONE: it takes the next one from the ring
 * @XIW_REQUEST_UNDER_WAY: it executes one
 * @XIW_REQUEST_IMM_DUE: all payload of the request is staged, but its Immediate Data is not
 */
enum xiw_request_state {
	XIW_REQUEST_NONE,
	XIW_REQUEST_UNDER_WAY,
	XIW_REQUEST_IMM_DUE,
};

/**
 * struct xiw_request - the send request under way
 * @state: whether there is one
 * @slot: private copy of its slot, with room for a whole slot
 * @len: bytes of payload
 * @sent: bytes of them that are staged
 */
struct xiw_request {
	enum xiw_request_state	state;
	struct xiw_send_slot	*slot;
	u32			len;
	u32			sent;
};

/**
 * enum xiw_tx_run_state - whether a transmit run is under way; TCP may call back into us meanwhile
 * @XIW_TX_NO_RUN: none is
 * @XIW_TX_RUN: one is
 * @XIW_TX_RUN_AGAIN: one is, and another was asked for, so it has to look once more
 */
enum xiw_tx_run_state {
	XIW_TX_NO_RUN,
	XIW_TX_RUN,
	XIW_TX_RUN_AGAIN,
};

/* struct xiw_tx - transmit progress */
struct xiw_tx {
	struct xiw_batch	batch;		/* bytes that TCP has not taken yet */
	enum xiw_tx_run_state	run;
	struct xiw_request	request;	/* the request under way */
	u32			msn[DDP_NUM_QN]; /* the next one of each untagged queue */
	u16			mulpdu;		/* the longest ULPDU for now */
	u16			full_fpdu;	/* bytes of an FPDU that fills a segment, or 0 */
	u32			phase;		/* bytes in the segment that is being filled */
	struct xiw_framing	framing;	/* how FPDUs are built */
	bool			hold;		/* until the first FPDU, RFC 5044 section 7.1.2 */
	bool			responses;	/* go first in this turn; toggles with each turn */
	bool			blocked;	/* waits for an event other than a doorbell */
	bool			lost;		/* TCP takes no more */
};

/**
 * struct xiw_write - the last Write, which Immediate Data behind it refers to
 * @stag: STag of its segments
 * @next: TO at which its next segment should start
 * @len: bytes so far
 * @open: its last segment has not come
 * @torn: a segment did not start where the one before it ended
 */
struct xiw_write {
	u32	stag;
	u64	next;
	u64	len;
	bool	open;
	bool	torn;
};

/*
 * xiw_rx.waits: what FPDUs wait for, at the head of the socket's queue or at the peer. Within one
 * host Responses and other segments can overtake each other, so both kinds may wait for pages.
 */
#define XIW_WAIT_RECEIVE	BIT(0)	/* a Send: a receive request */
#define XIW_WAIT_PAGES		BIT(1)	/* any but a Response: pages */
#define XIW_WAIT_RESPONSE_PAGES	BIT(2)	/* a Response: pages */

/* struct xiw_rx - receive progress */
struct xiw_rx {
	/* Each run looks at these two, so they come first, beside xiw_qp.doorbells. */
	u8			waits;		/* XIW_WAIT_* */
	bool			kick;		/* what was received may allow this end to send */

	bool			crc;		/* CRCs are checked */
	bool			recv_busy;	/* recv is in use */
	bool			refused;	/* TCP had no memory for what comes next */
	u32			spent;		/* bytes processed in this turn of a worker */
	bool			checked;	/* the CRC of the next FPDU, which waits, is good */
	u32			need;		/* bytes of the next FPDU, as far as known */
	u32			kept_len;	/* bytes in kept */
	struct sk_buff		*kept;		/* the next FPDU, outside of the socket (keep.h) */
	u32			msn[DDP_NUM_QN]; /* the next one of each untagged queue */
	struct xiw_recv		*recv;		/* receive request of the Send under way */
	u64			mo;		/* bytes of that Send so far: the next MO */
	unsigned long		starved_since;	/* when a Send began to wait, in jiffies */
	u32			patience_ms;	/* how long it may wait for a receive request */
	struct xiw_write	write;		/* the last one, unless delivered in a message */
};

/**
 * struct xiw_fault - why a stream has to end
 * @cause: the first cause, XIW_OK if there is none
 * @has_hdr: @hdr is valid
 * @hdr: headers of the faulty FPDU; without a cause, those of the Terminate of the peer
 */
struct xiw_fault {
	enum xiw_cause		cause;
	bool			has_hdr;
	struct xiw_headers	hdr;
};

#endif /* XIW_PROGRESS_H */
