// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* over_tcp.c - carries a stream as FPDUs over TCP */

#include <net/tcp.h>

#include "carrier/carrier.h"
#include "carrier/sock_lock.h"
#include "pause.h"
#include "trace.h"
#include "wire/marker.h"

/*
 * A run stages about this many bytes before it calls TCP, which is as much as TCP usually hands to
 * a device at once (GSO_LEGACY_MAX_SIZE).
 */
#define OVER_TCP_BATCH_BYTES	(64 * 1024)

/*
 * FPDUs up to this size are not split at the end of a chunk of pages. It is half of a chunk of 8
 * pages of 4 KiB, so at least half of each chunk is used. The segments of jumbo frames are shorter.
 */
#define OVER_TCP_KEEP_WHOLE	(16 * 1024)

/*
 * One FPDU
 */

static_assert(sizeof(struct xiw_headers) + 3 + MPA_CRC_LEN < XIW_STAGE_MIN);

/* The last skb in TCP's write queue, if TCP may still append to it. */
static struct sk_buff *over_tcp_tail(const struct sock *sk)
{
	struct sk_buff *tail = tcp_send_head(sk) ? tcp_write_queue_tail(sk) : NULL;

	return tail && !TCP_SKB_CB(tail)->eor ? tail : NULL;
}

/* Bytes in the segment that TCP will append to; @full if FPDUs cannot fill the rest of it. */
static u32 over_tcp_begun(const struct sock *sk, u32 full)
{
	const struct sk_buff *tail = over_tcp_tail(sk);
	u32 begun = tail && full ? tail->len % full : 0;

	return begun % 4 ? full : begun;
}

/*
 * Adapts to the current EMSS: MULPDU = EMSS - (6 + EMSS mod 4), RFC 5044 section 4.5, less
 * 4 * ceil(EMSS / 512) with markers. An FPDU of that size fills a segment unless EMSS is not a
 * multiple of 4, or markers are used: their number varies from segment to segment.
 *
 * A peer that takes FPDUs that span segments gets them as long as a chunk of pages.
 */
static void over_tcp_prepare(struct xiw_run *run)
{
	u32 emss = READ_ONCE(tcp_sk(run->sk)->mss_cache);
	struct xiw_tx *tx = &run->qp->tx;
	u32 overhead = sizeof(struct xiw_fpdu_head) + MPA_CRC_LEN;

	if (unlikely(tx->framing.markers))
		overhead += DIV_ROUND_UP(emss, MPA_MARKER_SPACING) * sizeof(struct xiw_mpa_marker);
	tx->mulpdu = tx->framing.large ? MPA_MAX_ULPDU :
		     clamp((emss & ~3) - overhead, MPA_MIN_MULPDU, MPA_MAX_ULPDU);
	tx->full_fpdu = xiw_fpdu_len(tx->mulpdu) == emss && emss <= OVER_TCP_KEEP_WHOLE ? emss : 0;
	tx->phase = over_tcp_begun(run->sk, tx->full_fpdu);
}

static u32 over_tcp_markers_max(const struct xiw_framing *framing, u32 len)
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
static bool over_tcp_close(struct xiw_run *run)
{
	struct xiw_tx *tx = &run->qp->tx;
	struct sk_buff *tail = over_tcp_tail(run->sk);

	if (tx->batch.num)
		return false;
	if (tail)
		TCP_SKB_CB(tail)->eor = 1;
	tx->phase = 0;
	return true;
}

/* Whether more is already known to follow what is being staged. */
static bool over_tcp_is_followed(const struct xiw_qp *qp)
{
	return xiw_ring_ready(&qp->sq) || qp->inbound.used > 1;
}

/*
 * Chooses @payload such that the FPDU lies in one segment, and that either the next FPDU or the
 * rest of this message can fill what is left of the segment. Return: as over_tcp_close().
 */
static bool over_tcp_fill(struct xiw_run *run, u32 hdr_len, u32 *payload)
{
	struct xiw_tx *tx = &run->qp->tx;
	u32 bare = sizeof(struct xiw_fpdu_head) + hdr_len + MPA_CRC_LEN;
	u32 least = bare + 4;	/* the smallest with payload and no pad */
	u32 len = xiw_fpdu_len(hdr_len + *payload);
	u32 room = tx->full_fpdu - tx->phase;

	if (!tx->full_fpdu)
		return true;
	if (len > room && (!*payload || room < least)) {
		if (!over_tcp_close(run))
			return false;
		room = tx->full_fpdu;
	}
	if (len > room)
		*payload = room - bare;
	else if (len < room && room - len < least && room > bare + least &&
		 over_tcp_is_followed(run->qp))
		*payload = room - least - bare;
	return true;
}

