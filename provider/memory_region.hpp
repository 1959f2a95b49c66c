/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* memory_region.hpp - memory regions */
#ifndef XIW_MEMORY_REGION_HPP
#define XIW_MEMORY_REGION_HPP

#include <cstddef>
#include <cstdint>
#include <memory>

#include "domain.hpp"
#include "rdma_core.hpp"

namespace xiw
{

class MemoryRegion
{
public:
	static MemoryRegion &from(verbs_mr *vmr) noexcept
	{
		return *reinterpret_cast<MemoryRegion *>(vmr);
	}

	static ibv_mr *create(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova,
			      int access) noexcept;
	static ibv_mr *create_dmabuf(ibv_pd *pd, std::uint64_t offset, std::size_t length,
				     std::uint64_t iova, int fd, int access) noexcept;
	static ibv_mr *create_dm(ibv_pd *pd, ibv_dm *dm, std::uint64_t offset, std::size_t length,
				 unsigned int access) noexcept;
	static int advise(ibv_pd *pd, ibv_advise_mr_advice advice, std::uint32_t flags,
			  ibv_sge *list, std::uint32_t num) noexcept;
	static int destroy(verbs_mr *vmr) noexcept;

	/* Another context of the same device file has registered it, and will deregister it. */
	static ibv_mr *import(ibv_pd *pd, std::uint32_t handle) noexcept;
	static void unimport(ibv_mr *mr) noexcept;

	int modify(int flags, ibv_pd *pd, void *addr, std::size_t length, int access) noexcept;

private:
	/* Counts @region in @pd, if that is a parent domain, and hands it over to libibverbs. */
	static ibv_mr *release(std::unique_ptr<MemoryRegion> &region, ibv_pd *pd) noexcept;

	verbs_mr vmr_ = {};
	ParentDomainRef parent_domain_;
};

static_assert(std::is_standard_layout_v<MemoryRegion>, "starts with its verbs_mr");

} /* namespace xiw */

#endif /* XIW_MEMORY_REGION_HPP */
