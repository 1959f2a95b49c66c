// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* mpa.c - parses and builds connection frames, without any socket */

#include <linux/errno.h>
#include <linux/minmax.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <asm/byteorder.h>

#include "wire/mpa.h"

/*
 * Parse
 */

static bool mpa_revision_is_known(__u8 revision)
{
	return revision == MPA_REV_1 || revision == MPA_REV_2;
}

/* The S bit is reserved in revision 1. */
static bool mpa_is_enhanced(const struct xiw_mpa_frame *hdr)
{
	return hdr->revision == MPA_REV_2 && hdr->flags & MPA_FLAG_ENHANCED;
}

/* Decodes the enhanced block, which precedes the private data, and skips it. */
static void mpa_decode_enhanced(struct xiw_mpa *mpa)
{
	const struct xiw_mpa_enhanced *enh = (const void *)mpa->pd;
	__u16 first = be16_to_cpu(enh->ird);
	__u16 second = be16_to_cpu(enh->ord);

	mpa->ird = first & MPA_ENH_VALUE;
	mpa->ord = second & MPA_ENH_VALUE;
	mpa->p2p = first & MPA_ENH_FLAG_HIGH;
	if (mpa->p2p)
		mpa->rtr = (first & MPA_ENH_FLAG_LOW ? XIW_RTR_SEND : 0) |
			   (second & MPA_ENH_FLAG_HIGH ? XIW_RTR_WRITE : 0) |
			   (second & MPA_ENH_FLAG_LOW ? XIW_RTR_READ : 0);
	mpa->pd += sizeof(*enh);
	mpa->pd_len -= sizeof(*enh);
}

static __u8 mpa_large_flags(bool reply)
{
	return MPA_FLAG_LARGE | (reply ? MPA_FLAG_LARGE_AGREED : 0);
}

static void mpa_decode(struct xiw_mpa *mpa, const struct xiw_mpa_frame *hdr, bool reply)
{
	*mpa = (struct xiw_mpa) {
		.revision = hdr->revision,
		.reply = reply,
		.markers = hdr->flags & MPA_FLAG_MARKERS,
		.crc = hdr->flags & MPA_FLAG_CRC,
		.reject = reply && hdr->flags & MPA_FLAG_REJECT,
		.enhanced = mpa_is_enhanced(hdr),
		.large_fpdus = !(~hdr->flags & mpa_large_flags(reply)),
		.ird = MPA_ENH_NOT_NEGOTIATED,
		.ord = MPA_ENH_NOT_NEGOTIATED,
		.pd_len = be16_to_cpu(hdr->pd_length),
		.pd = (const __u8 *)(hdr + 1),
	};
	if (mpa->enhanced)
		mpa_decode_enhanced(mpa);
}

int xiw_mpa_parse(struct xiw_mpa *mpa, const void *frame, unsigned int len, bool reply)
{
	const struct xiw_mpa_frame *hdr = frame;
	unsigned int pd_len;

	if (memcmp(hdr->key, reply ? MPA_KEY_REPLY : MPA_KEY_REQUEST,
		   min(len, sizeof(hdr->key))))
		return -EPROTO;
	if (len > offsetof(struct xiw_mpa_frame, revision) &&
	    !mpa_revision_is_known(hdr->revision))
		return -EPROTO;
	if (len < sizeof(*hdr))
		return 0;

	pd_len = be16_to_cpu(hdr->pd_length);
	if (pd_len > MPA_MAX_PRIVATE_DATA)
		return -EPROTO;
	if (mpa_is_enhanced(hdr) && pd_len < sizeof(struct xiw_mpa_enhanced))
		return -EPROTO;
	if (len < sizeof(*hdr) + pd_len)
		return 0;

	mpa_decode(mpa, hdr, reply);
	return sizeof(*hdr) + pd_len;
}

unsigned int xiw_mpa_wants(const void *frame, unsigned int len)
{
	const struct xiw_mpa_frame *hdr = frame;

	if (len < sizeof(*hdr))
		return sizeof(*hdr);
	return sizeof(*hdr) + min(be16_to_cpu(hdr->pd_length), MPA_MAX_PRIVATE_DATA);
}

/*
 * Build
 */

static void mpa_encode_enhanced(struct xiw_mpa_enhanced *enh, const struct xiw_mpa *mpa)
{
	__u8 rtr = mpa->p2p ? mpa->rtr : 0;

	enh->ird = cpu_to_be16(mpa->ird |
			       (mpa->p2p ? MPA_ENH_FLAG_HIGH : 0) |
			       (rtr & XIW_RTR_SEND ? MPA_ENH_FLAG_LOW : 0));
	enh->ord = cpu_to_be16(mpa->ord |
			       (rtr & XIW_RTR_WRITE ? MPA_ENH_FLAG_HIGH : 0) |
			       (rtr & XIW_RTR_READ ? MPA_ENH_FLAG_LOW : 0));
}

