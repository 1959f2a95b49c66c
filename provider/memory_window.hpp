/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* memory_window.hpp - memory windows */
#ifndef XIW_MEMORY_WINDOW_HPP
#define XIW_MEMORY_WINDOW_HPP

#include "rdma_core.hpp"

namespace xiw
{

/* The kernel's alone, like the region that it is bound to. */
struct MemoryWindow {
	static ibv_mw *create(ibv_pd *pd, ibv_mw_type type) noexcept;
	static int bind(ibv_mw *mw, ibv_qp *qp, const ibv_mw_bind &bind) noexcept;
	static int destroy(ibv_mw *mw) noexcept;
};

} /* namespace xiw */

#endif /* XIW_MEMORY_WINDOW_HPP */
