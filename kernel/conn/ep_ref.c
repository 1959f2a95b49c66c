// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* ep_ref.c - references to endpoints, their ids, and waking them */

#include <linux/slab.h>
#include <linux/wait_bit.h>
#include <linux/xarray.h>
#include <net/sock.h>

#include "carrier/loop.h"
#include "conn/ep.h"
#include "device.h"
#include "trace.h"

static void ep_free(struct kref *ref)
{
	struct xiw_ep *ep = container_of(ref, struct xiw_ep, ref);

	if (ep->sk)
		sock_put(ep->sk);
	if (ep->loop)
		xiw_loop_put(ep->loop);
	kfree(ep->frame);
	kfree(ep->pd);
	xiw_lane_put(ep->lane);
	if (atomic_dec_and_test(&ep->dev->num_eps))
		wake_up_var(&ep->dev->num_eps);
	kfree_rcu(ep, rcu);
}

void xiw_ep_put(struct xiw_ep *ep)
{
	kref_put(&ep->ref, ep_free);
}

/*
 * States and waking
 */

static void ep_queue(struct xiw_ep *ep)
{
	xiw_ep_get(ep);
	if (!xiw_lane_queue(ep->lane, &ep->job))
		xiw_ep_put(ep);
}

void xiw_ep_wake(struct xiw_ep *ep, unsigned int event)
{
	smp_mb__before_atomic();	/* pairs with xchg() in ep_look(): it sees what happened */
	set_bit(event, &ep->events);
	ep_queue(ep);
}

/* ep_run() does not wait for the lock, so its holder queues the job for events that arrived. */
void xiw_ep_unlock(struct xiw_ep *ep)
{
	mutex_unlock(&ep->lock);
	smp_mb();	/* pairs with ep_run(): either that gets the lock, or we see its events */
	if (READ_ONCE(ep->events))
		ep_queue(ep);
}

void xiw_ep_move(struct xiw_ep *ep, enum xiw_ep_state to)
{
	lockdep_assert_held(&ep->lock);

	trace_xiw_ep_move(ep, to);
	ep->state = to;
}

/*
 * Ids
 */

static DEFINE_XARRAY(eps);
static unsigned long ep_last_id;	/* guarded by the lock of eps */

int xiw_ep_insert(struct xiw_ep *ep)
{
	int ret = -ENOSPC;

	xiw_ep_get(ep);
	xa_lock(&eps);
	if (ep_last_id != ULONG_MAX) {
		ep->id = ++ep_last_id;
		ret = __xa_insert(&eps, ep->id, ep, GFP_KERNEL);
	}
	xa_unlock(&eps);
	if (ret)
		xiw_ep_put(ep);
	return ret;
}

void xiw_ep_erase(struct xiw_ep *ep)
{
	xa_erase(&eps, ep->id);
	xiw_ep_put(ep);
}

struct xiw_ep *xiw_ep_find(const struct iw_cm_id *cm_id)
{
	struct xiw_ep *ep;

	xa_lock(&eps);
	ep = xa_load(&eps, (uintptr_t)cm_id->provider_data);
	if (ep && ep->dev != to_xiw_device(cm_id->device))
		ep = NULL;
	if (ep)
		xiw_ep_get(ep);
	xa_unlock(&eps);
	return ep;
}

struct xiw_ep *xiw_ep_any(struct xiw_device *dev)
{
	struct xiw_ep *ep;
	unsigned long id;

	xa_lock(&eps);
	xa_for_each(&eps, id, ep) {
		if (ep->dev == dev) {
			xiw_ep_get(ep);
			break;
		}
	}
	xa_unlock(&eps);
	return ep;	/* NULL if none was found */
}

void xiw_ep_await_all(struct xiw_device *dev)
{
	wait_var_event(&dev->num_eps, !atomic_read(&dev->num_eps));
}
