/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/socket.h - the newer name of a socket address of unknown length */
#ifndef XIW_COMPAT_LINUX_SOCKET_H
#define XIW_COMPAT_LINUX_SOCKET_H

#include_next <linux/socket.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 19, 0)
#define sockaddr_unsized sockaddr
#endif

#endif /* XIW_COMPAT_LINUX_SOCKET_H */
