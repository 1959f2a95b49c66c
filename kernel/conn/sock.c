// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* sock.c - everything that touches a TCP socket or its callbacks */

#include <linux/bpf.h>
#include <linux/inetdevice.h>
#include <linux/minmax.h>
#include <linux/wait.h>
#include <net/addrconf.h>
#include <net/inet6_hashtables.h>
#include <net/ipv6.h>
#include <net/proto_memory.h>
#include <net/tcp.h>

#include "carrier/batch.h"
#include "carrier/sock_lock.h"
#include "conn/ep.h"
#include "conn/sock.h"
#include "conn/tune.h"
#include "pause.h"
#include "stream/qp.h"
#include "stream/rx.h"
#include "stream/worker.h"

/*
 * An FPDU stays in the receive queue until all of it has arrived. So the queue must hold the
 * longest one, and several to keep the stream flowing. TCP charges whole skbs, and merges them when
 * space runs short.
 */
#define SOCK_RCVBUF	(256 * 1024)	/* the least that the setting rcvbuf can be */

/*
 * Callbacks
 *
 * TCP calls them with the socket lock held: the spinlock in softirq (for an ICMP error even if a
 * process has the lock), else the lock of the process that works through the backlog. Attaching and
 * detaching take both, so the endpoint cannot go away during a callback.
 */

/* What a socket calls, besides its owner's pointer in sk_user_data. */
struct sock_callbacks {
	void (*data_ready)(struct sock *sk);
	void (*write_space)(struct sock *sk);
	void (*state_change)(struct sock *sk);
	void (*error_report)(struct sock *sk);
};

/* Those of a fresh socket, which are the same for all TCP sockets of the kernel. */
static struct sock_callbacks sock_saved_callbacks __aligned(8);	/* see SOCK_RESERVED */

/*
 * A BPF program can put a socket into a sockmap as soon as TCP is connected, unless the socket has
 * an owner. The sockmap then owns sk_user_data, and TCP needs its pointer to close the socket. So a
 * socket without an endpoint has this owner, and a child inherits it. Nobody follows this pointer;
 * it is only aligned for the flags.
 */
#define SOCK_RESERVED	((void *)&sock_saved_callbacks)

static struct xiw_ep *sock_ep(const struct sock *sk)
{
	struct xiw_ep *ep;

	rcu_read_lock();	/* only for lockdep: the caller has the socket lock, or RCU */
	ep = rcu_dereference_sk_user_data(sk);
	rcu_read_unlock();
	return (void *)ep == SOCK_RESERVED ? NULL : ep;
}

/* The endpoint changes ep->qp under the socket lock, so the queue pair outlives the callback. */
static struct xiw_qp *sock_qp(const struct xiw_ep *ep)
{
	struct xiw_qp *qp = ep->qp;

	lockdep_assert(lockdep_sock_is_held(ep->sk));

	return qp && xiw_qp_attached(qp) ? qp : NULL;
}

/* Only TCP's own work may use the memory reserves that xiw_nowait_begin() opens, so close them. */
static void sock_receive(struct sock *sk, struct xiw_qp *qp)
{
	unsigned int nowait = current->flags & PF_MEMALLOC;

	current->flags &= ~nowait;
	xiw_rx_run(qp, sk);
	current->flags |= nowait;
}

/*
 * A BPF program can cause this call while TCP transmits: TCP runs the program for the header, and
 * the program sets SO_RCVLOWAT. What is received may have to be answered, and TCP must not be asked
 * to send then, so that is left to the lane.
 */
static void sock_data_ready(struct sock *sk)
{
	struct xiw_ep *ep = sock_ep(sk);
	struct xiw_qp *qp;

	if (!ep)
		return;
	qp = has_current_bpf_ctx() ? NULL : sock_qp(ep);
	if (qp)
		sock_receive(sk, qp);
	else
		xiw_ep_wake(ep, XIW_EP_EV_SOCKET);
}

