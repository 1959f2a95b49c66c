/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* qp.h - the life of a queue pair, its states, and the Locking text */
#ifndef XIW_QP_H
#define XIW_QP_H

#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <rdma/ib_verbs.h>
#include <rdma/xiw-abi.h>

#include "device.h"
#include "mem/odp.h"
#include "queue/cq.h"
#include "queue/ring.h"
#include "queue/srq.h"
#include "stream/progress.h"
#include "wire/mpa.h"
#include "wire/terminate.h"

struct sock;
struct xiw_area;
struct xiw_ep;
struct xiw_lane;
struct xiw_carrier;
struct xiw_loop;

/*
 * Locking
 *
 * From the outermost lock to the innermost:
 *
 *   one_at_a_time   mutex (device.c): adding a device. Consumers may listen on it at once
 *   listeners_lock  mutex (conn/listener.c): the list of all listeners
 *   ep->lock        mutex: the state machine of a connection (conn/ep.c). A change of ep->qp
 *                   needs the socket lock as well, so either lock is enough to read it
 *   listener->lock  mutex: the ids that listen on a port, and its half-open connections. A
 *                   connection takes it to leave its listener. Accepting locks new sockets
 *   cq->resizing, srq->resizing
 *                   mutexes: one resize at a time; only the lock of the queue is taken inside
 *   socket lock     lock_sock() in a process, the socket's spinlock in a softirq: the progress
 *                   of a connected queue pair, which is xiw_qp.tx, .rx, .sq, .rq, .sq_wrs,
 *                   .reads and .inbound
 *   loop->lock      spinlock, softirqs off: the progress of both queue pairs of a connection
 *                   within this host, instead of the socket lock (carrier/loop.c)
 *   mr->lock        spinlock, softirqs off: the binding of a memory window; a fast registration;
 *                   an invalidation (mem/bind.c). Its holder waits for accesses, so no access
 *                   may take it
 *   mr->accesses    rwlock, PREEMPT_RT only: each access holds it for reading. A writer waits
 *                   for the accesses to a region whose STag it has made invalid
 *   odp->lock       rwlock, softirqs off: the pages of an on-demand region (mem/odp.c). Each
 *                   access holds it for reading. Fetching pages takes it for writing; so does
 *                   the mm to take pages away, with its own locks held. So no holder calls
 *                   into the mm. Within one host a segment holds its source and its sink, so
 *                   readers of this lock and of mr->accesses only try
 *   sk_callback_lock
 *                   TCP's rwlock, softirqs off: the callbacks of a socket and the endpoint or
 *                   listener that they find (conn/sock.c). Taken inside the socket lock
 *   qp->lock        spinlock, any context: .state, .attr_state, .ep, .claimed, .told_last, .sk,
 *                   .carrier, .loop, .fault and .dying; also the progress while no socket is
 *                   attached. Detaching takes srq->lock inside
 *   srq->lock       spinlock, any context: it resumes queue pairs, maybe through a worker
 *   lane->lock, cq->lock, fetch->lock (mem/odp.c), qp->sq_post_lock, qp->rq_post_lock,
 *   ep->retry_lock  spinlocks, any context, leaves. Queueing to a worker takes cq->lock to see
 *                   whether the process has asked for an event
 *   settings->lock  spinlock, process context, leaf: TCP's congestion control for new connections
 *   dev->qp_stats_lock
 *                   mutex, leaf: the list of the queue pairs' counters, and which queue pair
 *                   counts for a counter of the administrator; inside that counter's lock
 *   xa_lock         of dev->qps, dev->stags and eps (conn/ep_ref.c), process context, leaf: a
 *                   lookup takes its reference inside. STags are looked up under RCU instead
 *
 * Mutexes come first because their holders sleep, for example in lock_sock(). The socket lock is
 * above our spinlocks because TCP calls us with it held; a callback that needs ep->lock queues a
 * job instead. So the data path has no lock of our own: sending and receiving hold the socket,
 * and with it the queue pair. This also ensures that a queue pair has one transmitter at a time.
 *
 * Within one host both ends share loop->lock, because what one end sends is placed and completed
 * at the other. Their sockets are used for the close only, which takes loop->lock inside the
 * socket lock. Two queue pairs join a loop with both socket locks held. This is the only place
 * that holds two: the initiator's is taken first and the responder's is only tried. .carrier and
 * .loop are written with loop->lock and qp->lock held as well, so any of the three locks is enough
 * to read them, and loop->lock is enough to find both ends.
 *
 * "The queue pair is locked" means that the lock of its carrier is held: the socket lock for TCP,
 * loop->lock within this host.
 *
 * Attach and detach hold ep->lock, the socket lock and qp->lock and change .sk. Detach also holds
 * loop->lock if there is a loop. Any of these locks is enough to read .sk, but ep->lock only that
 * of the endpoint that has claimed the queue pair. The claim alone guards .fault before attach. A
 * holder of the socket lock that finds a socket attached may go on. A holder of qp->lock that finds
 * none owns the progress, and so can flush work requests that are posted after the connection has
 * ended. xiw_show_qp() holds qp->lock alone: what the handshake has agreed on stays as it is while
 * a socket is attached, and what it shows of the progress is a guess.
 *
 * Where sleeping is not allowed, the queue pair is handed to a worker (xiw_worker_queue()). A
 * worker serves many queue pairs and does not wait for a socket lock either, because the process
 * that holds it may rarely get a CPU (xiw_qp_lock_now()).
 *
 * The timer .gather takes no lock and has no reference. It is started only while the queue pair is
 * locked and attached, and stopped before the user's reference is dropped.
 */

