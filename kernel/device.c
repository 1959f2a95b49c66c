// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* device.c - the ib_device, its op table and its port */

#include <linux/cleanup.h>
#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/if_arp.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/addrconf.h>
#include <rdma/ib_cache.h>
#include <rdma/iw_cm.h>
#include <rdma/xiw-abi.h>

#include "conn/cm.h"
#include "conn/lane.h"
#include "conn/listener.h"
#include "counter.h"
#include "device.h"
#include "limit.h"
#include "mem/dm.h"
#include "mem/mem.h"
#include "queue/area.h"
#include "queue/cq.h"
#include "queue/srq.h"
#include "setting.h"
#include "show.h"
#include "stream/post.h"
#include "stream/qp.h"
#include "verbs.h"

/* How long a thread of the rdma_cm may take between releasing a device and releasing its GID. */
#define DEVICE_GID_MS	100

static struct workqueue_struct *device_wq;

/*
 * Contexts
 */

static int device_alloc_ucontext(struct ib_ucontext *uctx, struct ib_udata *udata)
{
	struct xiw_alloc_ucontext_resp resp = {
		.abi_version = XIW_ABI_VERSION,
		.max_sge = XIW_MAX_SGE,
		.max_inline = XIW_MAX_INLINE,
	};
	struct xiw_lane *lane = xiw_lane_create();
	int ret;

	if (!lane)
		return -ENOMEM;
	ret = ib_respond_udata(udata, resp);
	if (ret)
		xiw_lane_put(lane);
	else
		to_xiw_ucontext(uctx)->lane = lane;
	return ret;
}

/*
 * For a process that got the device file from the process that opened it. The core fills in the
 * whole answer, so there is nothing to add.
 */
static int device_query_ucontext(struct ib_ucontext *uctx, struct uverbs_attr_bundle *attrs)
{
	return 0;
}

static void device_dealloc_ucontext(struct ib_ucontext *uctx)
{
	xiw_lane_put(to_xiw_ucontext(uctx)->lane);
}

/*
 * Does nothing, but its presence tells the core that it may remove a device that processes still
 * use. The core destroys their objects. The memory that they have mapped stays, but the kernel no
 * longer reads or writes it.
 */
static void device_disassociate_ucontext(struct ib_ucontext *uctx)
{
}

/*
 * Queries
 */

/* Every operation can access user memory that is paged in on demand. */
static void device_query_odp(struct ib_device_attr *attr)
{
	if (!IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING))
		return;
	attr->kernel_cap_flags |= IBK_ON_DEMAND_PAGING;
	attr->odp_caps.general_caps = IB_ODP_SUPPORT;
	attr->odp_caps.per_transport_caps.rc_odp_caps =
		IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV | IB_ODP_SUPPORT_SRQ_RECV |
		IB_ODP_SUPPORT_WRITE | IB_ODP_SUPPORT_READ | IB_ODP_SUPPORT_ATOMIC;
}