static void sock_write_space(struct sock *sk)
{
	struct xiw_ep *ep = sock_ep(sk);
	struct xiw_qp *qp;

	if (!ep || !sk_stream_is_writeable(sk) || xiw_batch_has_to_wait(sk))
		return;
	clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	qp = sock_qp(ep);
	if (!qp)
		xiw_ep_wake(ep, XIW_EP_EV_SOCKET);
	else if (data_race(qp->tx.run) == XIW_TX_NO_RUN)	/* a loop has a lock of its own */
		xiw_worker_queue(qp);
}

static void sock_state_change(struct sock *sk)
{
	struct xiw_ep *ep = sock_ep(sk);

	if (ep)
		xiw_ep_wake(ep, XIW_EP_EV_SOCKET);
}

static const struct sock_callbacks sock_ep_callbacks = {
	.data_ready = sock_data_ready,
	.write_space = sock_write_space,
	.state_change = sock_state_change,
	.error_report = sock_state_change,
};

static void sock_save_callbacks(const struct sock *sk)
{
	WRITE_ONCE(sock_saved_callbacks.data_ready, sk->sk_data_ready);
	WRITE_ONCE(sock_saved_callbacks.write_space, sk->sk_write_space);
	WRITE_ONCE(sock_saved_callbacks.state_change, sk->sk_state_change);
	WRITE_ONCE(sock_saved_callbacks.error_report, sk->sk_error_report);
}

static void sock_set_callbacks(struct sock *sk, void *owner, const struct sock_callbacks *callbacks)
{
	lock_sock(sk);
	spin_lock_bh(&sk->sk_lock.slock);
	write_lock(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, owner);
	WRITE_ONCE(sk->sk_data_ready, READ_ONCE(callbacks->data_ready));
	sk->sk_write_space = READ_ONCE(callbacks->write_space);
	sk->sk_state_change = READ_ONCE(callbacks->state_change);
	sk->sk_error_report = READ_ONCE(callbacks->error_report);
	write_unlock(&sk->sk_callback_lock);
	spin_unlock_bh(&sk->sk_lock.slock);
	xiw_sock_unlock(sk);
}

void xiw_sock_attach(struct socket *sock, struct xiw_ep *ep)
{
	sock_set_callbacks(sock->sk, ep, &sock_ep_callbacks);
}

void xiw_sock_detach(struct socket *sock)
{
	sock_set_callbacks(sock->sk, SOCK_RESERVED, &sock_saved_callbacks);
}

/*
 * Open and close
 */

struct socket *xiw_sock_open(struct net *net, int vrf, const struct iw_cm_id *cm_id, int family)
{
	struct socket *sock;
	struct sock *sk;
	int ret;

