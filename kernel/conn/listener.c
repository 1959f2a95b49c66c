// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* listener.c - TCP sockets that listen, each for all devices of a network namespace or VRF */

#include <linux/slab.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>

#include "conn/cm.h"
#include "conn/ep.h"
#include "conn/lane.h"
#include "conn/listener.h"
#include "conn/sock.h"
#include "device.h"
#include "pause.h"

/* Connections to accept before the other jobs in the lane get their turn. */
#define LISTENER_BATCH		64

/* Pause before accepting is tried again after it failed for lack of memory. */
#define LISTENER_RETRY_MS	100

/**
 * struct xiw_listener - one TCP socket that listens
 * @ref: one while @ids is not empty, one for each connection that is half-open or waits for the
 *	consumer's answer, one while @job is queued, one while @retry is pending
 * @entry: entry in listeners
 * @net: network namespace
 * @vrf: index of the VRF netdev whose addresses it is limited to, or 0
 * @addr: the address on which it listens
 * @sock: the socket; NULL once no id listens any more; written under listeners_lock and @lock
 * @event: what TCP calls when connections have arrived
 * @lane: runs @job and the jobs of all accepted connections in order
 * @job: accepts connections
 * @retry: queues @job again after accepting has failed
 * @lock: guards all below
 * @ids: the ids that listen, one for each device
 * @half_open: connections without a Request, the oldest first
 * @refused: connections that were refused and say farewell, the oldest first
 * @num_half_open: number of connections in these two lists
 *
 * A consumer that listens on the wildcard address has an iw_cm_id on each device. TCP allows only
 * one socket for the port, or one for each VRF, so the ids share it. The local address of a
 * connection says which device, and so which id, it belongs to.
 */
struct xiw_listener {
	struct kref			ref;
	struct list_head		entry;
	struct net			*net;
	int				vrf;
	struct sockaddr_storage		addr;
	struct socket			*sock;
	struct wait_queue_entry		event;
	struct xiw_lane			*lane;
	struct xiw_job			job;
	struct delayed_work		retry;

	struct mutex			lock;
	struct list_head		ids;
	struct list_head		half_open;
	struct list_head		refused;
	unsigned int			num_half_open;
};

/**
 * struct listener_id - one iw_cm_id that listens
 * @entry: entry in xiw_listener.ids
 * @cm_id: the id, with a reference
 * @dev: its device
 * @listener: its listener
 * @asked: connections that the consumer was asked about and has not answered yet
 */
struct listener_id {
	struct list_head	entry;
	struct iw_cm_id		*cm_id;
	struct xiw_device	*dev;
	struct xiw_listener	*listener;
	struct list_head	asked;
};

static DEFINE_MUTEX(listeners_lock);	/* outermost; guards listeners and .entry */
static LIST_HEAD(listeners);

static void listener_free(struct kref *ref)
{
	struct xiw_listener *listener = container_of(ref, struct xiw_listener, ref);

	xiw_lane_put(listener->lane);
	kfree(listener);
}

static void listener_put(struct xiw_listener *listener)
{
	kref_put(&listener->ref, listener_free);
}

/* Accepts what waits at the socket. Context: any; the caller has a reference. */
static void listener_wake(struct xiw_listener *listener)
{
	kref_get(&listener->ref);
	if (!xiw_lane_queue(listener->lane, &listener->job))
		listener_put(listener);
}

