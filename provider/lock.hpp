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
 * lock() is for the length of one call, and does nothing while the process has
 * one thread. What unlock() undoes is what lock() did, since threads may go in
 * between. hold() is for what lasts from call to call until release(): the
 * program may start threads meanwhile, so it asks for none. If the program said
 * that one thread at a time uses the queue, all of them do nothing.
 *
 * The mutex is adaptive: what it protects is short, but its holder may be
 * preempted.
 */
class Lock
{
public:
	/* Before the first use. */
	void skip() noexcept { skipped_ = true; }

	void lock() noexcept
	{
		if (skipped_ || __libc_single_threaded)
			return;
		pthread_mutex_lock(&mutex_);
		locked_ = true;
	}

	void unlock() noexcept
	{
		if (!locked_)
			return;
		locked_ = false;
		pthread_mutex_unlock(&mutex_);
	}

	void hold() noexcept
	{
		if (!skipped_)
			pthread_mutex_lock(&mutex_);
	}

	void release() noexcept
	{
		if (!skipped_)
			pthread_mutex_unlock(&mutex_);
	}

private:
	pthread_mutex_t mutex_ = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
	bool locked_ = false; /* by lock(); guarded by mutex_ */
	bool skipped_ = false;
};

} /* namespace xiw */

#endif /* XIW_LOCK_HPP */