static int device_query(struct ib_device *ibdev, struct ib_device_attr *attr,
			struct ib_udata *udata)
{
	memset(attr, 0, sizeof(*attr));
	attr->sys_image_guid = ibdev->node_guid;
	attr->max_mr_size = U64_MAX;
	attr->page_size_cap = PAGE_MASK;
	attr->vendor_id = XIW_VENDOR_ID;
	attr->device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS | IB_DEVICE_SRQ_RESIZE |
				 IB_DEVICE_MEM_WINDOW | IB_DEVICE_MEM_WINDOW_TYPE_2B;
	attr->kernel_cap_flags = IBK_ALLOW_USER_UNREG;
	device_query_odp(attr);
	attr->max_qp = xiw_limit(XIW_QPS);
	attr->max_qp_wr = XIW_MAX_QP_WR;
	attr->max_send_sge = XIW_MAX_SGE;
	attr->max_recv_sge = XIW_MAX_SGE;
	attr->max_sge_rd = XIW_MAX_SGE_RD;
	attr->max_cq = xiw_limit(XIW_CQS);
	attr->max_cqe = XIW_MAX_CQE;
	attr->max_mr = xiw_limit(XIW_MRS);
	attr->max_mw = xiw_limit(XIW_MWS);
	attr->max_pd = xiw_limit(XIW_PDS);
	attr->max_qp_rd_atom = XIW_MAX_IRD;
	attr->max_res_rd_atom = XIW_MAX_IRD * XIW_MAX_QP;
	attr->max_qp_init_rd_atom = XIW_MAX_ORD;
	/* Atomics use the CPU's own instructions, so they are atomic to all code that does. */
	attr->atomic_cap = IB_ATOMIC_GLOB;
	attr->max_srq = xiw_limit(XIW_SRQS);
	attr->max_srq_wr = XIW_MAX_SRQ_WR;
	attr->max_srq_sge = XIW_MAX_SGE;
	attr->max_fast_reg_page_list_len = XIW_MAX_FAST_REG_PAGES;
	attr->max_dm_size = XIW_MAX_DM_SIZE;
	attr->max_pkeys = 1;
	attr->timestamp_mask = U64_MAX;
	attr->hca_core_clock = NSEC_PER_MSEC;	/* kHz */
	return 0;
}

/* If the netdev gives no speed (lo, dummy, tun, or being removed), the port claims 10 Gb/s. */
static void device_port_speed(struct xiw_device *dev, struct ib_port_attr *attr)
{
	if (dev->netdev->ethtool_ops->get_link_ksettings &&
	    !ib_get_eth_speed(&dev->ibdev, 1, &attr->active_speed, &attr->active_width))
		return;

	attr->active_speed = IB_SPEED_SDR;
	attr->active_width = IB_WIDTH_4X;
}

static int device_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct xiw_device *dev = to_xiw_device(ibdev);
	int mtu = READ_ONCE(dev->netdev->mtu);

	attr->state = ib_get_curr_port_state(dev->netdev);
	attr->phys_state = attr->state == IB_PORT_ACTIVE ? IB_PORT_PHYS_STATE_LINK_UP :
							   IB_PORT_PHYS_STATE_DISABLED;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = ib_mtu_int_to_enum(mtu);
	attr->phys_mtu = mtu;
	attr->max_msg_sz = XIW_MAX_MESSAGE;
	attr->gid_tbl_len = 1;
	attr->pkey_tbl_len = 1;
	attr->port_cap_flags = IB_PORT_CM_SUP;
	attr->max_vl_num = 1;
	device_port_speed(dev, attr);
	return 0;
}

static int device_get_port_immutable(struct ib_device *ibdev, u32 port,
				     struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_PORT_IWARP;
	immutable->gid_tbl_len = 1;
	immutable->pkey_tbl_len = 1;
	return 0;
}

static int device_query_gid(struct ib_device *ibdev, u32 port, int index, union ib_gid *gid)
{
	if (index)
		return -EINVAL;
	data_race(*gid = to_xiw_device(ibdev)->gid);	/* see xiw_device_readdress() */
	return 0;
}

static int device_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = 0xffff;
	return 0;
}

static void device_get_fw_str(struct ib_device *ibdev, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, "%d", XIW_ABI_VERSION);
}

/*
 * Create and remove
 */

static void device_set_enabler(struct xiw_device *dev, struct pid *enabler)
{
	put_pid(xchg(&dev->enabler, enabler));
}

/* After this the core announces the device to its clients in this thread, and they listen on it. */
static int device_enable(struct ib_device *ibdev)
{
	device_set_enabler(to_xiw_device(ibdev), get_pid(task_pid(current)));
	return 0;
}

