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
 * xiw_cm_drain - end all connections of a device
 * @dev: the device; no verbs object of it is left
 *
 * Context: process; sleeps. When it returns no socket of @dev is left.
 */
void xiw_cm_drain(struct xiw_device *dev);

int xiw_cm_init(void);
void xiw_cm_exit(void);

#endif /* XIW_CM_H */
