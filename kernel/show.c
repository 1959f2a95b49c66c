// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* show.c - tells `rdma resource show` what the core does not know of our objects */

#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/sprintf.h>
#include <net/inet_sock.h>
#include <rdma/restrack.h>
#include <uapi/rdma/rdma_netlink.h>

#include "conn/ep.h"
#include "device.h"
#include "mem/mem.h"
#include "mem/odp.h"
#include "queue/cq.h"
#include "queue/ring.h"
#include "queue/srq.h"
#include "show.h"
#include "stats.h"
#include "stream/qp.h"

/*
 * Any process may ask for this. So it tells neither STags nor addresses of memory, which would help
 * to access that memory. Processes of other network namespaces may ask, too, unless the
 * administrator has set "rdma system set netns exclusive". They learn nothing of connections and
 * requests.
 *
 * The core puts what a driver adds into one attribute with pairs of names and values. The names are
 * part of our interface: USING.md has them, and programs look for them.
 */

/* Whether the process is in the network namespace of the device. */
static bool show_is_near(struct ib_device *ibdev)
{
	return net_eq(current->nsproxy->net_ns, read_pnet(&to_xiw_device(ibdev)->net));
}

/* An IPv6 address with a scope, and a port. */
#define SHOW_ADDRESS_LEN	80

/* Begins what a driver adds. Return: what show_end() needs, or NULL without room. */
static struct nlattr *show_begin(struct sk_buff *msg)
{
	return nla_nest_start_noflag(msg, RDMA_NLDEV_ATTR_DRIVER);
}

/* Ends it. Without room (@ret), the core tries again in another message, or gives up. */
static int show_end(struct sk_buff *msg, struct nlattr *table, int ret)
{
	if (ret)
		nla_nest_cancel(msg, table);
	else
		nla_nest_end(msg, table);
	return ret;
}

/*
 * Queue pairs
 */

/**
 * struct show_qp - what is shown of a queue pair
 * @connected: a socket is attached, and the fields up to @peer_reads are valid
 * @local: address of TCP at this end. TCP also carries the handshake of two ends on one host
 * @peer: address of TCP at the other end
 * @host: the peer is on this host, and the stream bypasses TCP
 * @revision: MPA revision
 * @framing: how FPDUs are sent
 * @ird: Reads and Atomics that the peer may have in flight
 * @ord: those that this end may have in flight
 * @reads: those that this end has in flight
 * @peer_reads: those that the peer has in flight
 * @sends_posted: requests in the send queue that were not taken yet
 * @sends_in_flight: requests that were taken and are not completed
 * @receives_posted: requests in the receive queue that no message has taken
 * @count: counters
 * @fault: why the stream has ended
 */
struct show_qp {
	bool			connected;
	struct sockaddr_storage	local;
	struct sockaddr_storage	peer;
	bool			host;
	u8			revision;
	struct xiw_framing	framing;
	u16			ird;
	u16			ord;
	u16			reads;
	u16			peer_reads;
	u32			sends_posted;
	u32			sends_in_flight;
	u32			receives_posted;
	u64			count[XIW_NUM_QP_STATS];
	struct xiw_fault	fault;
};

static void show_get_names(struct show_qp *show, const struct sock *sk)
{
	struct sockaddr_in *local = (void *)&show->local, *peer = (void *)&show->peer;
	const struct inet_sock *inet = inet_sk(sk);

#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr)) {
		*(struct sockaddr_in6 *)local = (struct sockaddr_in6){
			.sin6_family = AF_INET6,
			.sin6_addr = inet6_sk(sk)->saddr,
			.sin6_port = inet->inet_sport,
			.sin6_scope_id = ipv6_iface_scope_id(&inet6_sk(sk)->saddr,
							     sk->sk_bound_dev_if),
		};
		*(struct sockaddr_in6 *)peer = (struct sockaddr_in6){
			.sin6_family = AF_INET6,
			.sin6_addr = sk->sk_v6_daddr,
			.sin6_port = inet->inet_dport,
			.sin6_scope_id = ipv6_iface_scope_id(&sk->sk_v6_daddr,
							     sk->sk_bound_dev_if),
		};
		return;
	}
#endif
	*local = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = inet->inet_saddr,
		.sin_port = inet->inet_sport,
	};
	*peer = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = inet->inet_daddr,
		.sin_port = inet->inet_dport,
	};
}

/* What the handshake agreed on stays as it is while the queue pair is attached. */
static void show_get_connection(struct show_qp *show, const struct xiw_qp *qp)
{
	lockdep_assert_held(&qp->lock);

	show->connected = true;
	show_get_names(show, qp->sk);
	show->host = qp->loop;
	show->revision = qp->ep->theirs.revision;
	show->framing = (struct xiw_framing){
		.crc = qp->rx.crc,
		.markers = qp->tx.framing.markers,
		.large = qp->tx.framing.large,
	};
	show->ird = qp->inbound.size;
	show->ord = qp->reads.size;
	data_race(show->reads = qp->reads.used);		/* it may change at any time */
	data_race(show->peer_reads = qp->inbound.used);
}

