// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* extended_poll.cpp - ibv_start_poll(), ibv_next_poll() and ibv_end_poll() */

#include <cerrno>
#include <ctime>

#include "completion_queue.hpp"
#include "patience.hpp"

namespace xiw
{

namespace
{

std::int64_t nanoseconds(clockid_t clock)
{
	timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * std::int64_t{ 1'000'000'000 } + now.tv_nsec;
}

/* Translates a timestamp from CLOCK_MONOTONIC_RAW to CLOCK_REALTIME. */
std::uint64_t wallclock(std::uint64_t timestamp)
{
	const auto since = nanoseconds(CLOCK_MONOTONIC_RAW) - static_cast<std::int64_t>(timestamp);

	return static_cast<std::uint64_t>(nanoseconds(CLOCK_REALTIME) - since);
}

} /* namespace */

/*
 * Reads the oldest completion that has not been consumed. Returns false if there is none.
 *
 * It copies the entry and gives it back at once. So the program may post new requests, and may
 * create, destroy or reset queue pairs, before it goes on to the next completion.
 */
bool CompletionQueue::read_next() noexcept
{
	const xiw_cqe *const cqe = ring_.peek();

	if (!cqe)
		return false;
	current_ = *cqe;
	vcq_.cq_ex.wr_id = current_.wr_id;
	vcq_.cq_ex.status = static_cast<ibv_wc_status>(current_.status);
	consume_entry(current_.qpn, current_.opcode, current_.sq_count);
	return true;
}

/* If there is a completion, the queue stays locked until end_poll(). Otherwise it is unlocked. */
int CompletionQueue::start_poll(const ibv_poll_cq_attr *attr) noexcept
{
	if (attr->comp_mask)
		return EINVAL;
	lock_.hold();
	if (read_next() || (make_progress() && read_next())) {
		Patience::end();
		return 0;
	}
	const int err = moved_ ? ENOMEM : ENOENT;
	lock_.release();
	Patience::found_nothing();
	return err;
}

int CompletionQueue::next_poll() noexcept
{
	return read_next() ? 0 : ENOENT;
}

void CompletionQueue::end_poll() noexcept
{
	lock_.release();
}

/* Sets the functions that ibv_start_poll() and the others in verbs.h call. */
void CompletionQueue::fill_extended_poll_ops() noexcept
{
	ibv_cq_ex &ops = vcq_.cq_ex;

	ops.start_poll = [](ibv_cq_ex *cq, ibv_poll_cq_attr *attr) {
		return from(cq).start_poll(attr);
	};
	ops.next_poll = [](ibv_cq_ex *cq) { return from(cq).next_poll(); };
	ops.end_poll = [](ibv_cq_ex *cq) { from(cq).end_poll(); };
	ops.read_opcode = [](ibv_cq_ex *cq) {
		return static_cast<ibv_wc_opcode>(from(cq).current_.opcode);
	};
	ops.read_vendor_err = [](ibv_cq_ex *cq) { return from(cq).current_.vendor_err; };
	ops.read_byte_len = [](ibv_cq_ex *cq) { return from(cq).current_.byte_len; };
	/* verbs.h reads the rkey that the peer has invalidated through this function, too */
	ops.read_imm_data = [](ibv_cq_ex *cq) -> __be32 { return from(cq).current_.imm_inv; };
	ops.read_qp_num = [](ibv_cq_ex *cq) { return from(cq).current_.qpn; };
	ops.read_wc_flags = [](ibv_cq_ex *cq) -> unsigned int { return from(cq).current_.flags; };
	ops.read_completion_ts = [](ibv_cq_ex *cq) -> std::uint64_t {
		return from(cq).current_.timestamp;
	};
	ops.read_completion_wallclock_ns = [](ibv_cq_ex *cq) {
		return wallclock(from(cq).current_.timestamp);
	};

	/* datagrams only */
	ops.read_src_qp = [](ibv_cq_ex *) { return std::uint32_t{ 0 }; };
	ops.read_slid = [](ibv_cq_ex *) { return std::uint32_t{ 0 }; };
	ops.read_sl = [](ibv_cq_ex *) { return std::uint8_t{ 0 }; };
	ops.read_dlid_path_bits = [](ibv_cq_ex *) { return std::uint8_t{ 0 }; };
}

} /* namespace xiw */
