// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_queue_pair_test.cpp - how long a send request has its place, against a kernel of our own */

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "completion_queue.hpp"
#include "domain.hpp"
#include "provider_kernel.hpp"
#include "queue_pair.hpp"

using xiw::CompletionQueue;
using xiw::CompletionRing;
using xiw::Domain;
using xiw::QueuePair;
using xiw::SharedWord;

namespace
{

constexpr size_t depth = 4;
constexpr uint32_t cq_entries = 64;
constexpr uint32_t first_qpn = 2;
constexpr uint32_t max_qps = 64; /* at a time */
constexpr size_t area_size = 4096;
static_assert(sizeof(xiw_qp_ctl) + depth * XIW_SLOT_MIN <= area_size);

/* The kernel's half of queue pairs: their rings are in a file, which the provider maps as well. */
class FakeDevice
{
public:
	FakeDevice() : fd_(memfd_create("rings", 0))
	{
		EXPECT_EQ(ftruncate(fd_, max_qps * area_size), 0);
		void *start = mmap(nullptr, max_qps * area_size, PROT_READ | PROT_WRITE, MAP_SHARED,
				   fd_, 0);
		EXPECT_NE(start, MAP_FAILED);
		areas_ = static_cast<std::byte *>(start);
		kernel_.context.cmd_fd = fd_;
		pd()->context = &kernel_.context;
	}

	~FakeDevice()
	{
		munmap(areas_, max_qps * area_size);
		close(fd_);
	}

	FakeDevice(const FakeDevice &) = delete;
	FakeDevice &operator=(const FakeDevice &) = delete;

	/* As numbers go round, so do areas. */
	xiw_create_qp_resp grant()
	{
		const uint32_t qpn = next_qpn_++;

		std::memset(area(qpn), 0, area_size);
		return { .map_key = (qpn % max_qps) * area_size,
			 .map_len = area_size,
			 .qpn = qpn,
			 .sq_offset = sizeof(xiw_qp_ctl),
			 .sq_entries = depth,
			 .sq_slot_size = XIW_SLOT_MIN,
			 .max_inline = 0,
			 .rq_offset = 0,
			 .rq_entries = 0,
			 .rq_slot_size = 0 };
	}

	xiw_queue_ctl &sq(uint32_t qpn) { return reinterpret_cast<xiw_qp_ctl *>(area(qpn))->sq; }

	/* The identifier in the slot of count @count. */
	uint64_t posted(uint32_t qpn, uint32_t count)
	{
		uint64_t wr_id;

		std::memcpy(&wr_id, area(qpn) + sizeof(xiw_qp_ctl) + (count % depth) * XIW_SLOT_MIN,
			    sizeof(wr_id));
		return wr_id;
	}

	/* The slot of count @count. */
	const xiw_send_slot &slot(uint32_t qpn, uint32_t count)
	{
		return *reinterpret_cast<xiw_send_slot *>(area(qpn) + sizeof(xiw_qp_ctl) +
							  (count % depth) * XIW_SLOT_MIN);
	}

	ibv_pd *pd() { return reinterpret_cast<ibv_pd *>(&domain_); }

	int destroy_answer = 0;

private:
	std::byte *area(uint32_t qpn) { return areas_ + (qpn % max_qps) * area_size; }

	FakeKernel kernel_;
	Domain domain_;
	int fd_;
	std::byte *areas_ = nullptr;
	uint32_t next_qpn_ = first_qpn;
};

FakeDevice *device;

} /* namespace */

int ibv_cmd_create_qp_ex(ibv_context *context, verbs_qp *vqp, ibv_qp_init_attr_ex *attr,
			 struct ibv_create_qp *, size_t, ib_uverbs_create_qp_resp *resp,
			 size_t resp_size)
{
	ibv_qp *const qp = &vqp->qp;
	const xiw_create_qp_resp granted = device->grant();

	EXPECT_EQ(resp_size, sizeof(*resp) + sizeof(granted));
	EXPECT_EQ(attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS, 0u) << "what libibverbs refuses";
	std::memcpy(static_cast<void *>(resp + 1), &granted, sizeof(granted));
	qp->context = context;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->qp_num = granted.qpn;
	qp->state = IBV_QPS_RESET;
	return 0;
}

