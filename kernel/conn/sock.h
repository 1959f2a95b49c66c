/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* sock.h - everything that touches a TCP socket or its callbacks */
#ifndef XIW_SOCK_H
#define XIW_SOCK_H

#include <linux/net.h>
#include <linux/socket.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include <net/tcp_states.h>

struct iw_cm_id;
struct mem_cgroup;
struct wait_queue_entry;
struct xiw_ep;
struct xiw_qp;

/* sock.c APIs; all of them need process context unless stated otherwise */

/**
 * xiw_sock_open - make a TCP socket for a connection or a listener
 * @net: network namespace; the socket, and sockets accepted from it, hold it until TCP is done
 * @vrf: index of the VRF netdev whose addresses and routes it is limited to, or 0
 * @cm_id: gives the type of service, and whether an IPv6 socket excludes IPv4
 * @family: AF_INET or AF_INET6
 *
 * Return: the socket or ERR_PTR().
 */
struct socket *xiw_sock_open(struct net *net, int vrf, const struct iw_cm_id *cm_id, int family);

/**
 * xiw_sock_connect - start to connect
 * @sock: fresh socket
 * @local: local address; another port is used if this one is taken
 * @remote: remote address
 * @new_port: do not use the port of @local
 *
 * Return: 0, with the socket in any state that may follow; or a negative errno.
 */
int xiw_sock_connect(struct socket *sock, const struct sockaddr_storage *local,
		     const struct sockaddr_storage *remote, bool new_port);

/**
 * xiw_sock_reconnect - start to connect to the same peer once more, from another port
 * @sock: socket whose connection is reset, detached from its endpoint
 * @remote: as given to xiw_sock_connect()
 *
 * The socket keeps what it has from the process that made it: control group, user and payer.
 *
 * Return: as xiw_sock_connect().
 */
int xiw_sock_reconnect(struct socket *sock, const struct sockaddr_storage *remote);

/* Returns the errno for the consumer of an initiator when TCP fails to connect. */
int xiw_sock_connect_error(const struct sock *sk);

/**
 * xiw_sock_listen - bind and listen
 * @sock: fresh socket
 * @local: local address
 * @backlog: how many connections TCP may queue
 * @event: its function is called when connections arrive, in any context
 *
 * A callback of the socket would not do. The children inherit callbacks, and TCP may migrate
 * children to a socket of another program.
 *
 * Return: 0 or a negative errno.
 */
int xiw_sock_listen(struct socket *sock, const struct sockaddr_storage *local, int backlog,
		    struct wait_queue_entry *event);

/* Returns false if somebody else has destroyed the socket, for example with "ss -K". */
static inline bool xiw_sock_listens(const struct socket *sock)
{
	return READ_ONCE(sock->sk->sk_state) == TCP_LISTEN;
}

/*
 * Stops listening. Another listener of this module may bind the port at once, any other socket once
 * this one has been released. On return the function of @event is not running any more.
 */
void xiw_sock_unlisten(struct socket *sock, struct wait_queue_entry *event);

/**
 * xiw_sock_charge - charge a socket to a control group, unless it is charged to one already
 * @sk: the socket, which a kernel thread has made or accepted
 * @payer: the group, or NULL
 *
 * The memory that is already in the socket is charged even if that takes the group over its limit.
 *
 * Return: false only if TCP itself may not use more memory.
 */
bool xiw_sock_charge(struct sock *sk, struct mem_cgroup *payer);

/* Uncharges a fresh socket that the current process has made for another process. */
void xiw_sock_forget_payer(struct sock *sk);

/**
 * xiw_sock_accept - accept an incoming connection
 * @listening: from xiw_sock_listen()
 * @sock: set to its socket, which is charged to the process that listens
 *
 * Return: 0; -EAGAIN if there is none; -ENOBUFS if the connection was reset, because TCP may not
 * use more memory or because it was made for another socket; or another negative errno.
 */
int xiw_sock_accept(struct socket *listening, struct socket **sock);

/* Directs the callbacks of a socket to an endpoint, and restores TCP's own. */
void xiw_sock_attach(struct socket *sock, struct xiw_ep *ep);
void xiw_sock_detach(struct socket *sock);

/**
 * xiw_sock_other_end - find the socket that is the other end of a connection
 * @sk: established connection of an initiator, locked
 *
 * Only returns a socket of this module, and only that of an incoming connection. Such a lock is
 * held for a moment only, and never by a thread that waits for an initiator's socket lock. So the
 * caller may wait for it, and must then call xiw_sock_peer(). Any other socket may be locked for as
 * long as its user likes.
 *
 * Return: the socket, for sock_put(), or NULL if there is none in this network namespace.
 */
struct sock *xiw_sock_other_end(const struct sock *sk);

/**
 * xiw_sock_peer - find the queue pair at the other end of a connection
 * @sk: as given to xiw_sock_other_end(), locked
 * @other: from xiw_sock_other_end(), locked as well
 *
 * Return: the queue pair, which stays attached until @other is unlocked; or NULL if there is none,
 * if @other is not the other end, or if data is in flight between the two.
 */
struct xiw_qp *xiw_sock_peer(const struct sock *sk, const struct sock *other);

/* Gets the addresses of both ends, mapped IPv4 ones as IPv4. Return: 0 or a negative errno. */
int xiw_sock_names(struct socket *sock, struct sockaddr_storage *local,
		   struct sockaddr_storage *remote);

/**
 * xiw_sock_send - hand a handshake frame to TCP
 * @sk: socket, locked
 * @frame: the frame
 * @len: bytes of @frame, at most XIW_MPA_FRAME_MAX
 *
 * Nothing else waits in the socket yet, so TCP has room for the frame unless memory is short.
 *
 * Return: 0; -ENOMEM; or another negative errno of TCP.
 */
int xiw_sock_send(struct sock *sk, const void *frame, unsigned int len);

/**
 * xiw_sock_recv - read bytes that have arrived
 * @sock: socket
 * @to: buffer
 * @len: bytes to read at most
 *
 * Return: number of bytes read; 0 at the end of the stream; -EAGAIN if none have arrived; or
 * another negative errno.
 */
int xiw_sock_recv(struct socket *sock, void *to, unsigned int len);

/* Throws away all input. @sk is locked. */
void xiw_sock_discard(struct sock *sk);

/* Sends the FIN. Return: 0 or a negative errno. */
int xiw_sock_shutdown(struct socket *sock);

/* Releases a socket; @abort resets the connection instead of closing it. */
void xiw_sock_release(struct socket *sock, bool abort);

/* Whether octets, the FIN or an error have come. @sk is locked. */
bool xiw_sock_has_input(struct sock *sk);

/* Whether the peer's FIN has arrived, or the connection is dead. */
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
