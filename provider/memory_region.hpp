/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* memory_region.hpp - memory that is registered */
#ifndef XIW_MEMORY_REGION_HPP
#define XIW_MEMORY_REGION_HPP

#include <memory>

#include "domain.hpp"
#include "rdma_core.hpp"

namespace xiw
{

class MemoryRegion
{
public:
	static ibv_mr *create(ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			      int access) noexcept;
	static ibv_mr *create_dmabuf(ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				     int fd, int access) noexcept;
	static ibv_mr *create_dm(ibv_pd *pd, ibv_dm *dm, uint64_t offset, size_t length,
				 unsigned int access) noexcept;
	static int modify(verbs_mr *vmr, int flags, ibv_pd *pd, void *addr, size_t length,
			  int access) noexcept;
	static int advise(ibv_pd *pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge *list,
			  uint32_t num) noexcept;
	static int destroy(verbs_mr *vmr) noexcept;

	/* One that another context of the same device file registered, and will deregister. */
	static ibv_mr *import(ibv_pd *pd, std::uint32_t handle) noexcept;
	static void unimport(ibv_mr *mr) noexcept;

private:
	static MemoryRegion &from(verbs_mr *vmr) noexcept
	{
		return *reinterpret_cast<MemoryRegion *>(vmr);
	}

	/* Gives to libibverbs what was made in @pd. */
	static ibv_mr *release(std::unique_ptr<MemoryRegion> &region, ibv_pd *pd) noexcept;

	verbs_mr vmr_ = {};
	DomainUse domain_;
};

static_assert(std::is_standard_layout_v<MemoryRegion>, "starts with its verbs_mr");

} /* namespace xiw */

#endif /* XIW_MEMORY_REGION_HPP */
