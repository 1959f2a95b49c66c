// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* post.cpp - ibv_post_send() and ibv_post_recv(): copies work requests to the ring */

#include <cerrno>
#include <cstring>
#include <mutex>

#include "memory_window.hpp"
#include "queue_pair.hpp"
#include "send_rule.hpp"
#include "work_queue.hpp"

namespace xiw
{

namespace
{

static_assert(sizeof(ibv_sge) == sizeof(xiw_sge));
static_assert(offsetof(ibv_sge, addr) == offsetof(xiw_sge, addr));
static_assert(offsetof(ibv_sge, length) == offsetof(xiw_sge, length));
static_assert(offsetof(ibv_sge, lkey) == offsetof(xiw_sge, lkey));

/* The process may pass any number. To read it as the enum would be undefined, so copy its bytes. */
std::uint32_t opcode_of(const ibv_send_wr &wr)
{
	std::uint32_t opcode;

	static_assert(sizeof(opcode) == sizeof(wr.opcode));
	std::memcpy(&opcode, &wr.opcode, sizeof(opcode));
	return opcode;
}

void copy_sges(std::byte *to, const ibv_sge *sges, std::uint32_t num_sge)
{
	if (num_sge)
		std::memcpy(to, sges, num_sge * sizeof(*sges));
}

/* Returns how many bytes it copied. */
std::uint32_t copy_inline(std::byte *to, const ibv_sge *sges, std::uint32_t num_sge)
{
	std::byte *const start = to;

	for (const ibv_sge *sge = sges; sge != sges + num_sge; sge++) {
		if (!sge->length)
			continue;
		std::memcpy(to, reinterpret_cast<const void *>(sge->addr), sge->length);
		to += sge->length;
	}
	return static_cast<std::uint32_t>(to - start);
}

/* Fills the fields of a slot's header whose meaning depends on the opcode. */
void fill_opcode_fields(xiw_send_slot &slot, const ibv_send_wr &wr)
{
	slot.remote_addr = 0;
	slot.rkey = 0;
	slot.imm_inv = 0;
	switch (wr.opcode) {
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		slot.imm_inv = wr.imm_data;
		[[fallthrough]];
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
		slot.remote_addr = wr.wr.rdma.remote_addr;
		slot.rkey = wr.wr.rdma.rkey;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		slot.remote_addr = wr.wr.atomic.remote_addr;
		slot.rkey = wr.wr.atomic.rkey;
		break;
	case IBV_WR_LOCAL_INV:
		slot.rkey = wr.invalidate_rkey;
		break;
	case IBV_WR_SEND_WITH_INV:
		slot.imm_inv = wr.invalidate_rkey;
		break;
	case IBV_WR_BIND_MW:
		slot.rkey = wr.bind_mw.rkey;
		slot.bind = bind_of(wr.bind_mw.bind_info);
		break;
	default:
		break;
	}
}

/*
 * Fills slots from a list, publishes them, and calls @notify if the kernel asks for a doorbell.
 *
 * @notify runs without the lock. Other threads may fill slots meanwhile, and the kernel takes these
 * as well.
 *
 * If the doorbell fails, the slots are published already and cannot be taken back, but the kernel
 * may never look at them. So the whole list counts as refused then. This happens if the device was
 * removed.
 */
template <class Wr, class Fill, class Notify>
int post_list(Lock &lock, WorkRing &ring, Wr *const list, Wr **bad, Fill fill, Notify notify)
{
	Wr *wr = list;
	std::uint32_t flags = 0;
	int err = 0;

	{
		std::lock_guard guard(lock);
		const auto start = ring.produced();
		auto produced = start;

		for (; wr; wr = wr->next) {
			err = fill(produced, *wr);
			if (err)
				break;
			produced++;
		}
		if (produced != start)
			flags = ring.publish(produced);
	}
	if (err)
		*bad = wr;
	if (!flags) [[likely]]
		return err;
	if (int ring_err = notify(flags)) {
		*bad = list;
		return ring_err;
	}
	return err;
}

} /* namespace */

int SendQueue::check(const ibv_send_wr &wr) const noexcept
{
	const SendRule rule = rule_of(opcode_of(wr));
	const auto num_sge = static_cast<std::uint32_t>(wr.num_sge); /* huge if it was negative */

	if (rule.refused)
		return rule.refused;
	if (wr.send_flags & ~known_send_flags)
		return EINVAL;
	if (num_sge > rule.max_sge || num_sge > limits_.max_sge)
		return EINVAL;

	const auto len = total_length(wr.sg_list, num_sge);
	if (len > UINT32_MAX)
		return EINVAL;
	if (rule.atomic && (num_sge != 1 || len != atomic_len))
		return EINVAL;
	if ((wr.send_flags & IBV_SEND_INLINE) && (!rule.may_inline || len > limits_.max_inline))
		return EINVAL;
	return 0;
}

/* Leaves the slot of count @count untouched if it refuses the request. */
int SendQueue::fill(std::uint32_t count, const ibv_send_wr &wr) noexcept
{
	if (int err = check(wr)) [[unlikely]]
		return err;

	std::byte *const start = ring_.slot(count);
	std::byte *data = start + XIW_SLOT_HEADER;
	auto &slot = *reinterpret_cast<xiw_send_slot *>(start);
	const auto num_sge = static_cast<std::uint32_t>(wr.num_sge);
	const bool is_inline = wr.send_flags & IBV_SEND_INLINE;

	slot.wr_id = wr.wr_id;
	slot.opcode = static_cast<std::uint8_t>(wr.opcode);
	slot.flags = static_cast<std::uint8_t>(wr.send_flags);
	if (limits_.signal_all)
		slot.flags |= XIW_SEND_SIGNALED;
	slot.num_sge = is_inline ? 0 : static_cast<std::uint8_t>(num_sge);
	slot.reserved = 0;
	slot.inline_len = is_inline ? copy_inline(data, wr.sg_list, num_sge) : 0;
	fill_opcode_fields(slot, wr);
	if (is_inline)
		return 0;
	if (rule_of(wr.opcode).atomic) {
		slot.atomic = { .compare_add = wr.wr.atomic.compare_add,
				.swap = wr.wr.atomic.swap };
		data += sizeof(slot.atomic);
	}
	copy_sges(data, wr.sg_list, num_sge);
	return 0;
}

/*
 * Does what the kernel asks for in @flags after slots were published. The kernel may set
 * XIW_DOORBELL_LATER while it handles the doorbell, so the flags are read again after that. With
 * XIW_DOORBELL_GATHER that is for the next requests, and a process that may sleep rings at once.
 *
 * Returns 0 or a positive errno.
 */
int SendQueue::notify_kernel(std::uint32_t flags) noexcept
{
	int err = 0;

	if (flags & XIW_NEED_DOORBELL) {
		err = doorbell_.ring();
		flags = ring_.flags();
		if (flags & XIW_DOORBELL_GATHER)
			return err;
	}
	if (flags & XIW_DOORBELL_LATER) {
		if (!doorbell_pending_.load())
			doorbell_pending_.store(true);
		bool awaited = deferred_on_send_cq_.defer();

		awaited |= deferred_on_recv_cq_.defer();
		if (awaited && (flags & XIW_DOORBELL_GATHER) && doorbell_pending_.exchange(false))
			err = doorbell_.ring();
	}
	return err;
}

int SendQueue::post(ibv_send_wr *wr, ibv_send_wr **bad) noexcept
{
	auto fill_one = [this](auto count, const ibv_send_wr &one) {
		return ring_.has_room(count, finished_.word()) ? fill(count, one) : ENOMEM;
	};

	return post_list(lock_, ring_, wr, bad, fill_one,
			 [this](std::uint32_t flags) { return notify_kernel(flags); });
}

/* Leaves the slot of count @count untouched if it refuses the request. */
int ReceiveQueue::fill(std::uint32_t count, const ibv_recv_wr &wr) noexcept
{
	const auto num_sge = static_cast<std::uint32_t>(wr.num_sge); /* huge if it was negative */

	if (num_sge > max_sge_ || total_length(wr.sg_list, num_sge) > UINT32_MAX) [[unlikely]]
		return EINVAL;

	std::byte *const start = ring_.slot(count);
	auto &slot = *reinterpret_cast<xiw_recv_slot *>(start);

	slot.wr_id = wr.wr_id;
	slot.num_sge = num_sge;
	slot.reserved = 0;
	copy_sges(start + offsetof(xiw_recv_slot, sge), wr.sg_list, num_sge);
	return 0;
}

int ReceiveQueue::post(ibv_recv_wr *wr, ibv_recv_wr **bad) noexcept
{
	auto fill_one = [this](auto count, const ibv_recv_wr &one) {
		return ring_.has_room(count, freed()) ? fill(count, one) : ENOMEM;
	};

	return post_list(lock_, ring_, wr, bad, fill_one, [this](std::uint32_t flags) {
		return flags & XIW_NEED_DOORBELL ? doorbell_.ring() : 0;
	});
}

int QueuePair::post_send(ibv_send_wr *wr, ibv_send_wr **bad) noexcept
{
	if (is_reset()) {
		*bad = wr;
		return EINVAL;
	}
	return sq_.post(wr, bad);
}

int QueuePair::post_recv(ibv_recv_wr *wr, ibv_recv_wr **bad) noexcept
{
	if (is_reset() || !rq_.is_open()) {
		*bad = wr;
		return EINVAL;
	}
	return rq_.post(wr, bad);
}

} /* namespace xiw */
