/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* cancel_guard.hpp - keeps a thread from being cancelled while it holds a lock */
#ifndef XIW_CANCEL_GUARD_HPP
#define XIW_CANCEL_GUARD_HPP

#include <pthread.h>

namespace xiw
{

/*
 * CancelGuard - disables cancellation of the thread until the end of the block
 *
 * libibverbs' commands may call write(), which is a cancellation point (pthreads(7)). This
 * library is built without exceptions, so a thread that is cancelled there does not run the
 * destructors of its lock guards, and the locks stay held forever.
 */
class CancelGuard
{
public:
	CancelGuard() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
	~CancelGuard() { pthread_setcancelstate(before_, nullptr); }
	CancelGuard(const CancelGuard &) = delete;
	CancelGuard &operator=(const CancelGuard &) = delete;

private:
	int before_;
};

} /* namespace xiw */

#endif /* XIW_CANCEL_GUARD_HPP */
