/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* cm.h - connects, accepts and rejects for the iWARP connection manager */
#ifndef XIW_CM_H
#define XIW_CM_H

#include <rdma/iw_cm.h>

struct xiw_device;

/* cm.c APIs: members of struct ib_device_ops; kernel-doc is in cm.c. None waits for the peer. */
int xiw_cm_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param);
int xiw_cm_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param);
int xiw_cm_reject(struct iw_cm_id *cm_id, const void *pdata, u8 pdata_len);

/**
 * xiw_cm_concerns - whether a caller or listener is in the network namespace of a device
 * @cm_id: from the iw_cm; not the id of an incoming connection
 * @dev: the device
 *
 * The current process may be in another namespace than the consumer: a process that adds a link
 * also makes the listeners of all consumers on it, whatever their namespaces. So the namespace is
 * taken from the id of the rdma_cm. If the consumer is not the rdma_cm (Linux has no other), the
 * namespace of the current process is used.
 *
 * Return: true if it is.
 */
bool xiw_cm_concerns(const struct iw_cm_id *cm_id, const struct xiw_device *dev);

/**
 * xiw_cm_drain - end all connections of a device
 * @dev: the device; all its verbs objects are gone
 *
 * Context: process; sleeps. On return @dev has no endpoint and no socket.
 */
void xiw_cm_drain(struct xiw_device *dev);

#endif /* XIW_CM_H */
