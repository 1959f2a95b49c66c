// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* extended_poll.cpp - from the ring to ibv_start_poll() and its kin */

#include <cerrno>
#include <ctime>

#include "completion_queue.hpp"

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

/* What the clock on the wall showed then: what it shows now, less the time since. */
std::uint64_t wallclock(std::uint64_t timestamp)
{
	const auto since = nanoseconds(CLOCK_MONOTONIC_RAW) - static_cast<std::int64_t>(timestamp);

	return static_cast<std::uint64_t>(nanoseconds(CLOCK_REALTIME) - since);
}

} /* namespace */

/*
 * Shows the oldest completion that has not been consumed; false if there is none. Its fields are
 * read from a copy: so its requests may be posted again at once, and the program may do to the
 * queue and to queue pairs what it likes before it goes on.
 */
bool CompletionQueue::show_next() noexcept
{
	const xiw_cqe *const cqe = ring_.peek();

	if (!cqe)
		return false;
	shown_ = *cqe;
	vcq_.cq_ex.wr_id = shown_.wr_id;
	vcq_.cq_ex.status = static_cast<ibv_wc_status>(shown_.status);
	retire(shown_.qpn, shown_.opcode, shown_.sq_count);
	return true;
}

/* With a completion, and only then, the queue stays locked until end_poll(). */
int CompletionQueue::start_poll(const ibv_poll_cq_attr *attr) noexcept
{
	if (attr->comp_mask)
		return EINVAL;
	lock_.hold();
	if (show_next() || (stir() && show_next()))
		return 0;
	const int err = moved_ ? ENOMEM : ENOENT;
	lock_.release();
	return err;
}

int CompletionQueue::next_poll() noexcept
{
	return show_next() ? 0 : ENOENT;
}

void CompletionQueue::end_poll() noexcept
{
	lock_.release();
}

/* The table of functions that verbs.h calls through. */
void CompletionQueue::offer_extended_poll() noexcept
{
	ibv_cq_ex &cq = vcq_.cq_ex;

	cq.start_poll = [](ibv_cq_ex *of, ibv_poll_cq_attr *attr) {
		return from(of).start_poll(attr);
	};
	cq.next_poll = [](ibv_cq_ex *of) { return from(of).next_poll(); };
	cq.end_poll = [](ibv_cq_ex *of) { from(of).end_poll(); };
	cq.read_opcode = [](ibv_cq_ex *of) {
		return static_cast<ibv_wc_opcode>(from(of).shown_.opcode);
	};
	cq.read_vendor_err = [](ibv_cq_ex *of) { return from(of).shown_.vendor_err; };
	cq.read_byte_len = [](ibv_cq_ex *of) { return from(of).shown_.byte_len; };
	/* or the key that the peer invalidated, in the same place */
	cq.read_imm_data = [](ibv_cq_ex *of) -> __be32 { return from(of).shown_.imm_inv; };
	cq.read_qp_num = [](ibv_cq_ex *of) { return from(of).shown_.qpn; };
	cq.read_wc_flags = [](ibv_cq_ex *of) -> unsigned int { return from(of).shown_.flags; };
	cq.read_completion_ts = [](ibv_cq_ex *of) -> std::uint64_t {
		return from(of).shown_.timestamp;
	};
	cq.read_completion_wallclock_ns = [](ibv_cq_ex *of) {
		return wallclock(from(of).shown_.timestamp);
	};

	/* what belongs to datagrams */
	cq.read_src_qp = [](ibv_cq_ex *) { return std::uint32_t{ 0 }; };
	cq.read_slid = [](ibv_cq_ex *) { return std::uint32_t{ 0 }; };
	cq.read_sl = [](ibv_cq_ex *) { return std::uint8_t{ 0 }; };
	cq.read_dlid_path_bits = [](ibv_cq_ex *) { return std::uint8_t{ 0 }; };
}

} /* namespace xiw */
