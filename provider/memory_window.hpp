/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* memory_window.hpp - memory windows */
#ifndef XIW_MEMORY_WINDOW_HPP
#define XIW_MEMORY_WINDOW_HPP

#include "domain.hpp"
#include "rdma_core.hpp"

namespace xiw
{

class MemoryWindow
{
public:
	static MemoryWindow &from(ibv_mw *mw) noexcept
	{
		return *reinterpret_cast<MemoryWindow *>(mw);
	}

	static ibv_mw *create(ibv_pd *pd, ibv_mw_type type) noexcept;
	static int destroy(ibv_mw *mw) noexcept;

	int bind(ibv_qp *qp, const ibv_mw_bind *bind) noexcept;

private:
	ibv_mw mw_ = {};
	ParentDomainRef parent_domain_;
};

static_assert(std::is_standard_layout_v<MemoryWindow>, "starts with its ibv_mw");

/*
 * Translates @info for the kernel. Without a region the length is 0, which unbinds a window of
 * type 1.
 */
inline xiw_bind bind_of(const ibv_mw_bind_info &info)
{
	return { .addr = info.addr,
		 .length = info.mr ? info.length : 0,
		 .lkey = info.mr ? info.mr->lkey : 0,
		 .access = info.mw_access_flags };
}

} /* namespace xiw */

#endif /* XIW_MEMORY_WINDOW_HPP */
