// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* grant.c - threads of the kernel do not wait for what a control group has to give back */

#include <linux/bottom_half.h>
#include <linux/memcontrol.h>
#include <net/proto_memory.h>

#include "grant.h"

/* Kernel-doc is in grant.h. */
void xiw_grant(struct sock *sk, u32 octets, int kind)
{
	int lacks = (int)octets - sk->sk_forward_alloc;

	lockdep_assert(lockdep_sock_is_held(sk));

	if (lacks <= 0 || !xiw_granted() || !mem_cgroup_from_sk(sk) ||
	    sk_memory_allocated(sk) > sk_prot_mem_limits(sk, 1))
		return;
	local_bh_disable();
	__sk_mem_schedule(sk, lacks, kind);
	local_bh_enable();
}
