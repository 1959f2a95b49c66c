// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* listener.c - TCP ports on which connections are awaited */

#include <linux/nsproxy.h>
#include <linux/slab.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>

#include "device.h"
#include "ep.h"
#include "listener.h"
#include "sock.h"

/* Connections that have not sent their Request. The oldest gives way to a newer one. */
#define LISTENER_HALF_OPEN	1024

/**
 * struct xiw_listener - one TCP socket that listens
 * @ref: one for the list of ids not being empty, one for each half-open connection and queued work
 * @rcu: the socket's callback may still look at it for a grace period
 * @entry: place in the list of all
 * @net: network namespace
 * @addr: where it listens
 * @sock: the socket; NULL when nobody listens any more
 * @work: accepts
 * @lock: guards all below
 * @ids: who listens: one iw_cm_id for each device
 * @half_open: connections without a Request, the oldest first
 * @num_half_open: their number
 *
 * A consumer that listens on the wildcard address has one iw_cm_id on each device, but TCP has one
 * socket only: they share it. Whose a connection is, its local address tells.
 */
struct xiw_listener {
	struct kref			ref;
	struct rcu_head			rcu;
	struct list_head		entry;
	struct net			*net;
	struct sockaddr_storage		addr;
	struct socket			*sock;
	struct work_struct		work;

	struct mutex			lock;
	struct list_head		ids;
	struct list_head		half_open;
	unsigned int			num_half_open;
};

/**
 * struct listener_id - one iw_cm_id that listens
 * @entry: place in xiw_listener.ids
 * @cm_id: with a reference
 * @dev: its device
 * @listener: its listener
 */
struct listener_id {
	struct list_head	entry;
	struct iw_cm_id		*cm_id;
	struct xiw_device	*dev;
	struct xiw_listener	*listener;
};

static DEFINE_MUTEX(listeners_lock);	/* outermost; guards the list, and .entry */
static LIST_HEAD(listeners);

static void listener_free(struct kref *ref)
{
	struct xiw_listener *listener = container_of(ref, struct xiw_listener, ref);

	kfree_rcu(listener, rcu);
}

static void listener_put(struct xiw_listener *listener)
{
	kref_put(&listener->ref, listener_free);
}

void xiw_listener_wake(struct xiw_listener *listener)
{
	if (!kref_get_unless_zero(&listener->ref))
		return;
	if (!queue_work(xiw_cm_wq, &listener->work))
		listener_put(listener);
}

/*
 * Accepting
 */

static struct listener_id *listener_find_id(struct xiw_listener *listener,
					    const struct sockaddr_storage *local)
{
	struct listener_id *id, *found = NULL;
	struct net_device *netdev;

	lockdep_assert_held(&listener->lock);

	rcu_read_lock();
	netdev = xiw_sock_netdev(listener->net, local);
	list_for_each_entry(id, &listener->ids, entry) {
		if (id->dev->netdev == netdev)
			found = id;
	}
	rcu_read_unlock();
	return found;
}

static void listener_admit(struct xiw_listener *listener, struct xiw_ep *ep)
{
	struct xiw_ep *oldest;

	if (listener->num_half_open >= LISTENER_HALF_OPEN) {
		oldest = list_first_entry(&listener->half_open, struct xiw_ep, half_open);
		list_move_tail(&oldest->half_open, &listener->half_open);
		xiw_ep_wake(oldest, XIW_EP_EV_DEADLINE);
	}
	listener->num_half_open++;
	kref_get(&listener->ref);
	list_add_tail(&ep->half_open, &listener->half_open);
}

static void listener_welcome(struct xiw_listener *listener, struct socket *sock)
{
	struct sockaddr_storage local, remote;
	struct listener_id *id;
	struct xiw_ep *ep;

	id = xiw_sock_names(sock, &local, &remote) ? NULL : listener_find_id(listener, &local);
	ep = id ? xiw_ep_accept(id->dev, sock, listener) : NULL;
	if (!ep) {
		xiw_sock_detach(sock);
		xiw_sock_release(sock, true);
		return;
	}
	listener_admit(listener, ep);
	xiw_ep_put(ep);
}

static void listener_work(struct work_struct *work)
{
	struct xiw_listener *listener = container_of(work, struct xiw_listener, work);
	struct socket *sock;

	mutex_lock(&listener->lock);
	while (listener->sock && !kernel_accept(listener->sock, &sock, O_NONBLOCK))
		listener_welcome(listener, sock);
	mutex_unlock(&listener->lock);
	listener_put(listener);
}

void xiw_listener_leave(struct xiw_listener *listener, struct xiw_ep *ep)
{
	mutex_lock(&listener->lock);
	list_del_init(&ep->half_open);
	listener->num_half_open--;
	mutex_unlock(&listener->lock);
	listener_put(listener);
}

int xiw_listener_ask(struct xiw_listener *listener, struct xiw_device *dev,
		     struct iw_cm_event *event)
{
	struct listener_id *id;
	int ret = -ECONNREFUSED;

	mutex_lock(&listener->lock);
	list_for_each_entry(id, &listener->ids, entry) {
		if (id->dev == dev) {
			ret = id->cm_id->event_handler(id->cm_id, event);
			break;
		}
	}
	mutex_unlock(&listener->lock);
	return ret;
}

/*
 * Listening
 */

static bool listener_same_addr(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return a4->sin_port == b4->sin_port && a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return a6->sin6_port == b6->sin6_port && a6->sin6_scope_id == b6->sin6_scope_id &&
	       ipv6_addr_equal(&a6->sin6_addr, &b6->sin6_addr);
}