int ibv_cmd_destroy_qp(ibv_qp *)
{
	return device->destroy_answer;
}

/* A reset forgets what was posted; the state itself is libibverbs' business. */
int ibv_cmd_modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask, struct ibv_modify_qp *, size_t)
{
	xiw_queue_ctl &sq = device->sq(qp->qp_num);

	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
		sq.consumed = sq.produced;
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	return 0;
}

int ibv_cmd_query_qp(ibv_qp *, ibv_qp_attr *, int, ibv_qp_init_attr *, struct ibv_query_qp *,
		     size_t)
{
	return ENOSYS;
}

namespace
{

/* A completion queue, with the kernel's half of it. */
class FakeCq
{
public:
	FakeCq() { cq_.open(CompletionRing(&ctl_, slots_.data(), cq_entries)); }

	ibv_cq *get() { return reinterpret_cast<ibv_cq *>(&cq_); }

	void push(xiw_cqe cqe)
	{
		xiw_cqe &slot = slots_[produced_ & (cq_entries - 1)];

		std::memcpy(&slot, &cqe, offsetof(xiw_cqe, gen));
		SharedWord(slot.gen).store(xiw_cqe_gen(produced_, cq_entries),
					   std::memory_order_release);
		produced_++;
	}

	/* Completions that the process has polled and given back. */
	uint32_t consumed() { return SharedWord(ctl_.consumed).load(std::memory_order_acquire); }
	uint32_t produced() const { return produced_; }

	int poll(int max = 1)
	{
		std::array<ibv_wc, 16> wc;

		return cq_.poll(max, wc.data());
	}

private:
	alignas(64) xiw_cq_ctl ctl_ = {};
	alignas(64) std::array<xiw_cqe, cq_entries> slots_ = {};
	uint32_t produced_ = 0;
	CompletionQueue cq_;
};

struct QueuePairTest : testing::Test {
	QueuePairTest() { device = &fake; }
	~QueuePairTest() override { device = nullptr; }

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

	/* How many requests find a place. */
	static uint32_t fill(ibv_qp *qp)
	{
		uint32_t n = 0;

		while (n <= depth && !post(qp))
			n++;
		return n;
	}