/*
 * The rdma_cm releases a device a moment before it releases the device's GID (cma_release_dev()).
 * Work then frees the GID, using the GID table, which is freed together with the device
 * (free_gid_work()). The core waits for neither. So we keep the memory for a moment; the name of
 * the device is free at once.
 */
static void device_gone(struct work_struct *work)
{
	struct xiw_device *dev = container_of(work, struct xiw_device, gone);

	msleep(DEVICE_GID_MS);
	flush_workqueue(ib_wq);
	put_device(&dev->ibdev.dev);
}

static void device_dealloc(struct ib_device *ibdev)
{
	struct xiw_device *dev = to_xiw_device(ibdev);

	xiw_cm_drain(dev);
	WARN_ON(!xa_empty(&dev->qps));
	WARN_ON(!xa_empty(&dev->stags));
	WARN_ON(atomic_long_read(&dev->dm_used));
	WARN_ON(memchr_inv(dev->objects, 0, sizeof(dev->objects)));
	xa_destroy(&dev->qps);
	xa_destroy(&dev->stags);
	ida_destroy(&dev->counter_ids);
	device_set_enabler(dev, NULL);
	xiw_settings_end(&dev->settings);
	free_percpu(dev->stats);
	netdev_put(dev->netdev, &dev->netdev_tracker);
	get_device(&ibdev->dev);
	queue_work(device_wq, &dev->gone);
}

static const struct ib_device_ops device_ops = {
	.owner = THIS_MODULE,
	.driver_id = XIW_DRIVER_ID,
	.uverbs_abi_ver = XIW_ABI_VERSION,
	.device_group = &xiw_setting_group,

	.enable_driver = device_enable,
	.dealloc_driver = device_dealloc,
	.get_dev_fw_str = device_get_fw_str,
	.query_device = device_query,
	.query_port = device_query_port,
	.get_port_immutable = device_get_port_immutable,
	.query_gid = device_query_gid,
	.query_pkey = device_query_pkey,
	.alloc_hw_port_stats = xiw_stats_alloc,
	.get_hw_stats = xiw_stats_get,
	.counter_bind_qp = xiw_counter_bind,
	.counter_unbind_qp = xiw_counter_unbind,
	.counter_alloc_stats = xiw_counter_alloc_stats,
	.counter_update_stats = xiw_counter_update,
	.counter_dealloc = xiw_counter_dealloc,
	.fill_res_qp_entry = xiw_show_qp,
	.fill_res_cq_entry = xiw_show_cq,
	.fill_res_srq_entry = xiw_show_srq,
	.fill_res_mr_entry = xiw_show_mr,

	.alloc_ucontext = device_alloc_ucontext,
	.query_ucontext = device_query_ucontext,
	.dealloc_ucontext = device_dealloc_ucontext,
	.disassociate_ucontext = device_disassociate_ucontext,
	.mmap = xiw_area_mmap,
	.mmap_free = xiw_area_mmap_free,
	.alloc_pd = xiw_verbs_alloc_pd,
	.dealloc_pd = xiw_verbs_dealloc_pd,

	.create_cq = xiw_verbs_create_cq,
	.resize_user_cq = xiw_cq_resize,
	.destroy_cq = xiw_verbs_destroy_cq,
	.poll_cq = xiw_cq_poll,
	.req_notify_cq = xiw_cq_arm,

	.create_srq = xiw_verbs_create_srq,
	.modify_srq = xiw_srq_modify,
	.query_srq = xiw_srq_query,
	.destroy_srq = xiw_verbs_destroy_srq,
	.post_srq_recv = xiw_srq_post,

	.create_qp = xiw_verbs_create_qp,
	.modify_qp = xiw_qp_modify,
	.query_qp = xiw_qp_query,
	.destroy_qp = xiw_verbs_destroy_qp,
	.post_send = xiw_post_send,
	.post_recv = xiw_post_recv,

	.reg_user_mr = xiw_mr_reg_user,
	.reg_user_mr_dmabuf = xiw_mr_reg_dmabuf,
	.rereg_user_mr = xiw_mr_rereg_user,
#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
	.advise_mr = xiw_advise_mr,
#endif
	.get_dma_mr = xiw_mr_get_dma,
	.alloc_mr = xiw_mr_alloc,
	.map_mr_sg = xiw_mr_map_sg,
	.dereg_mr = xiw_mr_dereg,
	.alloc_mw = xiw_mw_alloc,
	.dealloc_mw = xiw_mw_dealloc,
	.alloc_dm = xiw_dm_alloc,
	.dealloc_dm = xiw_dm_dealloc,
	.reg_dm_mr = xiw_dm_register,

	.iw_add_ref = xiw_qp_add_ref,
	.iw_rem_ref = xiw_qp_rem_ref,
	.iw_get_qp = xiw_qp_find,
	.iw_connect = xiw_cm_connect,
	.iw_accept = xiw_cm_accept,
	.iw_reject = xiw_cm_reject,
	.iw_create_listen = xiw_listen,
	.iw_destroy_listen = xiw_unlisten,

	.size_ib_pd = sizeof(struct ib_pd),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, xiw_ucontext, ibuctx),
	INIT_RDMA_OBJ_SIZE(ib_cq, xiw_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_srq, xiw_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_qp, xiw_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_mw, xiw_mw, ibmw),
	XIW_COUNTER_OBJECT
};