static struct xiw_listener *listener_find(struct net *net, const struct sockaddr_storage *addr)
{
	struct xiw_listener *listener;

	lockdep_assert_held(&listeners_lock);

	list_for_each_entry(listener, &listeners, entry) {
		if (net_eq(listener->net, net) && listener_same_addr(&listener->addr, addr))
			return listener;
	}
	return NULL;
}

static int listener_open(struct xiw_listener *listener, const struct iw_cm_id *cm_id, int backlog)
{
	struct socket *sock;
	int ret;

	sock = xiw_sock_open(listener->net, cm_id, listener->addr.ss_family);
	if (IS_ERR(sock))
		return PTR_ERR(sock);
	listener->sock = sock;
	ret = xiw_sock_listen(sock, &listener->addr, backlog, listener);
	if (ret) {
		listener->sock = NULL;
		xiw_sock_unlisten(sock);
	}
	return ret;
}

static struct xiw_listener *listener_create(struct net *net, const struct sockaddr_storage *addr)
{
	struct xiw_listener *listener;

	lockdep_assert_held(&listeners_lock);

	listener = kzalloc_obj(*listener, GFP_KERNEL);
	if (!listener)
		return NULL;
	kref_init(&listener->ref);
	listener->net = net;
	listener->addr = *addr;
	INIT_WORK(&listener->work, listener_work);
	mutex_init(&listener->lock);
	INIT_LIST_HEAD(&listener->ids);
	INIT_LIST_HEAD(&listener->half_open);
	list_add(&listener->entry, &listeners);
	return listener;
}

/* Who calls before the id is in the list would be sent away, so both are done under the lock. */
static int listener_join(struct xiw_listener *listener, struct listener_id *id, int backlog)
{
	int ret = 0;

	lockdep_assert_held(&listeners_lock);

	mutex_lock(&listener->lock);
	if (!listener->sock)
		ret = listener_open(listener, id->cm_id, backlog);
	if (!ret) {
		id->listener = listener;
		list_add(&id->entry, &listener->ids);
	}
	mutex_unlock(&listener->lock);
	if (ret) {
		list_del(&listener->entry);
		listener_put(listener);
	}
	return ret;
}

/*
 * A consumer that listens on the wildcard or on a loopback address is brought here for every
 * device, also for those that cannot see its connections: in another namespace, or on a netdev
 * that does not own the address. Taking the port there would only keep it from others.
 */
static bool listener_concerns(const struct xiw_device *dev, const struct sockaddr_storage *addr)
{
	const struct sockaddr_in *a4 = (const void *)addr;
	const struct sockaddr_in6 *a6 = (const void *)addr;
	struct net *net = read_pnet(&dev->net);
	bool owned;

	if (!net_eq(current->nsproxy->net_ns, net))
		return false;
	if (addr->ss_family == AF_INET ? a4->sin_addr.s_addr == htonl(INADDR_ANY) :
	    ipv6_addr_any(&a6->sin6_addr))
		return true;
	rcu_read_lock();
	owned = xiw_sock_netdev(net, addr) == dev->netdev;
	rcu_read_unlock();
	return owned;
}

/**
 * xiw_listen - await connections for an iw_cm_id
 * @cm_id: where, and whom to tell
 * @backlog: connections that TCP may hold for us
 *
 * Return: 0; -EADDRINUSE, -EADDRNOTAVAIL and others of bind() and listen(); -ENOMEM.
 */
int xiw_listen(struct iw_cm_id *cm_id, int backlog)
{
	struct xiw_device *dev = to_xiw_device(cm_id->device);
	struct net *net = read_pnet(&dev->net);
	struct xiw_listener *listener;
	struct listener_id *id;
	int ret;

	cm_id->provider_data = NULL;
	if (!listener_concerns(dev, &cm_id->m_local_addr))
		return 0;
	id = kzalloc_obj(*id, GFP_KERNEL);
	if (!id)
		return -ENOMEM;

	id->cm_id = cm_id;
	id->dev = dev;

	mutex_lock(&listeners_lock);
	listener = listener_find(net, &cm_id->m_local_addr);
	if (!listener)
		listener = listener_create(net, &cm_id->m_local_addr);
	ret = listener ? listener_join(listener, id, backlog) : -ENOMEM;
	mutex_unlock(&listeners_lock);
	if (ret) {
		kfree(id);
		return ret;
	}
	cm_id->add_ref(cm_id);
	cm_id->provider_data = id;
	return 0;
}

/**
 * xiw_unlisten - stop awaiting connections for an iw_cm_id
 * @cm_id: as given to xiw_listen()
 *
 * No event comes any more when it returns. Connections whose Request was handed up live on.
 *
 * Return: 0.
 */
int xiw_unlisten(struct iw_cm_id *cm_id)
{
	struct listener_id *id = cm_id->provider_data;
	struct xiw_listener *listener;
	struct socket *sock = NULL;

	if (!id)	/* it did not concern the device */
		return 0;
	listener = id->listener;
	mutex_lock(&listeners_lock);
	mutex_lock(&listener->lock);
	list_del(&id->entry);
	if (list_empty(&listener->ids)) {
		swap(sock, listener->sock);
		list_del(&listener->entry);
	}
	mutex_unlock(&listener->lock);
	if (sock) {
		xiw_sock_unlisten(sock);
		listener_put(listener);
	}
	mutex_unlock(&listeners_lock);
	cm_id->rem_ref(cm_id);
	kfree(id);
	return 0;
}
