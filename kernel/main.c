// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* main.c - load, unload and link commands; initialise in order, unwind in reverse */

#include <linux/init.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rcupdate.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>
#include <rdma/xiw-abi.h>

#include "carrier/batch.h"
#include "conn/lane.h"
#include "conn/tune.h"
#include "device.h"
#include "mem/odp.h"
#include "setting.h"
#include "stream/worker.h"
#include "version.h"

static int main_netdev_event(struct notifier_block *nb, unsigned long event, void *info)
{
	struct net_device *netdev = netdev_notifier_info_to_dev(info);
	struct ib_device *ibdev;

	ibdev = ib_device_get_by_netdev(netdev, XIW_DRIVER_ID);
	if (!ibdev)
		return NOTIFY_DONE;

	switch (event) {
	case NETDEV_UP:
	case NETDEV_CHANGE:
	case NETDEV_DOWN:
		/* Newer cores do this too, but not for a bond. Doing it twice is harmless. */
		ib_dispatch_port_state_event(ibdev, netdev);
		break;
	case NETDEV_CHANGEADDR:
		xiw_device_readdress(to_xiw_device(ibdev));
		break;
	case NETDEV_UNREGISTER:	/* RTNL is held; processes may need it to release objects */
		ib_unregister_device_queued(ibdev);
		break;
	default:	/* queries read the MTU, and TCP adapts its segments to it */
		break;
	}
	ib_device_put(ibdev);
	return NOTIFY_DONE;
}

static struct notifier_block main_netdev_notifier = {
	.notifier_call = main_netdev_event,
};

static struct rdma_link_ops main_link_ops = {
	.type = "xiw",
	.newlink = xiw_device_create,
};

static int __init main_init(void)
{
	int ret;

	xiw_stats_init();
	xiw_settings_init();

	ret = xiw_tune_init();
	if (ret)
		return ret;
	ret = xiw_devices_init();
	if (ret)
		goto no_devices;
	ret = xiw_lanes_init();
	if (ret)
		goto no_lanes;
	ret = xiw_odp_init();
	if (ret)
		goto no_odp;
	ret = xiw_workers_init();
	if (ret)
		goto no_workers;
	ret = register_netdevice_notifier(&main_netdev_notifier);
	if (ret)
		goto no_notifier;
	rdma_link_register(&main_link_ops);
	return 0;

no_notifier:
	xiw_workers_exit();
no_workers:
	xiw_odp_exit();
no_odp:
	xiw_lanes_exit();
no_lanes:
	xiw_devices_exit();
no_devices:
	xiw_tune_exit();
	return ret;
}

/*
 * 1. No new device can be made.
 * 2. No event queues the removal of a device.
 * 3. All devices are removed; this also waits for removals that are under way. Processes lose their
 *    objects and get EIO from now on, and kernel consumers release theirs.
 * 4. Nothing queues work any more: no queue pair to a worker, no endpoint or device to a workqueue.
 *    So these can be stopped. A timer of an endpoint that has gone may still be about to return.
 * 5. Without them nothing sends, so the pages for sending can be freed.
 *
 * A process that has a device open does not keep the module loaded, because the core can take the
 * device away from it (see device_disassociate_ucontext()).
 */
static void __exit main_exit(void)
{
	rdma_link_unregister(&main_link_ops);
	unregister_netdevice_notifier(&main_netdev_notifier);
	ib_unregister_driver(XIW_DRIVER_ID);
	xiw_workers_exit();
	xiw_odp_exit();
	xiw_lanes_exit();
	synchronize_rcu();
	xiw_batch_exit();
	xiw_devices_exit();
	xiw_tune_exit();
}

module_init(main_init);
module_exit(main_exit);

MODULE_DESCRIPTION("xiw: iWARP over the kernel's TCP, for any network card");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION(XIW_VERSION);
MODULE_ALIAS_RDMA_LINK("xiw");
