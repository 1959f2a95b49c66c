// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* segment.c - sends one segment: as an FPDU over TCP, or directly to a peer on this host */

#include <net/tcp.h>

#include "carrier/loop.h"
#include "carrier/segment.h"
#include "mem/mem.h"
#include "stream/rx.h"
#include "trace.h"
#include "wire/marker.h"
#include "wire/opcode.h"

/* FPDUs up to this size are not split at the end of a chunk of pages. */
#define SEGMENT_KEEP_WHOLE	(16 * 1024)

/*
 * For a peer on this host: the most payload of one segment, and what each segment adds to its
 * payload when it is counted against the budget. Both in bytes.
 */
#define SEGMENT_LOOP_MAX	(32 * 1024)
#define SEGMENT_LOOP_WEIGHT	256

static_assert(sizeof(struct xiw_headers) + 3 + MPA_CRC_LEN < XIW_STAGE_MIN);

/* The last skb in TCP's write queue, if TCP may still append to it. */
static struct sk_buff *segment_tail(const struct sock *sk)
{
	struct sk_buff *tail = tcp_send_head(sk) ? tcp_write_queue_tail(sk) : NULL;

	return tail && !TCP_SKB_CB(tail)->eor ? tail : NULL;
}

/* Bytes in the segment that TCP will append to; @full if FPDUs cannot fill the rest of it. */
static u32 segment_begun(const struct sock *sk, u32 full)
{
	const struct sk_buff *tail = segment_tail(sk);
	u32 begun = tail && full ? tail->len % full : 0;

	return begun % 4 ? full : begun;
}

void xiw_segment_measure(struct xiw_tx *tx, const struct sock *sk)
{
	u32 emss = READ_ONCE(tcp_sk(sk)->mss_cache);
	u32 overhead = sizeof(struct xiw_fpdu_head) + MPA_CRC_LEN;

	if (unlikely(tx->framing.markers))
		overhead += DIV_ROUND_UP(emss, MPA_MARKER_SPACING) * sizeof(struct xiw_mpa_marker);
	tx->mulpdu = clamp((emss & ~3) - overhead, MPA_MIN_MULPDU, MPA_MAX_ULPDU);
	tx->full_fpdu = xiw_fpdu_len(tx->mulpdu) == emss && emss <= SEGMENT_KEEP_WHOLE ? emss : 0;
	tx->phase = segment_begun(sk, tx->full_fpdu);
}

static u32 segment_markers_max(const struct xiw_framing *framing, u32 len)
{
	return unlikely(framing->markers) ? xiw_markers_max(len) : 0;
}

/*
 * An FPDU should lie in one TCP segment (RFC 5044 section 5.1). TCP is fast if it gets many
 * segments at a time and cuts them itself where each one is full. FPDUs are therefore made to fill
 * segments. If an FPDU is too long for the rest of a segment, it carries as much of its message as
 * fits, and the message continues in the next segment. If nothing can fill the rest, the segment is
 * closed as MSG_EOR would close it: what was staged is sent first, and TCP is kept from appending
 * to it. (The kernel's siw driver writes past its buffer when a Read Request arrives in two
 * pieces.)
 */

/* Return: false if what was staged must be sent first. */
static bool segment_close(struct xiw_run *run)
{
	struct xiw_tx *tx = &run->qp->tx;
	struct sk_buff *tail = segment_tail(run->sk);

	if (tx->batch.num)
		return false;
	if (tail)
		TCP_SKB_CB(tail)->eor = 1;
	tx->phase = 0;
	return true;
}

/* Whether more is already known to follow what is being staged. */
static bool segment_is_followed(const struct xiw_qp *qp)
{
	return xiw_ring_ready(&qp->sq) || qp->inbound.used > 1;
}

/*
 * Chooses @payload such that the FPDU lies in one segment, and that either the next FPDU or the
 * rest of this message can fill what is left of the segment. Return: as segment_close().
 */
static bool segment_fill(struct xiw_run *run, u32 hdr_len, u32 *payload)
{
	struct xiw_tx *tx = &run->qp->tx;
	u32 bare = sizeof(struct xiw_fpdu_head) + hdr_len + MPA_CRC_LEN;
	u32 least = bare + 4;	/* the smallest with payload and no pad */
	u32 len = xiw_fpdu_len(hdr_len + *payload);
	u32 room = tx->full_fpdu - tx->phase;

	if (!tx->full_fpdu)
		return true;
	if (len > room && (!*payload || room < least)) {
		if (!segment_close(run))
			return false;
		room = tx->full_fpdu;
	}
	if (len > room)
		*payload = room - bare;
	else if (len < room && room - len < least && room > bare + least &&
		 segment_is_followed(run->qp))
		*payload = room - least - bare;
	return true;
}

/*
 * For a peer on this host only the headers are written; the peer copies the payload from its
 * source.
 */
static int segment_loop_begin(struct xiw_run *run, struct xiw_fpdu *fpdu, u32 *payload)
{
	struct xiw_qp *peer = xiw_loop_peer(run->qp);

	if (!peer || !xiw_qp_open(peer))
		return TX_NOTHING;	/* the socket will report the end */
	fpdu->start = &run->hdr;
	fpdu->at = fpdu->start + sizeof(struct xiw_fpdu_head);
	*payload = min(*payload, SEGMENT_LOOP_MAX);
	run->payload = (struct xiw_cursor){};
	run->payload_len = 0;
	return TX_STAGED;
}

