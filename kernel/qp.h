/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* qp.h - life of a queue pair, table of its states, the Locking text */
#ifndef XIW_QP_H
#define XIW_QP_H

#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <rdma/ib_verbs.h>
#include <rdma/xiw-abi.h>
#include <net/sock.h>

#include "batch.h"
#include "cq.h"
#include "device.h"
#include "mpa.h"
#include "odp.h"
#include "ring.h"
#include "srq.h"
#include "terminate.h"
#include "wire.h"

struct xiw_ep;
struct xiw_lane;
struct xiw_loop;

/*
 * Locking
 *
 * From the outermost in:
 *
 *   ep->lock        mutex: one connection's state machine (ep.c). ep->qp changes with the
 *                   socket lock held, too
 *   listener->lock  mutex: the ids that listen at a port, its half-open connections; accepting
 *                   takes the locks of new sockets under it
 *   socket lock     lock_sock() in process context, the socket's spinlock in
 *                   softirq: all progress of a connected queue pair, that is
 *                   xiw_qp.tx, .rx, .sq, .rq, .sq_wrs, .reads, .irq
 *   loop->lock      spinlock, softirqs off: that progress, of both queue pairs of a
 *                   connection within this host; takes the place of the socket lock
 *   qp->lock        spinlock, any context: .state, .ep, .loop, and the progress above
 *                   while no socket is attached
 *   odp->lock       rwlock, where pages of a region on demand are; with softirqs off. Read
 *                   held by each access to them, so it is a leaf below the socket lock.
 *                   Written where pages are fetched, and by the mm when it takes them, under
 *                   whatever the mm holds then: so nothing of the mm is called with it held.
 *                   Readers only try: two may be held at a time, on one host
 *   mr->accesses    rwlock, with PREEMPT_RT only: as odp->lock, of each region that is accessed;
 *                   written to end the validity of its STag
 *   srq->lock, qp->sq_post_lock, qp->rq_post_lock
 *                   any context; a queue pair may be handed to a worker under each
 *   dev->qp_stats_lock
 *                   mutex, leaf: which queue pairs' counters there are
 *   lane->lock      leaf, any context: which jobs wait
 *   cq->lock        leaf, any context; handing over looks whether an event is awaited
 *
 * So there is no lock of our own on the data path: sending and receiving hold the
 * socket, and with it the queue pair. This also makes sure that a queue pair has
 * one transmitter at a time.
 *
 * A connection within this host (loop.c) has one lock for both its ends, since
 * what one end sends is placed and completed at the other. Its sockets serve for the
 * close alone, which takes the loop's lock in addition to the socket's.
 * Two queue pairs join a loop with both socket locks held: that of the initiator is taken
 * first, and then that of the responder, which is the only place where there are two of them.
 * Both are put there under loop->lock, each with its qp->lock held, too. So any of the three
 * locks is enough to read qp->loop, and loop->lock is enough to find both ends.
 *
 * Attach and detach hold both the socket lock and qp->lock and change
 * .attached; so either lock alone is enough to read it, and whoever holds
 * the socket lock and sees it set may go on. Whoever holds qp->lock and sees it
 * clear owns the progress: that is how work requests are flushed that are posted
 * after the connection has ended.
 *
 * In a context that must not sleep the socket lock cannot be taken; the queue
 * pair is handed to a worker then (xiw_worker_queue()). A worker serves many and does
 * not wait for it either: a process that has it may get a CPU only now and then
 * (xiw_qp_lock_now()).
 */

/*
 * enum xiw_qp_state - where a queue pair is in its life
 *
 *              attach           fault, disconnect, peer's FIN
 *      IDLE ----------> RTS -----------------------------+
 *      |  ^                                              v
 *      |  +---------------- told to reset ----------- ERROR
 *      +------------------- told to ---------------------^
 *
 * IDLE stands for RESET, INIT and RTR of the verbs. In ERROR a Terminate may still be on its way,
 * or the orderly close for which the verbs say SQD: the endpoint sees to that.
 */
enum xiw_qp_state {
	XIW_QP_IDLE,
	XIW_QP_RTS,
	XIW_QP_ERROR,
	XIW_QP_NUM_STATES
};

