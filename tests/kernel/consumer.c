// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * consumer.c - a consumer in the kernel that posts every kind of request
 *
 * The test runs while the module is being loaded, in the network namespace of the process that
 * loads it. Loading fails if a check fails; the kernel's log has the line of the check.
 */

#include <linux/delay.h>
#include <linux/module.h>
#include <linux/string.h>

#include "ends.h"

static char *address;
module_param(address, charp, 0444);
MODULE_PARM_DESC(address, "IPv4 address of the device that both ends use");

static int write_with_imm(struct end *from, struct end *to)
{
	struct ib_sge sge = sge_of(from, 0, 200);
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = IB_WR_RDMA_WRITE_WITH_IMM,
			.ex.imm_data = cpu_to_be32(0x12345678),
			.sg_list = &sge,
			.num_sge = 1,
		},
		.remote_addr = end_address(to, 0),
		.rkey = to->mr->rkey,
	};
	struct ib_wc wc;

	if (UNTRUE(!receive(to)))
		return -EIO;
	if (post_and_reap(from, &wr.wr, IB_WC_RDMA_WRITE) ||
	    reap(to, IB_WC_RECV_RDMA_WITH_IMM, &wc))
		return -EIO;
	if (UNTRUE(wc.wc_flags == IB_WC_WITH_IMM) ||
	    UNTRUE(wc.ex.imm_data == cpu_to_be32(0x12345678)) ||
	    UNTRUE(wc.byte_len == 200) ||
	    UNTRUE(!memcmp(from->page, to->page, 200)))
		return -EIO;
	return 0;
}

static int inline_write(struct end *from, struct end *to)
{
	struct ib_sge sges[] = {
		{ .addr = (uintptr_t)from->page + 300, .length = 40 },
		{ .addr = (uintptr_t)from->page + 340, .length = INLINE_LEN - 40 },
	};
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = IB_WR_RDMA_WRITE,
			.send_flags = IB_SEND_INLINE,
			.sg_list = sges,
			.num_sge = 2,
		},
		.remote_addr = end_address(to, 300),
		.rkey = to->mr->rkey,
	};

	/* When the Read completes, the Write before it has been placed. */
	if (post_and_reap(from, &wr.wr, IB_WC_RDMA_WRITE))
		return -EIO;
	wr.wr.opcode = IB_WR_RDMA_READ;
	wr.wr.send_flags = 0;
	sges[0] = sge_of(from, SINK, INLINE_LEN);
	wr.wr.num_sge = 1;
	if (post_and_reap(from, &wr.wr, IB_WC_RDMA_READ))
		return -EIO;
	if (UNTRUE(!memcmp(to->page + 300, from->page + 300, INLINE_LEN)) ||
	    UNTRUE(!memcmp(from->page + SINK, from->page + 300, INLINE_LEN)))
		return -EIO;
	return 0;
}

static int atomics(struct end *from, struct end *to)
{
	struct ib_sge sge = sge_of(from, SINK, sizeof(u64));
	struct ib_atomic_wr wr = {
		.wr = { .opcode = IB_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &sge, .num_sge = 1 },
		.remote_addr = end_address(to, WORD),
		.compare_add = 0x100000001,
		.rkey = to->mr->rkey,
	};
	u64 *found = (u64 *)(from->page + SINK);

	*end_word(to) = 5;
	if (post_and_reap(from, &wr.wr, IB_WC_FETCH_ADD))
		return -EIO;
	if (UNTRUE(*found == 5) ||
	    UNTRUE(*end_word(to) == 0x100000006))
		return -EIO;

	wr.wr.opcode = IB_WR_ATOMIC_CMP_AND_SWP;
	wr.compare_add = 0x100000006;
	wr.swap = 9;
	if (post_and_reap(from, &wr.wr, IB_WC_COMP_SWAP))
		return -EIO;
	if (UNTRUE(*found == 0x100000006) ||
	    UNTRUE(*end_word(to) == 9))
		return -EIO;

	if (post_and_reap(from, &wr.wr, IB_WC_COMP_SWAP))	/* the word is not equal */
		return -EIO;
	if (UNTRUE(*found == 9) ||
	    UNTRUE(*end_word(to) == 9))
		return -EIO;
	return 0;
}

/* The Read invalidates the registration of its sink, or the second register_page() would fail. */
static int read_with_inv(struct end *from, struct end *to)
{
	struct ib_sge sge;
	struct ib_rdma_wr wr = {
		.wr = { .opcode = IB_WR_RDMA_READ_WITH_INV, .sg_list = &sge, .num_sge = 1 },
		.remote_addr = end_address(to, 0),
		.rkey = to->mr->rkey,
	};

	if (register_page(from))
		return -EIO;
	sge = (struct ib_sge){
		.addr = from->mr->iova + SINK,
		.length = 200,
		.lkey = from->mr->lkey,
	};
	wr.wr.ex.invalidate_rkey = from->mr->lkey;
	if (post_and_reap(from, &wr.wr, IB_WC_RDMA_READ))
		return -EIO;
	if (UNTRUE(!memcmp(from->page + SINK, to->page, 200)))
		return -EIO;
	return register_page(from);
}

static int local_inv(struct end *end)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_LOCAL_INV,
		.ex.invalidate_rkey = end->mr->rkey,
	};

	return post_and_reap(end, &wr, IB_WC_LOCAL_INV) ?: register_page(end);
}

