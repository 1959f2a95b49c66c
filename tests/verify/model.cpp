/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What a program must do: phases and quiet points. */
#include "model.hpp"

#include <algorithm>
#include <format>

namespace verify
{

Model::Model()
{
	for (auto &memory : memory_)
		for (unsigned int region = 0; region < region_count; region++)
			memory.emplace_back(region);
}

void Model::start(const Setup &setup)
{
	setup_ = setup;
	for (Side side : { A, B }) {
		shared_[side].clear();
		for (Queue &queue : queues_[side])
			queue = {};
		for (unsigned int region = 0; region < region_count; region++)
			memory(side, region).start(setup.seed + 1000u * side + 100u * region, seq_);
	}
	std::ranges::fill(closed_, false);
	break_.reset();
	phase_ = 1;
}

void Model::begin(const Step *wrong)
{
	break_.reset();
	if (wrong && setup_.threads == 1 && wrong->qp < setup_.qps && !closed_[wrong->qp])
		break_ = { wrong->side, wrong->qp, is_local(wrong->fault) };
}

std::optional<Step> Model::due_fault() const
{
	if (!break_ || break_->taken)
		return std::nullopt;
	return Step{ .act = Act::write,
		     .fault = Fault::wrong_rkey,
		     .side = break_->side,
		     .qp = break_->qp,
		     .pieces = { { quiet_room, 3072, 8 } },
		     .region = quiet_room,
		     .offset = 3072 };
}

std::size_t Model::messages_under_way(Side side, unsigned int qp) const
{
	std::size_t count = 0;

	if (!setup_.sides[side].srq)
		return queues_[side][qp].incoming.size();
	for (const Queue &queue : queues_[side])
		count += queue.incoming.size();
	return count;
}

std::uint32_t Model::free_receives(Side side, unsigned int qp) const
{
	const std::size_t posted = receives(side, qp).size();
	const std::size_t used = messages_under_way(side, qp);

	return posted > used ? posted - used : 0;
}

std::uint32_t Model::next_receive_length(Side side, unsigned int qp) const
{
	if (setup_.sides[side].srq)
		return shared_room;
	return receives(side, qp)[messages_under_way(side, qp)].length;
}

/*
 * A Read is answered after all earlier messages of its stream were placed; a Send is delivered
 * after them. Each of both, sent each way, shows that nothing is under way any more. The requests
 * are signaled, so they complete all earlier ones of the main thread.
 */
std::vector<Step> Model::sync(bool by_reads) const
{
	std::vector<Step> steps;
	std::uint32_t to_come[2] = {}; /* messages of these steps, if the receives are shared */

	for (std::uint8_t qp = 0; qp < setup_.qps; qp++) {
		for (Side side : { A, B }) {
			const Side peer = other(side);
			const std::uint32_t place = qp * 16u;
			const bool shared = setup_.sides[peer].srq;
			const bool has_receive =
				free_receives(peer, qp) > (shared ? to_come[peer] : 0);
			const bool full = shared || receives(peer, qp).size() >= setup_.depth;

			if (ends(qp))
				continue;
			if (by_reads || (!has_receive && full)) {
				steps.push_back({ .act = Act::read,
						  .side = side,
						  .qp = qp,
						  .pieces = { { quiet_room, place, 8 } },
						  .region = quiet_room,
						  .offset = 1024 + place });
				continue;
			}
			if (!has_receive)
				steps.push_back({ .act = Act::receive,
						  .side = peer,
						  .qp = qp,
						  .pieces = { { quiet_room, 2048 + place, 8 } } });
			to_come[peer]++;
			std::uint32_t length =
				has_receive ? std::min(8u, next_receive_length(peer, qp)) : 8;
			steps.push_back({ .act = Act::send,
					  .side = side,
					  .qp = qp,
					  .pieces = { { quiet_room, 1024 + place, length } } });
		}
	}
	return steps;
}

/* Compares all memory, and begins the next phase. */
void Model::quiet()
{
	for (Side side : { A, B }) {
		for (unsigned int region = 0; region < region_count; region++) {
			Memory &memory = this->memory(side, region);
			auto real = read_[side](region, 0, memory.size());
			auto bad = memory.differs(real);

			if (bad)
				throw Mismatch(std::format(
					"memory of {} at the quiet point: region {} offset {}: "
					"expected {:#04x}, got {:#04x}; last used by request {}",
					side == A ? 'A' : 'B', region, *bad, memory.expected(*bad),
					real[*bad], memory.claimed_by(*bad)));
			if (break_)
				memory.adopt(real);
		}
	}
	end_phase();
}

void Model::assume_quiet()
{
	for (Side side : { A, B }) {
		for (unsigned int qp = 0; qp < setup_.qps; qp++) {
			Queue &queue = queues_[side][qp];
			auto &posted = receives(side, qp);

			posted.erase(posted.begin(),
				     posted.begin() +
					     std::min(posted.size(), queue.incoming.size()));
			if (breaks(qp) && break_->taken)
				queue.receives.clear();
		}
	}
	end_phase();
}

void Model::end_phase()
{
	const std::uint32_t ended = seq_;

	for (Side side : { A, B }) {
		for (Memory &memory : memory_[side])
			memory.settle(ended);
		for (Queue &queue : queues_[side]) {
			queue.sends.clear();
			queue.incoming.clear();
			queue.placed.clear();
			std::ranges::fill(queue.lanes, Lane{ .settled = ended });
		}
		/* Receives that wait keep their memory. */
		for (unsigned int qp = 0; qp < setup_.qps; qp++) {
			if (qp && setup_.sides[side].srq)
				break;
			for (Receive &receive : receives(side, qp)) {
				receive.seq = ++seq_;
				for (const Piece &piece : receive.pieces)
					memory(side, piece.region)
						.claim(piece.offset, piece.length,
						       { 0, Use::receive, seq_, 0, false });
			}
		}
	}
	if (break_ && break_->taken)
		closed_[break_->qp] = true;
	break_.reset();
	phase_++;
}

} /* namespace verify */