/**
 * struct xiw_send_wr - a send work request between being taken and being completed
 * @wr_id: as posted
 * @byte_len: octets of payload
 * @opcode: enum xiw_opcode
 * @flags: XIW_SEND_*
 * @done: what it asked for has happened; it completes when all earlier ones have
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
 * @sink: where the data goes; what a Read Response must name, octet by octet
 * @wr: count of its work request in the send queue
 * @placed: octets that have come; the next goes behind them
 * @request_id: of an Atomic
 * @atomic: an Atomic, whose Response must name @request_id
 * @invalidate: the STag of @sink is invalid when it is done
 * @opening: no work request asked for it: it opens the stream
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
 * struct xiw_irq_entry - a Read or Atomic that the peer asked for
 * @msn: number of the request
 * @atomic: an Atomic, which has been executed; else a Read
 * @sink_stag: copied to the Response uninterpreted
 * @sink_to: same
 * @src_stag: the source
 * @src_to: same
 * @size: octets
 * @sent: of these, that are on their way
 * @request_id: copied to the Response uninterpreted
 * @original: what the Atomic found
 */
struct xiw_irq_entry {
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
 * struct xiw_fifo - counters of a FIFO in an array whose size is any number
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
 * struct xiw_framing - how FPDUs are made
 * @crc: CRCs are generated
 * @markers: the peer wants markers
 * @sent: octets since the stream began, mod 2^32
 */
struct xiw_framing {
	bool	crc;
	bool	markers;
	u32	sent;
};

/**
 * struct xiw_tx - transmit progress
 * @batch: what TCP has not yet taken
 * @running: a run is under way; set while TCP may call back into us
 * @again: TCP did, and received something that wants to be sent
 * @cur: private copy of the slot under way, of the size of a slot
 * @busy: @cur is under way
 * @cur_len: octets of payload of @cur
 * @cur_sent: of these, staged
 * @imm_due: they all are, and the Immediate Data of @cur is not
 * @msn: next message number of each untagged queue
 * @mulpdu: longest ULPDU now
 * @full_fpdu: octets of an FPDU that fills a segment; 0 if none can
 * @phase: octets of the segment that is being filled
 * @framing: how FPDUs are made
 * @hold: responder: nothing may be sent before the first FPDU came (RFC 5044 section 7.1.2)
 * @responses: the responses' turn
 * @blocked: waits for an event other than a doorbell
 */
struct xiw_tx {
	struct xiw_batch	batch;
	bool			running;
	bool			again;
	struct xiw_send_slot	*cur;
	bool			busy;
	u32			cur_len;
	u32			cur_sent;
	bool			imm_due;
	u32			msn[DDP_NUM_QN];
	u16			mulpdu;
	u16			full_fpdu;
	u32			phase;
	struct xiw_framing	framing;
	bool			hold;
	bool			responses;
	bool			blocked;
};

/**
 * struct xiw_write - the Write that came last, of which the Immediate Data behind it tells
 * @stag: of its segments
 * @next: TO of the octet that is due
 * @len: octets so far
 * @open: more of it is to come
 * @torn: a segment did not begin where the one before it ended
 */
struct xiw_write {
	u32	stag;
	u64	next;
	u64	len;
	bool	open;
	bool	torn;
};

/* xiw_rx.paging */
#define XIW_RX_REQUEST		0x1
#define XIW_RX_RESPONSE		0x2

/**
 * struct xiw_rx - receive progress
 * @need: octets of the incomplete FPDU at the head of the socket's queue
 * @msn: next message number due on each untagged queue
 * @recv: receive request of the Send under way
 * @recv_busy: @recv is in use
 * @mo: octets of that Send that have come, which is the MO of the next
 * @write: the Write that came last, if no message was delivered since
 * @crc: CRCs are checked
 * @first: no FPDU has come yet
 * @starved: the Send at the head of the socket's queue waits for a receive request
 * @starved_since: since then, in jiffies
 * @paging: XIW_RX_*: FPDUs that wait for pages, at the head of the socket's queue or of the peer's
 * @cause: first fault of the stream
 * @fault: headers of the FPDU to blame, if one is
 * @fault_known: @fault is valid
 * @kick: something that came may allow to send
 */
struct xiw_rx {
	u32			need;
	u32			msn[DDP_NUM_QN];
	struct xiw_recv		*recv;
	bool			recv_busy;
	u64			mo;
	struct xiw_write	write;
	bool			crc;
	bool			first;
	bool			starved;
	unsigned long		starved_since;
	u8			paging;
	bool			kick;
	enum xiw_cause		cause;
	struct xiw_headers	fault;
	bool			fault_known;
};

/**
 * struct xiw_qp - one end of an iWARP connection
 * @ibqp: what the core sees
 * @dev: its device
 * @qpn: number visible to the user, constant
 * @lane: of its process, for calls; NULL if the kernel has it
 * @ref: one for the user, one for each iw_cm_id, endpoint and worker that holds it
 * @unused: completed by the last put
 * @area: memory of both rings
 * @payer: control group that pays for what is allocated for it in somebody else's context; NULL for
 *	a kernel consumer
 * @cap: sizes that were granted
 * @dying: nothing completes any more; set by destroy, under @lock
 * @sig_all: every send request is signalled
 * @sq_slot_size: octets
 * @sq_entries: slots, at least @cap.max_send_wr
 * @lock: see Locking
 * @state: moved only by xiw_qp_move()
 * @attr_state: what the verbs call it while IDLE: RESET, INIT or RTR
 * @access: rights that the user gave, informative
 * @ep: the endpoint of the connection, with a reference; kept until the next claim or destroy
 * @claimed: @ep sets up or has a connection
 * @told_last: the consumer knows that of its shared receive queue no more is taken
 * @attached: the socket of @ep drives this queue pair
 * @loop: the connection is one within this host; NULL if it is not, or if none is attached
 * @ird: inbound Reads and Atomics agreed
 * @ord: outbound ones
 * @tx: transmit progress
 * @tx_accessor: whose memory is read
 * @sq: send ring
 * @sq_wrs: a struct xiw_send_wr for each slot of @sq
 * @sq_failed: a send request has completed with an error
 * @read_slots: entries of @reads
 * @rx: receive progress
 * @rx_accessor: whose memory is written, and the targets of Atomics
 * @rq: receive ring, unused with a shared one
 * @reads: FIFO over @read_slots: Reads and Atomics that wait for their Response
 * @irq: FIFO over @irq_slots: Reads and Atomics of the peer that wait to be answered
 * @irq_slots: entries of @irq
 * @sq_post_lock: kernel consumers: producing side of @sq
 * @rq_post_lock: ... of @rq
 * @srq_entry: place in the line at the shared receive queue, empty unless it waits; guarded by that
 *	queue's lock
 * @srq_called: one of that queue's requests is kept for it; guarded by that queue's lock
 * @worker_flags: XIW_WORKER_*, atomic
 * @worker_new: link in the list of a worker's newcomers
 * @worker_entry: link in the worker's own list
 * @worker_idle_ns: when the worker last found something to do
 * @retry: has a worker try again, and holds a reference meanwhile
 * @retry_after: its last pause in jiffies, 0 after a run that had memory; guarded as @tx
 * @doorbells: rung in quick succession since the last FPDU came, guides who transmits
 * @doorbell_ns: when the last one was over
 * @last_read: the send request that completed last was a Read
 * @last_cqe: number of its completion, or of one that is still to come if it asked for none
 * @stats: what has come to pass
 */
struct xiw_qp {
	struct ib_qp		ibqp;
	struct xiw_device	*dev;
	u32			qpn;
	struct xiw_lane		*lane;
	struct kref		ref;
	struct completion	unused;
	struct xiw_area		*area;
	struct mem_cgroup	*payer;
	struct ib_qp_cap	cap;
	bool			dying;
	bool			sig_all;
	u32			sq_slot_size;
	u32			sq_entries;

