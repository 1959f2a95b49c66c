/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* wire.h - layouts of MPA, DDP and RDMAP, each with its RFC section */
#ifndef XIW_WIRE_H
#define XIW_WIRE_H

/* This file must compile in user space, too, with tests/unit/shim/ in the include path. */
#include <linux/build_bug.h>
#include <linux/types.h>

/*
 * MPA: marker-based framing of ULPDUs over TCP
 */

#define MPA_KEY_LEN		16
#define MPA_KEY_REQUEST		"MPA ID Req Frame"
#define MPA_KEY_REPLY		"MPA ID Rep Frame"

#define MPA_FLAG_MARKERS	0x80	/* the sender wants to receive markers */
#define MPA_FLAG_CRC		0x40
#define MPA_FLAG_REJECT		0x20	/* in a Reply */
#define MPA_FLAG_ENHANCED	0x10	/* RFC 6581: a block precedes the private data */
/*
 * RFC 5044 reserves these two. A Request that offers large FPDUs has the first one, as that of siw.
 * The Reply that agrees has both: siw sends back what flags it got, and does not mean that.
 */
#define MPA_FLAG_LARGE		0x08
#define MPA_FLAG_LARGE_AGREED	0x04

#define MPA_REV_1		1	/* RFC 5044 */
#define MPA_REV_2		2	/* RFC 6581 */

#define MPA_MAX_PRIVATE_DATA	512

/* MPA Request and Reply frame, RFC 5044 section 7.1.1; private data follows. */
struct xiw_mpa_frame {
	__u8	key[MPA_KEY_LEN];
	__u8	flags;
	__u8	revision;
	__be16	pd_length;
} __packed;
static_assert(sizeof(struct xiw_mpa_frame) == 20, "RFC 5044 7.1.1");

#define MPA_ENH_FLAG_HIGH	0x8000	/* A in the first word, C in the second */
#define MPA_ENH_FLAG_LOW	0x4000	/* B in the first word, D in the second */
#define MPA_ENH_VALUE		0x3fff
#define MPA_ENH_NOT_NEGOTIATED	0x3fff

/* Enhanced connection block, RFC 6581 section 9. */
struct xiw_mpa_enhanced {
	__be16	ird;	/* A: peer-to-peer; B: RTR may be a zero-length Send */
	__be16	ord;	/* C: ... a zero-length Write; D: ... a zero-length Read */
} __packed;
static_assert(sizeof(struct xiw_mpa_enhanced) == 4, "RFC 6581 9");

/*
 * An FPDU consists of this length, the ULPDU, 0 to 3 zero octets, and a CRC32c, which is the only
 * little-endian field of the stream (RFC 5044 section 4.1).
 */
struct xiw_fpdu_head {
	__be16	ulpdu_len;
} __packed;

#define MPA_CRC_LEN		4
#define MPA_MAX_ULPDU		64768	/* a sender's limit, RFC 5044 section 3 */
#define MPA_MIN_MULPDU		128

/* Octets of pad that follow a ULPDU of @ulpdu_len octets. */
static inline __u32 xiw_fpdu_pad(__u32 ulpdu_len)
{
	return -(ulpdu_len + sizeof(struct xiw_fpdu_head)) & 3;
}

/* Length of the whole FPDU in octets, without markers. */
static inline __u32 xiw_fpdu_len(__u32 ulpdu_len)
{
	return sizeof(struct xiw_fpdu_head) + ulpdu_len +
	       xiw_fpdu_pad(ulpdu_len) + MPA_CRC_LEN;
}

#define MPA_MARKER_SPACING	512	/* from marker to marker */

/* Marker, RFC 5044 section 4.3: before the first FPDU of the stream, then every 512 octets. */
struct xiw_mpa_marker {
	__be16	reserved;
	__be16	fpduptr;	/* octets from the FPDU's ULPDU_Length to this marker */
} __packed;
static_assert(sizeof(struct xiw_mpa_marker) == 4, "RFC 5044 4.3");

/*
 * DDP: direct data placement, RFC 5041 section 4
 */

#define DDP_TAGGED		0x80
#define DDP_LAST		0x40
#define DDP_VERSION_MASK	0x03
#define DDP_VERSION		0x01

#define DDP_QN_SEND		0
#define DDP_QN_READ		1	/* Read and Atomic Requests */
#define DDP_QN_TERMINATE	2
#define DDP_QN_ATOMIC_RESP	3
#define DDP_NUM_QN		4

/*
 * RDMAP: remote direct memory access protocol, RFC 5040 section 4, RFC 7306
 */

#define RDMAP_VERSION_MASK	0xc0
#define RDMAP_VERSION		0x40
#define RDMAP_OPCODE_MASK	0x0f

