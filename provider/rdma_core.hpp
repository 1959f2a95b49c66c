/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* rdma_core.hpp - libibverbs' interface for providers, which is C, wrapped once for C++ */
#ifndef XIW_RDMA_CORE_HPP
#define XIW_RDMA_CORE_HPP

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <rdma/ib_user_verbs.h>
#include <rdma/xiw-abi.h>

/*
 * Three headers that driver.h includes are C that is no C++20: kern-abi.h (a
 * struct without members has size 0 in C and 1 in C++), cmd_ioctl.h
 * (initialisers out of order) and <stdatomic.h> (nothing from GCC, C's types
 * from clang). driver.h takes little more from them than names of structs, so
 * their guards keep them out.
 */
#define KERN_ABI_H
#define __INFINIBAND_VERBS_IOCTL_H
#define _GLIBCXX_STDATOMIC_H
using std::atomic_int;

/* A later driver.h has a function that looks into what cmd_ioctl.h has. Nobody calls it here. */
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

/* For enumerators of two lists that have to agree. */
template <class A, class B>
consteval bool same_number(A a, B b)
{
	return static_cast<long>(a) == static_cast<long>(b);
}

/*
 * What libibverbs sends to the kernel, and what comes back. Their core parts
 * end in flexible arrays, after which C++ lets nothing follow; as nobody but
 * libibverbs looks into them they are octets here, of the right number.
 */
struct Nothing {
};

template <class Command, class Core, class Driver = Nothing>
class Request
{
public:
	Request() = default;
	explicit Request(const Driver &driver) noexcept : driver_(driver) {}

	Command *get() noexcept { return reinterpret_cast<Command *>(octets_); }

private:
	alignas(8) std::byte octets_[sizeof(ib_uverbs_cmd_hdr) + sizeof(Core)] = {};
	[[no_unique_address]] Driver driver_ = {};

	static_assert(sizeof(octets_) % alignof(Driver) == 0, "the two parts must adjoin");
};

/* The same for the verbs whose command has a second header. */
template <class Command, class Core>
class ExtendedRequest
{
public:
	Command *get() noexcept { return reinterpret_cast<Command *>(octets_); }

private:
	alignas(8) std::byte octets_[sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_ex_cmd_hdr) +
				     sizeof(Core)] = {};
};

template <class Core, class Driver>
class Answer
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
 * Two functions got one argument more, in the middle: ibv_cmd_get_context() with rdma-core 57 files
 * that libibverbs has opened already, ibv_cmd_create_cq_ex() with 59 memory that the caller brings for
 * the queue. We have neither. Which of both forms there is tells the type of the function, which is a
 * parameter here so that the other form need not compile.
 */
template <class Function, class... Rest>
int get_context_by(Function *call, verbs_context *context, ibv_get_context *command, size_t size,
		   Rest... rest)
{
	if constexpr (std::is_invocable_v<Function *, verbs_context *, ibv_get_context *, size_t,
					  Rest...>)
		return call(context, command, size, rest...);
	else
		return call(context, command, size, nullptr, rest...);
}

template <class Function, class... Rest>
int create_cq_by(Function *call, ibv_context *context, const ibv_cq_init_attr_ex *attr,
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
