// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* ep_id.c - numbers by which the iWARP connection manager names connections that came in */

#include <linux/wait_bit.h>
#include <linux/xarray.h>

#include "device.h"
#include "ep.h"

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
	return ep;	/* NULL after the last */
}

void xiw_ep_await_all(struct xiw_device *dev)
{
	wait_var_event(&dev->num_eps, !atomic_read(&dev->num_eps));
}
