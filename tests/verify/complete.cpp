/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Which completion may come next, and what memory holds by then. */
#include "model.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <format>

namespace verify
{

static ibv_wc_opcode opcode_of(Act act)
{
	switch (act) {
	case Act::write:
	case Act::write_imm:
		return IBV_WC_RDMA_WRITE;
	case Act::read:
		return IBV_WC_RDMA_READ;
	case Act::fetch_add:
		return IBV_WC_FETCH_ADD;
	case Act::cmp_swap:
		return IBV_WC_COMP_SWAP;
	case Act::bind:
		return IBV_WC_BIND_MW;
	case Act::local_inv:
		return IBV_WC_LOCAL_INV;
	default:
		return IBV_WC_SEND;
	}
}

static std::string described(const ibv_wc &wc)
{
	return std::format("completion of request {} ({:#x}), \"{}\"", wc.wr_id & 0xffffffff,
			   wc.wr_id, ibv_wc_status_str(wc.status));
}

static std::string described(const Order &order)
{
	return std::format("request {}, \"{}\"", order.seq, text(order.step));
}

void Model::completed(Side side, unsigned int qp, const ibv_wc &wc)
{
	try {
		if (wc.wr_id & wr_id_receive)
			completed_receive(side, qp, wc);
		else
			completed_send(side, qp, wc);
	} catch (const Mismatch &bad) {
		throw Mismatch(std::format("{}.{} {}: {}", side == A ? 'A' : 'B', qp, described(wc),
					   bad.what()));
	}
}

void Model::completed_send(Side side, unsigned int qp, const ibv_wc &wc)
{
	Queue &queue = queues_[side][qp];

	if (wc.status == IBV_WC_SUCCESS)
		succeeded(side, queue, wc);
	else
		failed(side, queue, qp, wc);
}

/* The requests of other threads may come in any order relative to this one. */
void Model::succeeded(Side side, Queue &queue, const ibv_wc &wc)
{
	auto found = std::ranges::find_if(
		queue.sends, [&](const Sent &sent) { return sent.order.wr_id == wc.wr_id; });

	if (queue.send_failed)
		throw Mismatch("a request succeeds after one that failed");
	if (found == queue.sends.end())
		throw Mismatch("no such request is to complete");

	const Order order = found->order;
	const Step &step = order.step;
	const std::uint32_t length =
		step.act == Act::read || is_atomic(step.act) ? step.length() : wc.byte_len;

	for (auto sent = queue.sends.begin(); sent != found; ++sent)
		if (sent->order.step.thread == step.thread &&
		    (sent->order.step.signaled || sent->outcome == Outcome::fails))
			throw Mismatch("expected first: " + described(sent->order));
	if (!step.signaled)
		throw Mismatch("the request is not signaled");
	if (found->outcome == Outcome::fails)
		throw Mismatch("the request must fail");
	if (wc.opcode != opcode_of(step.act) || wc.byte_len != length)
		throw Mismatch(std::format("expected opcode {} and length {}, got {} and {}",
					   static_cast<int>(opcode_of(step.act)), length,
					   static_cast<int>(wc.opcode), wc.byte_len));
	/* Unsignaled Reads before this one have their answers, too. */
	for (auto sent = queue.sends.begin(); sent != found + 1; ++sent) {
		const Step &done = sent->order.step;

		if (done.thread != step.thread || !is_answered(done.act) || done.pieces.empty())
			continue;
		memory(side, done.pieces[0].region)
			.confirm(done.pieces[0].offset, done.pieces[0].length);
		compare(side, done.pieces[0], sent->order.seq, "the answer");
	}
	auto before = std::remove_if(queue.sends.begin(), found + 1, [&](const Sent &sent) {
		return sent.order.step.thread == step.thread;
	});
	queue.sends.erase(before, found + 1);
}

void Model::failed(Side, Queue &queue, unsigned int qp, const ibv_wc &wc)
{
	if (!ends(qp))
		throw Mismatch("the request must succeed");
	while (!queue.send_failed && !queue.sends.empty() &&
	       queue.sends.front().order.wr_id != wc.wr_id) {
		const Sent &sent = queue.sends.front();

		if (sent.order.step.signaled || sent.outcome == Outcome::fails)
			break;
		queue.sends.pop_front(); /* it has succeeded, unsignaled */
	}
	if (queue.sends.empty())
		throw Mismatch("no request is left to complete");

	const Sent &sent = queue.sends.front();
	const Fault fault = sent.order.step.fault;

	if (sent.order.wr_id != wc.wr_id)
		throw Mismatch("expected first: " + described(sent.order));
	if (sent.outcome == Outcome::succeeds)
		throw Mismatch("the request must succeed: " + described(sent.order));
	/* xiw blames the oldest atomic if a Terminate names no request, as siw does not name one. */
	const bool blamed = wc.status == IBV_WC_REM_OP_ERR && is_atomic(sent.order.step.act) &&
			    !queue.send_failed;

	if (fault == Fault::none && wc.status != IBV_WC_WR_FLUSH_ERR && !blamed)
		throw Mismatch("the request must be flushed: " + described(sent.order));
	if (is_local(fault) && wc.status != IBV_WC_LOC_PROT_ERR)
		throw Mismatch("expected a local protection error: " + described(sent.order));
	queue.send_failed = true;
	queue.sends.pop_front();
}

void Model::completed_receive(Side side, unsigned int qp, const ibv_wc &wc)
{
	Queue &queue = queues_[side][qp];
	auto &posted = receives(side, qp);
	auto found = std::ranges::find(posted, wc.wr_id, &Receive::wr_id);

	if (found == posted.end())
		throw Mismatch("no such receive is posted");
	if (!setup_.sides[side].srq && found != posted.begin())
		throw Mismatch(std::format("expected first: receive {}", posted.front().seq));

	const Receive receive = *found;

	posted.erase(found);
	if (wc.status == IBV_WC_SUCCESS)
		delivered(side, queue, receive, wc);
	else
		flushed(side, qp, receive, wc);
}

void Model::delivered(Side side, Queue &queue, const Receive &receive, const ibv_wc &wc)
{
	if (queue.receive_failed)
		throw Mismatch("a receive succeeds after one that failed");
	if (queue.incoming.empty())
		throw Mismatch("no message is to come");

	const Message message = std::move(queue.incoming.front());
	const Act act = message.order.step.act;
	const bool imm = act == Act::write_imm, inv = act == Act::send_inv;
	const auto number = static_cast<std::uint32_t>(message.order.step.operand);
	auto wrong = [&](const char *what, std::uint64_t wanted, std::uint64_t got) {
		if (wanted != got)
			throw Mismatch(std::format("{}: expected {}, got {}; the message is {}",
						   what, wanted, got, described(message.order)));
	};

	queue.incoming.pop_front();
	if (message.outcome == Outcome::fails)
		throw Mismatch("must not arrive: " + described(message.order));
	wrong("length", message.length, wc.byte_len);
	wrong("opcode", imm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, wc.opcode);
	wrong("flags", imm ? IBV_WC_WITH_IMM : inv ? IBV_WC_WITH_INV : 0, wc.wc_flags);
	if (imm)
		wrong("immediate data", number, ntohl(wc.imm_data));
	if (inv)
		wrong("STag", message.stag, wc.invalidated_rkey);

	std::span<const std::uint8_t> left = message.payload;

	for (const Piece &piece : receive.pieces) {
		auto part = left.first(std::min<std::size_t>(left.size(), piece.length));

		memory(side, piece.region).change(piece.offset, part, Change::certain);
		compare(side, piece, receive.seq, "what was received");
		left = left.subspan(part.size());
	}
	while (!queue.placed.empty() && queue.placed.front().seq <= message.order.seq) {
		const Placed &placed = queue.placed.front();

		compare(side, placed.piece, placed.seq, "what was written before the message");
		queue.placed.pop_front();
	}
}

/* A part of the message that did not become complete may be in the receive. */
void Model::flushed(Side side, unsigned int qp, const Receive &receive, const ibv_wc &wc)
{
	Queue &queue = queues_[side][qp];
	const Message *message = queue.incoming.empty() ? nullptr : &queue.incoming.front();
	const bool too_short = message && message->order.step.fault == Fault::short_receive;

	if (!ends(qp))
		throw Mismatch("the receive must succeed");
	if (setup_.sides[side].srq && queue.receive_failed)
		throw Mismatch("a second receive of the shared queue fails");
	if (message && message->outcome == Outcome::succeeds)
		throw Mismatch("must arrive: " + described(message->order));
	if (wc.status != (too_short ? IBV_WC_LOC_LEN_ERR : IBV_WC_WR_FLUSH_ERR))
		throw Mismatch("the receive fails in another way than it must");
	queue.receive_failed = true;
	if (!message)
		return;

	std::span<const std::uint8_t> left = message->payload;

	for (const Piece &piece : receive.pieces) {
		auto part = left.first(std::min<std::size_t>(left.size(), piece.length));

		memory(side, piece.region).change(piece.offset, part, Change::possible);
		left = left.subspan(part.size());
	}
	queue.incoming.clear();
}

void Model::compare(Side side, const Piece &piece, std::uint32_t seq, const std::string &what)
{
	auto real = read_[side](piece.region, piece.offset, piece.length);
	const Memory &memory = this->memory(side, piece.region);
	auto bad = memory.differs(real, piece.offset, piece.length, seq);

	if (bad)
		throw Mismatch(
			std::format("{}: region {} offset {} (byte {} of {}): expected {:#04x}, "
				    "got {:#04x}",
				    what, piece.region, *bad, *bad - piece.offset, piece.length,
				    memory.expected(*bad), real[*bad - piece.offset]));
}

std::string Model::missing(Side side, unsigned int qp) const
{
	const Queue &queue = queues_[side][qp];

	for (const Sent &sent : queue.sends)
		if (queue.send_failed || sent.order.step.signaled || sent.outcome == Outcome::fails)
			return described(sent.order);
	for (const Message &message : queue.incoming)
		if (!ends(qp) || message.outcome == Outcome::succeeds)
			return "the receive of " + described(message.order);
	if (ends(qp) && !queue.receives.empty())
		return std::format("the flush of receive {}", queue.receives.front().seq);
	return {};
}

std::string Model::missing() const
{
	for (Side side : { A, B })
		for (unsigned int qp = 0; qp < setup_.qps; qp++)
			if (auto what = missing(side, qp); !what.empty())
				return std::format("{}.{}: {}", side == A ? 'A' : 'B', qp, what);
	return {};
}

} /* namespace verify */