/*
 * enum xiw_qp_state - where a queue pair is in its life
 *
 *              attach           fault, disconnect, peer's FIN
 *      IDLE ----------> RTS -----------------------------+
 *      |  ^                                              v
 *      |  +------------- the consumer resets ------- ERROR
 *      +---------------- the consumer sets it -----------^
 *
 * IDLE stands for RESET, INIT and RTR of the verbs. In ERROR the endpoint may still be sending a
 * Terminate, or closing the connection in good order, which the verbs call SQD.
 */
enum xiw_qp_state {
	XIW_QP_IDLE,
	XIW_QP_RTS,
	XIW_QP_ERROR,
	XIW_QP_NUM_STATES
};

/* struct xiw_qp - one end of an iWARP connection */
struct xiw_qp {
	/* What it is. Constant after create, but for the references, dying and access. */
	struct ib_qp		ibqp;
	struct xiw_device	*dev;
	u32			qpn;		/* the number that the user sees */
	struct xiw_lane		*lane;		/* of a process, for outgoing connections */
	struct kref		ref;		/* one for the user, ids, endpoints, workers */
	struct completion	unused;		/* completed by the last put */
	struct xiw_area		*area;		/* memory of both rings */
	struct mem_cgroup	*payer;		/* of a process; charged for it by others */
	struct ib_qp_cap	cap;		/* the sizes granted */
	bool			dying;		/* nothing completes any more; written under lock */
	bool			sig_all;	/* every send request is signalled */
	int			access;		/* rights that the user set, informative; no lock */

	/* Where it is in its life. Written under lock, see Locking. */
	enum xiw_qp_state	state;		/* written by qp_move() only */
	enum ib_qp_state	attr_state;	/* the verbs' name for IDLE: RESET, INIT or RTR */
	struct xiw_ep		*ep;		/* with a reference, until the next claim */
	bool			claimed;	/* ep sets up or has a connection */
	bool			told_last;	/* IB_EVENT_QP_LAST_WQE_REACHED was raised */
	struct sock		*sk;		/* of ep, while it is attached; else NULL */
	const struct xiw_carrier *carrier;	/* TCP's unless both ends are on this host */
	struct xiw_loop		*loop;		/* of xiw_loop_carrier; else NULL */
	struct xiw_fault	fault;		/* constant once detached, until a reset */

	/*
	 * Within one host the two ends mostly run on two CPUs. Each CPU reads the fields above of
	 * both queue pairs, and writes what its own end sends and what the other end receives. So
	 * these three groups share no cache lines.
	 */
	spinlock_t		lock ____cacheline_aligned_in_smp;

	/* What it sends. Its carrier's lock guards this and what it receives, see Locking. */
	struct xiw_tx		tx;
	struct xiw_accessor	tx_accessor;	/* reads the memory that is sent */
	struct xiw_ring		sq;
	struct xiw_send_wr	*sq_wrs;	/* one for each slot of sq */
	bool			sq_failed;	/* a request has completed with an error */
	struct xiw_fifo		reads;		/* those that wait for their Response; size: ORD */
	struct xiw_read		*read_slots;	/* the entries of reads */

	/* What decides which thread sends. */
	unsigned long		worker_flags;	/* XIW_WORKER_*, atomic */
	struct llist_node	worker_new;	/* in the worker's list of new queue pairs */
	struct list_head	worker_entry;	/* in the worker's private list */
	u64			worker_idle_ns;	/* when the worker last found something to do */
	u32			worker_spin_ns;	/* how long it watches a ring that stays empty */
	u32			gather_ns;	/* how long requests may gather */
	struct hrtimer		gather;		/* ends the gathering of requests; see Locking */
	struct timer_list	retry;		/* has a worker try again; with a reference */
	unsigned long		retry_after;	/* the last pause in jiffies; guarded as tx */
	u64			doorbell_ns;	/* when the last one that transmitted was done */
	bool			last_read;	/* the last completed send request was a Read */
	u32			last_cqe;	/* its completion, or a later one if unsignalled */

