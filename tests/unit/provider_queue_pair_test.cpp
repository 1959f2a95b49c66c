// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_queue_pair_test.cpp - queue pairs, and how long a send request occupies its slot */

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

#include "provider_device.hpp"
#include "queue_pair.hpp"

using xiw::QueuePair;
using xiw::SharedWord;

namespace
{

constexpr uint32_t depth = FakeDevice::depth;

struct QueuePairTest : testing::Test {
	ibv_qp *create(FakeCq &to)
	{
		ibv_qp_init_attr attr = {};

		attr.send_cq = to.get();
		attr.recv_cq = to.get();
		attr.cap.max_send_wr = depth;
		attr.cap.max_send_sge = 1;
		ibv_qp *qp = QueuePair::create(fake.pd(), &attr);
		modify(qp, IBV_QPS_RTS);
		return qp;
	}

	static void modify(ibv_qp *qp, ibv_qp_state state)
	{
		ibv_qp_attr attr = {};

		attr.qp_state = state;
		EXPECT_EQ(QueuePair::from(qp).modify(&attr, IBV_QP_STATE), 0);
	}

	static int post(ibv_qp *qp, uint64_t wr_id = 0)
	{
		ibv_send_wr wr = {};
		ibv_send_wr *bad = nullptr;

		wr.wr_id = wr_id;
		wr.opcode = IBV_WR_SEND;
		int err = QueuePair::from(qp).post_send(&wr, &bad);
		EXPECT_EQ(bad, err ? &wr : nullptr);
		return err;
	}

	/* Posts until the send queue is full. Returns how many requests it accepted. */
	static uint32_t fill(ibv_qp *qp)
	{
		uint32_t n = 0;

		while (n <= depth && !post(qp))
			n++;
		return n;
	}

	/* Gives @n slots back and completes the last of these requests, as the kernel does. */
	void complete(ibv_qp *qp, uint32_t n = 1, uint16_t status = IBV_WC_SUCCESS)
	{
		SharedWord consumed(fake.sq(qp->qp_num).consumed);
		const uint32_t count = consumed.load(std::memory_order_relaxed) + n;

		consumed.store(count, std::memory_order_release);
		cq.push({ .qpn = qp->qp_num,
			  .status = status,
			  .opcode = XIW_WC_SEND,
			  .sq_count = count });
	}

