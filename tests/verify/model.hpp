/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What a program must do: which steps are legal, which completions come, what memory holds. */
#pragma once

#include "memory.hpp"

#include <infiniband/verbs.h>

#include <deque>
#include <functional>
#include <stdexcept>
#include <string>

namespace verify
{

/* The device did something that the model does not allow. */
struct Mismatch : std::runtime_error {
	using std::runtime_error::runtime_error;
};

/* A step that the model has accepted, with the numbers that it is posted with. */
struct Order {
	Step step;
	std::uint32_t seq = 0;
	std::uint64_t wr_id = 0;
	std::uint32_t rkey = 0; /* of the window of the step, if it has one */
	std::uint32_t part = 0; /* offset that a zero-based window begins at */
	bool zero_based = false;
};

constexpr std::uint64_t wr_id_base = 0x5a17000000000000, wr_id_receive = 0x0000800000000000;

/* How a request completes. "may" and "fails" occur only on a connection that ends. */
enum class Outcome : std::uint8_t { succeeds, may, fails };

struct Sent {
	Order order;
	Outcome outcome;
};

/* A message that takes a receive of the queue that it is listed in. */
struct Message {
	Order order;
	Outcome outcome;
	std::vector<std::uint8_t> payload;
	std::uint32_t length; /* for the completion */
	std::uint32_t stag;   /* that it invalidates */
};

struct Receive {
	std::uint32_t seq;
	std::uint64_t wr_id;
	std::vector<Piece> pieces;
	std::uint32_t length;
};

/* A Write that the next message from its stream shows to be placed. */
struct Placed {
	std::uint32_t seq;
	Piece piece;
};

struct Window {
	bool bound = false;
	bool ended_by_peer = false;
	bool zero_based = false;
	Piece part;
	std::uint32_t access = 0;
	std::uint32_t rkey = 0;
	std::uint32_t changed = 0; /* the phase */
	std::uint32_t used = 0;	   /* the phase in which the peer used it last */
	std::uint32_t asked = 0;   /* the last Read or atomic through it */
};

/* The requests of one thread to one queue pair. */
struct Lane {
	std::uint32_t settled = 0;    /* the last fenced request */
	std::uint32_t unsignaled = 0; /* in a row, up to now */
};

/* One end of a queue pair. */
struct Queue {
	std::deque<Sent> sends;
	std::deque<Message> incoming;
	std::deque<Receive> receives;
	std::deque<Placed> placed;
	Lane lanes[max_threads];
	Window windows[windows_of_qp];
	bool send_failed = false;
	bool receive_failed = false;
};

/* The request that is wrong in a phase, and how far the phase is. */
struct Break {
	Side side;
	std::uint8_t qp;
	bool local;
	bool taken = false; /* the wrong request */
	bool asked = false; /* a Read or atomic before it */
};

/*
 * A phase is a list of steps up to a quiet point. The model takes all steps of a phase, in the
 * order of the program, before the first is posted. Requests of different streams do not disturb
 * each other, so any order in which they are executed has the same result.
 *
 * A phase may have one wrong request. It ends its connection. What must be right then:
 * - The requests of its side before it succeed, and what they write arrives. Those from the first
 *   Read or atomic on may also be flushed, because the answer may not come any more.
 * - The wrong request fails, unless it is a Send or Write that only the peer can judge: that may
 *   have completed before. It changes no byte outside of what it could legally change.
 * - The requests after it fail, or are Sends or Writes that were on their way; nothing of them
 *   arrives.
 * - Each request of the peer on this connection succeeds or is flushed, and all requests after the
 *   first that fails are flushed. Each of them completes exactly once, signaled or not.
 * - All receives of the two queues are flushed. Other connections notice nothing.
 */
class Model
{
public:
	using Read = std::function<std::span<const std::uint8_t>(
		std::uint32_t region, std::uint32_t offset, std::uint32_t length)>;

	Model();

	void start(const Setup &setup);
	/* @read: what the real memory of a side holds, by region, offset and length */
	void attach(Side side, Read read) { read_[side] = std::move(read); }
	Window &window(Side side, unsigned int qp, unsigned int number)
	{
		return queues_[side][qp].windows[number];
	}