static int send_with_inv(struct end *from, struct end *to)
{
	struct ib_sge sge = sge_of(from, 0, 10);
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND_WITH_INV,
		.ex.invalidate_rkey = to->mr->rkey,
		.sg_list = &sge,
		.num_sge = 1,
	};
	struct ib_wc wc;

	if (UNTRUE(!receive(to)))
		return -EIO;
	if (post_and_reap(from, &wr, IB_WC_SEND) || reap(to, IB_WC_RECV, &wc))
		return -EIO;
	if (UNTRUE(wc.wc_flags == IB_WC_WITH_INVALIDATE) ||
	    UNTRUE(wc.ex.invalidate_rkey == to->mr->rkey))
		return -EIO;
	return register_page(to);
}

/* Invalid requests are refused when they are posted, and the connection stays up. */
static int refusals(struct end *from, struct end *to)
{
	struct ib_sge sge = sge_of(from, SINK, 4);
	struct ib_atomic_wr wr = {
		.wr = { .opcode = IB_WR_ATOMIC_FETCH_AND_ADD, .sg_list = &sge, .num_sge = 1 },
		.remote_addr = end_address(to, WORD),
		.rkey = to->mr->rkey,
	};

	if (UNTRUE(post(from, &wr.wr) == -EINVAL))
		return -EIO;
	sge.length = sizeof(u64);
	wr.wr.send_flags = IB_SEND_INLINE;
	if (UNTRUE(post(from, &wr.wr) == -EINVAL))
		return -EIO;
	wr.wr.opcode = IB_WR_SEND;
	sge.length = PAGE_SIZE;
	if (UNTRUE(post(from, &wr.wr) == -EMSGSIZE))
		return -EIO;
	wr.wr.num_sge = 3;
	if (UNTRUE(post(from, &wr.wr) == -EINVAL))
		return -EIO;
	wr.wr.opcode = IB_WR_SEND_WITH_IMM;
	if (UNTRUE(post(from, &wr.wr) == -EOPNOTSUPP))
		return -EIO;
	return local_inv(from);
}

/*
 * Destroys the queue pair of @end while it has a completion to be polled and a receive posted.
 * Neither may show up afterwards.
 */
static int undrained(struct end *from, struct end *end)
{
	struct ib_sge sge = sge_of(from, 0, 8);
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .sg_list = &sge, .num_sge = 1 };
	struct ib_wc wc;

	if (UNTRUE(!receive(end)) || UNTRUE(!receive(end)))
		return -EIO;
	if (post_and_reap(from, &wr, IB_WC_SEND))
		return -EIO;
	msleep(50);		/* until @end has received it */
	rdma_destroy_qp(end->id);
	return UNTRUE(!ib_poll_cq(end->cq, 1, &wc)) ? -EIO : 0;
}

/*
 * A Send waits for a receive request. The post of one resumes it, and not only the look at the
 * end of the second that it may wait.
 */
static int late_receive(struct end *from, struct end *to)
{
	struct ib_sge sge = sge_of(from, 0, 8);
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .sg_list = &sge, .num_sge = 1 };
	unsigned long begin;
	struct ib_wc wc;

	if (UNTRUE(!post(from, &wr)))
		return -EIO;
	msleep(100);		/* until it waits */
	begin = jiffies;
	if (UNTRUE(!receive(to)))
		return -EIO;
	if (reap(from, IB_WC_SEND, &wc) || reap(to, IB_WC_RECV, &wc))
		return -EIO;
	return UNTRUE(time_before(jiffies, begin + HZ / 2)) ? -EIO : 0;
}

/*
 * Posts more unsignalled Writes than the send queue has slots. No completion says that slots are
 * free again, but they are, soon. The last Write is signalled, so that the queue is empty for what
 * follows.
 */
static int unsignalled(struct end *from, struct end *to)
{
	struct ib_sge sge = sge_of(from, 0, 8);
	struct ib_rdma_wr wr = {
		.wr = { .opcode = IB_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1 },
		.remote_addr = end_address(to, 0),
		.rkey = to->mr->rkey,
	};
	unsigned long deadline = jiffies + 10 * HZ;
	unsigned int posted = 0;
	struct ib_wc wc;

	while (posted < 100) {
		int ret;

		if (posted == 99)
			wr.wr.send_flags = IB_SEND_SIGNALED;
		ret = ib_post_send(from->id->qp, &wr.wr, NULL);
		if (UNTRUE(!ret || ret == -ENOMEM) || UNTRUE(time_before(jiffies, deadline)))
			return -EIO;
		if (ret)
			usleep_range(50, 200);
		else
			posted++;
	}
	return reap(from, IB_WC_RDMA_WRITE, &wc);
}

static int run_cases(struct end *a, struct end *b)
{
	unsigned int i;

	for (i = 0; i < SINK; i++)
		a->page[i] = i * 7 + (i >> 8) + 1;
	return register_page(b) ?:
	       write_with_imm(a, b) ?:
	       inline_write(a, b) ?:
	       atomics(a, b) ?:
	       read_with_inv(a, b) ?:
	       local_inv(a) ?:
	       unsignalled(a, b) ?:
	       late_receive(a, b) ?:
	       send_with_inv(a, b) ?:
	       refusals(a, b) ?:
	       undrained(a, b);
}

static int __init consumer_init(void)
{
	if (!address)
		return -EINVAL;
	return run_connected(address, run_cases) ?: run_refused(address);
}
module_init(consumer_init);

static void __exit consumer_exit(void)
{
}
module_exit(consumer_exit);

MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("Test of xiw's verbs for consumers in the kernel");