	ret = sock_create_kern(net, family, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (ret)
		return ERR_PTR(ret);
	sk = sock->sk;
	sk_net_refcnt_upgrade(sk);
	sock_save_callbacks(sk);
	xiw_sock_detach(sock);
	sk->sk_allocation = GFP_ATOMIC | __GFP_NOMEMALLOC;
	sk->sk_use_task_frag = false;
	sk->sk_rcvbuf = max(sk->sk_rcvbuf, SOCK_RCVBUF);
	sock_set_flag(sk, SOCK_URGINLINE);	/* to MPA urgent data is part of the stream */
	sock_set_reuseaddr(sk);
	sock_set_keepalive(sk);
	tcp_sock_set_nodelay(sk);
	if (vrf)
		sock_bindtoindex(sk, vrf, true);
	if (cm_id->tos_set)
		xiw_tune_tos(sk, cm_id->tos);
	if (family == AF_INET6 && cm_id->afonly)
		ip6_sock_set_v6only(sk);
	return sock;
}

static int sock_addr_len(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET ? sizeof(struct sockaddr_in) :
	       sizeof(struct sockaddr_in6);
}

static void sock_set_port(struct sockaddr_storage *addr, __be16 port)
{
	((struct sockaddr_in *)addr)->sin_port = port;	/* sin6_port has the same place */
}

static int sock_call(struct socket *sock, struct sockaddr_storage *to)
{
	unsigned int before = xiw_nowait_begin(sock->sk);
	int ret;

	ret = kernel_connect(sock, (struct sockaddr_unsized *)to, sock_addr_len(to), O_NONBLOCK);
	xiw_nowait_end(before);
	return ret == -EINPROGRESS ? 0 : ret;
}

int xiw_sock_connect(struct socket *sock, const struct sockaddr_storage *local,
		     const struct sockaddr_storage *remote, bool new_port)
{
	struct sockaddr_storage from = *local, to = *remote;
	int ret;

	inet_set_bit(BIND_ADDRESS_NO_PORT, sock->sk);	/* connect() picks a free one */
	if (new_port)
		sock_set_port(&from, 0);
	ret = kernel_bind(sock, (struct sockaddr_unsized *)&from, sock_addr_len(&from));
	if (ret == -EADDRINUSE) {	/* the rdma_cm and TCP allocate ports separately */
		sock_set_port(&from, 0);
		ret = kernel_bind(sock, (struct sockaddr_unsized *)&from, sock_addr_len(&from));
	}
	if (ret)
		return ret;
	lock_sock(sock->sk);
	sock->sk->sk_userlocks &= ~SOCK_BINDPORT_LOCK;	/* TCP frees the port when it closes */
	xiw_sock_unlock(sock->sk);
	return sock_call(sock, &to);
}

/* A program of the control group may have replaced the address in the first call. */
static void sock_called_addr(const struct sock *sk, struct sockaddr_storage *addr)
{
	sock_set_port(addr, inet_sk(sk)->inet_dport);
	if (sk->sk_family == AF_INET)
		((struct sockaddr_in *)addr)->sin_addr.s_addr = inet_sk(sk)->inet_daddr;
#if IS_ENABLED(CONFIG_IPV6)
	else
		((struct sockaddr_in6 *)addr)->sin6_addr = sk->sk_v6_daddr;
#endif
}

int xiw_sock_reconnect(struct socket *sock, const struct sockaddr_storage *remote)
{
	struct sockaddr_storage nowhere = { .ss_family = AF_UNSPEC }, to = *remote;
	int ret;

	sock_called_addr(sock->sk, &to);
	ret = sock_call(sock, &nowhere);
	return ret ?: sock_call(sock, &to);
}

int xiw_sock_connect_error(const struct sock *sk)
{
	switch (READ_ONCE(sk->sk_err)) {
	case ECONNREFUSED:
		return -ECONNREFUSED;
	case ETIMEDOUT:
	case EHOSTUNREACH:
	case ENETUNREACH:
		return -ETIMEDOUT;
	default:
		return -ECONNRESET;
	}
}

int xiw_sock_listen(struct socket *sock, const struct sockaddr_storage *local, int backlog,
		    struct wait_queue_entry *event)
{
	struct sockaddr_storage addr = *local;
	int ret;

