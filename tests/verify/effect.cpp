/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What the steps do: to memory, to windows, and to the lists of what must complete. */
#include "model.hpp"

#include <cstring>

namespace verify
{

Outcome Model::outcome(const Step &step) const
{
	if (!breaks(step.qp))
		return Outcome::succeeds;
	if (step.side != break_->side)
		return Outcome::may;
	if (step.fault != Fault::none || break_->taken)
		return break_->local || is_answered(step.act) ? Outcome::fails : Outcome::may;
	return break_->asked || is_answered(step.act) ? Outcome::may : Outcome::succeeds;
}

/* What happens to the target. */
Change Model::change(const Step &step) const
{
	if (!breaks(step.qp))
		return Change::certain;
	if (step.side != break_->side)
		return Change::possible;
	if (break_->taken)
		return Change::none;
	if (step.fault == Fault::none)
		return Change::certain;
	return step.act == Act::write &&
			       (step.fault == Fault::beyond || step.fault == Fault::outside)
		       ? Change::possible
		       : Change::none;
}

/* The bytes that a request sends, as far as they are inside of their regions. */
std::vector<std::uint8_t> Model::gather(const Step &step) const
{
	std::vector<std::uint8_t> bytes;

	for (const Piece &piece : step.pieces) {
		const Memory &memory = this->memory(step.side, piece.region);
		auto part = memory.held(piece.offset,
					std::min(piece.length, memory.size() - piece.offset));

		bytes.insert(bytes.end(), part.begin(), part.end());
	}
	return bytes;
}

static std::uint64_t word(std::span<const std::uint8_t> bytes)
{
	std::uint64_t value;

	std::memcpy(&value, bytes.data(), sizeof(value));
	return value;
}

static std::span<const std::uint8_t> octets(const std::uint64_t &value)
{
	return { reinterpret_cast<const std::uint8_t *>(&value), sizeof(value) };
}

/* Executes a request with a target: in both memories. */
void Model::take_target(const Order &order, Change how)
{
	const Step &step = order.step;
	const Outcome outcome = this->outcome(step);
	const Change sink = outcome == Outcome::succeeds ? Change::certain
			    : outcome == Outcome::may	 ? Change::possible
							 : Change::none;
	Memory &remote = memory(other(step.side), step.region);
	const std::uint32_t length = std::min(step.length(), remote.size() - step.offset);

	if (!is_answered(step.act)) {
		auto bytes = gather(step);

		bytes.resize(std::min<std::size_t>(bytes.size(), length));
		remote.change(step.offset, bytes, how);
		remote.claim(step.offset, length, user(step, Use::place));
		return;
	}
	if (!step.pieces.empty())
		memory(step.side, step.pieces[0].region)
			.change(step.pieces[0].offset, remote.held(step.offset, length), sink);
	if (step.act == Act::read) {
		remote.claim(step.offset, length, user(step, Use::fetch));
		return;
	}
	const std::uint64_t old = word(remote.held(step.offset, 8));
	const std::uint64_t swapped = old == step.operand ? step.swap : old;
	const std::uint64_t now = step.act == Act::fetch_add ? old + step.operand : swapped;

	remote.change(step.offset, octets(now), how);
	remote.claim(step.offset, length, user(step, Use::atomic));
}

/* A message that is not under way after the wrong request is not listed. */
void Model::take_message(const Order &order, Outcome outcome)
{
	const Step &step = order.step;
	const bool here = breaks(step.qp) && step.side == break_->side;
	const bool wrong = step.fault == Fault::short_receive || step.fault == Fault::wrong_inv;

	if (here && (break_->taken || (step.fault != Fault::none && !wrong)))
		return;
	if (here)
		outcome = wrong ? Outcome::fails : Outcome::succeeds;

	Queue &peer = queues_[other(step.side)][step.qp];
	Message message = { order, outcome, {}, step.length(), order.rkey };

	if (step.act != Act::write_imm)
		message.payload = gather(step);
	peer.incoming.push_back(std::move(message));
}

void Model::take_window(Order &order)
{
	const Step &step = order.step;
	const Side owner =
		step.act == Act::bind || step.act == Act::local_inv ? step.side : other(step.side);
	Window &window = queues_[owner][step.qp].windows[step.window];

	if (step.act == Act::bind) {
		window.bound = true;
		window.part = step.pieces[0];
		window.access = step.access;
		window.zero_based = step.zero_based;
		window.rkey = ibv_inc_rkey(window.rkey);
		window.changed = phase_;
	} else if (step.act == Act::local_inv || step.act == Act::send_inv) {
		window.bound = false;
		window.ended_by_peer = step.act == Act::send_inv;
		window.changed = phase_;
	} else {
		window.used = phase_;
		if (is_answered(step.act))
			window.asked = order.seq;
	}
	order.rkey = window.rkey;
	order.zero_based = window.zero_based;
	order.part = window.part.offset;
}

void Model::take_receive(const Order &order)
{
	const Step &step = order.step;

	receives(step.side, step.qp)
		.push_back({ order.seq, order.wr_id, step.pieces, step.length() });
}

void Model::take_request(Order &order)
{
	const Step &step = order.step;
	Queue &queue = queues_[step.side][step.qp];
	Lane &lane = queue.lanes[step.thread];

	if (step.fault != Fault::none)
		break_->local = is_local(step.fault);

	const Outcome outcome = this->outcome(step);
	const Change change = this->change(step);

	if (step.window >= 0)
		take_window(order);
	if (has_target(step.act) && step.offset <= regions[step.region].size)
		take_target(order, change);
	if (step.act != Act::bind)
		for (const Piece &piece : step.pieces)
			if (step.fault != Fault::outside)
				memory(step.side, piece.region)
					.claim(piece.offset, piece.length,
					       user(step, local_use(step)));
	if (!is_answered(step.act) && has_target(step.act) && !step.thread &&
	    change == Change::certain)
		queues_[other(step.side)][step.qp].placed.push_back(
			{ order.seq, { step.region, step.offset, step.length() } });
	if (takes_receive(step.act))
		take_message(order, outcome);
	queue.sends.push_back({ order, outcome });
	lane.unsignaled = step.signaled ? 0 : lane.unsignaled + 1;
	if (step.fenced)
		lane.settled = order.seq;
	if (!breaks(step.qp) || step.side != break_->side)
		return;
	break_->asked = break_->asked || is_answered(step.act);
	break_->taken = break_->taken || step.fault != Fault::none;
}

Order Model::take(const Step &step)
{
	Order order = { .step = step, .seq = seq_ + 1 };

	order.wr_id = wr_id_base | order.seq;
	if (step.act == Act::receive)
		order.wr_id |= wr_id_receive;
	if (is_sent(step.act)) {
		take_request(order);
	} else if (step.act == Act::receive || step.act == Act::fill) {
		for (const Piece &piece : step.pieces) {
			Memory &memory = this->memory(step.side, piece.region);

			memory.claim(piece.offset, piece.length, user(step, local_use(step)));
			if (step.act == Act::fill)
				memory.change(piece.offset, { noise(step.operand), piece.length },
					      Change::certain);
		}
		if (step.act == Act::receive)
			take_receive(order);
	}
	seq_ = order.seq;
	return order;
}

} /* namespace verify */