/* A segment that makes the peer end its stream counts as sent. The peer reports the cause. */
static int segment_loop_end(struct xiw_run *run, struct xiw_fpdu *fpdu)
{
	struct xiw_qp *peer = xiw_loop_peer(run->qp);
	u32 ulpdu_len = fpdu->at - fpdu->start - sizeof(struct xiw_fpdu_head) + run->payload_len;
	int ret;

	run->hdr.mpa.ulpdu_len = cpu_to_be16(ulpdu_len);
	ret = xiw_rx_segment(peer, &run->hdr, ulpdu_len, &run->payload);
	if (run->payload.mr)
		xiw_mr_put(run->payload.mr);
	WRITE_ONCE(peer->doorbells, 0);
	run->staged += SEGMENT_LOOP_WEIGHT + run->payload_len;
	xiw_qp_count(run->qp, XIW_STAT_TX_LOOP, 1);
	return ret == -EAGAIN ? TX_NOTHING : TX_STAGED;
}

int xiw_segment_begin(struct xiw_run *run, struct xiw_fpdu *fpdu, u32 hdr_len, u32 *payload)
{
	struct xiw_tx *tx = &run->qp->tx;
	u32 ulpdu_len, want, room;

	if (run->qp->loop)
		return segment_loop_begin(run, fpdu, payload);
	*payload = min(*payload, tx->mulpdu - hdr_len);
	if (tx->batch.num == XIW_TX_PIECES || !segment_fill(run, hdr_len, payload))
		return TX_CUT;
	ulpdu_len = hdr_len + *payload;
	want = xiw_fpdu_len(ulpdu_len);
	want += segment_markers_max(&tx->framing, want);
	room = want;
	fpdu->start = xiw_stage_room(&run->stage, min_t(u32, want, SEGMENT_KEEP_WHOLE), &room);
	if (!fpdu->start)
		return -ENOMEM;
	fpdu->at = fpdu->start + sizeof(struct xiw_fpdu_head);
	if (room < want)	/* the chunk ends first */
		ulpdu_len = room - segment_markers_max(&tx->framing, room) -
			    sizeof(struct xiw_fpdu_head) - MPA_CRC_LEN - 3;
	*payload = ulpdu_len - hdr_len;
	return TX_STAGED;
}

int xiw_segment_end(struct xiw_run *run, struct xiw_fpdu *fpdu)
{
	struct xiw_qp *qp = run->qp;
	struct xiw_tx *tx = &qp->tx;
	u32 len;

	if (qp->loop)
		return segment_loop_end(run, fpdu);
	trace_xiw_tx_fpdu(qp->qpn, fpdu->start,
			  xiw_fpdu_len(fpdu->at - fpdu->start - sizeof(struct xiw_fpdu_head)));
	/* Cannot fail: xiw_segment_begin() has checked that the batch has a free entry. */
	xiw_fpdu_finish(&run->stage, &tx->batch, fpdu, &tx->framing);
	len = fpdu->at - fpdu->start;
	run->staged += len;
	tx->phase += len;
	if (tx->phase == tx->full_fpdu)
		tx->phase = 0;
	xiw_qp_count(qp, XIW_STAT_TX_FPDUS, 1);
	return TX_STAGED;
}

int xiw_segment_message(struct xiw_run *run, u8 opcode, const void *body, u32 len)
{
	u32 *msn = &run->qp->tx.msn[xiw_rdmap_ops[opcode].qn];
	struct xiw_fpdu fpdu;
	u32 payload = 0;
	int ret;

	ret = xiw_segment_begin(run, &fpdu, sizeof(struct xiw_ddp_untagged) + len, &payload);
	if (ret != TX_STAGED)
		return ret;
	xiw_fpdu_put_untagged(&fpdu, opcode, true, 0, *msn, 0);
	memcpy(fpdu.at, body, len);
	fpdu.at += len;
	ret = xiw_segment_end(run, &fpdu);
	if (ret == TX_STAGED)
		(*msn)++;
	return ret;
}

enum xiw_mem_fault xiw_segment_add(struct xiw_run *run, struct xiw_fpdu *fpdu, u32 stag, u64 addr,
				   u32 len, int access)
{
	enum xiw_mem_fault fault;
	struct xiw_mr *mr;

	if (!len)
		return XIW_MEM_OK;
	fault = xiw_mr_get(&mr, &run->qp->tx_accessor, stag, addr, len, access);
	if (unlikely(fault))
		return fault;
	if (run->qp->loop) {
		run->payload = (struct xiw_cursor){ .mr = mr, .addr = addr };
		run->payload_len = len;
	} else {
		xiw_mr_read(mr, addr, fpdu->at, len);
		fpdu->at += len;
		xiw_mr_put(mr);
	}
	return XIW_MEM_OK;
}

void xiw_segment_add_data(struct xiw_run *run, struct xiw_fpdu *fpdu, const void *data, u32 len)
{
	if (run->qp->loop) {
		run->payload = (struct xiw_cursor){ .data = data };
		run->payload_len = len;
	} else {
		memcpy(fpdu->at, data, len);
		fpdu->at += len;
	}
}
