// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* ring.cpp - a ring whose process writes anything at any time, even while the kernel looks */

extern "C" {
#include "ring_kernel.h"
}

#include <cerrno>
#include <cstring>
#include <functional>

#include "input.hpp"

using fuzz::require;

namespace
{

std::function<void()> other_side;

/* What the shared memory held at one moment. */
struct Moment {
	uint32_t produced;
	Octets slots;
};

class Ring
{
public:
	Ring(fuzz::Input &in, bool receives);
	~Ring();
	Ring(const Ring &) = delete;
	void step();

private:
	/* the process */
	void take_turn();
	void post();
	void scribble(size_t slot);
	uint8_t *slot(uint32_t count)
	{
		return slots_.get() + size_t(count & (entries_ - 1)) * slot_size_;
	}

	/* the kernel */
	void take_send();
	void take_recv();
	void unwatch();
	int expected_state() const;
	int look();
	void took() { taken_++, known_--; }
	void give_back(uint32_t n);
	bool seen(size_t offset, const void *copy, size_t len) const;
	int judge(const Octets &copy, uint32_t &payload) const;
	int judge_payload(const Octets &copy, uint32_t &payload) const;
	void begin()
	{
		moments_.clear();
		watching_ = true;
	}

	fuzz::Input &in_;
	bool receives_;
	uint32_t entries_, slot_size_, max_sge_, max_inline_ = 0;
	uint32_t taken_, returned_, told_;
	uint32_t known_ = 0; /* slots that were counted, but not taken yet */
	bool honest_ = true, rang_ = false, watching_ = false;
	std::unique_ptr<xiw_queue_ctl> ctl_ = std::make_unique<xiw_queue_ctl>();
	std::unique_ptr<uint8_t[]> slots_;
	xiw_ring *ring_;
	std::vector<Moment> moments_;
};

Ring::Ring(fuzz::Input &in, bool receives)
	: in_(in), receives_(receives), entries_(1u << in.up_to(3))
{
	if (receives) {
		max_sge_ = in.up_to(XIW_MAX_SGE);
		slot_size_ = kernel_recv_slot_size(max_sge_);
	} else {
		slot_size_ = XIW_SLOT_MIN << in.up_to(4);
		max_sge_ = in.up_to(std::min<uint32_t>(XIW_MAX_SGE, (slot_size_ - 32) / 16));
		max_inline_ = in.up_to(std::min<uint32_t>(XIW_MAX_INLINE, slot_size_ - 32));
	}
	taken_ = returned_ = told_ = in.take<uint32_t>();
	*ctl_ = {};
	ctl_->produced = ctl_->consumed = taken_;
	slots_ = std::make_unique<uint8_t[]>(size_t(entries_) * slot_size_);
	ring_ = kernel_ring(ctl_.get(), slots_.get(), entries_, slot_size_, taken_);
	require(ctl_->flags & XIW_NEED_DOORBELL, "a new ring asks for a doorbell");
	other_side = [this] { take_turn(); };
}

Ring::~Ring()
{
	other_side = nullptr;
	kernel_ring_free(ring_);
}

/* Between two looks of the kernel the process may do anything. */
void Ring::take_turn()
{
	if (!watching_)
		return;
	moments_.push_back(
		{ ctl_->produced, Octets(&slots_[0], &slots_[size_t(entries_) * slot_size_]) });

	uint8_t what = in_.octet();

	if (what >= 0xc0)
		scribble(what);
	else if (what >= 0x80)
		post();
	else if (what == 0x7f) {
		ctl_->produced = in_.take<uint32_t>();
		honest_ = false;
	}
}

/* An honest request: the slot is filled, then counted, and then the flags are read. */
void Ring::post()
{
	if (ctl_->produced - ctl_->consumed >= entries_)
		return;

	Octets fill = in_.octets(in_.up_to(slot_size_));

	std::ranges::copy(fill, slot(ctl_->produced));
	ctl_->produced++;
	if (ctl_->flags & XIW_NEED_DOORBELL)
		rang_ = true;
}

void Ring::scribble(size_t slot)
{
	Octets fill = in_.octets(1 + in_.up_to(7));
	size_t offset = in_.up_to(slot_size_ - fill.size());

	std::ranges::copy(fill, slots_.get() + slot % entries_ * slot_size_ + offset);
}

/* -ENOENT or -EPROTO if nothing may be taken now, by counters that never wrap. */
int Ring::expected_state() const
{
	uint64_t waiting = uint32_t(ctl_->produced - taken_), held = uint32_t(taken_ - returned_);

	if (!waiting)
		return -ENOENT;
	return waiting + held > entries_ ? -EPROTO : 0;
}

/* The same for the next slot: what was counted once may be taken whatever the counter says now. */
int Ring::look()
{
	if (known_)
		return 0;

	int state = expected_state();

	if (!state)
		known_ = ctl_->produced - taken_;
	return state;
}

/* Whether these octets were in the slot at one moment of the call. */
bool Ring::seen(size_t offset, const void *copy, size_t len) const
{
	size_t from = size_t(taken_ & (entries_ - 1)) * slot_size_ + offset;

	return std::ranges::any_of(moments_, [=](const Moment &moment) {
		return !memcmp(&moment.slots[from], copy, len);
	});
}

/* The rules for a send request that was copied, by the layout of xiw-abi.h. */
int Ring::judge(const Octets &copy, uint32_t &payload) const
{
	uint8_t opcode = copy[8], flags = copy[9], num_sge = copy[10];
	uint32_t inline_len;
	bool reads = opcode == 4 || opcode == 11, atomic = opcode == 5 || opcode == 6;
	bool carries = opcode == 0 || opcode == 1 || opcode == 2 || opcode == 9;

	memcpy(&inline_len, &copy[12], 4);
	if (opcode == 7 || opcode == 8 || opcode == 32) {
		payload = 0;
		require(num_sge || inline_len || opcode != 8 || seen(32, &copy[32], 24),
			"a bind was copied at once");
		return num_sge || inline_len ? -EINVAL : 0;
	}
	if (!reads && !atomic && !carries)
		return -EINVAL;
	if (flags & 8) {
		payload = inline_len;
		if (!carries || num_sge)
			return -EINVAL;
		if (inline_len > max_inline_)
			return -EMSGSIZE;
		require(seen(32, &copy[32], inline_len), "inline data was copied at once");
		return 0;
	}
	if (inline_len || (atomic && num_sge != 1) ||
	    num_sge > (reads	? kernel_max_sge_rd()
		       : atomic ? 1
				: max_sge_))
		return -EINVAL;
	return judge_payload(copy, payload);
}

/* The header is good, so its SGEs are in the copy. */
int Ring::judge_payload(const Octets &copy, uint32_t &payload) const
{
	bool atomic = copy[8] == 5 || copy[8] == 6;
	size_t from = atomic ? 48 : 32, end = from + 16 * copy[10];
	uint64_t sum = 0;

	require(end <= slot_size_, "a slot holds the SGEs that are allowed");
	for (size_t i = from; i < end; i += 16) {
		uint32_t length;

		memcpy(&length, &copy[i + 8], 4);
		sum += length;
	}
	require(seen(32, &copy[32], end - 32), "all that follows the header was copied at once");
	if (sum > kernel_max_message())
		return -EMSGSIZE;
	payload = sum;
	return atomic && sum != 8 ? -EINVAL : 0;
}

void Ring::take_send()
{
	int state = look();
	auto room = std::make_unique<uint8_t[]>(slot_size_);
	uint32_t payload = ~0u, expected = ~0u;

	begin();
	int ret = kernel_take_send(reinterpret_cast<xiw_send_slot *>(room.get()), ring_, max_sge_,
				   max_inline_, &payload);
	watching_ = false;
	if (state) {
		require(ret == state, "an empty or impossible ring is told from a good one");
		return;
	}
	moments_.push_back(
		{ ctl_->produced, Octets(&slots_[0], &slots_[size_t(entries_) * slot_size_]) });

	Octets copy(&room[0], &room[slot_size_]);

	require(seen(0, copy.data(), XIW_SLOT_HEADER), "the header is that of the next slot");
	require(ret == judge(copy, expected), "the verdict is that of what was copied");
	require(ret || payload == expected, "the payload is that of what was copied");
	took();
}

void Ring::take_recv()
{
	int state = look();
	auto recv = std::make_unique<kernel_recv>();
	uint64_t sum = 0;

	begin();
	int ret = kernel_take_recv(recv.get(), ring_, max_sge_);
	watching_ = false;
	if (state) {
		require(ret == state, "an empty or impossible ring is told from a good one");
		require(ctl_->consumed == told_, "it is left as it is");
		return;
	}
	moments_.push_back(
		{ ctl_->produced, Octets(&slots_[0], &slots_[size_t(entries_) * slot_size_]) });

	require(ret == 0 || ret == -EINVAL, "a request is taken");
	require(seen(0, &recv->wr_id, 8), "it is the next one");
	require(recv->num_sge <= max_sge_, "it has no more SGEs than are allowed");
	require(ret ? !recv->num_sge : seen(8, &recv->num_sge, 4), "their number is what it was");
	require(seen(16, recv->sge, 16 * recv->num_sge), "they were copied at once");
	for (uint32_t i = 0; i < recv->num_sge; i++)
		sum += recv->sge[i].length;
	require(recv->length == std::min<uint64_t>(sum, UINT32_MAX), "its length is their sum");
	took();
	told_ = ++returned_;
	require(ctl_->consumed == returned_, "its slot is given back");
}

/* The kernel stops to look. What is posted meanwhile is seen by it, or the process rings. */
void Ring::unwatch()
{
	kernel_tell(ring_);
	told_ = returned_;
	require(ctl_->consumed == told_, "the process is told of all slots");
	kernel_watch(ring_);
	require(!ctl_->flags, "a process need not ring while the kernel looks");
	rang_ = false;
	begin();
	uint32_t ready = kernel_unwatch(ring_);
	watching_ = false;
	require(ctl_->flags == XIW_NEED_DOORBELL, "the process is asked to ring");
	if (honest_ && !ready)
		require(ctl_->produced == taken_ || rang_, "no request waits for a doorbell");
}

/* The process is told of an odd number later, as of requests without a completion. */
void Ring::give_back(uint32_t n)
{
	returned_ += n;
	if (n % 2) {
		kernel_return_silently(ring_, n);
	} else {
		kernel_return(ring_, n);
		told_ = returned_;
	}
	require(ctl_->consumed == told_, "slots are given back");
}

void Ring::step()
{
	switch (in_.octet() % 8) {
	case 0:
	case 1:
		receives_ ? take_recv() : take_send();
		break;
	case 2:
	case 3:
		post();
		break;
	case 4:
		scribble(in_.octet());
		break;
	case 5: {
		int state = expected_state();
		uint32_t ready = kernel_ready(ring_);

		require((ready == UINT32_MAX) == (state == -EPROTO), "a broken ring is told");
		require(state || ready == uint32_t(ctl_->produced - taken_), "slots are counted");
		break;
	}
	case 6:
		unwatch();
		break;
	default: {
		uint32_t n = in_.up_to(taken_ - returned_);

		if (in_.flag()) {
			kernel_defer(ring_);
			require(ctl_->flags == XIW_DOORBELL_LATER, "a doorbell may come later");
		}
		give_back(n);
		break;
	}
	}
}

} /* namespace */

extern "C" void fuzz_other_side(void)
{
	if (other_side)
		other_side();
}

/* The first octet: a send queue (0) or a receive queue (1). The rest are steps. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz::Input in(data, size);
	bool receives = in.flag();
	Ring ring(in, receives);

	while (!in.ended())
		ring.step();
	return 0;
}
