// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* sock.c - everything that touches a TCP socket or its callbacks */

#include <linux/inetdevice.h>
#include <net/addrconf.h>
#include <net/inet6_hashtables.h>
#include <net/ipv6.h>
#include <net/tcp.h>

#include "batch.h"
#include "ep.h"
#include "listener.h"
#include "qp.h"
#include "rx.h"
#include "sock.h"
#include "worker.h"

/*
 * An FPDU stays in the receive queue until it is whole, so the queue must hold the longest one;
 * several, for a flow. TCP charges whole skbs, and merges them when it is short.
 */
#define SOCK_RCVBUF	(256 * 1024)

/*
 * Callbacks
 *
 * TCP calls them with the socket lock held: in softirq its spinlock, else the lock of the
 * process that works through the backlog. sock_attach() and sock_detach() hold it too, so a
 * callback sees an endpoint that lives. A listener's data_ready is the exception: RCU protects it.
 */

static struct xiw_ep *sock_ep(const struct sock *sk)
{
	struct xiw_ep *ep;

	rcu_read_lock();	/* for form: the socket lock keeps it */
	ep = rcu_dereference_sk_user_data(sk);
	rcu_read_unlock();
	return ep;
}

static struct xiw_qp *sock_qp(const struct xiw_ep *ep)
{
	struct xiw_qp *qp = READ_ONCE(ep->qp);

	return qp && qp->attached ? qp : NULL;
}

static void sock_data_ready(struct sock *sk)
{
	struct xiw_ep *ep = sock_ep(sk);
	struct xiw_qp *qp;

	if (!ep)
		return;
	qp = sock_qp(ep);
	if (qp)
		xiw_rx_run(qp, sk);
	else
		xiw_ep_wake(ep, XIW_EP_EV_SOCKET);
}

static void sock_write_space(struct sock *sk)
{
	struct xiw_ep *ep = sock_ep(sk);
	struct xiw_qp *qp;

	if (!ep || !sk_stream_is_writeable(sk))
		return;
	clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	qp = sock_qp(ep);
	if (!qp)
		xiw_ep_wake(ep, XIW_EP_EV_SOCKET);
	else if (!qp->tx.running)
		xiw_worker_queue(qp);
}

static void sock_state_change(struct sock *sk)
{
	struct xiw_ep *ep = sock_ep(sk);

	if (ep)
		xiw_ep_wake(ep, XIW_EP_EV_SOCKET);
}

static void sock_listener_ready(struct sock *sk)
{
	struct xiw_listener *listener;

	/* A child inherits this callback until it is accepted. */
	if (sk->sk_state != TCP_LISTEN)
		return;
	rcu_read_lock();
	listener = rcu_dereference_sk_user_data(sk);
	if (listener)
		xiw_listener_wake(listener);
	rcu_read_unlock();
}

/* What sockets come with; all TCP sockets of the kernel come with the same. */
static void (*sock_saved_data_ready)(struct sock *sk);
static void (*sock_saved_write_space)(struct sock *sk);
static void (*sock_saved_state_change)(struct sock *sk);
static void (*sock_saved_error_report)(struct sock *sk);

static void sock_save_callbacks(const struct sock *sk)
{
	WRITE_ONCE(sock_saved_data_ready, sk->sk_data_ready);
	WRITE_ONCE(sock_saved_write_space, sk->sk_write_space);
	WRITE_ONCE(sock_saved_state_change, sk->sk_state_change);
	WRITE_ONCE(sock_saved_error_report, sk->sk_error_report);
}

void xiw_sock_attach(struct socket *sock, struct xiw_ep *ep)
{
	struct sock *sk = sock->sk;

	lock_sock(sk);
	write_lock_bh(&sk->sk_callback_lock);
	__rcu_assign_sk_user_data_with_flags(sk, ep, SK_USER_DATA_NOCOPY);
	sk->sk_data_ready = sock_data_ready;
	sk->sk_write_space = sock_write_space;
	sk->sk_state_change = sock_state_change;
	sk->sk_error_report = sock_state_change;
	write_unlock_bh(&sk->sk_callback_lock);
	release_sock(sk);
}

void xiw_sock_detach(struct socket *sock)
{
	struct sock *sk = sock->sk;

	lock_sock(sk);
	write_lock_bh(&sk->sk_callback_lock);
	rcu_assign_sk_user_data(sk, NULL);
	sk->sk_data_ready = sock_saved_data_ready;
	sk->sk_write_space = sock_saved_write_space;
	sk->sk_state_change = sock_saved_state_change;
	sk->sk_error_report = sock_saved_error_report;
	write_unlock_bh(&sk->sk_callback_lock);
	release_sock(sk);
}

struct xiw_ep *xiw_sock_ep(const struct sock *sk)
{
	lockdep_assert(lockdep_sock_is_held(sk));

	return sk->sk_data_ready == sock_data_ready ? sock_ep(sk) : NULL;
}

/*
 * Open and close
 */

struct socket *xiw_sock_open(struct net *net, const struct iw_cm_id *cm_id, int family)
{
	struct socket *sock;
	struct sock *sk;
	int ret;