enum xiw_rdmap_opcode {
	RDMAP_WRITE		= 0,
	RDMAP_READ_REQ		= 1,
	RDMAP_READ_RESP		= 2,
	RDMAP_SEND		= 3,
	RDMAP_SEND_INV		= 4,
	RDMAP_SEND_SE		= 5,
	RDMAP_SEND_SE_INV	= 6,
	RDMAP_TERMINATE		= 7,
	RDMAP_IMM		= 8,
	RDMAP_IMM_SE		= 9,
	RDMAP_ATOMIC_REQ	= 10,
	RDMAP_ATOMIC_RESP	= 11,
	RDMAP_NUM_OPCODES	= 16,
};

/* The start of every DDP segment. */
struct xiw_ddp_ctrl {
	__u8	ddp;		/* DDP_TAGGED, DDP_LAST, version */
	__u8	rdmap;		/* version, opcode */
} __packed;
static_assert(sizeof(struct xiw_ddp_ctrl) == 2, "RFC 5041 4.1");

/* Tagged segment, RFC 5041 section 4.2; the payload follows. */
struct xiw_ddp_tagged {
	struct xiw_ddp_ctrl	ctrl;
	__be32			stag;
	__be64			to;	/* where the first payload octet goes */
} __packed;
static_assert(sizeof(struct xiw_ddp_tagged) == 14, "RFC 5041 4.2");

/* Untagged segment, RFC 5041 section 4.3; RDMAP header or payload follows. */
struct xiw_ddp_untagged {
	struct xiw_ddp_ctrl	ctrl;
	__be32			inv_stag;	/* of Send with Invalidate */
	__be32			qn;
	__be32			msn;
	__be32			mo;
} __packed;
static_assert(sizeof(struct xiw_ddp_untagged) == 18, "RFC 5041 4.3");

/* RDMA Read Request, RFC 5040 section 4.4. */
struct xiw_read_req {
	__be32	sink_stag;
	__be64	sink_to;
	__be32	size;
	__be32	src_stag;
	__be64	src_to;
} __packed;
static_assert(sizeof(struct xiw_read_req) == 28, "RFC 5040 4.4");

#define RDMAP_TERM_M		0x80	/* DDP segment length valid */
#define RDMAP_TERM_D		0x40	/* DDP header included */
#define RDMAP_TERM_R		0x20	/* RDMAP header included */

/* Terminate, RFC 5040 section 4.8; the faulty headers follow if the flags say so. */
struct xiw_terminate {
	__u8	layer_etype;	/* layer in the high nibble */
	__u8	code;
	__u8	hdrct;		/* RDMAP_TERM_* */
	__u8	reserved;
} __packed;
static_assert(sizeof(struct xiw_terminate) == 4, "RFC 5040 4.8");

/* A Terminate that repeats the header of an untagged segment (RDMAP_TERM_D). */
struct xiw_terminate_untagged {
	struct xiw_terminate	term;
	__be16			ulpdu_len;
	struct xiw_ddp_untagged	ddp;
} __packed;
static_assert(sizeof(struct xiw_terminate_untagged) == 24, "RFC 5040 4.8");

/* Atomic Request, RFC 7306 section 5.2.1. */
struct xiw_atomic_req {
	__be32	aopcode;	/* 28 reserved bits, 4 bits of operation */
	__be32	request_id;
	__be32	stag;
	__be64	to;
	__be64	add_swap_data;
	__be64	add_swap_mask;
	__be64	compare_data;
	__be64	compare_mask;
} __packed;
static_assert(sizeof(struct xiw_atomic_req) == 52, "RFC 7306 5.2.1");

#define RDMAP_ATOMIC_FETCH_ADD	0
#define RDMAP_ATOMIC_CMP_SWAP	2
#define RDMAP_ATOMIC_OP_MASK	0x0f

/* Atomic Response, RFC 7306 section 5.2.2. */
struct xiw_atomic_resp {
	__be32	request_id;
	__be64	original;
} __packed;
static_assert(sizeof(struct xiw_atomic_resp) == 12, "RFC 7306 5.2.2");

/* Immediate Data, RFC 7306 section 6.3. */
struct xiw_imm_data {
	__be32	imm;		/* the immediate data of the verbs */
	__be32	zero;
} __packed;
static_assert(sizeof(struct xiw_imm_data) == 8, "RFC 7306 6.3");

/* The start of an FPDU, with all headers that the receiver examines. */
struct xiw_headers {
	struct xiw_fpdu_head		mpa;
	union {
		struct xiw_ddp_ctrl	ctrl;
		struct xiw_ddp_tagged	tagged;
		struct {
			struct xiw_ddp_untagged	untagged;
			union {
				struct xiw_read_req	read;
				struct xiw_terminate	term;
				struct xiw_terminate_untagged	term_untagged;
				struct xiw_atomic_req	atomic;
				struct xiw_atomic_resp	atomic_resp;
				struct xiw_imm_data	imm;
			} __packed;
		} __packed;
	} __packed;
} __packed;
static_assert(sizeof(struct xiw_headers) == 2 + 18 + 52, "longest: an Atomic Request");

#endif /* XIW_WIRE_H */
