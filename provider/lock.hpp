/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* lock.hpp - mutexes that cost nothing where only one thread can use the queue */
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
 * lock() and unlock() bracket one verb. lock() does nothing while the process has a single thread.
 * unlock() undoes what lock() did, even if the number of threads has changed in between.
 *
 * hold() and release() bracket several verbs, such as ibv_wr_start() to ibv_wr_complete(). The
 * program may start threads in between, so hold() locks even if the process has a single thread.
 *
 * After disable() all four do nothing. It is for queues in a thread domain, with which the program
 * promises that only one thread at a time uses the queue.
 *
 * The mutex is adaptive, which means it spins before it sleeps: critical sections are short, but
 * the thread that holds the mutex may be preempted.
 */
class Lock
{
public:
	/* Call it before the first lock() or hold(). */
	void disable() noexcept { disabled_ = true; }

	void lock() noexcept
	{
		if (disabled_ || __libc_single_threaded)
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
		if (!disabled_)
			pthread_mutex_lock(&mutex_);
	}

	void release() noexcept
	{
		if (!disabled_)
			pthread_mutex_unlock(&mutex_);
	}

private:
	pthread_mutex_t mutex_ = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
	bool locked_ = false; /* lock() has locked mutex_, which guards this */
	bool disabled_ = false;
};

/*
 * PollLock - protects one completion queue; for std::lock_guard
 *
 * It works like Lock, with two differences. The thread that holds it, between ibv_start_poll()
 * and ibv_end_poll(), may call any other verb, which then locks nothing: programs arm the queue,
 * and create and destroy queue pairs, while they go through its completions. And it cannot be
 * disabled: even if only one thread polls, another thread may create or destroy queue pairs.
 */
class PollLock
{
public:
	void lock() noexcept
	{
		if (!held_by_this_thread())
			lock_.lock();
	}

	/* If this thread holds the lock, lock() has locked nothing and this unlocks nothing. */
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
	/* Relaxed is enough: a thread can read its own id only if it has stored that id itself. */
	bool held_by_this_thread() const noexcept
	{
		const pthread_t holder = holder_.load(std::memory_order_relaxed);

		return holder && holder == pthread_self();
	}

	Lock lock_;
	std::atomic<pthread_t> holder_ = 0;
};

} /* namespace xiw */

#endif /* XIW_LOCK_HPP */
