// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* sock_lock.c - locks TCP sockets and calls TCP without waiting for memory */

#include "carrier/sock_lock.h"

/* Kernel-doc of the functions that other files call is in sock_lock.h. */
void xiw_sock_unlock(struct sock *sk)
{
	unsigned int before = xiw_nowait_begin(sk);

	release_sock(sk);
	xiw_nowait_end(before);
}

bool xiw_sock_lock_now(struct sock *sk)
{
	bool locked;

	spin_lock_bh(&sk->sk_lock.slock);
	locked = !sock_owned_by_user_nocheck(sk);
	if (locked) {
		sk->sk_lock.owned = 1;
		mutex_acquire(&sk->sk_lock.dep_map, 0, 1, _RET_IP_);
	}
	spin_unlock_bh(&sk->sk_lock.slock);
	return locked;
}