	spinlock_t		lock;
	enum xiw_qp_state	state;
	enum ib_qp_state	attr_state;
	int			access;
	struct xiw_ep		*ep;
	bool			claimed;
	bool			told_last;
	bool			attached;
	struct xiw_loop		*loop;
	u16			ird;
	u16			ord;

	struct xiw_tx		tx;
	struct xiw_accessor	tx_accessor;
	struct xiw_ring		sq;
	struct xiw_send_wr	*sq_wrs;
	bool			sq_failed;
	struct xiw_fifo		reads;
	struct xiw_read		*read_slots;

	struct xiw_rx		rx;
	struct xiw_accessor	rx_accessor;
	struct xiw_ring		rq;
	struct xiw_fifo		irq;
	struct xiw_irq_entry	*irq_slots;

	spinlock_t		sq_post_lock;
	spinlock_t		rq_post_lock;

	struct list_head	srq_entry;
	bool			srq_called;

	unsigned long		worker_flags;
	struct llist_node	worker_new;
	struct list_head	worker_entry;
	u64			worker_idle_ns;
	struct timer_list	retry;
	unsigned long		retry_after;
	u32			doorbells;
	u64			doorbell_ns;
	bool			last_read;
	u32			last_cqe;

	struct xiw_qp_stats	stats;
};

static inline struct xiw_qp *to_xiw_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct xiw_qp, ibqp);
}

