/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* grant.h - threads of the kernel do not wait for what a control group has to give back */
#ifndef XIW_GRANT_H
#define XIW_GRANT_H

#include <linux/gfp.h>
#include <linux/sched.h>
#include <net/sock.h>

#include "device.h"

/*
 * Connections are charged to the control group of their process. Whoever allocates in a group at
 * its limit has to make room first, which may take long and may kill a process. A process waits
 * for its own group. A thread of the kernel also serves others: the group goes over its limit
 * instead, as it does by what a network brings, and its processes make room when they allocate
 * next. Send and receive buffers bound by how much, and TCP's own limit for all of them.
 */

static inline bool xiw_granted(void)
{
	return in_task() && (current->flags & PF_KTHREAD);
}

/* What is charged by whoever connects: a process, or a thread of the kernel. */
static inline gfp_t xiw_gfp_charged(void)
{
	return xiw_granted() ? XIW_GFP_ATOMIC : XIW_GFP_PROCESS;
}

/* Octets that TCP counts for a segment besides its payload, and more. */
#define XIW_GRANT_SKB	2048

/**
 * xiw_grant - have a thread of the kernel find memory that is charged already
 * @sk: socket, locked
 * @octets: that TCP may allocate next
 * @kind: SK_MEM_SEND or SK_MEM_RECV
 *
 * TCP does not wait where softirqs are off, and charges nothing while it has enough. Nothing is
 * granted beyond what TCP may have itself (tcp_mem). It still has to ask for what comes into the
 * backlog afterwards, and for what it gives back too early.
 */
void xiw_grant(struct sock *sk, u32 octets, int kind);

#endif /* XIW_GRANT_H */