	/* Begins a phase; wrong is its wrong request or null. */
	void begin(const Step *wrong);

	/* If the wrong request was not legal where it stands, another one that is always legal. */
	std::optional<Step> due_fault() const;

	/* Why the step cannot come next, or null. */
	const char *objection(const Step &step) const;
	Order take(const Step &step);

	/* The steps that end the phase: something crosses each connection in each direction. */
	std::vector<Step> sync(bool by_reads) const;

	/* These throw a mismatch. */
	void completed(Side side, unsigned int qp, const ibv_wc &wc);
	void quiet();

	/* For a program that is not executed: all completions have come. */
	void assume_quiet();

	/* The connection was ended on purpose, at a quiet point. */
	void close(unsigned int qp) { closed_[qp] = true; }

	/* Which completion is missing, or an empty text. */
	std::string missing() const;

	bool dead(unsigned int qp) const { return closed_[qp]; }
	bool breaks(unsigned int qp) const { return break_ && break_->qp == qp; }
	std::uint32_t free_receives(Side side, unsigned int qp) const;
	std::uint32_t next_receive_length(Side side, unsigned int qp) const;
	std::uint32_t posted_receives(Side side, unsigned int qp) const
	{
		return receives(side, qp).size();
	}

private:
	/* law.cpp */
	const char *object_to_place(const Step &step) const;
	const char *object_to_send(const Step &step) const;
	const char *object_to_memory(const Step &step) const;
	const char *object_to_target(const Step &step) const;
	const char *object_to_window(const Step &step) const;
	const char *object_to_message(const Step &step) const;
	bool may_begin(Side side, const Piece &piece, const User &user) const;
	const char *object_to_fault(const Step &step) const;
	User user(const Step &step, Use use) const;
	Use local_use(const Step &step) const;

	/* effect.cpp */
	void take_request(Order &order);
	void take_target(const Order &order, Change how);
	void take_message(const Order &order, Outcome outcome);
	void take_window(Order &order);
	void take_receive(const Order &order);
	Outcome outcome(const Step &step) const;
	Change change(const Step &step) const;
	std::vector<std::uint8_t> gather(const Step &step) const;

	/* complete.cpp */
	void completed_send(Side side, unsigned int qp, const ibv_wc &wc);
	void succeeded(Side side, Queue &queue, const ibv_wc &wc);
	void failed(Side side, Queue &queue, unsigned int qp, const ibv_wc &wc);
	void completed_receive(Side side, unsigned int qp, const ibv_wc &wc);
	void delivered(Side side, Queue &queue, const Receive &receive, const ibv_wc &wc);
	void flushed(Side side, unsigned int qp, const Receive &receive, const ibv_wc &wc);
	void compare(Side side, const Piece &piece, std::uint32_t seq, const std::string &what);
	std::string missing(Side side, unsigned int qp) const;

	bool ends(unsigned int qp) const { return closed_[qp] || breaks(qp); }
	Memory &memory(Side side, unsigned int region) { return memory_[side][region]; }
	const Memory &memory(Side side, unsigned int region) const { return memory_[side][region]; }
	std::deque<Receive> &receives(Side side, unsigned int qp)
	{
		return setup_.sides[side].srq ? shared_[side] : queues_[side][qp].receives;
	}
	const std::deque<Receive> &receives(Side side, unsigned int qp) const
	{
		return setup_.sides[side].srq ? shared_[side] : queues_[side][qp].receives;
	}
	std::size_t messages_under_way(Side side, unsigned int qp) const;
	void end_phase();

	Setup setup_;
	std::vector<Memory> memory_[2];
	Read read_[2];
	Queue queues_[2][max_qps];
	std::deque<Receive> shared_[2];
	bool closed_[max_qps] = {};
	std::optional<Break> break_;
	std::uint32_t phase_ = 0;
	std::uint32_t seq_ = 0; /* goes on from program to program, so old claims count as ended */
};

} /* namespace verify */
