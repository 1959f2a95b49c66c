/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* object.hpp - allocates the objects that libibverbs holds from create to destroy */
#ifndef XIW_OBJECT_HPP
#define XIW_OBJECT_HPP

#include <cerrno>
#include <cstddef>
#include <memory>
#include <new>

namespace xiw
{

/* Returns a value-initialized T, or nullptr with errno set. */
template <class T>
std::unique_ptr<T> make_object() noexcept
{
	std::unique_ptr<T> object(new (std::nothrow) T());

	if (!object)
		errno = ENOMEM;
	return object;
}

/* Sets errno and returns the null pointer that a verb returns when it cannot create an object. */
inline std::nullptr_t fail(int err) noexcept
{
	errno = err;
	return nullptr;
}

} /* namespace xiw */

#endif /* XIW_OBJECT_HPP */
