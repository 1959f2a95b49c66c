/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Which steps are legal, so that a correct device has one way to execute them. */
#include "model.hpp"

#include <algorithm>

namespace verify
{

User Model::user(const Step &step, Use use) const
{
	const Lane &lane = queues_[step.side][step.qp].lanes[step.thread];
	const auto stream = static_cast<Stream>(1 + (step.side * max_qps + step.qp) * max_threads +
						step.thread);

	return { stream, use, seq_ + 1, step.fenced ? seq_ + 1 : lane.settled, breaks(step.qp) };
}

Use Model::local_use(const Step &step) const
{
	if (step.act == Act::receive)
		return Use::receive;
	if (step.act == Act::fill)
		return Use::process;
	return is_answered(step.act) ? Use::sink : Use::source;
}

static bool overlap(const Piece &a, const Piece &b)
{
	return a.region == b.region && a.offset < b.offset + b.length &&
	       b.offset < a.offset + a.length;
}

static bool in_region(unsigned int region, std::uint32_t offset, std::uint32_t length)
{
	return region < region_count && offset <= regions[region].size &&
	       length <= regions[region].size - offset;
}

/* The access that a target must grant. */
static std::uint32_t needed_access(Act act)
{
	if (act == Act::read)
		return IBV_ACCESS_REMOTE_READ;
	return is_atomic(act) ? IBV_ACCESS_REMOTE_ATOMIC : IBV_ACCESS_REMOTE_WRITE;
}

static Use target_use(Act act)
{
	if (act == Act::read)
		return Use::fetch;
	return is_atomic(act) ? Use::atomic : Use::place;
}

const char *Model::object_to_place(const Step &step) const
{
	if (step.qp >= setup_.qps || step.thread >= setup_.threads)
		return "no such queue pair or thread";
	if (step.act == Act::resize) {
		if (!setup_.sides[step.side].one_cq)
			return "no such completion queue";
		return step.operand < setup_.cq_entries() ? "too few entries" : nullptr;
	}
	if (step.act == Act::fill)
		return nullptr;
	if (closed_[step.qp])
		return "the connection has ended";
	return step.pieces.size() > setup_.sges ? "too many SGEs" : nullptr;
}

/* What concerns the queue, and the shape of the request. */
const char *Model::object_to_send(const Step &step) const
{
	const Lane &lane = queues_[step.side][step.qp].lanes[step.thread];

	if (!step.signaled && lane.unsignaled + 1 >= setup_.depth / setup_.threads)
		return "too many unsignaled requests";
	if (step.extended && !setup_.extended)
		return "no ibv_wr_*()";
	if (step.inlined && (is_answered(step.act) || step.length() > max_inline))
		return "cannot be inline";
	if (step.act == Act::read && step.pieces.size() > 1)
		return "a Read has one SGE";
	if (is_atomic(step.act) && (step.pieces.size() != 1 || step.pieces[0].length != 8))
		return "an atomic has one SGE of 8 bytes";
	if (takes_receive(step.act) && step.thread)
		return "only the main thread sends messages, so that their order is known";
	return nullptr;
}

const char *Model::object_to_memory(const Step &step) const
{
	User user = this->user(step, local_use(step));

	if (step.act == Act::bind)
		return nullptr;
	if (step.inlined) /* is copied when it is posted, which waits for no answer */
		user.alone = true;
	for (std::size_t i = 0; i < step.pieces.size(); i++) {
		const Piece &piece = step.pieces[i];

		if (!in_region(piece.region, piece.offset, piece.length))
			return "local memory outside of its region";
		if (!memory(step.side, piece.region).allows(piece.offset, piece.length, user))
			return "local memory is in use";
		for (std::size_t k = 0; user.use != Use::source && k < i; k++)
			if (overlap(piece, step.pieces[k]))
				return "SGEs overlap";
	}
	return nullptr;
}

const char *Model::object_to_target(const Step &step) const
{
	const Side peer = other(step.side);
	const std::uint32_t length = step.length();
	const std::uint32_t needed = needed_access(step.act);

	if (!in_region(step.region, step.offset, length))
		return "target outside of its region";
	if (step.window >= 0) {
		const Window &window = queues_[peer][step.qp].windows[step.window];

		if (!window.bound || window.changed == phase_ || !(window.access & needed))
			return "the window does not allow it";
		if (window.part.region != step.region || step.offset < window.part.offset ||
		    step.offset + length > window.part.offset + window.part.length)
			return "target outside of its window";
	} else if (length && !(regions[step.region].access & needed)) {
		return "the region does not allow it";
	}
	if (is_atomic(step.act) && (regions[step.region].start + step.offset) % 8)
		return "the target is not aligned";
	return memory(peer, step.region)
			       .allows(step.offset, length, user(step, target_use(step.act)))
		       ? nullptr
		       : "target is in use";
}

/* Windows are used by the main thread only, and not on a connection that ends. */
const char *Model::object_to_window(const Step &step) const
{
	const Side owner = step.act == Act::send_inv ? other(step.side) : step.side;

	if (step.window < 0 || step.thread || breaks(step.qp))
		return "no window here";

	const Window &window = queues_[owner][step.qp].windows[step.window];

	switch (step.act) {
	case Act::bind: {
		if (step.pieces.size() != 1)
			return "a window has one part";

		const Piece &part = step.pieces[0];

		if (window.bound || (window.ended_by_peer && window.changed == phase_))
			return "the window is bound";
		if (!part.length || !in_region(part.region, part.offset, part.length))
			return "a window outside of its region";
		return nullptr;
	}
	case Act::local_inv:
		return !window.bound || window.used == phase_ ? "the window is in use" : nullptr;
	default:
		if (!window.bound || window.changed == phase_)
			return "the window is not bound for certain";
		return window.used == phase_ && window.asked >= user(step, Use::source).settled
			       ? "answers from the window are due"
			       : nullptr;
	}
}

const char *Model::object_to_message(const Step &step) const
{
	const Side peer = other(step.side);

	if (!free_receives(peer, step.qp))
		return "no receive";
	if (step.act != Act::write_imm && step.length() > next_receive_length(peer, step.qp))
		return "the receive is too short";
	return nullptr;
}

/* A request that ends behind a region may still use what comes before the end. */
bool Model::may_begin(Side side, const Piece &piece, const User &user) const
{
	const std::uint32_t size = regions[piece.region].size;

	return piece.offset <= size &&
	       memory(side, piece.region)
		       .allows(piece.offset, std::min(piece.length, size - piece.offset), user);
}

/* The wrong step must be wrong in the way that it says, and in no other. */
const char *Model::object_to_fault(const Step &step) const
{
	const Side peer = other(step.side);
	const bool inside = in_region(step.region, step.offset, step.length());
	const bool targeted = has_target(step.act) && step.length() && step.window < 0;
	auto only_if = [](bool right) { return right ? nullptr : "not wrong in this way"; };

	if (!break_ || break_->taken || setup_.threads > 1 || step.inlined)
		return "no wrong request here";
	if (step.act == Act::write_imm || (step.fault != Fault::outside && object_to_memory(step)))
		return "wrong in another way";
	switch (step.fault) {
	case Fault::wrong_rkey:
		return only_if(targeted && inside);
	case Fault::beyond:
		return only_if(targeted && !is_atomic(step.act) && !inside &&
			       may_begin(peer, { step.region, step.offset, step.length() },
					 user(step, target_use(step.act))));
	case Fault::no_right:
		return only_if(targeted && inside &&
			       !(regions[step.region].access & needed_access(step.act)));
	case Fault::misaligned:
		return only_if(targeted && inside && is_atomic(step.act) && step.region <= odd &&
			       (regions[step.region].start + step.offset) % 8);
	case Fault::stale_window:
		return only_if(has_target(step.act) && step.length() && inside &&
			       step.window >= 0 &&
			       !queues_[peer][step.qp].windows[step.window].bound &&
			       queues_[peer][step.qp].windows[step.window].changed < phase_);
	case Fault::short_receive:
		return only_if(step.act == Act::send && !setup_.sides[peer].srq &&
			       free_receives(peer, step.qp) &&
			       step.length() > next_receive_length(peer, step.qp));
	case Fault::wrong_inv:
		return step.act == Act::send_inv ? object_to_message(step) : "not a Send";
	case Fault::wrong_lkey:
		return only_if(!step.pieces.empty() && step.pieces[0].length &&
			       (step.act == Act::send || (targeted && !object_to_target(step))));
	case Fault::outside:
		return only_if(targeted && !is_atomic(step.act) && !object_to_target(step) &&
			       step.pieces.size() == 1 &&
			       !in_region(step.pieces[0].region, step.pieces[0].offset,
					  step.pieces[0].length) &&
			       may_begin(step.side, step.pieces[0], user(step, local_use(step))));
	default:
		return nullptr;
	}
}

const char *Model::objection(const Step &step) const
{
	const char *bad;

	if (step.act == Act::quiet)
		return nullptr;
	bad = object_to_place(step);
	if (!bad && is_sent(step.act))
		bad = object_to_send(step);
	if (bad)
		return bad;
	if (step.fault != Fault::none)
		return object_to_fault(step);
	bad = object_to_memory(step);
	if (!bad && has_target(step.act))
		bad = object_to_target(step);
	if (!bad &&
	    (step.act == Act::bind || step.act == Act::local_inv || step.act == Act::send_inv))
		bad = object_to_window(step);
	if (!bad && takes_receive(step.act))
		bad = object_to_message(step);
	if (!bad && step.act == Act::receive) {
		if (receives(step.side, step.qp).size() >= setup_.depth)
			return "too many receives";
		if (setup_.sides[step.side].srq && step.length() < shared_room)
			return "a shared receive is too short";
	}
	return bad;
}

} /* namespace verify */
