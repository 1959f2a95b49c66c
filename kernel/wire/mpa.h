/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* mpa.h - parses and builds connection frames, without any socket */
#ifndef XIW_MPA_H
#define XIW_MPA_H

#include "wire/wire.h"

/* Length of the longest frame; a buffer of this size holds any frame. */
#define XIW_MPA_FRAME_MAX	(sizeof(struct xiw_mpa_frame) + MPA_MAX_PRIVATE_DATA)

/* RTR: the message with which the initiator opens the stream in the peer-to-peer model */
#define XIW_RTR_SEND		0x1
#define XIW_RTR_WRITE		0x2
#define XIW_RTR_READ		0x4

/**
 * struct xiw_mpa - contents of a Request or Reply
 * @revision: 1 or 2
 * @reply: the frame is a Reply
 * @markers: the sender wants to receive markers
 * @crc: the sender wants CRCs
 * @reject: the Reply rejects the connection
 * @enhanced: the frame has revision 2 and an enhanced block
 * @large_fpdus: a Request offers FPDUs that span TCP segments, a Reply agrees to them
 * @p2p: peer-to-peer model (flag A)
 * @rtr: XIW_RTR_* that the sender offers or supports; 0 unless @p2p
 * @ird: inbound Reads that the sender accepts, 0 to 0x3fff; 0x3fff if not negotiated
 * @ord: outbound Reads that the sender wants, same range
 * @pd_len: octets of the ULP's private data, without the enhanced block
 * @pd: the ULP's private data; points into the frame or to the caller's buffer
 */
struct xiw_mpa {
	__u8		revision;
	bool		reply;
	bool		markers;
	bool		crc;
	bool		reject;
	bool		enhanced;
	bool		large_fpdus;
	bool		p2p;
	__u8		rtr;
	__u16		ird;
	__u16		ord;
	__u16		pd_len;
	const __u8	*pd;
};

/**
 * xiw_mpa_parse - check and decode a frame that may be incomplete
 * @mpa: result, valid only if the frame is complete
 * @frame: the octets received so far
 * @len: their number
 * @reply: a Reply is expected (initiator), not a Request (responder)
 *
 * Checks as early as possible: a wrong key, revision or PD_Length is refused before the rest has
 * arrived (RFC 5044 section 7.1.1, RFC 6581 sections 6 to 10). Reserved flags are ignored. R is
 * ignored in a Request. S counts only in revision 2. With A=0 the RTR flags are ignored.
 *
 * Return: length of the complete frame; or 0 if more octets are needed; or -EPROTO if the frame is
 * malformed or its revision is neither 1 nor 2 (the connection must be closed without an answer).
 */
int xiw_mpa_parse(struct xiw_mpa *mpa, const void *frame, unsigned int len, bool reply);

/**
 * xiw_mpa_wants - minimum length of a frame, given its first @len octets
 * @frame: the octets received so far
 * @len: their number
 *
 * For a reader that must not consume octets after the frame. A PD_Length above the maximum counts
 * as the maximum.
 *
 * Return: 20, or 20 + PD_Length once 20 octets are available.
 */
unsigned int xiw_mpa_wants(const void *frame, unsigned int len);

/**
 * xiw_mpa_build - build a frame
 * @frame: room for XIW_MPA_FRAME_MAX octets
 * @mpa: its contents; @pd_len must be at most 512, or 508 with the enhanced block
 *
 * Return: length in octets, or -EINVAL if the private data is too long, or IRD or ORD does not fit
 * the enhanced block.
 */
int xiw_mpa_build(void *frame, const struct xiw_mpa *mpa);

/**
 * struct xiw_mpa_terms - what two frames agree on, as seen from one end
 * @crc: CRCs are used in both directions
 * @tx_markers: the peer wants markers
 * @tx_large_fpdus: this end may send FPDUs that span TCP segments
 * @rtr: the one XIW_RTR_* message that opens the stream; 0 in the client-server model
 * @ird: inbound Reads that this end must accept
 * @ord: outbound Reads that this end may have outstanding
 */
struct xiw_mpa_terms {
	bool	crc;
	bool	tx_markers;
	bool	tx_large_fpdus;
	__u8	rtr;
	__u16	ird;
	__u16	ord;
};

/**
 * struct xiw_mpa_offer - what the responder and its consumer want
 * @crc: CRCs
 * @large_fpdus: FPDUs that span TCP segments
 * @ird: inbound Reads that the consumer grants, at most @max_ird
 * @ord: outbound Reads that the consumer wants, at most 0x3ffe
 * @max_ird: limit of the device, at least 1, at most 0x3ffe
 */
struct xiw_mpa_offer {
	bool	crc;
	bool	large_fpdus;
	__u16	ird;
	__u16	ord;
	__u16	max_ird;
};

/**
 * xiw_mpa_answer - responder: build the Reply to a Request
 * @reply: result; the caller fills in the private data and @reject
 * @terms: result: what both frames agree on
 * @request: the Request that was received
 * @offer: what this end wants
 *
 * RFC 6581 section 9.1: the responder's ORD is at most the initiator's IRD, and its IRD is raised
 * to the initiator's ORD. A value of 0x3fff is answered by 0x3fff, and leaves this end's value
 * unchanged. RTR: Write if the initiator offers it, else Read if it offers that, else Write even
 * though it was not offered. With a Read as RTR the IRD is at least 1. CRCs are used if either end
 * wants them. FPDUs may span TCP segments if both ends want that, except towards an end that wants
 * markers.
 *
 * Return: 0, or -EMSGSIZE if the initiator's ORD exceeds @offer->max_ird. The caller must then
 * reject with @reply, which names that limit as the IRD.
 */
int xiw_mpa_answer(struct xiw_mpa *reply, struct xiw_mpa_terms *terms,
		   const struct xiw_mpa *request, const struct xiw_mpa_offer *offer);

/**
 * xiw_mpa_conclude - initiator: determine what Request and Reply agree on
 * @terms: result
 * @request: the Request that was sent
 * @reply: the Reply that was received, not a rejection
 * @max_ird: limit of the device
 *
 * RFC 6581 sections 9.1 and 9.2: ORD becomes at most the responder's IRD. IRD becomes at least the
 * responder's ORD if the device supports that. The RTR is a type that both frames name. Write is
 * preferred; with a Read the ORD is at least 1. A value that either end does not negotiate stays as
 * it is in @request.
 *
 * Return: 0, -EMSGSIZE for insufficient IRD (Terminate 2/0/06), -EOPNOTSUPP without a common RTR
 * (Terminate 2/0/07), or -EPROTO if the Reply cannot belong to the Request (enhanced against plain,
 * another revision).
 */
int xiw_mpa_conclude(struct xiw_mpa_terms *terms, const struct xiw_mpa *request,
		     const struct xiw_mpa *reply, __u16 max_ird);

#endif /* XIW_MPA_H */