/* Uses the netdev's hardware address as GID. If it has none, makes one up, but only once. */
static void device_address(struct xiw_device *dev)
{
	const struct net_device *netdev = dev->netdev;
	unsigned int len = min_t(unsigned int, netdev->addr_len, ETH_ALEN);

	if (memchr_inv(netdev->dev_addr, 0, len))
		memcpy(dev->gid.raw, netdev->dev_addr, len);
	else if (rdma_is_zero_gid(&dev->gid))
		eth_random_addr(dev->gid.raw);
}

/* The core may read a half-written GID meanwhile, but reads it again when it gets the event. */
void xiw_device_readdress(struct xiw_device *dev)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = IB_EVENT_GID_CHANGE,
		.element.port_num = 1,
	};

	ASSERT_RTNL();
	device_address(dev);
	ib_dispatch_event(&event);
}

/* Returns why @netdev cannot carry a device, or NULL if it can. */
static const char *device_refusal(const struct net_device *netdev)
{
	switch (netdev->type) {
	case ARPHRD_ETHER:
	case ARPHRD_LOOPBACK:
	case ARPHRD_NONE:	/* tun, WireGuard */
	case ARPHRD_RAWIP:
	case ARPHRD_PPP:
	case ARPHRD_TUNNEL:
	case ARPHRD_TUNNEL6:
	case ARPHRD_SIT:
	case ARPHRD_IPGRE:
	case ARPHRD_IP6GRE:
		break;
	default:
		return "xiw needs IP over Ethernet, loopback or a tunnel";
	}
	if (netif_is_lag_port(netdev) || netif_is_bridge_port(netdev))
		return "xiw needs a netdev with IP of its own: use the bond or bridge above it";
	return NULL;
}

static bool device_exists(struct net_device *netdev)
{
	struct ib_device *ibdev = ib_device_get_by_netdev(netdev, XIW_DRIVER_ID);

	if (ibdev)
		ib_device_put(ibdev);
	return ibdev;
}

/* Returns a device that is ready to be registered, or ERR_PTR(). */
static struct xiw_device *device_alloc(struct net_device *netdev, struct net *net)
{
	struct xiw_device *dev;
	int ret = -ENOMEM;

	dev = ib_alloc_device_with_net(xiw_device, ibdev, net);
	if (!dev)
		return ERR_PTR(-ENOMEM);

