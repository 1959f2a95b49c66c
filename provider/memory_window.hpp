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
	static ibv_mw *create(ibv_pd *pd, ibv_mw_type type) noexcept;
	static int bind(ibv_mw *mw, ibv_qp *qp, const ibv_mw_bind &bind) noexcept;
	static int destroy(ibv_mw *mw) noexcept;

private:
	ibv_mw mw_ = {};
	DomainUse domain_;
};

static_assert(std::is_standard_layout_v<MemoryWindow>, "starts with its ibv_mw");

/* For the kernel. Without a region a window is bound to nothing. */
inline xiw_bind bind_of(const ibv_mw_bind_info &info)
{
	return { .addr = info.addr,
		 .length = info.mr ? info.length : 0,
		 .lkey = info.mr ? info.mr->lkey : 0,
		 .access = info.mw_access_flags };
}

} /* namespace xiw */

#endif /* XIW_MEMORY_WINDOW_HPP */