int xiw_mpa_build(void *frame, const struct xiw_mpa *mpa)
{
	unsigned int enh_len = mpa->enhanced ? sizeof(struct xiw_mpa_enhanced) : 0;
	struct xiw_mpa_frame *hdr = frame;
	__u8 *pd = (__u8 *)(hdr + 1);

	if (enh_len + mpa->pd_len > MPA_MAX_PRIVATE_DATA)
		return -EINVAL;
	if (mpa->enhanced && (mpa->ird > MPA_ENH_VALUE || mpa->ord > MPA_ENH_VALUE))
		return -EINVAL;

	memcpy(hdr->key, mpa->reply ? MPA_KEY_REPLY : MPA_KEY_REQUEST, sizeof(hdr->key));
	hdr->flags = (mpa->markers ? MPA_FLAG_MARKERS : 0) |
		     (mpa->crc ? MPA_FLAG_CRC : 0) |
		     (mpa->reply && mpa->reject ? MPA_FLAG_REJECT : 0) |
		     (mpa->enhanced ? MPA_FLAG_ENHANCED : 0) |
		     (mpa->large_fpdus ? mpa_large_flags(mpa->reply) : 0);
	hdr->revision = mpa->revision;
	hdr->pd_length = cpu_to_be16(enh_len + mpa->pd_len);
	if (mpa->enhanced)
		mpa_encode_enhanced((struct xiw_mpa_enhanced *)pd, mpa);
	if (mpa->pd_len)
		memcpy(pd + enh_len, mpa->pd, mpa->pd_len);
	return sizeof(*hdr) + enh_len + mpa->pd_len;
}

/*
 * Agree
 */

/*
 * Whether an end may send FPDUs that span TCP segments: both offer it. A peer that wants markers
 * looks for the start of an FPDU in each segment.
 */
static bool mpa_may_send_large(const struct xiw_mpa *request, const struct xiw_mpa *reply,
			       bool markers)
{
	return request->large_fpdus && reply->large_fpdus && !markers;
}

/* A Write is the cheapest RTR message: it needs no receive buffer and no answer. */
static __u8 mpa_preferred_rtr(__u8 offered)
{
	if (offered & XIW_RTR_WRITE)
		return XIW_RTR_WRITE;
	if (offered & XIW_RTR_READ)
		return XIW_RTR_READ;
	return offered & XIW_RTR_SEND;
}

/*
 * The one RTR type that the Reply offers, RFC 6581 section 9.2. Never a Send, because that would
 * use up a receive request of the consumer.
 */
static __u8 mpa_answer_rtr(const struct xiw_mpa *request)
{
	__u8 rtr;

	if (!request->p2p)
		return 0;
	rtr = mpa_preferred_rtr(request->rtr & ~XIW_RTR_SEND);
	return rtr ? rtr : XIW_RTR_WRITE;
}

int xiw_mpa_answer(struct xiw_mpa *reply, struct xiw_mpa_terms *terms,
		   const struct xiw_mpa *request, const struct xiw_mpa_offer *offer)
{
	__u16 ird = offer->ird, ord = offer->ord;
	bool ird_matters = request->ord != MPA_ENH_NOT_NEGOTIATED;
	bool ord_matters = request->ird != MPA_ENH_NOT_NEGOTIATED;
	__u8 rtr = mpa_answer_rtr(request);
	int ret = 0;

	if (ird_matters)
		ird = max(ird, request->ord);
	if (ord_matters)
		ord = min(ord, request->ird);
	if (rtr == XIW_RTR_READ)
		ird = max(ird, 1);
	if (ird > offer->max_ird) {
		ird = offer->max_ird;
		ret = -EMSGSIZE;
	}

	*reply = (struct xiw_mpa) {
		.revision = request->revision,
		.reply = true,
		.crc = offer->crc || request->crc,
		.enhanced = request->enhanced,
		.large_fpdus = offer->large_fpdus && request->large_fpdus,
		.p2p = request->p2p,
		.rtr = rtr,
		.ird = ird_matters ? ird : MPA_ENH_NOT_NEGOTIATED,
		.ord = ord_matters ? ord : MPA_ENH_NOT_NEGOTIATED,
	};
	*terms = (struct xiw_mpa_terms) {
		.crc = reply->crc,
		.tx_markers = request->markers,
		.tx_large_fpdus = mpa_may_send_large(request, reply, request->markers),
		.rtr = rtr,
		.ird = ird,
		.ord = ord,
	};
	return ret;
}

int xiw_mpa_conclude(struct xiw_mpa_terms *terms, const struct xiw_mpa *request,
		     const struct xiw_mpa *reply, __u16 max_ird)
{
	if (reply->revision != request->revision || reply->enhanced != request->enhanced)
		return -EPROTO;
	if (reply->p2p && !request->p2p)
		return -EPROTO;

	*terms = (struct xiw_mpa_terms) {
		.crc = request->crc || reply->crc,
		.tx_markers = reply->markers,
		.tx_large_fpdus = mpa_may_send_large(request, reply, reply->markers),
		.rtr = mpa_preferred_rtr(request->rtr & reply->rtr),
		.ird = request->ird,
		.ord = min(request->ord, reply->ird),
	};
	if (reply->ord != MPA_ENH_NOT_NEGOTIATED && reply->ord > request->ird) {
		if (reply->ord > max_ird)
			return -EMSGSIZE;
		terms->ird = reply->ord;
	}
	if (request->p2p && !terms->rtr)
		return -EOPNOTSUPP;
	if (terms->rtr == XIW_RTR_READ)
		terms->ord = max(terms->ord, 1);
	return 0;
}
