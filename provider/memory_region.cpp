// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* memory_region.cpp - memory that is registered */

#include "memory_region.hpp"

#include "device_memory.hpp"
#include "object.hpp"

namespace xiw
{

ibv_mr *MemoryRegion::create(ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			     int access) noexcept
{
	Request<struct ibv_reg_mr, ib_uverbs_reg_mr> request;
	ib_uverbs_reg_mr_resp answer;

	auto vmr = make_object<verbs_mr>();
	if (!vmr)
		return nullptr;
	if (int err = ibv_cmd_reg_mr(pd, addr, length, iova, access, vmr.get(), request.get(),
				     sizeof(request), &answer, sizeof(answer)))
		return fail(err);
	return &vmr.release()->ibv_mr;
}

ibv_mr *MemoryRegion::create_dmabuf(ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				    int fd, int access) noexcept
{
	auto vmr = make_object<verbs_mr>();
	if (!vmr)
		return nullptr;
	int err = ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, vmr.get(), nullptr);
	if (err)
		return fail(err);
	return &vmr.release()->ibv_mr;
}

ibv_mr *MemoryRegion::create_dm(ibv_pd *pd, ibv_dm *dm, uint64_t offset, size_t length,
				unsigned int access) noexcept
{
	auto vmr = make_object<verbs_mr>();
	if (!vmr)
		return nullptr;
	if (int err = ibv_cmd_reg_dm_mr(pd, DeviceMemory::from(dm).command(), offset, length,
					access, vmr.get(), nullptr))
		return fail(err);
	return &vmr.release()->ibv_mr;
}

ibv_mr *MemoryRegion::import(ibv_pd *pd, std::uint32_t handle) noexcept
{
	auto vmr = make_object<verbs_mr>();
	if (!vmr)
		return nullptr;
	if (int err = ibv_cmd_query_mr(pd, vmr.get(), handle))
		return fail(err);
	return &vmr.release()->ibv_mr;
}

void MemoryRegion::unimport(ibv_mr *mr) noexcept
{
	delete verbs_get_mr(mr);
}

int MemoryRegion::modify(verbs_mr *vmr, int flags, ibv_pd *pd, void *addr, size_t length,
			 int access) noexcept
{
	Request<struct ibv_rereg_mr, ib_uverbs_rereg_mr> request;
	ib_uverbs_rereg_mr_resp answer;

	return ibv_cmd_rereg_mr(vmr, flags, addr, length, reinterpret_cast<uintptr_t>(addr), access,
				pd, request.get(), sizeof(request), &answer, sizeof(answer));
}

int MemoryRegion::advise(ibv_pd *pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge *list,
			 uint32_t num) noexcept
{
	return ibv_cmd_advise_mr(pd, advice, flags, list, num);
}

int MemoryRegion::destroy(verbs_mr *vmr) noexcept
{
	if (int err = ibv_cmd_dereg_mr(vmr))
		return err;
	delete vmr;
	return 0;
}

} /* namespace xiw */
