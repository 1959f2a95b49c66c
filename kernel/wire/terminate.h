/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* terminate.h - maps a cause to its Terminate message and counter */
#ifndef XIW_TERMINATE_H
#define XIW_TERMINATE_H

#include "wire/wire.h"

/*
 * Why a stream must be ended, as found by the innermost check.
 *
 * Everything that follows from a cause (Terminate, event, counter) is in its row of xiw_causes[]. A
 * new cause needs only a row there.
 */
enum xiw_cause {
	XIW_OK = 0,
	/* MPA */
	XIW_BAD_CRC,
	XIW_BAD_FPDU_LENGTH,		/* ULPDU shorter than its header */
	XIW_BAD_IRD,			/* insufficient IRD at connection setup */
	XIW_BAD_RTR,			/* no common RTR message */
	XIW_SETUP_FAILED,		/* any other local error of the setup */
	/* DDP tagged */
	XIW_BAD_STAG,
	XIW_BAD_BOUNDS,
	XIW_BAD_PD,			/* STag not associated with the stream */
	XIW_BAD_WRAP,
	XIW_BAD_DDP_VERSION_TAGGED,
	XIW_NO_REMOTE_WRITE,		/* DDP has no code for it */
	/* DDP untagged */
	XIW_BAD_QN,
	XIW_NO_RECEIVE,			/* no buffer for the message */
	XIW_BAD_MSN,
	XIW_BAD_MO,
	XIW_MESSAGE_TOO_LONG,
	XIW_BAD_DDP_VERSION_UNTAGGED,
	/* RDMAP remote protection: source of a Read, target of an Atomic */
	XIW_READ_BAD_STAG,
	XIW_READ_BAD_BOUNDS,
	XIW_READ_NO_RIGHT,
	XIW_READ_BAD_PD,
	XIW_READ_BAD_WRAP,
	XIW_INV_BAD_PD,			/* STag to invalidate: other stream */
	/* RDMAP remote operation */
	XIW_INV_BAD_STAG,		/* STag cannot be invalidated */
	XIW_BAD_RDMAP_VERSION,
	XIW_BAD_OPCODE,
	XIW_ATOMIC_UNALIGNED,
	XIW_BAD_LENGTH,			/* of a message with an exact length */
	XIW_TORN_WRITE,			/* Immediate Data after an incomplete or gapped Write */
	XIW_IRD_EXCEEDED,		/* more Reads than agreed: no buffer on its queue */
	XIW_UNEXPECTED_RESPONSE,
	/* local: not caused by the peer */
	XIW_LOCAL_FAULT,		/* a local work request or ring is bad */
	XIW_LOCAL_ABORT,		/* the consumer moved the queue pair to error */
	XIW_NO_MEMORY,
	XIW_UNREADABLE,			/* received data cannot be read */
	XIW_NUM_CAUSES,
	XIW_NOT_YET			/* not a cause: retry once pages have been fetched */
};

enum xiw_term_layer { TERM_RDMAP = 0, TERM_DDP = 1, TERM_MPA = 2 };

/* Error types. RDMAP (RFC 5040 section 4.8) and DDP (RFC 5041 section 7.2) number them alike. */
enum xiw_term_etype {
	TERM_CATASTROPHIC = 0,	/* the only type of MPA */
	TERM_PROTECTION = 1,	/* RDMAP: remote protection; DDP: tagged buffer */
	TERM_OPERATION = 2,	/* RDMAP: remote operation; DDP: untagged buffer */
};

/**
 * struct xiw_cause_row - what follows from a cause
 * @name: for counters and tracing, in lower case with underscores
 * @layer: enum xiw_term_layer
 * @etype: enum xiw_term_etype
 * @code: error code
 * @ddp_header: the Terminate repeats the length and the DDP header of the faulty segment
 * @rdmap_header: it also repeats the Read Request header, if the segment is a Read Request
 * @advice: what the administrator may do about it; NULL if the peer breaks the protocol
 */
struct xiw_cause_row {
	const char	*name;
	__u8		layer;
	__u8		etype;
	__u8		code;
	__u8		ddp_header:1;
	__u8		rdmap_header:1;
	const char	*advice;
};

extern const struct xiw_cause_row xiw_causes[XIW_NUM_CAUSES];

#define XIW_TERMINATE_MAX	(18 + 4 + 2 + 18 + 28)	/* ULPDU octets */

/**
 * xiw_terminate_build - build the ULPDU of a Terminate message
 * @ulpdu: room for XIW_TERMINATE_MAX octets
 * @cause: why the stream ends
 * @fault: headers of the faulty segment, with mpa.ulpdu_len as received; NULL if there is none
 *
 * Builds the DDP untagged header (QN 2, MSN 1, MO 0) and the Terminate header. The faulty headers
 * follow as RFC 5040 section 4.8 and figure 10 require: DDP segment length and DDP header for
 * layers 0 and 1, the Read Request header only if the segment is one, and none for MPA and local
 * faults.
 *
 * Return: length of the ULPDU in octets.
 */
unsigned int xiw_terminate_build(void *ulpdu, enum xiw_cause cause,
				 const struct xiw_headers *fault);

#endif /* XIW_TERMINATE_H */
