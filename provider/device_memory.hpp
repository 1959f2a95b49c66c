/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* device_memory.hpp - device memory and its mapping */
#ifndef XIW_DEVICE_MEMORY_HPP
#define XIW_DEVICE_MEMORY_HPP

#include <cstddef>
#include <cstdint>

#include "mapping.hpp"
#include "rdma_core.hpp"

namespace xiw
{

/* The device is software and has no memory, so its device memory is pages of the kernel. */
class DeviceMemory
{
public:
	static DeviceMemory &from(ibv_dm *dm) noexcept
	{
		return *reinterpret_cast<DeviceMemory *>(dm);
	}

	static ibv_dm *create(ibv_context *context, ibv_alloc_dm_attr *attr) noexcept;
	static int destroy(ibv_dm *dm) noexcept;

	/* Another context of the same device file has made it, and will destroy it. */
	static ibv_dm *import(ibv_context *context, std::uint32_t handle) noexcept;
	static void unimport(ibv_dm *dm) noexcept;

	/* libibverbs' commands take this type. */
	verbs_dm *vdm() noexcept { return &vdm_; }

	/* @offset and @length are multiples of 4 bytes. Returns 0 or a positive errno. */
	int write(std::uint64_t offset, const void *from, std::size_t length) noexcept;
	int read(void *to, std::uint64_t offset, std::size_t length) const noexcept;

private:
	int open() noexcept;
	int check_range(std::uint64_t offset, std::uint64_t length) const noexcept;

	verbs_dm vdm_ = {};
	Mapping mapping_;
	std::uint64_t length_ = 0;
};

static_assert(std::is_standard_layout_v<DeviceMemory>, "starts with its ibv_dm");

} /* namespace xiw */

#endif /* XIW_DEVICE_MEMORY_HPP */
