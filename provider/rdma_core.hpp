/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* rdma_core.hpp - libibverbs' C interface for providers, made usable in C++ */
#ifndef XIW_RDMA_CORE_HPP
#define XIW_RDMA_CORE_HPP

#include <atomic>
#include <cstddef>
#include <limits> /* verbs.h includes it, which fails within extern "C" */
#include <type_traits>

#include <rdma/ib_user_verbs.h>
#include <rdma/xiw-abi.h>

/*
 * driver.h includes three headers that do not compile as C++20: kern-abi.h relies on empty
 * structs of size 0 (C++ makes them 1), cmd_ioctl.h has designated initializers out of order, and
 * GCC and clang disagree on what <stdatomic.h> defines in C++. driver.h needs little more from
 * them than the names of structs, so their include guards are defined here to keep them out.
 */
#define KERN_ABI_H
#define __INFINIBAND_VERBS_IOCTL_H
#define _GLIBCXX_STDATOMIC_H
using std::atomic_int;

/*
 * Later versions of driver.h have an inline function that uses these two from cmd_ioctl.h. This
 * provider does not call it, so it only has to compile.
 */
struct ibv_command_buffer {
	unsigned int fallback_ioctl_only;
};
#define fill_attr_in_ptr(command, id, from) static_cast<void>(from)

extern "C" {
#include <ccan/container_of.h>
#include <infiniband/driver.h>
}

#undef fill_attr_in_ptr

namespace xiw
{

/* For static_assert() on enumerators of two enums. Returns whether they have the same value. */
template <class A, class B>
consteval bool same_number(A a, B b)
{
	return static_cast<long>(a) == static_cast<long>(b);
}

/*
 * Request and Response are the buffers of a verb's command: what libibverbs sends to the kernel
 * and what the kernel returns. Each is a core part followed by the driver's part. The core
 * structs end in flexible arrays, and C++ allows no member after one of these, so the core part
 * is an array of bytes here. Only libibverbs reads and writes it.
 */
struct NoDriverPart {
};

template <class Command, class Core, class Driver = NoDriverPart>
class Request
{
public:
	Request() = default;
	explicit Request(const Driver &driver) noexcept : driver_(driver) {}

	Command *get() noexcept { return reinterpret_cast<Command *>(bytes_); }

private:
	alignas(8) std::byte bytes_[sizeof(ib_uverbs_cmd_hdr) + sizeof(Core)] = {};
	[[no_unique_address]] Driver driver_ = {};

	static_assert(sizeof(bytes_) % alignof(Driver) == 0, "the two parts must adjoin");
};

/* The request of a verb whose command has an extended header. */
template <class Command, class Core>
class ExtendedRequest
{
public:
	Command *get() noexcept { return reinterpret_cast<Command *>(bytes_); }

private:
	alignas(8) std::byte bytes_[sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_ex_cmd_hdr) +
				    sizeof(Core)] = {};
};

template <class Core, class Driver>
class Response
{
public:
	Core *get() noexcept { return reinterpret_cast<Core *>(core_); }
	const Driver &driver() const noexcept { return driver_; }

private:
	alignas(8) std::byte core_[sizeof(Core)] = {};
	Driver driver_ = {};

	static_assert(sizeof(Core) % alignof(Driver) == 0, "the two parts must adjoin");
};

/*
 * Two functions of libibverbs got another parameter in the middle: ibv_cmd_get_context() in
 * rdma-core 57 (an fd array) and ibv_cmd_create_cq_ex() in 59 (memory that the caller brings).
 * This provider uses neither and passes nullptr. The type of the function tells which form it
 * has. It is a template parameter, because only then does the compiler skip the branch with the
 * other form.
 */
template <class Function, class... Rest>
int call_get_context(Function *call, verbs_context *context, ibv_get_context *command,
		     std::size_t size, Rest... rest)
{
	if constexpr (std::is_invocable_v<Function *, verbs_context *, ibv_get_context *,
					  std::size_t, Rest...>)
		return call(context, command, size, rest...);
	else
		return call(context, command, size, nullptr, rest...);
}

template <class Function, class... Rest>
int call_create_cq_ex(Function *call, ibv_context *context, const ibv_cq_init_attr_ex *attr,
		      verbs_cq *cq, Rest... rest)
{
	if constexpr (std::is_invocable_v<Function *, ibv_context *, const ibv_cq_init_attr_ex *,
					  verbs_cq *, Rest...>)
		return call(context, attr, cq, rest...);
	else
		return call(context, attr, nullptr, cq, rest...);
}

} /* namespace xiw */

#endif /* XIW_RDMA_CORE_HPP */
