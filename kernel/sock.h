/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* sock.h - everything that touches a TCP socket or its callbacks */
#ifndef XIW_SOCK_H
#define XIW_SOCK_H

#include <linux/net.h>
#include <linux/socket.h>
#include <net/net_namespace.h>

struct iw_cm_id;
struct xiw_ep;
struct xiw_listener;

/* sock.c APIs; all run in process context unless said otherwise */

/**
 * xiw_sock_open - make a TCP socket for a connection or a listener
 * @net: network namespace
 * @cm_id: for its type of service and address family rules
 * @family: AF_INET or AF_INET6
 *
 * Return: the socket or ERR_PTR().
 */
struct socket *xiw_sock_open(struct net *net, const struct iw_cm_id *cm_id, int family);

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
void xiw_sock_unlisten(struct socket *sock);

/* Takes over the callbacks of a socket for an endpoint, and gives them back. */
void xiw_sock_attach(struct socket *sock, struct xiw_ep *ep);
void xiw_sock_detach(struct socket *sock);

/* The endpoint that a locked socket belongs to, or NULL if it is none of ours. */
struct xiw_ep *xiw_sock_ep(const struct sock *sk);

/**
 * xiw_sock_other_end - find the socket to which one is connected
 * @sk: an established connection, locked
 *
 * Return: the socket, for sock_gen_put(), or NULL if it is not in this network namespace.
 */
struct sock *xiw_sock_other_end(const struct sock *sk);

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