static inline struct xiw_cq *xiw_qp_send_cq(struct xiw_qp *qp)
{
	return to_xiw_cq(qp->ibqp.send_cq);
}

static inline struct xiw_cq *xiw_qp_recv_cq(struct xiw_qp *qp)
{
	return to_xiw_cq(qp->ibqp.recv_cq);
}

static inline struct xiw_srq *xiw_qp_srq(struct xiw_qp *qp)
{
	return qp->ibqp.srq ? to_xiw_srq(qp->ibqp.srq) : NULL;
}

/* Whether the stream runs; the socket lock, or qp->lock, is held. */
static inline bool xiw_qp_open(const struct xiw_qp *qp)
{
	return qp->attached && qp->state == XIW_QP_RTS;
}

/*
 * @n more of @stat; what drives the queue pair is locked. On CPUs that cannot add to memory in
 * one instruction xiw_stat_add() masks interrupts, which may cost more than the rest of an FPDU.
 */
static inline void xiw_qp_count(struct xiw_qp *qp, enum xiw_stat stat, u64 n)
{
	WRITE_ONCE(qp->stats.count[stat], qp->stats.count[stat] + n);
}

/* The record of the send request of count @count. */
static inline struct xiw_send_wr *xiw_qp_wr(struct xiw_qp *qp, u32 count)
{
	return &qp->sq_wrs[count & (qp->sq.entries - 1)];
}

/* qp.c APIs */

void xiw_qp_get(struct xiw_qp *qp);
void xiw_qp_put(struct xiw_qp *qp);

/**
 * xiw_qp_claim - tie a queue pair to the connection that is being set up for it
 * @qp: the queue pair
 * @ep: endpoint; a reference is taken
 *
 * Return: 0, or -EINVAL if @qp is not IDLE or has a connection.
 */
int xiw_qp_claim(struct xiw_qp *qp, struct xiw_ep *ep);

/* The connection is over, or never came. */
void xiw_qp_unclaim(struct xiw_qp *qp);

/**
 * xiw_qp_attach - connect a queue pair to a socket that has finished its handshake
 * @qp: the queue pair, IDLE
 * @ep: endpoint that has claimed it
 * @sk: its socket, locked by the caller
 * @terms: what the handshake agreed on
 * @hold: nothing may be sent before the first FPDU came
 *
 * Return: 0; -EINVAL if @qp is not IDLE; -ENOMEM.
 */
int xiw_qp_attach(struct xiw_qp *qp, struct xiw_ep *ep, struct sock *sk,
		  const struct xiw_mpa_terms *terms, bool hold);

/**
 * xiw_qp_detach - part a queue pair from its socket; it becomes ERROR
 * @qp: the queue pair
 * @sk: the socket, locked by the caller
 * @rest: result: what TCP has not yet taken
 * @cause: in: why; out: the first cause, if the stream had failed before
 *
 * Return: true if it was attached: xiw_qp_detached() is due when the socket is unlocked.
 */
bool xiw_qp_detach(struct xiw_qp *qp, struct sock *sk, struct xiw_batch *rest,
		   enum xiw_cause *cause);

/* Flushes what was posted and tells that it will be the last. Sleeps; no lock of the data path. */
void xiw_qp_detached(struct xiw_qp *qp);

/**
 * xiw_qp_fail - the stream has to end: notes the first cause, stops the data path
 * @qp: the queue pair; the socket lock is held
 * @cause: why
 * @fault: headers of the FPDU that is to blame, or NULL
 *
 * The rest (Terminate, flush, close) is done by the endpoint, which is told.
 */
