/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* net/sock.h - who pays for a socket */
#ifndef XIW_COMPAT_NET_SOCK_H
#define XIW_COMPAT_NET_SOCK_H

#include_next <net/sock.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0)
static inline struct mem_cgroup *xiw_mem_cgroup_from_sk(const struct sock *sk)
{
#ifdef CONFIG_MEMCG
	return sk->sk_memcg;
#else
	return NULL;
#endif
}

#define mem_cgroup_from_sk xiw_mem_cgroup_from_sk
#endif

/* Linux 6.19: what such a socket has does not count as TCP's. */
static inline bool xiw_sk_bypass_prot_mem(const struct sock *sk)
{
#ifdef sk_bypass_prot_mem
	return sk->sk_bypass_prot_mem;
#else
	return false;
#endif
}

#endif /* XIW_COMPAT_NET_SOCK_H */
