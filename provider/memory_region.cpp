// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* memory_region.cpp - memory regions */

#include "memory_region.hpp"

#include "device_memory.hpp"
#include "object.hpp"

namespace xiw
{

ibv_mr *MemoryRegion::release(std::unique_ptr<MemoryRegion> &region, ibv_pd *pd) noexcept
{
	region->parent_domain_ = ParentDomainRef(pd);
	return &region.release()->vmr_.ibv_mr;
}

ibv_mr *MemoryRegion::create(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova,
			     int access) noexcept
{
	Request<struct ibv_reg_mr, ib_uverbs_reg_mr> request;
	ib_uverbs_reg_mr_resp response;

	auto region = make_object<MemoryRegion>();
	if (!region)
		return nullptr;
	if (int err = ibv_cmd_reg_mr(pd, addr, length, iova, access, &region->vmr_, request.get(),
				     sizeof(request), &response, sizeof(response)))
		return fail(err);
	return release(region, pd);
}

ibv_mr *MemoryRegion::create_dmabuf(ibv_pd *pd, std::uint64_t offset, std::size_t length,
				    std::uint64_t iova, int fd, int access) noexcept
{
	auto region = make_object<MemoryRegion>();
	if (!region)
		return nullptr;
	int err =
		ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, &region->vmr_, nullptr);
	if (err)
		return fail(err);
	return release(region, pd);
}

ibv_mr *MemoryRegion::create_dm(ibv_pd *pd, ibv_dm *dm, std::uint64_t offset, std::size_t length,
				unsigned int access) noexcept
{
	auto region = make_object<MemoryRegion>();
	if (!region)
		return nullptr;
	if (int err = ibv_cmd_reg_dm_mr(pd, DeviceMemory::from(dm).vdm(), offset, length, access,
					&region->vmr_, nullptr))
		return fail(err);
	return release(region, pd);
}

ibv_mr *MemoryRegion::import(ibv_pd *pd, std::uint32_t handle) noexcept
{
	auto region = make_object<MemoryRegion>();
	if (!region)
		return nullptr;
	if (int err = ibv_cmd_query_mr(pd, &region->vmr_, handle))
		return fail(err);
	return release(region, pd);
}

void MemoryRegion::unimport(ibv_mr *mr) noexcept
{
	delete &from(verbs_get_mr(mr));
}

int MemoryRegion::modify(int flags, ibv_pd *pd, void *addr, std::size_t length, int access) noexcept
{
	Request<struct ibv_rereg_mr, ib_uverbs_rereg_mr> request;
	ib_uverbs_rereg_mr_resp response;

	if (int err = ibv_cmd_rereg_mr(&vmr_, flags, addr, length,
				       reinterpret_cast<std::uintptr_t>(addr), access, pd,
				       request.get(), sizeof(request), &response, sizeof(response)))
		return err;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		parent_domain_ = ParentDomainRef(pd);
	return 0;
}

int MemoryRegion::advise(ibv_pd *pd, ibv_advise_mr_advice advice, std::uint32_t flags,
			 ibv_sge *list, std::uint32_t num) noexcept
{
	return ibv_cmd_advise_mr(pd, advice, flags, list, num);
}

int MemoryRegion::destroy(verbs_mr *vmr) noexcept
{
	if (int err = ibv_cmd_dereg_mr(vmr))
		return err;
	delete &from(vmr);
	return 0;
}

} /* namespace xiw */
