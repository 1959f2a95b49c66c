/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* carrier.h - what carries a stream to the peer: TCP, or the memory of this host */
#ifndef XIW_CARRIER_H
#define XIW_CARRIER_H

#include "carrier/batch.h"
#include "carrier/cursor.h"
#include "carrier/fpdu.h"
#include "mem/mem.h"
#include "stream/qp.h"

/**
 * enum xiw_segment_result - what became of a try to stage the next segment
 * @XIW_SEGMENT_STAGED: it is staged, or a local request was executed
 * @XIW_SEGMENT_NONE: there is no work, or it waits for an event
 * @XIW_SEGMENT_NO_ROOM: what was staged before must be pushed first
 * @XIW_SEGMENT_NO_MEMORY: it can be tried again later, but no event will say when
 */
enum xiw_segment_result {
	XIW_SEGMENT_STAGED,
	XIW_SEGMENT_NONE,
	XIW_SEGMENT_NO_ROOM,
	XIW_SEGMENT_NO_MEMORY,
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

/**
 * struct xiw_driver - what drives an attached queue pair, as read under qp->lock
 * @carrier: the carrier, which knows what has to be locked
 * @sk: the socket
 * @loop: the loop if the carrier is xiw_loop_carrier, else NULL
 */
struct xiw_driver {
	const struct xiw_carrier	*carrier;
	struct sock			*sk;
	struct xiw_loop			*loop;
};

/**
 * struct xiw_carrier - a way to carry the segments of a stream to the peer
 * @by_reference: the payload of a segment comes from one region, and the peer copies it from there
 *	when the segment ends. Otherwise it is gathered from any number of regions as it is added
 * @resends: a segment that the peer cannot take now is built again later. Otherwise it waits at the
 *	head of the peer's socket. Needs @peer, which is asked for it
 * @budget: bytes that one run may stage, and again all the answers to it; 0 if the caller decides
 * @prepare: adapt to the path before a batch is begun. Optional
 * @begin: see xiw_segment_begin()
 * @add: add @len bytes of a region, from @addr on, to the payload. Takes over the reference to the
 *	region
 * @add_data: see xiw_segment_add_data()
 * @end: see xiw_segment_end()
 * @full: whether what was staged should be pushed before more is staged
 * @push: hand what was staged to the network. Return: 0; -EAGAIN if the rest has to wait and a
 *	callback of the socket will run; -ENOMEM if none will; another errno if the stream is lost.
 *	Optional
 * @peer: the queue pair at the other end, if the same lock guards its progress. Return: NULL if it
 *	is detached. Optional; needs a @budget, which each end gets for its answers
 * @hold: take a reference on what @lock locks. The caller holds qp->lock
 * @put: drop that reference
 * @lock: lock the progress of the queue pair. If @wait is false, it does not wait for a socket.
 *	Return: whether it is locked
 * @unlock: undo @lock
 * @enter: lock what is needed beside the socket, which the caller has locked. Optional
 * @leave: undo @enter
 * @part: the queue pair is being detached: tell the other end. The caller holds qp->lock. Optional
 * @assert_locked: assert that the queue pair is locked (see Locking in qp.h)
 *
 * Those before @hold are called with the queue pair locked. A queue pair has TCP's carrier unless
 * both ends are found to be on this host, which is before anything of the stream is sent.
 */
struct xiw_carrier {
	bool			by_reference;
	bool			resends;
	size_t			budget;

	void			(*prepare)(struct xiw_run *run);
	enum xiw_segment_result	(*begin)(struct xiw_run *run, struct xiw_fpdu *fpdu, u32 hdr_len,
					 u32 *payload);
	void			(*add)(struct xiw_run *run, struct xiw_fpdu *fpdu,
				       struct xiw_mr *mr, u64 addr, u32 len);
	void			(*add_data)(struct xiw_run *run, struct xiw_fpdu *fpdu,
					    const void *data, u32 len);
	bool			(*end)(struct xiw_run *run, struct xiw_fpdu *fpdu);
	bool			(*full)(const struct xiw_run *run);
	int			(*push)(struct xiw_run *run);
	struct xiw_qp		*(*peer)(const struct xiw_qp *qp);

	void			(*hold)(const struct xiw_driver *driver);
	void			(*put)(const struct xiw_driver *driver);
	bool			(*lock)(const struct xiw_driver *driver, bool wait);
	void			(*unlock)(const struct xiw_driver *driver);
	void			(*enter)(const struct xiw_driver *driver);
	void			(*leave)(const struct xiw_driver *driver);
	void			(*part)(struct xiw_qp *qp);
	void			(*assert_locked)(const struct xiw_qp *qp);
};

/* FPDUs in the socket's stream (over_tcp.c). */
extern const struct xiw_carrier xiw_over_tcp_carrier;

/* Segments from the memory of one queue pair to that of another one of this host (loop.c). */
extern const struct xiw_carrier xiw_loop_carrier;

/* Return: the queue pair at the other end, if the same lock guards its progress; else NULL. */
static inline struct xiw_qp *xiw_carrier_peer(const struct xiw_qp *qp)
{
	return qp->carrier->peer ? qp->carrier->peer(qp) : NULL;
}

/* Asserts that an attached queue pair is locked. Costs nothing without lockdep. */
static inline void xiw_carrier_assert_locked(const struct xiw_qp *qp)
{
	if (IS_ENABLED(CONFIG_LOCKDEP) && !WARN_ON_ONCE(!qp->sk))
		qp->carrier->assert_locked(qp);
}

/* The caller holds qp->lock, the socket lock or the carrier's own, so the fields fit together. */
static inline struct xiw_driver xiw_carrier_driver(const struct xiw_qp *qp)
{
	return (struct xiw_driver){ .carrier = qp->carrier, .sk = qp->sk, .loop = qp->loop };
}

/*
 * Locks the progress of @qp, whose socket the caller has locked. Return: what xiw_carrier_leave()
 * needs, because @qp may be detached in between.
 */
static inline struct xiw_driver xiw_carrier_enter(const struct xiw_qp *qp)
{
	struct xiw_driver driver = xiw_carrier_driver(qp);

	if (driver.carrier->enter)
		driver.carrier->enter(&driver);
	return driver;
}

static inline void xiw_carrier_leave(const struct xiw_driver *driver)
{
	if (driver->carrier->leave)
		driver->carrier->leave(driver);
}

#endif /* XIW_CARRIER_H */
