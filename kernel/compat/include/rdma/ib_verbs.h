/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* rdma/ib_verbs.h - network namespaces, port states and DMA handles for older kernels */
#ifndef XIW_COMPAT_RDMA_IB_VERBS_H
#define XIW_COMPAT_RDMA_IB_VERBS_H

#include_next <rdma/ib_verbs.h>
#include <linux/netdevice.h>
#include <linux/version.h>

#ifndef ib_alloc_device_with_net	/* Linux 6.17; before it all devices start in init_net */
/* In the exclusive mode a device that is in init_net cannot be used from elsewhere. */
static inline void *compat_ib_set_net(struct ib_device *ibdev, struct net *net)
{
	if (ibdev && !rdma_dev_access_netns(ibdev, net))
		write_pnet(&ibdev->coredev.rdma_net, net);
	return ibdev;
}

#define ib_alloc_device_with_net(type, member, net) \
	((struct type *)compat_ib_set_net((struct ib_device *)ib_alloc_device(type, member), net))
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
static inline enum ib_port_state ib_get_curr_port_state(struct net_device *netdev)
{
	return netif_running(netdev) && netif_carrier_ok(netdev) ? IB_PORT_ACTIVE : IB_PORT_DOWN;
}

/* For devices with one port. The cache follows when the core handles the event. */
static inline void ib_dispatch_port_state_event(struct ib_device *ibdev, struct net_device *netdev)
{
	enum ib_port_state state = ib_get_curr_port_state(netdev);
	struct ib_event event = {
		.device = ibdev,
		.event = state == IB_PORT_ACTIVE ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR,
		.element.port_num = 1,
	};
	enum ib_port_state known;

	read_lock_irq(&ibdev->cache_lock);
	known = ibdev->port_data[1].cache.port_state;
	read_unlock_irq(&ibdev->cache_lock);
	if (known != state)
		ib_dispatch_event(&event);
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
/* The core allocates counters by itself, and devices have one port here: this takes both away. */
#define XIW_COUNTER_OBJECT
#define xiw_counter_bind(counter, qp, port)	xiw_counter_bind(counter, qp)
#define xiw_counter_unbind(qp, port)		xiw_counter_unbind(qp)
#else
#define XIW_COUNTER_OBJECT						\
	.counter_init = xiw_counter_init,				\
	INIT_RDMA_OBJ_SIZE(rdma_counter, xiw_counter, counter),
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
struct ib_dmah;

/*
 * The operations reg_user_mr() and reg_user_mr_dmabuf() got a parameter. Where our functions for
 * them are declared and where they are defined, this takes the parameter away again.
 */
#define xiw_mr_reg_user(pd, start, len, iova, access, dmah, udata) \
	xiw_mr_reg_user(pd, start, len, iova, access, udata)
#define xiw_mr_reg_dmabuf(pd, offset, len, iova, fd, access, dmah, attrs) \
	xiw_mr_reg_dmabuf(pd, offset, len, iova, fd, access, attrs)
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
/* The operation resize_cq() got another name, and its size lost the sign: this puts it back. */
#define resize_user_cq		resize_cq
#define compat_unsigned
#define xiw_cq_resize(cq, wanted, udata) \
	xiw_cq_resize(cq, compat_ ## wanted, udata)
#endif

#endif /* XIW_COMPAT_RDMA_IB_VERBS_H */