static enum xiw_segment_result over_tcp_begin(struct xiw_run *run, struct xiw_fpdu *fpdu,
					      u32 hdr_len, u32 *payload)
{
	struct xiw_tx *tx = &run->qp->tx;
	u32 ulpdu_len, want, room;

	*payload = min(*payload, tx->mulpdu - hdr_len);
	if (tx->batch.num == XIW_TX_PIECES || !over_tcp_fill(run, hdr_len, payload))
		return XIW_SEGMENT_NO_ROOM;
	ulpdu_len = hdr_len + *payload;
	want = xiw_fpdu_len(ulpdu_len);
	want += over_tcp_markers_max(&tx->framing, want);
	room = want;
	fpdu->start = xiw_stage_room(&run->stage, min_t(u32, want, OVER_TCP_KEEP_WHOLE), &room);
	if (!fpdu->start)
		return XIW_SEGMENT_NO_MEMORY;
	fpdu->at = fpdu->start + sizeof(struct xiw_fpdu_head);
	if (room < want)	/* the chunk ends first */
		ulpdu_len = room - over_tcp_markers_max(&tx->framing, room) -
			    sizeof(struct xiw_fpdu_head) - MPA_CRC_LEN - 3;
	*payload = ulpdu_len - hdr_len;
	return XIW_SEGMENT_STAGED;
}

static void over_tcp_add(struct xiw_run *run, struct xiw_fpdu *fpdu, struct xiw_mr *mr, u64 addr,
			 u32 len)
{
	xiw_mr_read(mr, addr, fpdu->at, len);
	fpdu->at += len;
	xiw_mr_put(mr);
}

static void over_tcp_add_data(struct xiw_run *run, struct xiw_fpdu *fpdu, const void *data, u32 len)
{
	memcpy(fpdu->at, data, len);
	fpdu->at += len;
}

static bool over_tcp_end(struct xiw_run *run, struct xiw_fpdu *fpdu)
{
	struct xiw_qp *qp = run->qp;
	struct xiw_tx *tx = &qp->tx;
	u32 len;

	trace_xiw_tx_fpdu(qp, fpdu->start, fpdu->at - fpdu->start - sizeof(struct xiw_fpdu_head));
	/* Cannot fail: over_tcp_begin() has checked that the batch has a free entry. */
	xiw_fpdu_finish(&run->stage, &tx->batch, fpdu, &tx->framing);
	len = fpdu->at - fpdu->start;
	run->staged += len;
	tx->phase += len;
	if (tx->phase == tx->full_fpdu)
		tx->phase = 0;
	xiw_qp_count(qp, XIW_STAT_TX_FPDUS, 1);
	return true;
}

/*
 * A batch
 */

/* The batch may exceed its size by one FPDU in order to end with a full segment. */
static bool over_tcp_full(const struct xiw_run *run)
{
	const struct xiw_tx *tx = &run->qp->tx;

	return tx->batch.len >= OVER_TCP_BATCH_BYTES + (tx->phase ? tx->full_fpdu : 0);
}

/* If TCP is full and has nothing in flight, no acknowledgment will come that could wake us. */
static int over_tcp_push(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	size_t len = qp->tx.batch.len;
	int ret;

	if (!len)
		return 0;
	xiw_pause("tx_push");
	ret = xiw_batch_push(&qp->tx.batch, run->sk);
	xiw_qp_count(qp, XIW_STAT_TX_SENDS, 1);
	xiw_qp_count(qp, XIW_STAT_TX_BYTES, len - qp->tx.batch.len);
	return ret == -EAGAIN && tcp_rtx_and_write_queues_empty(run->sk) ? -ENOMEM : ret;
}

/*
 * The socket lock
 */

static void over_tcp_hold(const struct xiw_driver *driver)
{
	sock_hold(driver->sk);
}

static void over_tcp_put(const struct xiw_driver *driver)
{
	sock_put(driver->sk);
}

static bool over_tcp_lock(const struct xiw_driver *driver, bool wait)
{
	if (!wait)
		return xiw_sock_lock_now(driver->sk);
	lock_sock(driver->sk);
	return true;
}

static void over_tcp_unlock(const struct xiw_driver *driver)
{
	xiw_sock_unlock(driver->sk);
}

static void over_tcp_assert_locked(const struct xiw_qp *qp)
{
	lockdep_assert(lockdep_sock_is_held(qp->sk));
}

const struct xiw_carrier xiw_over_tcp_carrier = {
	.prepare = over_tcp_prepare,
	.begin = over_tcp_begin,
	.add = over_tcp_add,
	.add_data = over_tcp_add_data,
	.end = over_tcp_end,
	.full = over_tcp_full,
	.push = over_tcp_push,
	.hold = over_tcp_hold,
	.put = over_tcp_put,
	.lock = over_tcp_lock,
	.unlock = over_tcp_unlock,
	.assert_locked = over_tcp_assert_locked,
};
