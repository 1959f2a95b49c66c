// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* context.cpp - opens and closes a device for one process */

#include "context.hpp"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "object.hpp"

namespace xiw
{

/* Returns 0 or a positive errno. */
static int get_context(verbs_context *vctx)
{
	Request<struct ibv_get_context, ib_uverbs_get_context> request;
	Response<ib_uverbs_get_context_resp, xiw_alloc_ucontext_resp> response;

	if (int err = call_get_context(ibv_cmd_get_context, vctx, request.get(), sizeof(request),
				       response.get(), sizeof(response)))
		return err;
	if (response.driver().abi_version != XIW_ABI_VERSION) {
		std::fprintf(stderr,
			     "libxiw: %s: the kernel module speaks ABI version %u, this library "
			     "version %u: install both from one release\n",
			     vctx->context.device->name, response.driver().abi_version,
			     XIW_ABI_VERSION);
		return EPROTONOSUPPORT;
	}
	return 0;
}

/* Returns 0 or a positive errno. */
static int query_context(verbs_context *vctx)
{
	return ibv_cmd_query_context(&vctx->context, nullptr);
}

/*
 * Owns @cmd_fd from here on, even if it fails. @init sends the first command, which makes the
 * kernel's half of the context or finds the one that exists.
 */
static verbs_context *make_context(ibv_device *device, int cmd_fd, const verbs_context_ops &ops,
				   int (*init)(verbs_context *))
{
	auto *vctx = static_cast<verbs_context *>(_verbs_init_and_alloc_context(
		device, cmd_fd, sizeof(verbs_context), nullptr, XIW_DRIVER_ID));

	if (!vctx)
		return nullptr;
	if (int err = init(vctx)) {
		Context::close(&vctx->context);
		return fail(err);
	}
	verbs_set_ops(vctx, &ops);
	return vctx;
}

verbs_context *Context::open(ibv_device *device, int cmd_fd, const verbs_context_ops &ops) noexcept
{
	return make_context(device, cmd_fd, ops, get_context);
}

verbs_context *Context::import(ibv_device *device, int cmd_fd,
			       const verbs_context_ops &ops) noexcept
{
	return make_context(device, cmd_fd, ops, query_context);
}

void Context::close(ibv_context *context) noexcept
{
	verbs_context *vctx = verbs_get_ctx(context);

	verbs_uninit_context(vctx);
	std::free(vctx); /* _verbs_init_and_alloc_context() used calloc() */
}

int Context::query_device_ex(ibv_context *context, const ibv_query_device_ex_input *input,
			     ibv_device_attr_ex *attr, std::size_t attr_size) noexcept
{
	ib_uverbs_ex_query_device_resp response;
	std::size_t size = sizeof(response);

	if (int err = ibv_cmd_query_device_any(context, input, attr, attr_size, &response, &size))
		return err;

	const std::uint64_t version = response.base.fw_ver;
	std::snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver),
		      "%" PRIu64 ".%" PRIu64 ".%" PRIu64, version >> 32, version >> 16 & 0xffff,
		      version & 0xffff);
	return 0;
}

int Context::query_rt_values(ibv_context *, ibv_values_ex *values) noexcept
{
	if (values->comp_mask & ~std::uint32_t{ IBV_VALUES_MASK_RAW_CLOCK })
		return EINVAL;
	return clock_gettime(CLOCK_MONOTONIC_RAW, &values->raw_clock) ? errno : 0;
}

int Context::query_port(ibv_context *context, std::uint8_t port, ibv_port_attr *attr) noexcept
{
	Request<struct ibv_query_port, ib_uverbs_query_port> request;

	return ibv_cmd_query_port(context, port, attr, request.get(), sizeof(request));
}

} /* namespace xiw */