/*
 * How many of a ring's requests are between two of its counters, which may be read at different
 * times, and one of which the process can write.
 */
static u32 show_between(const struct xiw_ring *ring, u32 from, u32 to)
{
	return clamp_t(s32, to - from, 0, ring->entries);
}

/* The rings exist until the queue pair has begun to die. What they hold may change meanwhile. */
static void show_get_requests(struct show_qp *show, const struct xiw_qp *qp)
{
	u32 returned = data_race(qp->sq.returned);	/* a guess */
	u32 taken = READ_ONCE(qp->sq.taken);

	lockdep_assert_held(&qp->lock);

	show->sends_in_flight = show_between(&qp->sq, returned, taken);
	show->sends_posted = show_between(&qp->sq, taken, READ_ONCE(qp->sq.ctl->produced));
	if (qp->rq.entries)
		show->receives_posted = show_between(&qp->rq, READ_ONCE(qp->rq.taken),
						     READ_ONCE(qp->rq.ctl->produced));
}

static void show_get(struct show_qp *show, const struct xiw_qp *qp)
{
	unsigned int i;

	lockdep_assert_held(&qp->lock);

	if (xiw_qp_attached(qp))
		show_get_connection(show, qp);
	show_get_requests(show, qp);
	for (i = 0; i < XIW_NUM_QP_STATS; i++)
		show->count[i] = READ_ONCE(qp->stats.count[i]);
	show->fault = qp->fault;
}

/* Only some IPv6 addresses have a scope. The format with one would print "%0" after all others. */
static int show_address(struct sk_buff *msg, const char *name,
			const struct sockaddr_storage *address)
{
	const struct sockaddr_in6 *in6 = (const void *)address;
	bool scoped = in6->sin6_family == AF_INET6 && in6->sin6_scope_id;
	char text[SHOW_ADDRESS_LEN];

	snprintf(text, sizeof(text), scoped ? "%pISpcs" : "%pISpc", address);
	return rdma_nl_put_driver_string(msg, name, text);
}

static int show_connection(struct sk_buff *msg, const struct show_qp *show)
{
	return show_address(msg, "local", &show->local) ?:
	       show_address(msg, "peer", &show->peer) ?:
	       rdma_nl_put_driver_string(msg, "carrier", show->host ? "host" : "tcp") ?:
	       rdma_nl_put_driver_u32(msg, "mpa_revision", show->revision) ?:
	       rdma_nl_put_driver_u32(msg, "crc", show->framing.crc) ?:
	       rdma_nl_put_driver_u32(msg, "tx_markers", show->framing.markers) ?:
	       rdma_nl_put_driver_u32(msg, "tx_large_fpdus", show->framing.large) ?:
	       rdma_nl_put_driver_u32(msg, "ird", show->ird) ?:
	       rdma_nl_put_driver_u32(msg, "ord", show->ord) ?:
	       rdma_nl_put_driver_u32(msg, "reads_in_flight", show->reads) ?:
	       rdma_nl_put_driver_u32(msg, "peer_reads", show->peer_reads);
}

static int show_requests(struct sk_buff *msg, const struct show_qp *show)
{
	return rdma_nl_put_driver_u32(msg, "sends_posted", show->sends_posted) ?:
	       rdma_nl_put_driver_u32(msg, "sends_in_flight", show->sends_in_flight) ?:
	       rdma_nl_put_driver_u32(msg, "receives_posted", show->receives_posted);
}

static int show_counts(struct sk_buff *msg, const u64 *count)
{
	return rdma_nl_put_driver_u64(msg, "tx_bytes", count[XIW_STAT_TX_BYTES]) ?:
	       rdma_nl_put_driver_u64(msg, "tx_fpdus", count[XIW_STAT_TX_FPDUS]) ?:
	       rdma_nl_put_driver_u64(msg, "tx_loop", count[XIW_STAT_TX_LOOP]) ?:
	       rdma_nl_put_driver_u64(msg, "rx_bytes", count[XIW_STAT_RX_BYTES]) ?:
	       rdma_nl_put_driver_u64(msg, "rx_fpdus", count[XIW_STAT_RX_FPDUS]);
}

/* What this end has found, or what the Terminate of the peer says. */
static int show_fault(struct sk_buff *msg, const struct xiw_fault *fault)
{
	const struct xiw_terminate *term = &fault->hdr.term;

	if (fault->cause != XIW_OK)
		return rdma_nl_put_driver_string(msg, "error", xiw_causes[fault->cause].name);
	if (!fault->has_hdr)
		return 0;
	return rdma_nl_put_driver_u32(msg, "peer_error_layer", term->layer_etype >> 4) ?:
	       rdma_nl_put_driver_u32(msg, "peer_error_type", term->layer_etype & 0xf) ?:
	       rdma_nl_put_driver_u32_hex(msg, "peer_error_code", term->code);
}

