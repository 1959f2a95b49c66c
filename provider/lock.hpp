/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* lock.hpp - mutual exclusion, skipped where no other thread can be */
#ifndef XIW_LOCK_HPP
#define XIW_LOCK_HPP

#include <pthread.h>
#include <sys/single_threaded.h>

namespace xiw
{

/*
 * Lock - protects one queue; for std::lock_guard
 *
 * It is skipped while the process has one thread. What unlock() undoes is what
 * lock() did, since threads may come or go in between. The mutex is adaptive:
 * what it protects is short, but its holder may be preempted.
 */
class Lock
{
public:
	void lock() noexcept
	{
		if (__libc_single_threaded)
			return;
		pthread_mutex_lock(&mutex_);
		held_ = true;
	}

	void unlock() noexcept
	{
		if (!held_)
			return;
		held_ = false;
		pthread_mutex_unlock(&mutex_);
	}

private:
	pthread_mutex_t mutex_ = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
	bool held_ = false; /* guarded by mutex_ */
};

} /* namespace xiw */

#endif /* XIW_LOCK_HPP */
