// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* main.c - load, unload and link commands; initialise in order, unwind in reverse */

#include <linux/init.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>
#include <rdma/xiw-abi.h>

#include "batch.h"
#include "device.h"
#include "lane.h"
#include "odp.h"
#include "worker.h"

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
		/* Newer cores do this by themselves, but not for a bond; twice does no harm. */
		ib_dispatch_port_state_event(ibdev, netdev);
		break;
	case NETDEV_CHANGEADDR:
		xiw_device_readdress(to_xiw_device(ibdev));
		break;
	case NETDEV_UNREGISTER:	/* RTNL is held, and processes may need it to let go */
		ib_unregister_device_queued(ibdev);
		break;
	default:	/* a new MTU is seen by queries, and by TCP in the size of its segments */
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

	ret = xiw_devices_init();
	if (ret)
		return ret;
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
	return ret;
}

/*
 * 1. No device is made any more.
 * 2. No event queues the removal of a device any more.
 * 3. All devices are removed, and those whose removal is under way are waited for. Processes lose
 *    their objects and see EIO from now on, kernel consumers give up theirs.
 * 4. Nobody hands a queue pair to a worker, or an endpoint or a device to a work queue, any more.
 * 5. With those gone nobody sends: the pages for that go.
 *
 * The core keeps no reference to the module for a process that has a device open, because the
 * device can be taken away from it (see disassociate_ucontext in device.c).
 */
static void __exit main_exit(void)
{
	rdma_link_unregister(&main_link_ops);
	unregister_netdevice_notifier(&main_netdev_notifier);
	ib_unregister_driver(XIW_DRIVER_ID);
	xiw_workers_exit();
	xiw_odp_exit();
	xiw_lanes_exit();
	xiw_batch_exit();
	xiw_devices_exit();
}

module_init(main_init);
module_exit(main_exit);

MODULE_DESCRIPTION("xiw: iWARP over the kernel's TCP, for any network card");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_ALIAS_RDMA_LINK("xiw");