/* The reference is that of the ids: the entry leaves the queue before they put it. */
static int listener_event(struct wait_queue_entry *event, unsigned int mode, int flags, void *key)
{
	listener_wake(container_of(event, struct xiw_listener, event));
	return 0;
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

/* Resets the oldest connection of a list. */
static void listener_evict_from(struct xiw_listener *listener, struct list_head *from)
{
	struct xiw_ep *ep = list_first_entry(from, struct xiw_ep, waiting);

	lockdep_assert_held(&listener->lock);

	list_del_init(&ep->waiting);
	ep->place = XIW_EP_NO_PLACE;
	listener->num_half_open--;
	xiw_ep_wake(ep, XIW_EP_EV_EVICTED);
}

/*
 * Resets a connection to make room: one that was refused if there is any, else the one that has
 * been silent for the longest time. A refused one may still miss its Reply, if a segment was lost.
 * But if the silent ones went first, a flood of refused ones could keep others from being heard.
 */
static void listener_evict(struct xiw_listener *listener)
{
	listener_evict_from(listener, list_empty(&listener->refused) ? &listener->half_open :
								      &listener->refused);
}

/*
 * The limit of connections that have not sent their Request, or were refused and say farewell. All
 * devices share it, so a small limit of one device does not cost another one its callers.
 */
static unsigned int listener_limit(struct xiw_listener *listener, const struct xiw_device *dev)
{
	unsigned int limit = xiw_setting(&dev->settings, XIW_SET_HALF_OPEN);
	struct listener_id *id;

	lockdep_assert_held(&listener->lock);

	list_for_each_entry(id, &listener->ids, entry)
		limit = max(limit, xiw_setting(&id->dev->settings, XIW_SET_HALF_OPEN));
	return limit;
}

static void listener_count(struct xiw_listener *listener, struct xiw_ep *ep, struct list_head *list)
{
	unsigned int limit = listener_limit(listener, ep->dev);

	while (listener->num_half_open >= limit)
		listener_evict(listener);
	listener->num_half_open++;
	ep->place = XIW_EP_HALF_OPEN;
	list_move_tail(&ep->waiting, list);
}

static void listener_welcome(struct xiw_listener *listener, struct socket *sock)
{
	struct sockaddr_storage local, remote;
	struct listener_id *id;
	struct xiw_ep *ep;

	id = xiw_sock_names(sock, &local, &remote) ? NULL : listener_find_id(listener, &local);
	ep = id ? xiw_ep_accept(id->dev, sock, listener, listener->lane, !id->cm_id->tos_set) :
		  NULL;
	if (!ep) {
		xiw_sock_release(sock, true);
		return;
	}
	kref_get(&listener->ref);
	listener_count(listener, ep, &listener->half_open);
	xiw_ep_put(ep);
}

/* Return: 0 if more connections may wait, -EAGAIN if none do, or another negative errno. */
static int listener_accept(struct xiw_listener *listener)
{
	unsigned int left = LISTENER_BATCH;
	struct socket *sock;
	int ret = 0;

	lockdep_assert_held(&listener->lock);

	for (; left && !ret; left--) {
		ret = xiw_sock_accept(listener->sock, &sock);
		if (!ret)
			listener_welcome(listener, sock);
		else if (ret == -ENOBUFS)
			ret = 0;
	}
	return ret;
}

/*
 * TCP tells of each connection once, and of none while the accept queue is full. So after an error
 * a timer tries again.
 */
static void listener_look_later(struct xiw_listener *listener)
{
	lockdep_assert_held(&listener->lock);

	kref_get(&listener->ref);
	if (!queue_delayed_work(xiw_lane_wq, &listener->retry, msecs_to_jiffies(LISTENER_RETRY_MS)))
		listener_put(listener);
}

static void listener_retry(struct work_struct *work)
{
	struct xiw_listener *listener =
		container_of(to_delayed_work(work), struct xiw_listener, retry);

	listener_wake(listener);
	listener_put(listener);
}

static void listener_run(struct xiw_job *job)
{
	struct xiw_listener *listener = container_of(job, struct xiw_listener, job);
	int ret;

	mutex_lock(&listener->lock);
	ret = listener->sock ? listener_accept(listener) : -EAGAIN;
	if (!ret)
		listener_wake(listener);
	else if (ret != -EAGAIN && xiw_sock_listens(listener->sock))
		listener_look_later(listener);
	mutex_unlock(&listener->lock);
	listener_put(listener);
}

void xiw_listener_leave(struct xiw_listener *listener, struct xiw_ep *ep)
{
	mutex_lock(&listener->lock);
	list_del_init(&ep->waiting);
	if (ep->place == XIW_EP_HALF_OPEN)
		listener->num_half_open--;
	ep->place = XIW_EP_NO_PLACE;
	mutex_unlock(&listener->lock);
	listener_put(listener);
}

void xiw_listener_refused(struct xiw_listener *listener, struct xiw_ep *ep)
{
	mutex_lock(&listener->lock);
	if (ep->place == XIW_EP_WAS_ASKED)
		listener_count(listener, ep, &listener->refused);
	else if (ep->place == XIW_EP_HALF_OPEN)
		list_move_tail(&ep->waiting, &listener->refused);
	mutex_unlock(&listener->lock);
}

static int listener_ask(struct listener_id *id, struct xiw_ep *ep, struct iw_cm_event *event)
{
	struct xiw_listener *listener = id->listener;
	int ret;

	lockdep_assert_held(&listener->lock);

	ret = id->cm_id->event_handler(id->cm_id, event);
	if (ret)
		return ret;
	if (ep->place == XIW_EP_HALF_OPEN)
		listener->num_half_open--;
	ep->place = XIW_EP_WAS_ASKED;
	clear_bit(XIW_EP_EV_EVICTED, &ep->events);	/* it does not need its place any more */
	list_move_tail(&ep->waiting, &id->asked);
	return 0;
}

static struct listener_id *listener_find_device(struct xiw_listener *listener,
						const struct xiw_device *dev)
{
	struct listener_id *id;

	lockdep_assert_held(&listener->lock);

	list_for_each_entry(id, &listener->ids, entry) {
		if (id->dev == dev)
			return id;
	}
	return NULL;
}

int xiw_listener_ask(struct xiw_listener *listener, struct xiw_ep *ep, struct iw_cm_event *event)
{
	struct listener_id *id;
	int ret;

	mutex_lock(&listener->lock);
	id = listener_find_device(listener, ep->dev);
	ret = id ? listener_ask(id, ep, event) : -ECONNABORTED;
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

/* Passes over those whose socket somebody else has destroyed, because they accept nobody. */
static struct xiw_listener *listener_find(struct net *net, int vrf,
					  const struct sockaddr_storage *addr)
{
	struct xiw_listener *listener;

	lockdep_assert_held(&listeners_lock);

	list_for_each_entry(listener, &listeners, entry) {
		if (net_eq(listener->net, net) && listener->vrf == vrf &&
		    listener_same_addr(&listener->addr, addr) &&
		    xiw_sock_listens(listener->sock))
			return listener;
	}
	return NULL;
}

/* Return: a listener with an unbound socket, not in the list yet, or ERR_PTR(). */
static struct xiw_listener *listener_create(struct net *net, int vrf, const struct iw_cm_id *cm_id)
{
	struct xiw_listener *listener;
	int ret = -ENOMEM;

	listener = kzalloc_obj(*listener, XIW_GFP_PROCESS);
	if (!listener)
		return ERR_PTR(ret);
	listener->lane = xiw_lane_create();
	if (!listener->lane)
		goto free;
	xiw_pause("listener_create");
	listener->sock = xiw_sock_open(net, vrf, cm_id, cm_id->m_local_addr.ss_family);
	if (IS_ERR(listener->sock)) {
		ret = PTR_ERR(listener->sock);
		goto put_lane;
	}
	if (xiw_device_is_being_added(to_xiw_device(cm_id->device)))
		xiw_sock_forget_payer(listener->sock->sk);
	kref_init(&listener->ref);
	listener->net = net;
	listener->vrf = vrf;
	listener->addr = cm_id->m_local_addr;
	init_waitqueue_func_entry(&listener->event, listener_event);
	xiw_job_init(&listener->job, listener_run);
	INIT_DELAYED_WORK(&listener->retry, listener_retry);
	mutex_init(&listener->lock);
	INIT_LIST_HEAD(&listener->ids);
	INIT_LIST_HEAD(&listener->half_open);
	INIT_LIST_HEAD(&listener->refused);
	return listener;

put_lane:
	xiw_lane_put(listener->lane);
free:
	kfree(listener);
	return ERR_PTR(ret);
}

static void listener_discard(struct xiw_listener *listener)
{
	xiw_sock_release(listener->sock, false);
	listener_put(listener);
}

/*
 * Listens and adds the id under one lock. A connection that is accepted in between would find no
 * id and be reset.
 */
static int listener_join(struct xiw_listener *listener, struct listener_id *id, int backlog)
{
	int ret = 0;

	lockdep_assert_held(&listeners_lock);

	mutex_lock(&listener->lock);
	if (listener_find_device(listener, id->dev)) {
		ret = -EADDRINUSE;
	} else if (list_empty(&listener->ids)) {
		ret = xiw_sock_listen(listener->sock, &listener->addr, backlog,
				      &listener->event);
		if (!ret)
			list_add(&listener->entry, &listeners);
	}
	if (!ret) {
		id->listener = listener;
		list_add(&id->entry, &listener->ids);
	}
	mutex_unlock(&listener->lock);
	return ret;
}

/*
 * For a consumer that listens on the wildcard or a loopback address, the core calls us for every
 * device. Some devices can never see its connections: those in another namespace, and those on a
 * netdev that does not own the address. Do not take the port there, because others may need it.
 */
static bool listener_concerns(const struct xiw_device *dev, const struct iw_cm_id *cm_id)
{
	const struct sockaddr_storage *addr = &cm_id->m_local_addr;
	const struct sockaddr_in *a4 = (const void *)addr;
	const struct sockaddr_in6 *a6 = (const void *)addr;
	bool owned;

	if (!xiw_cm_concerns(cm_id, dev))
		return false;
	if (addr->ss_family == AF_INET ? a4->sin_addr.s_addr == htonl(INADDR_ANY) :
	    ipv6_addr_any(&a6->sin6_addr))
		return true;
	rcu_read_lock();
	owned = xiw_sock_netdev(read_pnet(&dev->net), addr) == dev->netdev;
	rcu_read_unlock();
	return owned;
}

/*
 * All consumers on the host share listeners_lock. So allocate before taking it, and release sockets
 * after dropping it.
 */
static int listener_add(struct xiw_device *dev, struct iw_cm_id *cm_id, int backlog)
{
	struct net *net = read_pnet(&dev->net);
	int vrf = l3mdev_master_ifindex(dev->netdev);
	struct xiw_listener *listener, *fresh;
	struct listener_id *id;
	int ret;

	id = kzalloc_obj(*id, XIW_GFP_PROCESS);
	if (!id)
		return -ENOMEM;
	id->cm_id = cm_id;
	id->dev = dev;
	INIT_LIST_HEAD(&id->asked);

	fresh = listener_create(net, vrf, cm_id);
	if (IS_ERR(fresh)) {
		kfree(id);
		return PTR_ERR(fresh);
	}
	mutex_lock(&listeners_lock);
	listener = listener_find(net, vrf, &cm_id->m_local_addr) ?: fresh;
	ret = listener_join(listener, id, backlog);
	mutex_unlock(&listeners_lock);
	if (ret || listener != fresh)
		listener_discard(fresh);
	if (ret) {
		kfree(id);
		return ret;
	}
	cm_id->add_ref(cm_id);
	cm_id->provider_data = id;
	return 0;
}

/**
 * xiw_listen - listen for an iw_cm_id
 * @cm_id: the address; gets the connection requests
 * @backlog: how many connections TCP may queue for us
 *
 * While a link is being added, a port that is already in use is no error. On an error the rdma_cm
 * would not use the new link at all. The consumer keeps listening on its other links.
 *
 * Return: 0; -EADDRINUSE, -EADDRNOTAVAIL and other errors of bind() and listen(); -ENOMEM.
 */
int xiw_listen(struct iw_cm_id *cm_id, int backlog)
{
	struct xiw_device *dev = to_xiw_device(cm_id->device);
	int ret;

	cm_id->provider_data = NULL;
	if (!listener_concerns(dev, cm_id))
		return 0;
	ret = listener_add(dev, cm_id, backlog);
	if (ret != -EADDRINUSE || !xiw_device_is_being_added(dev))
		return ret;
	netdev_warn(dev->netdev, "port in use: the RDMA listener at %pISpc does not get this link\n",
		    &cm_id->m_local_addr);
	return 0;
}

/*
 * The iw_cm drops requests that it has not handed to the consumer yet, and does not say which. So
 * all of them get a deadline.
 */
static void listener_hurry(struct listener_id *id)
{
	struct xiw_ep *ep, *next;

	lockdep_assert_held(&id->listener->lock);

	list_for_each_entry_safe(ep, next, &id->asked, waiting) {
		list_del_init(&ep->waiting);
		xiw_ep_wake(ep, XIW_EP_EV_HURRY);
	}
}

/**
 * xiw_unlisten - stop listening for an iw_cm_id
 * @cm_id: as given to xiw_listen()
 *
 * No event is raised for @cm_id after this returns. A connection whose Request was handed to the
 * iw_cm lives on if the consumer answers it soon.
 *
 * Return: 0.
 */
int xiw_unlisten(struct iw_cm_id *cm_id)
{
	struct listener_id *id = cm_id->provider_data;
	struct xiw_listener *listener;
	struct socket *sock = NULL;

	if (!id)	/* xiw_listen() did not open a port */
		return 0;
	listener = id->listener;
	mutex_lock(&listeners_lock);
	mutex_lock(&listener->lock);
	list_del(&id->entry);
	listener_hurry(id);
	if (list_empty(&listener->ids)) {
		swap(sock, listener->sock);
		list_del(&listener->entry);
		while (!list_empty(&listener->half_open))	/* nobody will hear them */
			listener_evict_from(listener, &listener->half_open);
		if (cancel_delayed_work(&listener->retry))
			listener_put(listener);
	}
	mutex_unlock(&listener->lock);
	if (sock)
		xiw_sock_unlisten(sock, &listener->event);
	mutex_unlock(&listeners_lock);
	if (sock) {
		xiw_sock_release(sock, false);
		listener_put(listener);
	}
	cm_id->rem_ref(cm_id);
	kfree(id);
	return 0;
}