	dev->netdev = netdev;
	netdev_hold(netdev, &dev->netdev_tracker, GFP_KERNEL);
	write_pnet(&dev->net, net);
	device_address(dev);
	xa_init_flags(&dev->qps, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	xa_init_flags(&dev->stags, XA_FLAGS_ACCOUNT);
	INIT_WORK(&dev->gone, device_gone);
	xiw_settings_default(&dev->settings);
	ib_set_device_ops(&dev->ibdev, &device_ops);
	dev->ibdev.driver_def = xiw_dm_definitions;

	dev->ibdev.node_type = RDMA_NODE_RNIC;
	addrconf_addr_eui48((u8 *)&dev->ibdev.node_guid, dev->gid.raw);
	strscpy(dev->ibdev.node_desc, "xiw", sizeof(dev->ibdev.node_desc));
	strscpy(dev->ibdev.iw_ifname, netdev->name, sizeof(dev->ibdev.iw_ifname));
	dev->ibdev.iw_driver_flags = IW_F_NO_PORT_MAP;
	dev->ibdev.phys_port_cnt = 1;
	dev->ibdev.num_comp_vectors = num_online_cpus();
	/* doorbells */
	dev->ibdev.uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
				      BIT_ULL(IB_USER_VERBS_CMD_POST_RECV) |
				      BIT_ULL(IB_USER_VERBS_CMD_POST_SRQ_RECV);

	INIT_LIST_HEAD(&dev->qp_stats);
	mutex_init(&dev->qp_stats_lock);
	ida_init(&dev->counter_ids);
	dev->counters_moved = jiffies;
	dev->stats = alloc_percpu(struct xiw_stats);
	if (!dev->stats)
		goto fail;
	ret = ib_device_set_netdev(&dev->ibdev, netdev, 1);
	if (ret)
		goto fail;
	return dev;

fail:
	ib_dealloc_device(&dev->ibdev);
	return ERR_PTR(ret);
}

/*
 * If a netdev is unregistered or changes its namespace before its device is registered, the
 * notifier does not find a device to remove. So check the netdev afterwards. The device is looked
 * up, because it may have been deleted meanwhile.
 */
static int device_check_netdev(struct net_device *netdev, struct net *net)
{
	struct ib_device *ibdev;
	bool here;

	rtnl_lock();
	here = netdev->reg_state == NETREG_REGISTERED && net_eq(dev_net(netdev), net);
	rtnl_unlock();
	if (here)
		return 0;

	ibdev = ib_device_get_by_netdev(netdev, XIW_DRIVER_ID);
	if (ibdev)
		ib_unregister_device_and_put(ibdev);
	return -ENODEV;
}

static int device_announce(struct xiw_device *dev, const char *name)
{
	int ret;

	ib_mark_name_assigned_by_user(&dev->ibdev);
	ret = ib_register_device(&dev->ibdev, name, NULL);
	if (ret)
		ib_dealloc_device(&dev->ibdev);
	return ret;
}

int xiw_device_create(const char *name, struct net_device *netdev)
{
	static DEFINE_MUTEX(one_at_a_time);	/* else two calls may both find no device */
	const char *refusal = device_refusal(netdev);
	struct net *net = dev_net(netdev);
	struct xiw_device *dev;
	int ret;

	if (refusal) {
		netdev_err(netdev, "%s\n", refusal);
		return -EINVAL;
	}

	guard(mutex)(&one_at_a_time);
	if (device_exists(netdev)) {
		netdev_err(netdev, "has an xiw device already\n");
		return -EEXIST;
	}

	dev = device_alloc(netdev, net);
	if (IS_ERR(dev))
		return PTR_ERR(dev);

	ret = device_announce(dev, name);
	return ret ?: device_check_netdev(netdev, net);
}

int xiw_devices_init(void)
{
	device_wq = alloc_workqueue("xiw_device", WQ_UNBOUND, 0);
	return device_wq ? 0 : -ENOMEM;
}

void xiw_devices_exit(void)
{
	destroy_workqueue(device_wq);
}
