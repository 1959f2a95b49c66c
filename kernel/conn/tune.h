/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* tune.h - applies the settings of a device to TCP sockets */
#ifndef XIW_TUNE_H
#define XIW_TUNE_H

#include <linux/types.h>

#include "setting.h"

struct sock;
struct socket;
struct xiw_device;

/* tune.c APIs */

/* Sets the type of service of all that a socket sends. Context: process; locks the socket. */
void xiw_tune_tos(struct sock *sk, u8 tos);

/**
 * xiw_tune - apply the settings of a device to a connection
 * @sock: its socket, which is about to connect or was accepted
 * @dev: the device
 * @may_mark: the setting "dscp" applies, because the consumer has set no type of service
 *
 * Context: process; locks the socket. Does not wait for a control group, see sock_lock.h.
 */
void xiw_tune(struct socket *sock, struct xiw_device *dev, bool may_mark);

/* Return: the congestion control of new connections; empty for that of the system. */
struct xiw_tune_name xiw_tune_congestion(struct xiw_settings *settings);

/**
 * xiw_tune_set_congestion - choose the congestion control of new connections
 * @settings: the settings of a device
 * @text: its name, whose module is loaded and stays loaded while the setting does; empty for that
 *	of the system. The text may end with a newline
 *
 * Context: process; sleeps. The caller has checked that it may.
 * Return: 0; -EINVAL if the name is too long; -ENOENT if the kernel has none of that name; -ENOMEM.
 */
int xiw_tune_set_congestion(struct xiw_settings *settings, const char *text);

int xiw_tune_init(void);
void xiw_tune_exit(void);

#endif /* XIW_TUNE_H */