/**
 * xiw_show_qp - tell of a connection, of requests, of traffic, and of the reason for the end
 * @msg: netlink message to add to
 * @ibqp: the queue pair. With Linux 6.12 it may be in the middle of its destruction
 *
 * Return: 0, or -EMSGSIZE without room.
 */
int xiw_show_qp(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct xiw_qp *qp = to_xiw_qp(ibqp);
	struct nlattr *table = show_begin(msg);
	struct show_qp show = {};
	unsigned long flags;
	bool dying;
	int ret;

	if (!table)
		return -EMSGSIZE;
	spin_lock_irqsave(&qp->lock, flags);
	dying = qp->dying;
	if (!dying)
		show_get(&show, qp);
	spin_unlock_irqrestore(&qp->lock, flags);
	if (dying || !show_is_near(qp->ibqp.device))
		return show_end(msg, table, 0);
	ret = show.connected ? show_connection(msg, &show) : 0;
	return show_end(msg, table, ret ?: show_requests(msg, &show) ?:
			show_counts(msg, show.count) ?: show_fault(msg, &show.fault));
}

/*
 * Other objects. They may be in the middle of their destruction, so this reads no memory that they
 * share with a process.
 */

/**
 * xiw_show_cq - tell how many completions a queue was given, and whether it has overflowed
 * @msg: netlink message to add to
 * @ibcq: the queue
 *
 * Return: 0, or -EMSGSIZE without room.
 */
int xiw_show_cq(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct xiw_cq *cq = to_xiw_cq(ibcq);
	struct nlattr *table = show_begin(msg);
	unsigned long flags;
	bool broken;
	u32 produced;

	if (!table)
		return -EMSGSIZE;
	if (!show_is_near(ibcq->device))
		return show_end(msg, table, 0);
	spin_lock_irqsave(&cq->lock, flags);
	produced = cq->produced;
	broken = cq->broken;
	spin_unlock_irqrestore(&cq->lock, flags);
	return show_end(msg, table,
			rdma_nl_put_driver_u32(msg, "completions", produced) ?:
			rdma_nl_put_driver_u32(msg, "overflowed", broken));
}

/**
 * xiw_show_srq - tell how many requests were taken from a queue, its limit, and whether any waits
 * @msg: netlink message to add to
 * @ibsrq: the queue
 *
 * Return: 0, or -EMSGSIZE without room.
 */
int xiw_show_srq(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	struct xiw_srq *srq = to_xiw_srq(ibsrq);
	struct nlattr *table = show_begin(msg);
	u32 max_wr, taken, limit;
	unsigned long flags;
	bool starved;

	if (!table)
		return -EMSGSIZE;
	if (!show_is_near(ibsrq->device))
		return show_end(msg, table, 0);
	spin_lock_irqsave(&srq->lock, flags);
	max_wr = srq->max_wr;
	taken = srq->ring.taken;
	limit = srq->limit;
	starved = !list_empty(&srq->waiters);
	spin_unlock_irqrestore(&srq->lock, flags);
	return show_end(msg, table,
			rdma_nl_put_driver_u32(msg, "max_wr", max_wr) ?:
			rdma_nl_put_driver_u32(msg, "taken", taken) ?:
			rdma_nl_put_driver_u32(msg, "limit", limit) ?:
			rdma_nl_put_driver_u32(msg, "starved", starved));
}

/* What the memory of a region is. It has a umem for good or never, although another one later. */
static const char *show_memory(const struct xiw_mr *mr)
{
	if (xiw_mr_all_memory(mr))
		return "all";
	if (mr->ibmr.type == IB_MR_TYPE_MEM_REG)
		return "fast_registration";
	if (xiw_mr_on_demand(mr))
		return "on_demand";
	if (mr->dmabuf)
		return "dmabuf";
	return data_race(mr->umem) ? "pinned" : "device";	/* see above */
}

/**
 * xiw_show_mr - tell what a region stands for
 * @msg: netlink message to add to
 * @ibmr: the region, which exists until this returns
 *
 * Return: 0, or -EMSGSIZE without room.
 */
int xiw_show_mr(struct sk_buff *msg, struct ib_mr *ibmr)
{
	const struct xiw_mr *mr = to_xiw_mr(ibmr);
	struct nlattr *table = show_begin(msg);
	int windows = atomic_read(&mr->windows);

	if (!table)
		return -EMSGSIZE;
	return show_end(msg, table,
			rdma_nl_put_driver_string(msg, "memory", show_memory(mr)) ?:
			rdma_nl_put_driver_u32(msg, "valid", READ_ONCE(mr->valid)) ?:
			rdma_nl_put_driver_u32(msg, "windows", max(windows, 0)));
}