	struct xiw_qp_stats	stats;

	/* Doorbells in quick succession since the last FPDU came, which resets the counter. */
	u32			doorbells ____cacheline_aligned_in_smp;

	/* What it receives. */
	struct xiw_rx		rx;
	struct xiw_accessor	rx_accessor;	/* writes what is received, executes Atomics */
	struct xiw_ring		rq;		/* unused with a shared receive queue */
	struct xiw_fifo		inbound;	/* Reads that wait for an answer; size: IRD */
	struct xiw_inbound_read	*inbound_slots;	/* the entries of inbound */

	/* Consumers in the kernel: guard the producing sides of sq and rq. */
	spinlock_t		sq_post_lock;
	spinlock_t		rq_post_lock;

	struct xiw_srq_waiter	srq_waiter;	/* its place at the shared receive queue */
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

/* Whether a socket is attached. The caller holds one of the locks that .sk needs, see Locking. */
static inline bool xiw_qp_attached(const struct xiw_qp *qp)
{
	return qp->sk;
}

/* Whether the stream is open; only an attached queue pair is in RTS. Locks as above. */
static inline bool xiw_qp_open(const struct xiw_qp *qp)
{
	return qp->state == XIW_QP_RTS;
}

/*
 * Adds @n to @stat of a locked queue pair. xiw_stat_add() would mask interrupts on CPUs that cannot
 * add to memory in one instruction, which may cost more than the rest of an FPDU.
 */
static inline void xiw_qp_count(struct xiw_qp *qp, enum xiw_stat stat, u64 n)
{
	WRITE_ONCE(qp->stats.count[stat], qp->stats.count[stat] + n);
}

/* The wr_id for a tracepoint: that of a consumer in the kernel is often a pointer, and not told. */
static inline u64 xiw_qp_traced_id(const struct xiw_qp *qp, u64 wr_id)
{
	return rdma_is_kernel_res(&qp->ibqp.res) ? 0 : wr_id;
}

/* Return: the record of send request number @count. */
static inline struct xiw_send_wr *xiw_qp_wr(struct xiw_qp *qp, u32 count)
{
	return &qp->sq_wrs[count & (qp->sq.entries - 1)];
}

/* qp.c APIs */

void xiw_qp_get(struct xiw_qp *qp);
void xiw_qp_put(struct xiw_qp *qp);

/**
 * xiw_qp_attach - connect a queue pair to a socket that has finished its handshake
 * @qp: the queue pair, IDLE
 * @ep: endpoint that has claimed it
 * @sk: its socket, locked by the caller
 * @terms: the result of the handshake
 * @hold: send nothing before the first FPDU has come
 *
 * Return: 0; -EINVAL if @qp is not IDLE; -ENOMEM.
 */
int xiw_qp_attach(struct xiw_qp *qp, struct xiw_ep *ep, struct sock *sk,
		  const struct xiw_mpa_terms *terms, bool hold);

/**
 * xiw_qp_detach - separate a queue pair from its socket and move it to ERROR
 * @qp: the queue pair
 * @sk: the socket, locked by the caller, which also holds loop->lock if there is a loop
 * @rest: result: bytes that TCP has not taken yet
 * @cause: in: the reason; out: the first cause, if the stream had failed before
 *
 * Return: true if it was attached. The caller then unlocks the socket and calls xiw_qp_detached().
 */
bool xiw_qp_detach(struct xiw_qp *qp, struct sock *sk, struct xiw_batch *rest,
		   enum xiw_cause *cause);

/*
 * Flushes posted requests, and raises IB_EVENT_QP_LAST_WQE_REACHED if it is due. Sleeps. The caller
 * holds no lock of the data path.
 */
void xiw_qp_detached(struct xiw_qp *qp);

/**
 * xiw_qp_fail - note the first cause why the stream has to end, and stop the data path
 * @qp: the queue pair, locked (see Locking)
 * @cause: the cause
 * @fault: headers of the faulty FPDU, or NULL
 *
 * The endpoint is woken and does the rest: Terminate, flush and close.
 */
void xiw_qp_fail(struct xiw_qp *qp, enum xiw_cause cause, const struct xiw_headers *fault);

/*
 * As xiw_qp_fail(), but without a Terminate or an event: the peer has ended the stream. @terminate
 * has the headers of its Terminate, or is NULL.
 */
void xiw_qp_lost(struct xiw_qp *qp, const struct xiw_headers *terminate);

/* Has received data processed again. The caller keeps @qp attached. Context: any. */
void xiw_qp_resume_rx(struct xiw_qp *qp);

/* As xiw_qp_resume_rx(), if a socket is attached. */
void xiw_qp_wake(struct xiw_qp *qp);

/*
 * As xiw_qp_resume_rx(), when the turn of a queue pair at its shared receive queue has come. It
 * waits there only while it is attached.
 */
void xiw_qp_resume_waiter(struct xiw_srq_waiter *waiter);

/**
 * xiw_qp_lock - lock what drives a queue pair, which its carrier knows
 * @qp: the queue pair
 *
 * Context: process; sleeps.
 * Return: false if no socket is attached, and so nothing is locked.
 */
bool xiw_qp_lock(struct xiw_qp *qp);
void xiw_qp_unlock(struct xiw_qp *qp);

/**
 * enum xiw_qp_lock_result - what became of a try to lock a queue pair
 * @XIW_QP_LOCKED: it is locked
 * @XIW_QP_NO_SOCKET: no socket is attached
 * @XIW_QP_LOCKED_OUT: another thread has locked the socket. That thread hands the queue pair to a
 *	worker when it calls xiw_qp_unlocked()
 */
enum xiw_qp_lock_result {
	XIW_QP_LOCKED,
	XIW_QP_NO_SOCKET,
	XIW_QP_LOCKED_OUT,
};

/**
 * xiw_qp_lock_now - as xiw_qp_lock(), but do not wait if the socket is locked
 * @qp: the queue pair
 *
 * A process whose control group limits its CPU time may hold the socket lock for long.
 *
 * Return: whether it is locked, or why not.
 */
enum xiw_qp_lock_result xiw_qp_lock_now(struct xiw_qp *qp);

/* To be called after the socket of @qp was unlocked by other means than xiw_qp_unlock(). */
void xiw_qp_unlocked(struct xiw_qp *qp);

void xiw_qp_check_locked(const struct xiw_qp *qp);

/* Asserts that @qp is attached and locked (see Locking). Costs nothing without lockdep. */
static inline void xiw_qp_assert_locked(const struct xiw_qp *qp)
{
	if (IS_ENABLED(CONFIG_LOCKDEP))
		xiw_qp_check_locked(qp);
}

/* Asserts that the caller owns the progress of @qp, whether or not a socket is attached. */
static inline void xiw_qp_assert_owned(const struct xiw_qp *qp)
{
	if (xiw_qp_attached(qp))
		xiw_qp_assert_locked(qp);
	else
		lockdep_assert_held(&qp->lock);
}

/* Raises an asynchronous event of a queue pair. Context: any. */
void xiw_qp_event(struct xiw_qp *qp, enum ib_event_type event);

/* Raises the event for a fault with this layer and error type of the Terminate message. */
void xiw_qp_report(struct xiw_qp *qp, u8 layer, u8 etype);

/* Moves a queue pair without a socket to ERROR and flushes what was posted. Sleeps. */
void xiw_qp_halt(struct xiw_qp *qp);

/* Moves to IDLE and drops what was posted. Return: 0, or -EINVAL if there is a connection. */
int xiw_qp_reset(struct xiw_qp *qp);

/* For a modify to INIT, RTR or RTS. Only a connection leads to RTS. Return: 0 or -EINVAL. */
int xiw_qp_prepare(struct xiw_qp *qp, enum ib_qp_state to);

/* qp_memory.c APIs; kernel-doc is in that file. */
void xiw_qp_free_memory(struct xiw_qp *qp, struct ib_udata *udata);
int xiw_qp_alloc_memory(struct xiw_qp *qp, const struct ib_qp_init_attr *attr,
			struct ib_udata *udata, struct xiw_create_qp_resp *resp);
int xiw_qp_alloc_fifos(struct xiw_qp *qp, u16 ird, u16 ord);

/* For struct ib_device_ops; kernel-doc is in qp.c. */
void xiw_qp_add_ref(struct ib_qp *ibqp);
void xiw_qp_rem_ref(struct ib_qp *ibqp);
struct ib_qp *xiw_qp_find(struct ib_device *ibdev, int qpn);

/* qp_verbs.c APIs for struct ib_device_ops; kernel-doc is in that file. */
int xiw_qp_create(struct ib_qp *ibqp, struct ib_qp_init_attr *attr, struct ib_udata *udata);
int xiw_qp_modify(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int xiw_qp_query(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init_attr);
int xiw_qp_destroy(struct ib_qp *ibqp, struct ib_udata *udata);

#endif /* XIW_QP_H */