	ret = kernel_bind(sock, (struct sockaddr_unsized *)&addr, sock_addr_len(&addr));
	if (ret)
		return ret;
	add_wait_queue(sk_sleep(sock->sk), event);
	ret = kernel_listen(sock, backlog);
	if (ret)
		remove_wait_queue(sk_sleep(sock->sk), event);
	return ret;
}

void xiw_sock_unlisten(struct socket *sock, struct wait_queue_entry *event)
{
	remove_wait_queue(sk_sleep(sock->sk), event);
	kernel_sock_shutdown(sock, SHUT_RDWR);
}

/*
 * TCP and the socket have already accounted for the data in the socket. Only the group still has to
 * be charged, so what __sk_mem_schedule() adds to the other two is taken back.
 */
static bool sock_charge(struct sock *sk, struct mem_cgroup *payer)
{
#ifdef CONFIG_MEMCG
	unsigned int before;
	int size;

	if (!mem_cgroup_sockets_enabled || sk->sk_memcg || !payer || !payer->css.parent)
		return true;
	css_get(&payer->css);
	sk->sk_memcg = payer;
	size = sk_mem_pages(sk->sk_forward_alloc + atomic_read(&sk->sk_rmem_alloc)) << PAGE_SHIFT;
	if (!size)
		return true;
	before = xiw_nowait_begin(sk);
	if (!__sk_mem_schedule(sk, size, SK_MEM_RECV)) {
		sk->sk_memcg = NULL;
		css_put(&payer->css);
	} else {
		sk_forward_alloc_add(sk, -size);
		if (!xiw_sk_bypass_prot_mem(sk))
			sk_memory_allocated_sub(sk, size >> PAGE_SHIFT);
	}
	xiw_nowait_end(before);
	return sk->sk_memcg;
#else
	return true;
#endif
}

bool xiw_sock_charge(struct sock *sk, struct mem_cgroup *payer)
{
	bool charged;

	lock_sock(sk);
	charged = sock_charge(sk, payer);
	xiw_sock_unlock(sk);
	return charged;
}

void xiw_sock_forget_payer(struct sock *sk)
{
#ifdef CONFIG_MEMCG
	if (sk->sk_memcg)
		css_put(&sk->sk_memcg->css);
	sk->sk_memcg = NULL;
#endif
}

/*
 * If a BPF program makes the port shared, TCP migrates children of another socket to this queue. A
 * sockmap may own them.
 */
static bool sock_is_child(struct sock *sk)
{
	return rcu_access_pointer(__sk_user_data(sk)) == SOCK_RESERVED;
}

int xiw_sock_accept(struct socket *listening, struct socket **sock)
{
	int ret;

	ret = xiw_fails("accept") ? -ENOMEM : kernel_accept(listening, sock, O_NONBLOCK);
	if (ret)
		return ret;
	if (sock_is_child((*sock)->sk) &&
	    xiw_sock_charge((*sock)->sk, mem_cgroup_from_sk(listening->sk)))
		return 0;
	xiw_sock_release(*sock, true);
	return -ENOBUFS;
}

int xiw_sock_shutdown(struct socket *sock)
{
	unsigned int before = xiw_nowait_begin(sock->sk);
	int ret;

	ret = kernel_sock_shutdown(sock, SHUT_WR);
	xiw_nowait_end(before);
	return ret;
}

void xiw_sock_release(struct socket *sock, bool abort)
{
	unsigned int before = xiw_nowait_begin(sock->sk);

	if (abort)
		sock_no_linger(sock->sk);
	sock_release(sock);
	xiw_nowait_end(before);
}

/*
 * Names
 */

static void sock_unmap_v4(struct sockaddr_storage *addr)
{
	struct sockaddr_in6 v6 = *(struct sockaddr_in6 *)addr;

	if (addr->ss_family != AF_INET6 || !ipv6_addr_v4mapped(&v6.sin6_addr))
		return;
	memset(addr, 0, sizeof(*addr));
	*(struct sockaddr_in *)addr = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = v6.sin6_port,
		.sin_addr.s_addr = v6.sin6_addr.s6_addr32[3],
	};
}

static int sock_names(struct socket *sock, struct sockaddr_storage *local,
		      struct sockaddr_storage *remote)
{
	unsigned int before = xiw_nowait_begin(sock->sk);
	int ret;

	ret = kernel_getsockname(sock, (struct sockaddr *)local);
	if (ret >= 0)
		ret = kernel_getpeername(sock, (struct sockaddr *)remote);
	xiw_nowait_end(before);
	return min(ret, 0);
}

int xiw_sock_names(struct socket *sock, struct sockaddr_storage *local,
		   struct sockaddr_storage *remote)
{
	int ret;

	memset(local, 0, sizeof(*local));
	memset(remote, 0, sizeof(*remote));
	ret = sock_names(sock, local, remote);
	if (ret)
		return ret;
	sock_unmap_v4(local);
	sock_unmap_v4(remote);
	return 0;
}

struct net_device *xiw_sock_netdev(struct net *net, const struct sockaddr_storage *addr)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)addr;
	struct net_device *netdev;

	if (addr->ss_family == AF_INET)
		return __ip_dev_find(net, ((const struct sockaddr_in *)addr)->sin_addr.s_addr,
				     false);
	for_each_netdev_rcu(net, netdev) {
		if (IS_ENABLED(CONFIG_IPV6) && ipv6_chk_addr(net, &v6->sin6_addr, netdev, 1))
			return netdev;
	}
	return NULL;
}

