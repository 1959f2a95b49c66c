/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* mpa.h - connection frames: parse and build, no socket in sight */
#ifndef XIW_MPA_H
#define XIW_MPA_H

#include "wire.h"

/* The longest frame, and so the buffer that any frame fits. */
#define XIW_MPA_FRAME_MAX	(sizeof(struct xiw_mpa_frame) + MPA_MAX_PRIVATE_DATA)

/* RTR: the message by which an initiator of the peer-to-peer model opens the stream */
#define XIW_RTR_SEND		0x1
#define XIW_RTR_WRITE		0x2
#define XIW_RTR_READ		0x4

/**
 * struct xiw_mpa - what a Request or Reply says
 * @revision: 1 or 2
 * @reply: it is a Reply
 * @markers: the sender wants to receive markers
 * @crc: the sender wants CRCs
 * @reject: a Reply that rejects
 * @enhanced: revision 2 with the enhanced block
 * @p2p: peer-to-peer model (flag A)
 * @rtr: XIW_RTR_* that the sender offers or supports; 0 unless @p2p
 * @ird: inbound Reads that the sender takes, 0 to 0x3fff; 0x3fff if not negotiated
 * @ord: outbound Reads that the sender wants, same range
 * @pd_len: octets of the ULP's private data, without the enhanced block
 * @pd: the ULP's private data; points into the frame, or to the caller's buffer
 */
struct xiw_mpa {
	__u8		revision;
	bool		reply;
	bool		markers;
	bool		crc;
	bool		reject;
	bool		enhanced;
	bool		p2p;
	__u8		rtr;
	__u16		ird;
	__u16		ord;
	__u16		pd_len;
	const __u8	*pd;
};

/**
 * xiw_mpa_parse - judge and decode a frame that is possibly still incomplete
 * @mpa: result, valid if the frame is complete
 * @frame: the octets so far
 * @len: their number
 * @reply: whether a Reply is due (initiator) or a Request (responder)
 *
 * Checks as early as the octets allow: wrong key octets, revision and PD_Length are refused
 * before the rest has come (RFC 5044 section 7.1.1, RFC 6581 sections 6 to 10). Reserved flags
 * are ignored; R is ignored in a Request; S counts in revision 2 only; with A=0 the RTR flags
 * are ignored.
 *
 * Return: length of the complete frame; or 0 if more octets are needed; or -EPROTO if it is
 * malformed or of a revision other than 1 and 2 (the connection must be closed without an answer).
 */
int xiw_mpa_parse(struct xiw_mpa *mpa, const void *frame, unsigned int len, bool reply);

/**
 * xiw_mpa_wants - how many octets the frame has at least, given its first @len octets
 * @frame: the octets so far
 * @len: their number
 *
 * For a reader that must not take octets beyond the frame. A PD_Length above the maximum counts
 * as the maximum.
 *
 * Return: 20, or 20 + PD_Length once 20 octets are there.
 */
unsigned int xiw_mpa_wants(const void *frame, unsigned int len);

/**
 * xiw_mpa_build - lay out a frame
 * @frame: room for XIW_MPA_FRAME_MAX octets
 * @mpa: what to say; @pd_len must be at most 512, or 508 with the enhanced block
 *
 * Return: length in octets, or -EINVAL if the private data is too long, or IRD or ORD does not
 * fit the enhanced block.
 */
int xiw_mpa_build(void *frame, const struct xiw_mpa *mpa);

/**
 * struct xiw_mpa_terms - what two frames agree on, seen from one end
 * @revision: 1 or 2, as answered
 * @crc: CRCs in both directions
 * @tx_markers: the peer wants markers
 * @rtr: the one XIW_RTR_* message that opens the stream, 0 in the client-server model
 * @ird: inbound Reads that this end must take
 * @ord: outbound Reads that this end may have outstanding
 */
struct xiw_mpa_terms {
	__u8	revision;
	bool	crc;
	bool	tx_markers;
	__u8	rtr;
	__u16	ird;
	__u16	ord;
};

/**
 * xiw_mpa_answer - responder: form the Reply to a Request
 * @reply: result; private data and @reject are left for the caller
 * @terms: result
 * @request: what came
 * @crc: CRCs wanted here
 * @ird: inbound Reads that the consumer grants, at most @max_ird
 * @ord: outbound Reads that the consumer wants, at most 0x3ffe
 * @max_ird: limit of the device, at least 1, at most 0x3ffe
 *
 * RFC 6581 section 9.1: the responder's ORD is at most the initiator's IRD; its IRD is raised
 * to the initiator's ORD; 0x3fff is answered by 0x3fff and leaves the own value alone. RTR: of
 * what the initiator offers the first of Write, Read; if none fits, Write is offered. With a
 * Read as RTR the IRD is at least 1. CRC: on if either wants it.
 *
 * Return: 0, or -EMSGSIZE if the initiator's ORD exceeds @max_ird: reject then, with @reply,
 * which names @max_ird as the IRD.
 */
int xiw_mpa_answer(struct xiw_mpa *reply, struct xiw_mpa_terms *terms,
		   const struct xiw_mpa *request, bool crc, __u16 ird, __u16 ord, __u16 max_ird);

/**
 * xiw_mpa_conclude - initiator: what Request and Reply agree on
 * @terms: result
 * @request: what was sent
 * @reply: what came, not a rejection
 * @max_ird: limit of the device
 *
 * RFC 6581 section 9.1 and 9.2: ORD becomes at most the responder's IRD, IRD at least its ORD
 * if the device can; the RTR is a type that both named (Write is preferred; with a Read ORD is
 * at least 1). What either end does not negotiate stays as @request has it.
 *
 * Return: 0, -EMSGSIZE for insufficient IRD (Terminate 2/0/06), -EOPNOTSUPP without a common
 * RTR (Terminate 2/0/07), or -EPROTO if the Reply cannot belong to the Request (enhanced
 * against plain, another revision).
 */
int xiw_mpa_conclude(struct xiw_mpa_terms *terms, const struct xiw_mpa *request,
		     const struct xiw_mpa *reply, __u16 max_ird);

#endif /* XIW_MPA_H */
