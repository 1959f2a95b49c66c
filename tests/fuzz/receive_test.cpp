// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* receive_test.cpp - when FPDUs leave the socket, and who takes them out */

extern "C" {
#include "stream_kernel.h"
#include "wire/terminate.h"
}

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "octets.hpp"

namespace
{

constexpr uint32_t longest_fpdu = 65544; /* octets, with a ULPDU of 65535 */
constexpr uint32_t large = 32 * 1024;	 /* octets that a softirq leaves to a worker */

const kernel_look full = { .used = KERNEL_BUFFER };
const kernel_look full_in_softirq = { .used = KERNEL_BUFFER, .softirq = true };
const kernel_look in_softirq = { .softirq = true };
const kernel_look refused = { .refused = true };
const kernel_look refused_in_softirq = { .refused = true, .softirq = true };

using Payloads = std::vector<Octets>;

/* What becomes of the next segment: XIW_OK, or what it waits for. */
int verdict;
Payloads placed;

/* A Write whose FPDU has @len octets, a multiple of 4. */
Octets write_of(size_t len)
{
	Octets fpdu(len);

	fpdu[0] = (len - 6) >> 8;
	fpdu[1] = len - 6;
	fpdu[2] = 0xc1;
	fpdu[3] = 0x40;
	std::iota(fpdu.begin() + 16, fpdu.end() - 4, 1);
	return fpdu;
}

Octets payload_of(const Octets &write)
{
	return slice(write, 16, write.size() - 4);
}

/* Without CRCs, because these cases change what has come. */
class Receiver
{
public:
	Receiver()
	{
		placed.clear();
		verdict = XIW_OK;
	}
	~Receiver()
	{
		EXPECT_EQ(kernel_left_closed(rx), 0u) << "the peer goes on when all was read";
		kernel_receiver_free(rx);
		EXPECT_EQ(kernel_skbs(), 0u);
	}
	Receiver(const Receiver &) = delete;

	void arrive(const Octets &octets)
	{
		kernel_arrive(rx, octets.data(), octets.size(), 0);
		arrived_ += octets.size();
	}
	void look(const kernel_look &now = {}) { kernel_receive(rx, &now); }
	/* Octets in TCP. */
	uint32_t left() const { return arrived_ - kernel_consumed(rx); }