/*
 * The other end
 */

/* Looks in TCP's tables: finds a socket of any user, or a request or timewait socket. */
static struct sock *sock_find_other_end(const struct sock *sk)
{
	const struct inet_sock *inet = inet_sk(sk);

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "looks for a socket");
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr))
		return __inet6_lookup_established(sock_net(sk), &sk->sk_v6_rcv_saddr,
						  inet->inet_sport, &sk->sk_v6_daddr,
						  ntohs(inet->inet_dport), sk->sk_bound_dev_if, 0);
#endif
	return inet_lookup_established(sock_net(sk), inet->inet_rcv_saddr, inet->inet_sport,
				       inet->inet_daddr, inet->inet_dport, sk->sk_bound_dev_if);
}

/* Returns the endpoint if @sk is an incoming connection of this module, else NULL. */
static const struct xiw_ep *sock_responder(const struct sock *sk)
{
	const struct xiw_ep *ep;

	if (!sk_fullsock(sk) || READ_ONCE(sk->sk_state) != TCP_ESTABLISHED ||
	    READ_ONCE(sk->sk_data_ready) != sock_data_ready)
		return NULL;
	ep = sock_ep(sk);
	return ep && !ep->initiator ? ep : NULL;
}

struct sock *xiw_sock_other_end(const struct sock *sk)
{
	struct sock *other;

	rcu_read_lock();
	other = sock_find_other_end(sk);
	if (other && !sock_responder(other)) {
		sock_gen_put(other);
		other = NULL;
	}
	rcu_read_unlock();
	return other;
}

/* Whether @sk has received all that @from has sent, and nothing else. */
static bool sock_has_received(const struct sock *sk, const struct sock *from)
{
	return tcp_sk(sk)->rcv_nxt == tcp_sk(from)->write_seq;
}

struct xiw_qp *xiw_sock_peer(const struct sock *sk, const struct sock *other)
{
	const struct xiw_ep *ep;

	lockdep_assert(lockdep_sock_is_held(sk));
	lockdep_assert(lockdep_sock_is_held(other));

	ep = sock_responder(other);
	if (!ep || !sock_has_received(sk, other) || !sock_has_received(other, sk))
		return NULL;
	return sock_qp(ep);
}

/*
 * Handshake frames
 */

/*
 * Passes the frame by reference. To copy it TCP would allocate 32 KiB for the socket, and keep them
 * until the socket is closed.
 */
int xiw_sock_send(struct sock *sk, const void *frame, unsigned int len)
{
	struct xiw_batch batch = {};
	struct xiw_stage stage;
	u32 room = len;
	int ret = -ENOMEM;
	void *to;

	xiw_stage_begin(&stage);
	to = xiw_stage_room(&stage, len, &room);
	if (to) {
		memcpy(to, frame, len);
		xiw_stage_commit(&stage, &batch, len);
		ret = xiw_batch_push(&batch, sk);
		xiw_batch_drop(&batch);
	}
	xiw_stage_end(&stage);
	return ret == -EAGAIN ? -ENOMEM : ret;
}

int xiw_sock_recv(struct socket *sock, void *to, unsigned int len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT };
	struct kvec vec = { .iov_base = to, .iov_len = len };
	unsigned int before = xiw_nowait_begin(sock->sk);
	int ret;

	ret = kernel_recvmsg(sock, &msg, &vec, 1, len, MSG_DONTWAIT);
	xiw_nowait_end(before);
	return ret;
}

void xiw_sock_discard(struct sock *sk)
{
	int inq = tcp_inq(sk);

	if (inq > 0)
		tcp_read_done(sk, inq);
}

bool xiw_sock_has_input(struct sock *sk)
{
	lockdep_assert(lockdep_sock_is_held(sk));

	return tcp_inq(sk) > 0 || xiw_sock_ended(sk);
}

bool xiw_sock_ended(const struct sock *sk)
{
	return READ_ONCE(sk->sk_err) || (READ_ONCE(sk->sk_shutdown) & RCV_SHUTDOWN) ||
	       READ_ONCE(sk->sk_state) == TCP_CLOSE;
}
