/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* uncancelled.hpp - a stretch of code in which the thread cannot be cancelled */
#ifndef XIW_UNCANCELLED_HPP
#define XIW_UNCANCELLED_HPP

#include <pthread.h>

namespace xiw
{

/*
 * Uncancelled - from here to the end of the block
 *
 * libibverbs' commands are cancellation points, as write() is. A thread that is
 * cancelled there unwinds past this library without a look at it, and a lock
 * that it holds stays locked for ever.
 */
class Uncancelled
{
public:
	Uncancelled() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
	~Uncancelled() { pthread_setcancelstate(before_, nullptr); }
	Uncancelled(const Uncancelled &) = delete;
	Uncancelled &operator=(const Uncancelled &) = delete;

private:
	int before_;
};

} /* namespace xiw */

#endif /* XIW_UNCANCELLED_HPP */