	/* The kernel gives @n slots back, and completes the last of these requests. */
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

TEST_F(QueuePairTest, post_send__full_until_polled)
{
	ibv_qp *qp = create(cq);

	EXPECT_EQ(fill(qp), depth);
	EXPECT_EQ(post(qp), ENOMEM);
	complete(qp);
	complete(qp);
	EXPECT_EQ(post(qp), ENOMEM) << "completed, but not polled";
	EXPECT_EQ(cq.poll(), 1);
	EXPECT_EQ(post(qp), 0);
	EXPECT_EQ(post(qp), ENOMEM);
	EXPECT_EQ(cq.poll(), 1);
	EXPECT_EQ(fill(qp), 1u);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(QueuePairTest, post_send__unsignalled_ones_go_with_the_next_completion)
{
	ibv_qp *qp = create(cq);

	EXPECT_EQ(fill(qp), depth);
	complete(qp, depth - 1);
	EXPECT_EQ(cq.poll(), 1);
	EXPECT_EQ(fill(qp), depth - 1);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(QueuePairTest, post_send__unsignalled_ones_that_the_kernel_gave_back_keep_their_places)
{
	ibv_qp *qp = create(cq);

	EXPECT_EQ(fill(qp), depth);
	fake.sq(qp->qp_num).consumed = depth;
	EXPECT_EQ(post(qp), ENOMEM);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(QueuePairTest, post_send__flushed_ones_give_their_places_back)
{
	ibv_qp *qp = create(cq);

	EXPECT_EQ(fill(qp), depth);
	for (uint32_t i = 0; i < depth; i++)
		complete(qp, 1, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(cq.poll(depth), int(depth));
	EXPECT_EQ(fill(qp), depth);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(QueuePairTest, post_send__receives_give_no_places_back)
{
	ibv_qp *qp = create(cq);

	EXPECT_EQ(fill(qp), depth);
	for (uint16_t opcode : { XIW_WC_RECV, XIW_WC_RECV_IMM })
		cq.push({ .qpn = qp->qp_num, .opcode = opcode, .sq_count = 1 });
	EXPECT_EQ(cq.poll(2), 2);
	EXPECT_EQ(post(qp), ENOMEM);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(QueuePairTest, post_send__each_queue_pair_of_a_completion_queue_has_its_own_places)
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

TEST_F(QueuePairTest, destroy__with_completions_left)
{
	ibv_qp *gone = create(cq);
	ibv_qp *other = create(cq);

	EXPECT_EQ(fill(gone), depth);
	EXPECT_EQ(fill(other), depth);
	complete(gone);
	complete(gone, 1, IBV_WC_WR_FLUSH_ERR);
	complete(other);
	complete(gone, 1, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(cq.poll(), 1); /* so it is the one that a completion came for last */
	EXPECT_EQ(QueuePair::destroy(gone), 0);
	EXPECT_EQ(cq.consumed(), 3u) << "the places of what is left of it are free";
	EXPECT_EQ(cq.poll(16), 1) << "nothing comes of it any more";
	EXPECT_EQ(fill(other), 1u);
	EXPECT_EQ(QueuePair::destroy(other), 0);
}

TEST_F(QueuePairTest, destroy__refused_leaves_it_as_it_was)
{
	ibv_qp *qp = create(cq);

	EXPECT_EQ(fill(qp), depth);
	fake.destroy_answer = EBUSY;
	EXPECT_EQ(QueuePair::destroy(qp), EBUSY);
	complete(qp);
	EXPECT_EQ(cq.poll(), 1);
	EXPECT_EQ(fill(qp), 1u);
	fake.destroy_answer = 0;
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
	EXPECT_EQ(cq.poll(), 0) << "that completion was of before";
	complete(qp);
	EXPECT_EQ(cq.poll(), 1);
	EXPECT_EQ(fill(qp), 1u);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(QueuePairTest, modify__to_other_states_frees_nothing)
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

	void expect_refused(const ibv_qp_init_attr_ex &attr)
	{
		ibv_qp_init_attr_ex copy = attr;

		errno = 0;
		EXPECT_EQ(QueuePair::create_extended(&copy), nullptr);
		EXPECT_EQ(errno, EOPNOTSUPP);
	}
};

TEST_F(ExtendedTest, create_extended__refuses_what_it_has_not)
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

TEST_F(ExtendedTest, create_extended__no_flags_are_fine)
{
	ibv_qp_init_attr_ex attr = attributes();

	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	ibv_qp *qp = QueuePair::create_extended(&attr);
	ASSERT_NE(qp, nullptr);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(ExtendedTest, create_extended__without_requests_has_no_table)
{
	ibv_qp_init_attr_ex attr = attributes();

	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.send_ops_flags = IBV_QP_EX_WITH_SEND_WITH_IMM; /* not looked at */
	ibv_qp *qp = QueuePair::create_extended(&attr);
	ASSERT_NE(qp, nullptr);
	EXPECT_EQ(reinterpret_cast<verbs_qp *>(qp)->comp_mask & VERBS_QP_EX, 0u);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

/* Every function of the table does what it is called. */
TEST_F(ExtendedTest, every_request)
{
	ibv_qp_init_attr_ex attr = attributes();
	ibv_qp *qp = QueuePair::create_extended(&attr);
	ASSERT_NE(qp, nullptr);
	EXPECT_NE(reinterpret_cast<verbs_qp *>(qp)->comp_mask & VERBS_QP_EX, 0u);
	ibv_qp_ex *qpx = reinterpret_cast<ibv_qp_ex *>(qp);
	uint32_t posted = 0;
	auto last = [&]() -> const xiw_send_slot & { return fake.slot(qp->qp_num, posted - 1); };
	auto post = [&](auto request) {
		ibv_wr_start(qpx);
		request();
		EXPECT_EQ(ibv_wr_complete(qpx), 0);
		EXPECT_EQ(fake.sq(qp->qp_num).produced, ++posted);
		complete(qp);
		EXPECT_EQ(cq.poll(), 1);
	};

	modify(qp, IBV_QPS_RTS);
	qpx->wr_id = 7;
	post([&] { ibv_wr_send(qpx); });
	EXPECT_EQ(last().opcode, XIW_OP_SEND);
	EXPECT_EQ(last().wr_id, 7u);
	post([&] { ibv_wr_send_inv(qpx, 0xabc); });
	EXPECT_EQ(last().opcode, XIW_OP_SEND_INV);
	EXPECT_EQ(last().imm_inv, 0xabcu);
	post([&] { ibv_wr_local_inv(qpx, 0xabd); });
	EXPECT_EQ(last().opcode, XIW_OP_LOCAL_INV);
	EXPECT_EQ(last().rkey, 0xabdu);
	post([&] { ibv_wr_rdma_write(qpx, 9, 0x123456789); });
	EXPECT_EQ(last().opcode, XIW_OP_WRITE);
	EXPECT_EQ(last().rkey, 9u);
	EXPECT_EQ(last().remote_addr, 0x123456789u);
	post([&] { ibv_wr_rdma_write_imm(qpx, 9, 0x12345678a, 0x04030201); });
	EXPECT_EQ(last().opcode, XIW_OP_WRITE_IMM);
	EXPECT_EQ(last().remote_addr, 0x12345678au);
	EXPECT_EQ(last().imm_inv, 0x04030201u);
	post([&] {
		ibv_wr_rdma_read(qpx, 10, 0x12345678b);
		ibv_wr_set_sge(qpx, 3, 0x7000, 100);
	});
	EXPECT_EQ(last().opcode, XIW_OP_READ);
	EXPECT_EQ(last().rkey, 10u);
	EXPECT_EQ(last().sge[0].addr, 0x7000u);
	EXPECT_EQ(last().sge[0].length, 100u);
	EXPECT_EQ(last().sge[0].lkey, 3u);
	post([&] {
		ibv_wr_atomic_cmp_swp(qpx, 11, 0x4008, 17, 18);
		ibv_wr_set_sge(qpx, 3, 0x7000, 8);
	});
	EXPECT_EQ(last().opcode, XIW_OP_CMP_SWP);
	EXPECT_EQ(last().rkey, 11u);
	EXPECT_EQ(last().remote_addr, 0x4008u);
	EXPECT_EQ(last().atomic.compare_add, 17u);
	EXPECT_EQ(last().atomic.swap, 18u);
	post([&] {
		ibv_wr_atomic_fetch_add(qpx, 11, 0x4010, 19);
		ibv_wr_set_sge(qpx, 3, 0x7000, 8);
	});
	EXPECT_EQ(last().opcode, XIW_OP_FETCH_ADD);
	EXPECT_EQ(last().atomic.compare_add, 19u);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

TEST_F(ExtendedTest, nothing_is_posted_in_reset)
{
	ibv_qp_init_attr_ex attr = attributes();
	ibv_qp *qp = QueuePair::create_extended(&attr);
	ASSERT_NE(qp, nullptr);
	ibv_qp_ex *qpx = reinterpret_cast<ibv_qp_ex *>(qp);

	ibv_wr_start(qpx);
	ibv_wr_send(qpx);
	EXPECT_EQ(ibv_wr_complete(qpx), EINVAL);
	EXPECT_EQ(fake.sq(qp->qp_num).produced, 0u);
	EXPECT_EQ(QueuePair::destroy(qp), 0);
}

/* Both threads give up when no place comes free, so that the test ends. */
TEST_F(QueuePairTest, post_send__on_one_thread_while_another_polls)
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
			wrong += fake.posted(qp->qp_num, i) != i;
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
	EXPECT_FALSE(give_up) << "a place that was given back was not seen";
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
		while (cq.produced() - cq.consumed() > cq_entries - depth)
			std::this_thread::yield();
		for (uint32_t n = 0; n < depth; n++)
			complete(qp);
		EXPECT_EQ(QueuePair::destroy(qp), 0);
		EXPECT_EQ(cq.produced(), cq.consumed()) << "polled, or taken out";
	}
	end = true;
	poller.join();
	EXPECT_LE(polled, 2000 * depth);
}

} /* namespace */