	ret = sock_create_kern(net, family, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (ret)
		return ERR_PTR(ret);
	sk = sock->sk;
	sock_save_callbacks(sk);
	sk->sk_allocation = GFP_ATOMIC;
	sk->sk_use_task_frag = false;
	sk->sk_rcvbuf = max(sk->sk_rcvbuf, SOCK_RCVBUF);
	sock_set_flag(sk, SOCK_URGINLINE);	/* urgent data is stream data to MPA */
	sock_set_reuseaddr(sk);
	sock_set_keepalive(sk);
	tcp_sock_set_nodelay(sk);
	if (cm_id->tos_set)
		ip_sock_set_tos(sk, cm_id->tos);
	if (family == AF_INET6 && cm_id->afonly)
		ip6_sock_set_v6only(sk);
	return sock;
}

static int sock_addr_len(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET ? sizeof(struct sockaddr_in) :
	       sizeof(struct sockaddr_in6);
}

static void sock_clear_port(struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		((struct sockaddr_in *)addr)->sin_port = 0;
	else
		((struct sockaddr_in6 *)addr)->sin6_port = 0;
}

int xiw_sock_connect(struct socket *sock, const struct sockaddr_storage *local,
		     const struct sockaddr_storage *remote, bool new_port)
{
	struct sockaddr_storage from = *local, to = *remote;
	int ret;

	inet_set_bit(BIND_ADDRESS_NO_PORT, sock->sk);	/* connecting finds a free one */
	if (new_port)
		sock_clear_port(&from);
	ret = kernel_bind(sock, (struct sockaddr_unsized *)&from, sock_addr_len(&from));
	if (ret == -EADDRINUSE) {	/* RDMA ports are counted apart from those of TCP */
		sock_clear_port(&from);
		ret = kernel_bind(sock, (struct sockaddr_unsized *)&from, sock_addr_len(&from));
	}
	if (ret)
		return ret;
	ret = kernel_connect(sock, (struct sockaddr_unsized *)&to, sock_addr_len(&to), O_NONBLOCK);
	return ret == -EINPROGRESS ? 0 : ret;
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
		    struct xiw_listener *listener)
{
	struct sockaddr_storage addr = *local;
	struct sock *sk = sock->sk;
	int ret;

	ret = kernel_bind(sock, (struct sockaddr_unsized *)&addr, sock_addr_len(&addr));
	if (ret)
		return ret;
	lock_sock(sk);
	write_lock_bh(&sk->sk_callback_lock);
	__rcu_assign_sk_user_data_with_flags(sk, listener, SK_USER_DATA_NOCOPY);
	sk->sk_data_ready = sock_listener_ready;
	write_unlock_bh(&sk->sk_callback_lock);
	release_sock(sk);
	return kernel_listen(sock, backlog);
}

void xiw_sock_unlisten(struct socket *sock)
{
	xiw_sock_detach(sock);
	synchronize_rcu_expedited();	/* data_ready of a listener comes without its lock */
	sock_release(sock);
}

void xiw_sock_release(struct socket *sock, bool abort)
{
	if (abort)
		sock_no_linger(sock->sk);
	sock_release(sock);
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

struct sock *xiw_sock_other_end(const struct sock *sk)
{
	const struct inet_sock *inet = inet_sk(sk);

	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr))
		return __inet6_lookup_established(sock_net(sk), &sk->sk_v6_rcv_saddr,
						  inet->inet_sport, &sk->sk_v6_daddr,
						  ntohs(inet->inet_dport), sk->sk_bound_dev_if, 0);
	return inet_lookup_established(sock_net(sk), inet->inet_rcv_saddr, inet->inet_sport,
				       inet->inet_daddr, inet->inet_dport, sk->sk_bound_dev_if);
}

int xiw_sock_names(struct socket *sock, struct sockaddr_storage *local,
		   struct sockaddr_storage *remote)
{
	int ret;

	memset(local, 0, sizeof(*local));
	memset(remote, 0, sizeof(*remote));
	ret = kernel_getsockname(sock, (struct sockaddr *)local);
	if (ret < 0)
		return ret;
	ret = kernel_getpeername(sock, (struct sockaddr *)remote);
	if (ret < 0)
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
		if (ipv6_chk_addr(net, &v6->sin6_addr, netdev, 1))
			return netdev;
	}
	return NULL;
}

/*
 * Handshake octets
 */

/* By reference: to copy it, TCP would get 32 KiB for the socket, and keep them until its end. */
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
	return ret;
}

int xiw_sock_recv(struct socket *sock, void *to, unsigned int len)
{
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT };
	struct kvec vec = { .iov_base = to, .iov_len = len };

	return kernel_recvmsg(sock, &msg, &vec, 1, len, MSG_DONTWAIT);
}

void xiw_sock_discard(struct sock *sk)
{
	int inq = tcp_inq(sk);

	if (inq > 0)
		tcp_read_done(sk, inq);
}

bool xiw_sock_pending(struct sock *sk)
{
	bool pending;

	lock_sock(sk);
	pending = tcp_inq(sk) > 0;
	release_sock(sk);
	return pending;
}

bool xiw_sock_ended(const struct sock *sk)
{
	return sk->sk_err || (sk->sk_shutdown & RCV_SHUTDOWN) || sk->sk_state == TCP_CLOSE;
}
