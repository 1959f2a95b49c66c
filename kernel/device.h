/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* device.h - the ib_device, its limits, and the context of a process */
#ifndef XIW_DEVICE_H
#define XIW_DEVICE_H

#include <linux/idr.h>
#include <linux/netdevice.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "limit.h"
#include "setting.h"
#include "stats.h"

#define XIW_VENDOR_ID		0x027869	/* locally administered, so not a vendor's OUI */
#define XIW_MAX_QP		(64 * 1024)
#define XIW_MAX_COUNTERS	1024
#define XIW_MAX_CQ		(64 * 1024)
#define XIW_MAX_SRQ		(64 * 1024)
#define XIW_MAX_PD		(64 * 1024)
#define XIW_MAX_MR		(1024 * 1024)
#define XIW_MAX_MW		(1024 * 1024)
#define XIW_MAX_QP_WR		(32 * 1024)
#define XIW_MAX_CQE		(1024 * 1024)
#define XIW_MAX_SRQ_WR		(32 * 1024)
#define XIW_MAX_MESSAGE		0x7fffffff	/* bytes */
#define XIW_MAX_SGE_RD		1	/* a Read Request names one sink */
#define XIW_MAX_IRD		128
#define XIW_MAX_ORD		128
#define XIW_MAX_FAST_REG_PAGES	512
#define XIW_MAX_DM_SIZE		(16 * 1024 * 1024)	/* bytes of device memory, in total */

/*
 * For memory allocated on behalf of a process, and charged to its control group. If the group has
 * no more memory the allocation fails. With GFP_KERNEL_ACCOUNT alone a process would be killed.
 */
#define XIW_GFP_PROCESS		(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* As XIW_GFP_PROCESS, but does not wait for the group to reclaim: it may exceed its limit. */
#define XIW_GFP_ATOMIC		(GFP_ATOMIC | __GFP_ACCOUNT | __GFP_NOMEMALLOC | __GFP_NOWARN)

struct xiw_lane;

/**
 * struct xiw_device - one RDMA device on one netdev
 * @ibdev: the core's part
 * @netdev: carries the traffic
 * @netdev_tracker: tracks our reference on @netdev, which is dropped when the device ends
 * @net: network namespace of @netdev, in which all sockets are made
 * @gid: hardware address of @netdev, or a random one if it has none; never zero, because the core
 *	takes a zero GID for an empty entry of its table
 * @qps: queue pairs by number
 * @next_qpn: where the search for a free number starts
 * @stags: registered memory by the upper 24 bits of its STag
 * @stags_ended: number of STags that have been removed from @stags
 * @objects: number of objects of each kind (limit.c)
 * @dm_used: bytes of device memory that are allocated, out of XIW_MAX_DM_SIZE
 * @settings: what /sys/class/infiniband/NAME/xiw/ shows
 * @enabler: the thread in which the core last announced the device to its clients, or NULL
 * @num_eps: number of endpoints, including closed ones that still have references
 * @stats: event counters of each CPU
 * @qp_stats: struct xiw_qp_stats of all queue pairs
 * @qp_stats_lock: guards @qp_stats, what of their counts is kept, and all for counter.c
 * @counter_ids: numbers of the counters that the administrator has made (counter.c)
 * @counter_qps: how many queue pairs are bound to each of them, by its number
 * @counters_moved: when all of them were up to date, in jiffies
 * @warn_due: for each enum xiw_cause, when the log may tell of it again, in jiffies; 0 if it never
 *	did
 * @gone: frees the device a moment after its end
 */
struct xiw_device {
	struct ib_device	ibdev;
	struct net_device	*netdev;
	netdevice_tracker	netdev_tracker;
	possible_net_t		net;
	union ib_gid		gid;

	struct xarray		qps;
	u32			next_qpn;
	struct xarray		stags;
	atomic64_t		stags_ended;
	atomic_t		objects[XIW_NUM_KINDS];
	atomic_long_t		dm_used;

	struct xiw_settings	settings;

	struct pid		*enabler;
	atomic_t		num_eps;
	struct xiw_stats __percpu *stats;
	struct list_head	qp_stats;
	struct mutex		qp_stats_lock;
	struct ida		counter_ids;
	u8			counter_qps[XIW_MAX_COUNTERS + 1];
	unsigned long		counters_moved;
	unsigned long		warn_due[XIW_NUM_CAUSES];
	struct work_struct	gone;
};

static inline struct xiw_device *to_xiw_device(struct ib_device *ibdev)
{
	return container_of(ibdev, struct xiw_device, ibdev);
}

/**
 * struct xiw_ucontext - the context of one process on a device
 * @ibuctx: the core's part
 * @lane: runs the outgoing connections of the process in order
 */
struct xiw_ucontext {
	struct ib_ucontext	ibuctx;
	struct xiw_lane		*lane;
};

static inline struct xiw_ucontext *to_xiw_ucontext(struct ib_ucontext *ibuctx)
{
	return container_of(ibuctx, struct xiw_ucontext, ibuctx);
}

/* device.c APIs */

/**
 * xiw_device_create - make and register a device on a netdev
 * @name: requested name
 * @netdev: netdev to carry it; the caller holds a reference
 *
 * Context: process; RTNL is not held.
 * Return: 0, -EEXIST if @netdev has one already, -EINVAL if it cannot carry one (the reason is
 * in the log), or another negative errno.
 */
int xiw_device_create(const char *name, struct net_device *netdev);

/**
 * xiw_device_readdress - update the GID after the hardware address of the netdev has changed
 * @dev: the device
 *
 * Context: process; RTNL is held.
 */
void xiw_device_readdress(struct xiw_device *dev);

/*
 * Whether the current thread is adding @dev, or moving it to another network namespace. If it is,
 * the core calls us on behalf of other processes.
 */
static inline bool xiw_device_is_being_added(struct xiw_device *dev)
{
	/* The core holds this while it announces the device to its clients. */
	return rwsem_is_locked(&dev->ibdev.client_data_rwsem) &&
	       READ_ONCE(dev->enabler) == task_pid(current);
}

/* The context of the process that called a verb; NULL for a kernel consumer. */
static inline struct ib_ucontext *xiw_udata_context(struct ib_udata *udata)
{
	return udata ? rdma_udata_to_uverbs_attr_bundle(udata)->context : NULL;
}

int xiw_devices_init(void);
void xiw_devices_exit(void);

#endif /* XIW_DEVICE_H */
