/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* cm.h - endpoints of the iWARP connection manager */
#ifndef XIW_CM_H
#define XIW_CM_H

#include <rdma/iw_cm.h>

struct xiw_device;

/* cm.c APIs, as struct ib_device_ops wants them; kernel-doc is in cm.c. None of them blocks. */
int xiw_cm_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param);
int xiw_cm_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param);
int xiw_cm_reject(struct iw_cm_id *cm_id, const void *pdata, u8 pdata_len);

/**
 * xiw_cm_concerns - whether a caller or listener is in the network namespace of a device
 * @cm_id: as given by the iw_cm; none of a connection that came in
 * @dev: the device
 *
 * The namespace of the current process may be another: when a link is added the core has it listen
 * for all who listened before, of all namespaces. So the rdma_cm is asked. Only of a consumer that
 * is not the rdma_cm (Linux has none) the current process has to do.
 *
 * Return: true if it is.
 */
bool xiw_cm_concerns(const struct iw_cm_id *cm_id, const struct xiw_device *dev);

/**
 * xiw_cm_drain - end all connections of a device
 * @dev: the device; no verbs object of it is left
 *
 * Context: process; sleeps. When it returns no socket of @dev is left.
 */
void xiw_cm_drain(struct xiw_device *dev);

#endif /* XIW_CM_H */
