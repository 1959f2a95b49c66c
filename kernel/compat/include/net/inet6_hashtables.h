/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* net/inet6_hashtables.h - sockets are looked up without naming the table */
#ifndef XIW_COMPAT_NET_INET6_HASHTABLES_H
#define XIW_COMPAT_NET_INET6_HASHTABLES_H

#include_next <net/inet6_hashtables.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 18, 0) && IS_ENABLED(CONFIG_IPV6)
static inline struct sock *
xiw_inet6_lookup_established(const struct net *net, const struct in6_addr *saddr, __be16 sport,
			     const struct in6_addr *daddr, u16 hnum, int dif, int sdif)
{
	return __inet6_lookup_established(net, net->ipv4.tcp_death_row.hashinfo, saddr, sport,
					  daddr, hnum, dif, sdif);
}

#define __inet6_lookup_established xiw_inet6_lookup_established
#endif

#endif /* XIW_COMPAT_NET_INET6_HASHTABLES_H */
