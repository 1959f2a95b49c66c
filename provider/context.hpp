/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* context.hpp - opens and closes a device for one process */
#ifndef XIW_CONTEXT_HPP
#define XIW_CONTEXT_HPP

#include <cstddef>
#include <cstdint>

#include "rdma_core.hpp"

namespace xiw
{

struct Context {
	static verbs_context *open(ibv_device *device, int cmd_fd,
				   const verbs_context_ops &ops) noexcept;
	/*
	 * Makes another context for a device file that is open already, perhaps in another
	 * process.
	 */
	static verbs_context *import(ibv_device *device, int cmd_fd,
				     const verbs_context_ops &ops) noexcept;
	static void close(ibv_context *context) noexcept;

	static int query_device_ex(ibv_context *context, const ibv_query_device_ex_input *input,
				   ibv_device_attr_ex *attr, std::size_t attr_size) noexcept;
	/* Reads the clock that completion timestamps use. */
	static int query_rt_values(ibv_context *context, ibv_values_ex *values) noexcept;
	static int query_port(ibv_context *context, std::uint8_t port,
			      ibv_port_attr *attr) noexcept;
};

} /* namespace xiw */

#endif /* XIW_CONTEXT_HPP */
