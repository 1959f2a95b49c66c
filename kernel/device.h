/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* device.h - the ib_device, its settings and what hangs on a process's context */
#ifndef XIW_DEVICE_H
#define XIW_DEVICE_H

#include <linux/netdevice.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "limit.h"
#include "stats.h"

#define XIW_VENDOR_ID		0x027869	/* of local administration: it is nobody's OUI */
#define XIW_MAX_QP		(64 * 1024)
#define XIW_MAX_CQ		(64 * 1024)
#define XIW_MAX_SRQ		(64 * 1024)
#define XIW_MAX_PD		(64 * 1024)
#define XIW_MAX_MR		(1024 * 1024)
#define XIW_MAX_MW		(1024 * 1024)
#define XIW_MAX_QP_WR		(32 * 1024)
#define XIW_MAX_CQE		(1024 * 1024)
#define XIW_MAX_SRQ_WR		(32 * 1024)
#define XIW_MAX_MESSAGE		0x7fffffff	/* octets */
#define XIW_MAX_SGE_RD		1	/* a Read Request names one sink */
#define XIW_MAX_IRD		128
#define XIW_MAX_ORD		128
#define XIW_MAX_FAST_REG_PAGES	512
#define XIW_MAX_DM_SIZE		(16 * 1024 * 1024)	/* octets of device memory, all together */

/*
 * For memory on behalf of a process. It is charged to the control group of the process, which is
 * told when there is no more, and not killed for it as with GFP_KERNEL_ACCOUNT alone.
 */
#define XIW_GFP_PROCESS		(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* The same, but nobody waits for what that group has to give back: it may go over its limit. */
#define XIW_GFP_ATOMIC		(GFP_ATOMIC | __GFP_ACCOUNT | __GFP_NOMEMALLOC | __GFP_NOWARN)

struct xiw_lane;

/**
 * struct xiw_device - one RDMA device on one netdev
 * @ibdev: what the core sees
 * @netdev: carries the traffic
 * @netdev_tracker: of our reference on @netdev, which ends with the device
 * @net: network namespace of @netdev, in which all sockets are made
 * @gid: hardware address of @netdev, made up if it has none; never zero, because the core takes a
 *	zero GID for an empty place in its table
 * @qps: queue pairs by number
 * @next_qpn: where the search for a free number starts
 * @stags: registered memory by the upper 24 bits of its STag
 * @stags_ended: how many of them there are no more
 * @objects: how many there are of each kind (limit.c)
 * @dm_used: octets of device memory that are allocated, of XIW_MAX_DM_SIZE
 * @crc: setting "crc": ask for CRCs on new connections (RFC 5044 section 4.4)
 * @responder_hold: setting "responder_hold": a responder sends nothing before the first FPDU came
 *	(RFC 5044 section 7.1.2 rule 4); off for initiators that wait in silence, as siw does
 * @loopback: setting "loopback": connections within this host do without TCP (loop.c)
 * @enabler: the thread that had the clients of the core told of the device last, or NULL
 * @num_eps: endpoints, also those that are closed and still referred to
 * @stats: event counters of each CPU
 * @qp_stats: struct xiw_qp_stats of all queue pairs
 * @qp_stats_lock: guards @qp_stats
 * @gone: frees the device, a moment after its end
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

	bool			crc;
	bool			responder_hold;
	bool			loopback;

	struct pid		*enabler;
	atomic_t		num_eps;
	struct xiw_stats __percpu *stats;
	struct list_head	qp_stats;
	struct mutex		qp_stats_lock;
	struct work_struct	gone;
};

static inline struct xiw_device *to_xiw_device(struct ib_device *ibdev)
{
	return container_of(ibdev, struct xiw_device, ibdev);
}

/**
 * struct xiw_ucontext - one process's use of a device
 * @ibuctx: what the core sees
 * @lane: orders what comes of the connections that the process calls
 */
struct xiw_ucontext {
	struct ib_ucontext	ibuctx;
	struct xiw_lane		*lane;
};

static inline struct xiw_ucontext *to_xiw_ucontext(struct ib_ucontext *ibuctx)
{
	return container_of(ibuctx, struct xiw_ucontext, ibuctx);
}

/**
 * struct xiw_area - memory shared with one process, or owned by a kernel consumer
 * @entry: handle by which the process maps it; unused for kernel consumers
 * @mem: zeroed, and charged to the control group of who had it made
 * @len: octets
 */
struct xiw_area {
	struct rdma_user_mmap_entry	entry;
	void				*mem;
	size_t				len;
};

/* device.c APIs */

/**
 * xiw_device_create - make and register a device on a netdev
 * @name: name wanted
 * @netdev: netdev to carry it; the caller holds a reference
 *
 * Context: process; RTNL is not held.
 * Return: 0, -EEXIST if @netdev has one already, -EINVAL if it cannot carry one (the reason is
 * in the log), or another negative errno.
 */
int xiw_device_create(const char *name, struct net_device *netdev);

/*
 * Whether the current process adds @dev, or moves it to another network namespace: what the core
 * asks is on behalf of others, then.
 */
bool xiw_device_is_being_added(struct xiw_device *dev);

/**
 * xiw_device_readdress - the hardware address of the netdev has changed
 * @dev: the device
 *
 * Context: process; RTNL is held.
 */
void xiw_device_readdress(struct xiw_device *dev);

/* The context of the process that a verb works for; NULL for a kernel consumer. */
static inline struct ib_ucontext *xiw_udata_context(struct ib_udata *udata)
{
	return udata ? rdma_udata_to_uverbs_attr_bundle(udata)->context : NULL;
}

/**
 * xiw_area_create - allocate memory for rings, or for what a process calls device memory
 * @len: octets wanted, rounded up to pages
 * @uctx: context of the process that will map it; NULL for a kernel consumer
 *
 * Return: the area, or ERR_PTR(-ENOMEM) or another negative errno.
 */
struct xiw_area *xiw_area_create(size_t len, struct ib_ucontext *uctx);

/* The key by which the process maps @area; it goes into the answer of the verb. */
static inline u64 xiw_area_key(struct xiw_area *area)
{
	return rdma_user_mmap_get_offset(&area->entry);
}

/* Nobody in the kernel may use @area any more; a process's mapping lives on. */
void xiw_area_destroy(struct xiw_area *area, struct ib_ucontext *uctx);

int xiw_devices_init(void);
void xiw_devices_exit(void);

#endif /* XIW_DEVICE_H */
