/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* lock.hpp - mutual exclusion, skipped where no other thread can be */
#ifndef XIW_LOCK_HPP
#define XIW_LOCK_HPP

#include <atomic>

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

/*
 * PollLock - protects one completion queue; for std::lock_guard
 *
 * As Lock, but a thread that holds it from call to call may make any other call meanwhile:
 * programs arm the queue, and create and destroy queue pairs, while they go through
 * its completions. And it is never skipped: that one thread polls does not mean that no
 * other creates and destroys queue pairs.
 */
class PollLock
{
public:
	void lock() noexcept
	{
		if (!is_mine())
			lock_.lock();
	}

	/* For the holder lock() has locked nothing, so this unlocks nothing. */
	void unlock() noexcept { lock_.unlock(); }

	void hold() noexcept
	{
		lock_.hold();
		holder_.store(pthread_self(), std::memory_order_relaxed);
	}

	void release() noexcept
	{
		holder_.store(0, std::memory_order_relaxed);
		lock_.release();
	}

private:
	/* What a thread reads here is its own name only if it has written that itself. */
	bool is_mine() const noexcept
	{
		const pthread_t holder = holder_.load(std::memory_order_relaxed);

		return holder && holder == pthread_self();
	}

	Lock lock_;
	std::atomic<pthread_t> holder_ = 0;
};

} /* namespace xiw */

#endif /* XIW_LOCK_HPP */
