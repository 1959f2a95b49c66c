/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* moved_ring.hpp - maps a ring that the kernel has moved to other memory */
#ifndef XIW_MOVED_RING_HPP
#define XIW_MOVED_RING_HPP

#include <optional>
#include <utility>

#include "mapping.hpp"
#include "rdma_core.hpp"

namespace xiw
{

/*
 * Maps the memory to which the kernel has moved @ring when the queue was resized, if @moved names
 * any, and frees the old mapping. If the process has no room for the mapping, the ring stays closed
 * and the next caller tries again. The caller holds the lock of the queue.
 * Returns 0 or a positive errno.
 */
template <class Ring, class Granted>
int map_moved_ring(const ibv_context *context, std::optional<Granted> &moved, Mapping &mapping,
		   Ring &ring) noexcept
{
	Mapping to;

	if (!moved)
		return 0;
	if (int err = to.map(context->cmd_fd, moved->map_key, moved->map_len)) {
		ring.close();
		return err;
	}
	ring.move(to.at<typename Ring::Control>(0), to.at<typename Ring::Slot>(moved->slots_offset),
		  moved->entries);
	mapping = std::move(to);
	moved.reset();
	return 0;
}

} /* namespace xiw */

#endif /* XIW_MOVED_RING_HPP */
