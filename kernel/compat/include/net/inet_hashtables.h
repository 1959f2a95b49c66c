/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* net/inet_hashtables.h - sockets are looked up without naming the table */
#ifndef XIW_COMPAT_NET_INET_HASHTABLES_H
#define XIW_COMPAT_NET_INET_HASHTABLES_H

#include_next <net/inet_hashtables.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0)
static inline struct sock *
xiw_inet_lookup_established(struct net *net, __be32 saddr, __be16 sport, __be32 daddr,
			    __be16 dport, int dif)
{
	return inet_lookup_established(net, net->ipv4.tcp_death_row.hashinfo, saddr, sport, daddr,
				       dport, dif);
}

#define inet_lookup_established xiw_inet_lookup_established
#endif

#endif /* XIW_COMPAT_NET_INET_HASHTABLES_H */