void xiw_qp_fail(struct xiw_qp *qp, enum xiw_cause cause, const struct xiw_headers *fault);

/* TCP has ended the connection: as xiw_qp_fail(), but there is nobody to tell. */
void xiw_qp_lost(struct xiw_qp *qp);

/* Has what was received looked at again. @qp stays attached meanwhile. Context: any. */
void xiw_qp_resume_rx(struct xiw_qp *qp);

/* The same, if a socket is attached. */
void xiw_qp_wake(struct xiw_qp *qp);

/**
 * xiw_qp_lock - lock what drives a queue pair: its socket, or its loop
 * @qp: the queue pair
 *
 * Context: process; sleeps.
 * Return: its endpoint, with a reference, or NULL if no socket is attached.
 */
struct xiw_ep *xiw_qp_lock(struct xiw_qp *qp);
void xiw_qp_unlock(struct xiw_qp *qp, struct xiw_ep *ep);

/**
 * xiw_qp_lock_now - as xiw_qp_lock(), but wait for no process
 * @qp: the queue pair
 *
 * A process that has the socket locked may get a CPU only now and then, as its group is allowed.
 *
 * Return: as xiw_qp_lock(), or -EAGAIN if the socket is locked: whoever unlocks it hands the queue
 * pair to a worker, if xiw_qp_unlocked() follows.
 */
struct xiw_ep *xiw_qp_lock_now(struct xiw_qp *qp);

/* The socket of @qp was unlocked otherwise than by xiw_qp_unlock(). */
void xiw_qp_unlocked(struct xiw_qp *qp);

/* That lock is held. */
void xiw_qp_assert_locked(const struct xiw_qp *qp);

/* Raises an asynchronous event of a queue pair; any context. */
void xiw_qp_event(struct xiw_qp *qp, enum ib_event_type event);

/* The same, for a fault of which layer and error type of the Terminate message are known. */
void xiw_qp_report(struct xiw_qp *qp, u8 layer, u8 etype);

/* qp_memory.c APIs; kernel-doc is there. */
void xiw_qp_free_memory(struct xiw_qp *qp, struct ib_udata *udata);
int xiw_qp_alloc_memory(struct xiw_qp *qp, const struct ib_qp_init_attr *attr,
			struct ib_udata *udata, struct xiw_create_qp_resp *resp);
int xiw_qp_alloc_fifos(struct xiw_qp *qp, u16 ird, u16 ord);

/* Verbs, as struct ib_device_ops wants them; kernel-doc is in qp.c. */
int xiw_qp_create(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata);
int xiw_qp_modify(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int xiw_qp_query(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init_attr);
int xiw_qp_destroy(struct ib_qp *ibqp, struct ib_udata *udata);
void xiw_qp_add_ref(struct ib_qp *ibqp);
void xiw_qp_rem_ref(struct ib_qp *ibqp);
struct ib_qp *xiw_qp_find(struct ib_device *ibdev, int qpn);

/* complete.c APIs */

/**
 * xiw_qp_retire - complete all send requests that are done, in the order of their posting
 * @qp: the queue pair; see Locking for what is held
 *
 * If they are many a worker goes on with them. The consumer is not notified: xiw_qp_fire() does
 * that.
 */
void xiw_qp_retire(struct xiw_qp *qp);

/**
 * xiw_qp_complete_recv - complete a receive request
 * @qp: the queue pair; see Locking for what is held
 * @cqe: wr_id, opcode, status, byte_len, flags and imm_inv; the rest is filled here
 */
void xiw_qp_complete_recv(struct xiw_qp *qp, struct xiw_cqe *cqe);

/* Notifies the consumers of both completion queues of what was completed. */
void xiw_qp_fire(struct xiw_qp *qp);

/**
 * xiw_qp_flush - complete as flushed whatever is posted after the connection ended
 * @qp: the queue pair
 *
 * Does nothing unless the state is ERROR and no socket is attached, nor if the queue pair is being
 * destroyed. Requests that are done complete as they would have. Notifies the consumers.
 *
 * Context: process; sleeps. No lock is held that keeps others from running.
 */
void xiw_qp_flush(struct xiw_qp *qp);

#endif /* XIW_QP_H */
