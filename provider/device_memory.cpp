// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* device_memory.cpp - device memory and its mapping */

#include "device_memory.hpp"

#include <cstring>

#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>

#include "object.hpp"

namespace xiw
{

/*
 * Asks the kernel for the key and the length of the memory. It calls ioctl() itself, because
 * libibverbs' functions for driver methods are in a header that does not compile as C++.
 * Returns 0 or a positive errno.
 */
static int query(const verbs_dm &vdm, xiw_query_dm_resp &response) noexcept
{
	constexpr std::size_t attributes = 2;
	constexpr std::size_t size =
		sizeof(ib_uverbs_ioctl_hdr) + attributes * sizeof(ib_uverbs_attr);
	alignas(8) std::byte request[size] = {};
	auto *header = reinterpret_cast<ib_uverbs_ioctl_hdr *>(request);

	header->length = size;
	header->object_id = UVERBS_OBJECT_DM;
	header->method_id = XIW_METHOD_DM_QUERY;
	header->num_attrs = attributes;
	header->driver_id = XIW_DRIVER_ID;
	header->attrs[0].attr_id = XIW_ATTR_DM_QUERY_HANDLE;
	header->attrs[0].flags = UVERBS_ATTR_F_MANDATORY;
	header->attrs[0].data = vdm.handle;
	header->attrs[1].attr_id = XIW_ATTR_DM_QUERY_RESP;
	header->attrs[1].flags = UVERBS_ATTR_F_MANDATORY;
	header->attrs[1].len = sizeof(response);
	header->attrs[1].data = reinterpret_cast<std::uintptr_t>(&response);
	return ioctl(vdm.dm.context->cmd_fd, RDMA_VERBS_IOCTL, header) ? errno : 0;
}

/* Maps the memory that the handle names. Returns 0 or a positive errno. */
int DeviceMemory::open() noexcept
{
	xiw_query_dm_resp response = {};

	if (int err = query(vdm_, response))
		return err;
	vdm_.dm.memcpy_to_dm = [](ibv_dm *dm, std::uint64_t offset, const void *data,
				  std::size_t length) {
		return from(dm).write(offset, data, length);
	};
	vdm_.dm.memcpy_from_dm = [](void *data, ibv_dm *dm, std::uint64_t offset,
				    std::size_t length) {
		return from(dm).read(data, offset, length);
	};
	length_ = response.length;
	return mapping_.map(vdm_.dm.context->cmd_fd, response.map_key, response.length);
}

ibv_dm *DeviceMemory::create(ibv_context *context, ibv_alloc_dm_attr *attr) noexcept
{
	if (attr->comp_mask)
		return fail(EINVAL);

	auto memory = make_object<DeviceMemory>();
	if (!memory)
		return nullptr;
	if (int err = ibv_cmd_alloc_dm(context, attr, &memory->vdm_, nullptr))
		return fail(err);
	if (int err = memory->open()) {
		ibv_cmd_free_dm(&memory->vdm_);
		return fail(err);
	}
	return &memory.release()->vdm_.dm;
}

int DeviceMemory::destroy(ibv_dm *dm) noexcept
{
	if (int err = ibv_cmd_free_dm(from(dm).vdm()))
		return err;
	delete &from(dm);
	return 0;
}

ibv_dm *DeviceMemory::import(ibv_context *context, std::uint32_t handle) noexcept
{
	auto memory = make_object<DeviceMemory>();
	if (!memory)
		return nullptr;
	memory->vdm_.dm.context = context;
	memory->vdm_.dm.handle = handle;
	memory->vdm_.dm.comp_mask = IBV_DM_MASK_HANDLE;
	memory->vdm_.handle = handle;
	if (int err = memory->open())
		return fail(err);
	return &memory.release()->vdm_.dm;
}

void DeviceMemory::unimport(ibv_dm *dm) noexcept
{
	delete &from(dm);
}

/* Other devices copy whole words only, and rdma-core's tests expect an error for anything else. */
int DeviceMemory::check_range(std::uint64_t offset, std::uint64_t length) const noexcept
{
	constexpr std::uint64_t word = 4;

	if (offset % word || length % word)
		return EINVAL;
	return offset > length_ || length > length_ - offset ? EFAULT : 0;
}

int DeviceMemory::write(std::uint64_t offset, const void *from, std::size_t length) noexcept
{
	if (int err = check_range(offset, length))
		return err;
	std::memcpy(mapping_.at<std::byte>(offset), from, length);
	return 0;
}

int DeviceMemory::read(void *to, std::uint64_t offset, std::size_t length) const noexcept
{
	if (int err = check_range(offset, length))
		return err;
	std::memcpy(to, mapping_.at<std::byte>(offset), length);
	return 0;
}

} /* namespace xiw */
