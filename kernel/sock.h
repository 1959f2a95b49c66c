/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* sock.h - everything that touches a TCP socket or its callbacks */
#ifndef XIW_SOCK_H
#define XIW_SOCK_H

#include <linux/net.h>
#include <linux/preempt.h>
#include <linux/sched/mm.h>
#include <linux/socket.h>
#include <net/net_namespace.h>
#include <net/sock.h>

struct iw_cm_id;
struct mem_cgroup;
struct xiw_ep;
struct xiw_listener;
struct xiw_qp;

/*
 * What a connection sends and receives is charged to the control group of its process. In a group
 * at its limit TCP would make room first, which may take long and may kill a process, with the
 * socket locked. Others wait for that lock, and a thread of the kernel has others to serve. So TCP
 * is called between these two: the group goes over its limit, as it does by what a network brings,
 * and its processes make room when they allocate next. xiw_batch_has_to_wait() bounds by how much.
 *
 * Memory itself is taken without waiting in any case (sk_allocation). This opens the last reserves
 * of the host, which payload may not take; what else there is, like acknowledgements, is short.
 */
static inline unsigned int xiw_nowait_begin(const struct sock *sk)
{
	return in_task() && mem_cgroup_from_sk(sk) ? memalloc_noreclaim_save() : 0;
}

static inline void xiw_nowait_end(unsigned int before)
{
	memalloc_noreclaim_restore(before);
}

/* sock.c APIs; all run in process context unless said otherwise */

/**
 * xiw_sock_lock_now - lock a socket unless somebody has it
 * @sk: the socket
 *
 * Whoever has it may be a process that gets a CPU only now and then.
 *
 * Return: whether it is locked, for xiw_sock_unlock().
 */
bool xiw_sock_lock_now(struct sock *sk);

/* What came meanwhile is received, which waits for nobody's memory. */
void xiw_sock_unlock(struct sock *sk);

/**
 * xiw_sock_open - make a TCP socket for a connection or a listener
 * @net: network namespace; the socket, and what is accepted from it, keeps it until TCP is done
 * @vrf: index of the netdev to whose addresses and routes it is confined (VRF), or 0
 * @cm_id: for its type of service and address family rules
 * @family: AF_INET or AF_INET6
 *
 * Return: the socket or ERR_PTR().
 */
struct socket *xiw_sock_open(struct net *net, int vrf, const struct iw_cm_id *cm_id, int family);

/**
 * xiw_sock_connect - start to connect
 * @sock: fresh socket, attached to its endpoint
 * @local: where from; another port is taken if its own is in use
 * @remote: where to
 * @new_port: not from the port of @local in any case
 *
 * Return: 0 (the state_change callback tells the outcome) or a negative errno.
 */
int xiw_sock_connect(struct socket *sock, const struct sockaddr_storage *local,
		     const struct sockaddr_storage *remote, bool new_port);

/* What the consumer of an initiator hears when TCP gives up. */
int xiw_sock_connect_error(const struct sock *sk);

/**
 * xiw_sock_listen - bind and listen
 * @sock: fresh socket
 * @local: where
 * @backlog: of TCP
 * @listener: told by xiw_listener_wake() of each connection
 *
 * Return: 0 or a negative errno.
 */
int xiw_sock_listen(struct socket *sock, const struct sockaddr_storage *local, int backlog,
		    struct xiw_listener *listener);

/*
 * Another listener of ours may have the port at once, a socket of others when this one is released.
 * The callback may still be running: RCU protects it.
 */
void xiw_sock_unlisten(struct socket *sock);

/**
 * xiw_sock_charge - have a control group pay for a socket that nobody pays for
 * @sk: the socket, which a kernel thread has made or accepted
 * @payer: the group, or NULL
 *
 * What is in the socket already is granted, also to a group at its limit.
 *
 * Return: false only if TCP itself may have no more.
 */
bool xiw_sock_charge(struct sock *sk, struct mem_cgroup *payer);

/* The process that made this fresh socket did so for somebody else. */
void xiw_sock_forget_payer(struct sock *sk);

/**
 * xiw_sock_accept - take a connection that came in
 * @listening: from xiw_sock_listen()
 * @sock: set to its socket, which is charged to the process that listens
 *
 * Return: 0; -EAGAIN if there is none; -ENOBUFS if TCP may have no more memory: the
 * connection is reset; or another negative errno.
 */
int xiw_sock_accept(struct socket *listening, struct socket **sock);

/* Takes over the callbacks of a socket for an endpoint, and gives them back. */
void xiw_sock_attach(struct socket *sock, struct xiw_ep *ep);
void xiw_sock_detach(struct socket *sock);

/**
 * xiw_sock_other_end - find the socket to which one is connected
 * @sk: established connection of an initiator, locked
 *
 * Only a socket of this module will do, of a connection that came in. Nobody else locks such a one
 * for longer than a moment, and those who have it locked do not wait for that of an initiator; so
 * the caller may wait for its lock, and has to ask xiw_sock_peer() then. The lock of any other
 * socket could be held for as long as its user likes.
 *
 * Return: the socket, for sock_put(), or NULL if there is none in this network namespace.
 */
struct sock *xiw_sock_other_end(const struct sock *sk);

/**
 * xiw_sock_peer - what is attached to the other end of a connection
 * @sk: as above
 * @other: from xiw_sock_other_end(), locked, too
 *
 * Return: the queue pair, which stays attached until @other is unlocked; or NULL if there is none,
 * if @other is not the other end, or if octets are on their way between the two.
 */
struct xiw_qp *xiw_sock_peer(const struct sock *sk, const struct sock *other);

/* Both ends' addresses, IPv4 as such even on an IPv6 socket. Return: 0 or a negative errno. */
int xiw_sock_names(struct socket *sock, struct sockaddr_storage *local,
		   struct sockaddr_storage *remote);

/**
 * xiw_sock_send - hand a handshake frame to TCP
 * @sk: socket, locked
 * @frame: octets, at most XIW_MPA_FRAME_MAX
 * @len: their number
 *
 * Return: 0, or a negative errno if TCP does not take all of it at once.
 */
int xiw_sock_send(struct sock *sk, const void *frame, unsigned int len);

/**
 * xiw_sock_recv - take octets that are there
 * @sock: socket
 * @to: where to
 * @len: octets at most
 *
 * Return: their number; 0 at the end of the stream; -EAGAIN; or another negative errno.
 */
int xiw_sock_recv(struct socket *sock, void *to, unsigned int len);

/* Throws away all input. @sk is locked. */
void xiw_sock_discard(struct sock *sk);

/* Sends the FIN. Return: 0 or a negative errno. */
int xiw_sock_shutdown(struct socket *sock);

/* Releases a socket; @abort resets the connection instead of closing it. */
void xiw_sock_release(struct socket *sock, bool abort);

/* Whether input waits. */
bool xiw_sock_pending(struct sock *sk);

/* Whether the peer has said that it will send no more, or the connection is dead. */
bool xiw_sock_ended(const struct sock *sk);

/**
 * xiw_sock_netdev - the netdev that owns an address
 * @net: network namespace
 * @addr: the address
 *
 * Context: RCU read side.
 * Return: the netdev or NULL.
 */
struct net_device *xiw_sock_netdev(struct net *net, const struct sockaddr_storage *addr);

#endif /* XIW_SOCK_H */
