/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* sock_lock.h - locks TCP sockets and calls TCP without waiting for memory */
#ifndef XIW_SOCK_LOCK_H
#define XIW_SOCK_LOCK_H

#include <linux/preempt.h>
#include <linux/sched/mm.h>
#include <net/sock.h>

/*
 * What a connection sends and receives is charged to the memory cgroup of its process. If the group
 * is at its limit, TCP would first reclaim memory with the socket locked, which may take long and
 * may kill a process. Other threads would wait for the socket lock, and a kernel thread has other
 * queue pairs to serve. TCP is therefore called between xiw_nowait_begin() and xiw_nowait_end().
 * The group may then exceed its limit, as it does with data that arrives from a network, and its
 * processes reclaim memory at their next allocation. xiw_batch_has_to_wait() bounds the excess.
 *
 * TCP never waits for the memory itself (sk_allocation). These calls also give access to the last
 * reserves of the host. Payload must not use them; everything else, such as acknowledgements, is
 * small.
 */
static inline unsigned int xiw_nowait_begin(const struct sock *sk)
{
	return in_task() && mem_cgroup_from_sk(sk) ? memalloc_noreclaim_save() : 0;
}

static inline void xiw_nowait_end(unsigned int before)
{
	memalloc_noreclaim_restore(before);
}

/* sock_lock.c APIs */

/**
 * xiw_sock_lock_now - lock a socket if no other thread has locked it
 * @sk: the socket
 *
 * The lock may be held by a process that gets a CPU only now and then, so this does not wait.
 *
 * Return: true if the socket is locked now; xiw_sock_unlock() unlocks it.
 */
bool xiw_sock_lock_now(struct sock *sk);

/*
 * Unlocks the socket and processes its backlog, without waiting for the cgroup to reclaim memory.
 */
void xiw_sock_unlock(struct sock *sk);

#endif /* XIW_SOCK_LOCK_H */