	FakeDevice fake;
	FakeCq cq;
};

TEST_F(QueuePairTest, post_send__is_full_until_completions_are_polled)
{
	ibv_qp *qp = create(cq);

	EXPECT_EQ(fill(qp), depth);
	EXPECT_EQ(post(qp), ENOMEM);
	complete(qp);
	complete(qp);
	EXPECT_EQ(post(qp), ENOMEM) << "completed but not polled";
	EXPECT_EQ(cq.poll(), 1);
	EXPECT_EQ(post(qp), 0);
	EXPECT_EQ(post(qp), ENOMEM);
	EXPECT_EQ(cq.poll(), 1);
	EXPECT_EQ(fill(qp), 1u);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(QueuePairTest, post_send__a_completion_finishes_the_unsignalled_requests_before_it)
{
	ibv_qp *qp = create(cq);

	EXPECT_EQ(fill(qp), depth);
	complete(qp, depth - 1);
	EXPECT_EQ(cq.poll(), 1);
	EXPECT_EQ(fill(qp), depth - 1);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(QueuePairTest, post_send__unsignalled_requests_occupy_their_slots_until_a_completion)
{
	ibv_qp *qp = create(cq);

	EXPECT_EQ(fill(qp), depth);
	fake.sq(qp->qp_num).consumed = depth;
	EXPECT_EQ(post(qp), ENOMEM);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(QueuePairTest, post_send__flushed_requests_free_their_slots)
{
	ibv_qp *qp = create(cq);

	EXPECT_EQ(fill(qp), depth);
	for (uint32_t i = 0; i < depth; i++)
		complete(qp, 1, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(cq.poll(depth), int(depth));
	EXPECT_EQ(fill(qp), depth);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(QueuePairTest, post_send__completions_of_receives_free_no_slots)
{
	ibv_qp *qp = create(cq);

	EXPECT_EQ(fill(qp), depth);
	for (uint16_t opcode : { XIW_WC_RECV, XIW_WC_RECV_IMM })
		cq.push({ .qpn = qp->qp_num, .opcode = opcode, .sq_count = 1 });
	EXPECT_EQ(cq.poll(2), 2);
	EXPECT_EQ(post(qp), ENOMEM);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(QueuePairTest, post_send__queue_pairs_that_share_a_completion_queue_are_counted_apart)
{
	ibv_qp *one = create(cq);
	ibv_qp *other = create(cq);

	EXPECT_EQ(fill(one), depth);
	EXPECT_EQ(fill(other), depth);
	complete(one, 1);
	complete(other, 2);
	complete(one, 1);
	complete(one, 1);
	EXPECT_EQ(cq.poll(4), 4);
	EXPECT_EQ(fill(one), 3u);
	EXPECT_EQ(fill(other), 2u);
	EXPECT_EQ(QueuePair::destroy(one), 0);
	EXPECT_EQ(QueuePair::destroy(other), 0);
}

TEST_F(QueuePairTest, destroy__discards_the_remaining_completions)
{
	ibv_qp *destroyed = create(cq);
	ibv_qp *other = create(cq);

	EXPECT_EQ(fill(destroyed), depth);
	EXPECT_EQ(fill(other), depth);
	complete(destroyed);
	complete(destroyed, 1, IBV_WC_WR_FLUSH_ERR);
	complete(other);
	complete(destroyed, 1, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(cq.poll(), 1); /* so the table of finished counts has cached this queue pair */
	EXPECT_EQ(QueuePair::destroy(destroyed), 0);
	EXPECT_EQ(cq.consumed(), 3u) << "the remaining entries are given back";
	EXPECT_EQ(cq.poll(16), 1) << "only the completion of the other queue pair is left";
	EXPECT_EQ(fill(other), 1u);
	EXPECT_EQ(QueuePair::destroy(other), 0);
}

/* The core does not destroy a queue pair while a doorbell of it is in the kernel (EBUSY). */
TEST_F(QueuePairTest, destroy__a_thread_that_polls_meanwhile_does_not_ring)
{
	ibv_qp *qp = create(cq);

	fake.sq(qp->qp_num).flags = XIW_DOORBELL_LATER;
	EXPECT_EQ(post(qp), 0);
	EXPECT_EQ(cq.poll(), 0);
	const off_t written = fake.written();
	EXPECT_GT(written, 0) << "a thread that finds the completion queue empty rings";

	EXPECT_EQ(post(qp), 0);
	fake.on_destroy = [this] { EXPECT_EQ(cq.poll(), 0); };
	EXPECT_EQ(QueuePair::destroy(qp), 0);
	EXPECT_EQ(fake.written(), written);
}

TEST_F(QueuePairTest, destroy__changes_nothing_if_the_kernel_refuses)
{
	ibv_qp *qp = create(cq);

	EXPECT_EQ(fill(qp), depth);
	fake.destroy_result = EBUSY;
	EXPECT_EQ(QueuePair::destroy(qp), EBUSY);
	complete(qp);
	EXPECT_EQ(cq.poll(), 1);
	EXPECT_EQ(fill(qp), 1u);
	fake.destroy_result = 0;
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(QueuePairTest, reset__empties_the_send_queue)
{
	ibv_qp *qp = create(cq);

	EXPECT_EQ(fill(qp), depth);
	complete(qp);
	modify(qp, IBV_QPS_RESET);
	modify(qp, IBV_QPS_RTS);
	EXPECT_EQ(fill(qp), depth);
	EXPECT_EQ(cq.poll(), 0) << "that completion is older than the reset";
	complete(qp);
	EXPECT_EQ(cq.poll(), 1);
	EXPECT_EQ(fill(qp), 1u);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(QueuePairTest, modify__frees_no_slots_unless_it_resets)
{
	ibv_qp *qp = create(cq);

	EXPECT_EQ(fill(qp), depth);
	fake.sq(qp->qp_num).consumed = depth;
	modify(qp, IBV_QPS_ERR);
	EXPECT_EQ(post(qp), ENOMEM);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

struct ExtendedTest : QueuePairTest {
	ibv_qp_init_attr_ex attributes()
	{
		ibv_qp_init_attr_ex attr = {};

		attr.send_cq = cq.get();
		attr.recv_cq = cq.get();
		attr.cap.max_send_wr = depth;
		attr.cap.max_send_sge = 1;
		attr.pd = fake.pd();
		attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
		return attr;
	}

	ibv_qp *create_extended(ibv_qp_init_attr_ex &attr)
	{
		return QueuePair::create_extended(fake.pd()->context, &attr);
	}

	/* Posts and completes the request that a function of ibv_qp_ex adds. Returns its slot. */
	xiw_send_slot post_extended(ibv_qp *qp, auto add_request)
	{
		ibv_qp_ex *qpx = reinterpret_cast<ibv_qp_ex *>(qp);
		const uint32_t before = fake.sq(qp->qp_num).produced;

		ibv_wr_start(qpx);
		add_request();
		EXPECT_EQ(ibv_wr_complete(qpx), 0);
		EXPECT_EQ(fake.sq(qp->qp_num).produced, before + 1);
		complete(qp);
		EXPECT_EQ(cq.poll(), 1);
		return fake.slot(qp->qp_num, before);
	}

	void expect_refused(const ibv_qp_init_attr_ex &attr)
	{
		ibv_qp_init_attr_ex copy = attr;

		errno = 0;
		EXPECT_EQ(create_extended(copy), nullptr);
		EXPECT_EQ(errno, EOPNOTSUPP);
	}
};

TEST_F(ExtendedTest, create_extended__refuses_unsupported_attributes)
{
	ibv_qp_init_attr_ex attr = attributes();

	attr.send_ops_flags |= IBV_QP_EX_WITH_SEND_WITH_IMM;
	expect_refused(attr);
	attr = attributes();
	attr.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH;
	expect_refused(attr);
	attr = attributes();
	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	expect_refused(attr);
	attr = attributes();
	attr.comp_mask &= ~IBV_QP_INIT_ATTR_PD;
	expect_refused(attr);
}

TEST_F(ExtendedTest, create_extended__accepts_an_empty_set_of_flags)
{
	ibv_qp_init_attr_ex attr = attributes();

	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	ibv_qp *qp = create_extended(attr);
	ASSERT_NE(qp, nullptr);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(ExtendedTest, create_extended__sets_no_functions_without_send_ops_flags)
{
	ibv_qp_init_attr_ex attr = attributes();

	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM; /* ignored */
	ibv_qp *qp = create_extended(attr);
	ASSERT_NE(qp, nullptr);
	EXPECT_EQ(reinterpret_cast<verbs_qp *>(qp)->comp_mask & VERBS_QP_EX, 0u);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

/* Calls each function of ibv_qp_ex that adds a request. */
TEST_F(ExtendedTest, ibv_wr__posts_each_opcode)
{
	ibv_qp_init_attr_ex attr = attributes();
	ibv_qp *qp = create_extended(attr);
	ASSERT_NE(qp, nullptr);
	EXPECT_NE(reinterpret_cast<verbs_qp *>(qp)->comp_mask & VERBS_QP_EX, 0u);
	ibv_qp_ex *qpx = reinterpret_cast<ibv_qp_ex *>(qp);
	xiw_send_slot last;
	auto post = [&](auto request) { last = post_extended(qp, request); };

	modify(qp, IBV_QPS_RTS);
	qpx->wr_id = 7;
	post([&] { ibv_wr_send(qpx); });
	EXPECT_EQ(last.opcode, XIW_OP_SEND);
	EXPECT_EQ(last.wr_id, 7u);
	post([&] { ibv_wr_send_inv(qpx, 0xabc); });
	EXPECT_EQ(last.opcode, XIW_OP_SEND_INV);
	EXPECT_EQ(last.imm_inv, 0xabcu);
	post([&] { ibv_wr_local_inv(qpx, 0xabd); });
	EXPECT_EQ(last.opcode, XIW_OP_LOCAL_INV);
	EXPECT_EQ(last.rkey, 0xabdu);
	post([&] { ibv_wr_rdma_write(qpx, 9, 0x123456789); });
	EXPECT_EQ(last.opcode, XIW_OP_WRITE);
	EXPECT_EQ(last.rkey, 9u);
	EXPECT_EQ(last.remote_addr, 0x123456789u);
	post([&] { ibv_wr_rdma_write_imm(qpx, 9, 0x12345678a, 0x04030201); });
	EXPECT_EQ(last.opcode, XIW_OP_WRITE_IMM);
	EXPECT_EQ(last.remote_addr, 0x12345678au);
	EXPECT_EQ(last.imm_inv, 0x04030201u);
	post([&] {
		ibv_wr_rdma_read(qpx, 10, 0x12345678b);
		ibv_wr_set_sge(qpx, 3, 0x7000, 100);
	});
	EXPECT_EQ(last.opcode, XIW_OP_READ);
	EXPECT_EQ(last.rkey, 10u);
	EXPECT_EQ(last.sge[0].addr, 0x7000u);
	EXPECT_EQ(last.sge[0].length, 100u);
	EXPECT_EQ(last.sge[0].lkey, 3u);
	post([&] {
		ibv_wr_atomic_cmp_swp(qpx, 11, 0x4008, 17, 18);
		ibv_wr_set_sge(qpx, 3, 0x7000, 8);
	});
	EXPECT_EQ(last.opcode, XIW_OP_CMP_SWP);
	EXPECT_EQ(last.rkey, 11u);
	EXPECT_EQ(last.remote_addr, 0x4008u);
	EXPECT_EQ(last.atomic.compare_add, 17u);
	EXPECT_EQ(last.atomic.swap, 18u);
	post([&] {
		ibv_wr_atomic_fetch_add(qpx, 11, 0x4010, 19);
		ibv_wr_set_sge(qpx, 3, 0x7000, 8);
	});
	EXPECT_EQ(last.opcode, XIW_OP_FETCH_ADD);
	EXPECT_EQ(last.atomic.compare_add, 19u);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(ExtendedTest, ibv_wr__is_refused_in_reset)
{
	ibv_qp_init_attr_ex attr = attributes();
	ibv_qp *qp = create_extended(attr);
	ASSERT_NE(qp, nullptr);
	ibv_qp_ex *qpx = reinterpret_cast<ibv_qp_ex *>(qp);

	ibv_wr_start(qpx);
	ibv_wr_send(qpx);
	EXPECT_EQ(ibv_wr_complete(qpx), EINVAL);
	EXPECT_EQ(fake.sq(qp->qp_num).produced, 0u);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

/*
 * Both threads give up after 60 seconds without a free slot, so a failure does not hang the test.
 */
TEST_F(QueuePairTest, post_send__while_another_thread_polls)
{
	constexpr uint32_t total = 20000;
	ibv_qp *qp = create(cq);
	std::atomic<bool> give_up = false;
	std::atomic<uint32_t> wrong = 0;

	std::thread poller([&] {
		SharedWord produced(fake.sq(qp->qp_num).produced);

		for (uint32_t i = 0; i < total && !give_up;) {
			if (produced.load(std::memory_order_acquire) == i) {
				std::this_thread::yield();
				continue;
			}
			wrong += fake.slot(qp->qp_num, i).wr_id != i;
			complete(qp);
			i++;
			if (i % depth == 0 || i == total)
				wrong += cq.poll(16) == 0;
		}
	});
	const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
	for (uint32_t i = 0; i < total && !give_up;) {
		if (!post(qp, i))
			i++;
		else if (std::chrono::steady_clock::now() > deadline)
			give_up = true;
		else
			std::this_thread::yield();
	}
	poller.join();
	EXPECT_FALSE(give_up) << "a free slot was not found";
	EXPECT_EQ(wrong, 0u);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

/*
 * The kernel takes the requests in another thread, and asks for doorbells now and then. The high half
 * of a wr_id says which thread has posted it, the low half counts.
 */
TEST_F(QueuePairTest, post_send__from_two_threads_while_two_poll)
{
	constexpr uint32_t each = 1000, total = 2 * each;
	const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
	ibv_qp *qp = create(cq);
	std::atomic<uint32_t> finished = 0, wrong = 0;
	std::atomic<bool> give_up = false;

	auto wait = [&] {
		std::this_thread::sleep_for(std::chrono::microseconds(10));
		if (std::chrono::steady_clock::now() > deadline)
			give_up = true;
	};
	auto work = [&] {
		constexpr uint32_t asks[] = { 0, XIW_NEED_DOORBELL,
					      0, XIW_DOORBELL_LATER,
					      0, XIW_DOORBELL_LATER | XIW_DOORBELL_GATHER,
					      0 };
		xiw_queue_ctl &sq = fake.sq(qp->qp_num);
		uint32_t next[2] = {};

		for (uint32_t taken = 0; taken != total && !give_up;) {
			if (SharedWord(sq.produced).load(std::memory_order_acquire) == taken) {
				wait();
				continue;
			}
			const uint64_t wr_id = fake.slot(qp->qp_num, taken++).wr_id;

			if (wr_id >> 32 > 1 || uint32_t(wr_id) != next[wr_id >> 32]++)
				wrong++;
			SharedWord(sq.flags).store(asks[taken % std::size(asks)],
						   std::memory_order_relaxed);
			complete(qp);
		}
	};
	auto post_all = [&](uint64_t thread) {
		for (uint32_t i = 0; i < each && !give_up;) {
			if (!post(qp, thread << 32 | i))
				i++;
			else
				wait();
		}
	};
	auto poll_all = [&] {
		while (finished != total && !give_up) {
			finished += cq.poll(2);
			wait();
		}
	};
	std::array threads = { std::thread(work), std::thread(post_all, 0),
			       std::thread(post_all, 1), std::thread(poll_all),
			       std::thread(poll_all) };

	for (std::thread &thread : threads)
		thread.join();
	EXPECT_FALSE(give_up) << finished << " requests have finished";
	EXPECT_EQ(wrong, 0u);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(QueuePairTest, destroy__while_another_thread_polls)
{
	std::atomic<bool> end = false;
	uint32_t polled = 0;
	std::thread poller([&] {
		while (!end)
			polled += cq.poll(1);
		polled += cq.poll(16);
	});

	for (uint32_t i = 0; i < 2000; i++) {
		ibv_qp *qp = create(cq);

		EXPECT_EQ(fill(qp), depth);
		while (cq.produced() - cq.consumed() > FakeCq::entries - depth)
			std::this_thread::yield();
		for (uint32_t n = 0; n < depth; n++)
			complete(qp);
		EXPECT_EQ(QueuePair::destroy(qp), 0);
		EXPECT_EQ(cq.produced(), cq.consumed())
			<< "all completions were polled or discarded";
	}
	end = true;
	poller.join();
	EXPECT_LE(polled, 2000 * depth);
}

} /* namespace */