	kernel_receiver *const rx = kernel_receiver_new(false, 0xfffffff0);

private:
	uint32_t arrived_ = 0;
};

TEST(receive, keeps_nothing_while_there_is_room)
{
	Receiver end;
	/* The rest of the FPDU has 700 octets. TCP closes the window before the buffer is full. */
	int used = KERNEL_BUFFER - KERNEL_BUFFER / 16 - KERNEL_WINDOW_STEP - 700;

	end.arrive(slice(write_of(1000), 0, 300));
	end.look({ .used = used });
	EXPECT_EQ(end.left(), 300u);
	end.look({ .used = used + 1 });
	EXPECT_EQ(end.left(), 0u);
	EXPECT_EQ(kernel_kept(end.rx), 300u);
}

TEST(receive, keeps_only_what_it_needs)
{
	const Octets write = write_of(1000);

	for (uint32_t first : { 1, 2, 10, 999 }) {
		SCOPED_TRACE(first);
		Receiver end;

		end.arrive(slice(write, 0, first));
		end.look(full);
		EXPECT_EQ(end.left(), 0u);
		EXPECT_EQ(kernel_last_asked(), first > 1 ? 1000 : longest_fpdu);
		end.arrive(slice(write, first, 1000) + write);
		end.look(full_in_softirq);
		EXPECT_EQ(end.left(), 0u) << "the next FPDU is complete";
		EXPECT_EQ(placed, Payloads(2, payload_of(write)));
	}
}

TEST(receive, gives_back_what_a_short_fpdu_does_not_need)
{
	Receiver end;

	end.arrive(slice(write_of(1000), 0, 1));
	end.look(full);
	EXPECT_EQ(kernel_kept_room(end.rx), longest_fpdu);
	end.arrive(slice(write_of(1000), 1, 2));
	end.look();
	EXPECT_EQ(kernel_kept_room(end.rx), 1000u);
}

/* It changes after the receiver has read it, and before the receiver copies it. */
TEST(receive, length_grows)
{
	for (uint32_t length : { 1000u - 6 + 4, 1500u, 0xffffu }) {
		SCOPED_TRACE(length);
		Receiver end;

		end.arrive(slice(write_of(1000), 0, 500));
		end.look(full_in_softirq);
		EXPECT_EQ(end.left(), 500u);
		kernel_change(end.rx, 0, length >> 8);
		kernel_change(end.rx, 1, length);
		end.look(full);
		EXPECT_EQ(kernel_last_asked(), 1000u);
		EXPECT_FALSE(kernel_open(end.rx));
		EXPECT_EQ(kernel_cause(end.rx), XIW_UNREADABLE);
		end.arrive(Octets(2000));
		end.look(full);
		EXPECT_TRUE(placed.empty());
	}
}

TEST(receive, length_shrinks)
{
	Receiver end;

	end.arrive(slice(write_of(1000), 0, 100));
	end.look(full_in_softirq);
	kernel_change(end.rx, 0, 0);
	kernel_change(end.rx, 1, 60 - 6);
	end.look(full);
	EXPECT_EQ(kernel_kept_room(end.rx), 60u);
	end.look();
	EXPECT_EQ(placed, Payloads{ slice(write_of(1000), 16, 56) });
}

/* TCP said so while a complete FPDU waited, and does not say it again. */
TEST(receive, refusal_is_remembered)
{
	const Octets first = write_of(100), second = write_of(1000);
	Receiver end;

	verdict = XIW_NO_RECEIVE;
	end.arrive(first);
	end.arrive(slice(second, 0, 300));
	end.look(refused_in_softirq);
	EXPECT_EQ(end.left(), 400u);
	verdict = XIW_OK;
	end.look();
	EXPECT_EQ(placed, Payloads{ payload_of(first) });
	EXPECT_EQ(end.left(), 0u) << "TCP may have dropped what comes next";
	EXPECT_EQ(kernel_kept(end.rx), 300u);

	end.arrive(slice(second, 300, 1000) + slice(second, 0, 300));
	end.look();
	EXPECT_EQ(placed, (Payloads{ payload_of(first), payload_of(second) }));
	EXPECT_EQ(end.left(), 300u) << "the refusal is over since all was read";
}

/* ~Receiver() looks for the moment at which it does. */
TEST(receive, window_opens_after_a_refusal)
{
	const Octets write = write_of(100);

	for (const kernel_look &now : { refused, refused_in_softirq }) {
		Receiver end;

		end.arrive(write);
		end.look(now);
		EXPECT_EQ(end.left(), 0u);
		EXPECT_FALSE(kernel_refuses(end.rx));
	}
	Receiver end;

	end.arrive(write + slice(write, 0, 50));
	end.look(refused_in_softirq);
	EXPECT_EQ(end.left(), 50u);
	EXPECT_TRUE(kernel_refuses(end.rx)) << "there is no memory for the rest";
	end.look(refused);
	EXPECT_EQ(end.left(), 0u);
	EXPECT_FALSE(kernel_refuses(end.rx));
}

/* Those who wait for memory may wait for what TCP has in this queue. */
TEST(receive, process_that_owes_memory_gets_none_unless_tcp_has_none)
{
	Receiver end;

	end.arrive(slice(write_of(100), 0, 50));
	end.look({ .used = KERNEL_BUFFER, .owes = true });
	EXPECT_EQ(end.left(), 50u);
	EXPECT_TRUE(kernel_looks_again(end.rx));
	end.look({ .refused = true, .owes = true });
	EXPECT_EQ(end.left(), 50u) << "only its own group may have no memory";
	end.look({ .used = KERNEL_BUFFER, .owes = true, .tcp_is_out = true, .payer = true });
	EXPECT_EQ(end.left(), 0u);
}

TEST(receive, softirq_leaves_large_data_to_a_worker)
{
	const Octets write = write_of(large);
	Receiver end;

	kernel_allow_worker(end.rx);
	end.arrive(write);
	end.look(in_softirq);
	EXPECT_EQ(end.left(), large);
	EXPECT_TRUE(kernel_worker_asked(end.rx));
	EXPECT_TRUE(kernel_looks_again(end.rx)) << "the worker may not come";

	EXPECT_FALSE(kernel_work(end.rx, true)) << "the socket is locked";
	EXPECT_EQ(end.left(), large);
	EXPECT_TRUE(kernel_work(end.rx, false));
	EXPECT_EQ(end.left(), 0u);
	EXPECT_EQ(placed, Payloads{ payload_of(write) });
}

TEST(receive, softirq_takes_little_data_and_a_process_takes_any)
{
	for (bool softirq : { false, true }) {
		Receiver end;

		kernel_allow_worker(end.rx);
		end.arrive(write_of(large - (softirq ? 4 : 0)));
		end.look({ .softirq = softirq });
		EXPECT_EQ(end.left(), 0u) << softirq;
		EXPECT_FALSE(kernel_worker_asked(end.rx)) << softirq;
	}
}

TEST(receive, softirq_takes_large_data_if_no_worker_may)
{
	Receiver end;

	end.arrive(write_of(large));
	end.look(in_softirq);
	EXPECT_EQ(end.left(), 0u);
}

/* TCP drops what comes unless its queue is emptied at once. */
TEST(receive, softirq_takes_large_data_if_memory_was_refused)
{
	Receiver end;

	kernel_allow_worker(end.rx);
	end.arrive(write_of(large));
	end.look(refused_in_softirq);
	EXPECT_EQ(end.left(), 0u);
	EXPECT_FALSE(kernel_worker_asked(end.rx));
}

TEST(receive, softirq_takes_large_data_if_an_fpdu_waits)
{
	for (int wait : { XIW_NO_RECEIVE, XIW_NOT_YET }) {
		Receiver end;

		kernel_allow_worker(end.rx);
		verdict = wait;
		end.arrive(write_of(large));
		end.look();
		EXPECT_EQ(end.left(), large);
		verdict = XIW_OK;
		end.look(in_softirq);
		EXPECT_EQ(end.left(), 0u);
		EXPECT_FALSE(kernel_worker_asked(end.rx));

		end.arrive(write_of(large));
		end.look(in_softirq);
		EXPECT_TRUE(kernel_worker_asked(end.rx)) << "nothing waits any more";
	}
}

/* Other tasks keep the worker from its CPU, and the window will close. */
TEST(receive, softirq_takes_large_data_if_a_worker_is_late)
{
	const int quarter = KERNEL_BUFFER / 4;
	Receiver end;

	kernel_allow_worker(end.rx);
	end.arrive(write_of(large));
	end.look({ .used = quarter + 1, .softirq = true });
	EXPECT_EQ(end.left(), large) << "none was asked before";
	EXPECT_TRUE(kernel_worker_asked(end.rx));
	end.look({ .used = quarter, .softirq = true });
	EXPECT_EQ(end.left(), large);
	end.look({ .used = quarter + 1, .softirq = true });
	EXPECT_EQ(end.left(), 0u);
}

/* Each FPDU counts for a minimum, because it costs more than its octets. */
TEST(receive, worker_ends_its_turn)
{
	for (auto [len, in_turn] : { std::pair(64 * 1024, 4), { 20, 2048 } }) {
		SCOPED_TRACE(len);
		Receiver end;

		for (int i = 0; i < in_turn + 1; i++)
			end.arrive(write_of(len));
		EXPECT_TRUE(kernel_work(end.rx, false));
		EXPECT_EQ(placed.size(), size_t(in_turn));
		EXPECT_TRUE(kernel_worker_asked(end.rx));

		/* TCP calls when the worker unlocks the socket, because more has come. */
		end.arrive(write_of(len));
		end.look({ .worker = true });
		EXPECT_EQ(placed.size(), size_t(in_turn)) << "others have their turn";
		EXPECT_TRUE(kernel_work(end.rx, false));
		EXPECT_EQ(placed.size(), size_t(in_turn + 2));
		EXPECT_FALSE(kernel_worker_asked(end.rx));
	}
}

TEST(receive, process_has_no_turns)
{
	Receiver end;

	for (int i = 0; i < 5; i++)
		end.arrive(write_of(64 * 1024));
	end.look();
	EXPECT_EQ(end.left(), 0u);
}

} /* namespace */

extern "C" int fuzz_place(const void *, uint32_t, const void *payload, uint32_t len)
{
	const auto *first = static_cast<const uint8_t *>(payload);

	if (verdict == XIW_OK)
		placed.emplace_back(first, first + len);
	return verdict;
}
