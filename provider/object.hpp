/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* object.hpp - life of the objects that libibverbs holds between create and destroy */
#ifndef XIW_OBJECT_HPP
#define XIW_OBJECT_HPP

#include <cerrno>
#include <memory>
#include <new>

namespace xiw
{

/* A zeroed T, or nullptr with errno set. Whoever gives it to libibverbs calls release(). */
template <class T>
std::unique_ptr<T> make_object() noexcept
{
	std::unique_ptr<T> object(new (std::nothrow) T());

	if (!object)
		errno = ENOMEM;
	return object;
}

/* How a creating verb fails. */
inline std::nullptr_t fail(int err) noexcept
{
	errno = err;
	return nullptr;
}

} /* namespace xiw */

#endif /* XIW_OBJECT_HPP */
