// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * xiw_consumer.c - a consumer in the kernel that posts every kind of request
 *
 * The test runs while the module is being loaded, in the network namespace of the process that
 * loads it. Loading fails if a check fails; the kernel's log has the line of the check.
 */

#include <linux/delay.h>
#include <linux/inet.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/scatterlist.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

static char *address;
module_param(address, charp, 0444);
MODULE_PARM_DESC(address, "IPv4 address of the device that both ends use");

#define WAIT		(10 * HZ)
#define PORT		7471
#define INLINE_LEN	64

/* Offsets in the page that each end has. */
#define SINK		1024
#define WORD		2048

#define REMOTE	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
		 IB_ACCESS_REMOTE_ATOMIC)

/* True if the claim does not hold, after logging that. */
#define UNTRUE(claim)	(!(claim) && consumer_says(__LINE__, #claim))

static bool consumer_says(int line, const char *claim)
{
	pr_err("xiw_consumer: line %d: does not hold: %s\n", line, claim);
	return true;
}

/**
 * struct end - one end of the connection
 * @id: its connection
 * @event: last event of its connection
 * @pd: protection domain
 * @cq: completions of both queues
 * @mr: fast registration of @page
 * @sg: @page for the DMA API
 * @page: its memory
 */
struct end {
	struct rdma_cm_id	*id;
	enum rdma_cm_event_type	event;
	struct ib_pd		*pd;
	struct ib_cq		*cq;
	struct ib_mr		*mr;
	struct scatterlist	sg;
	u8			*page;
};

static u64 end_address(const struct end *end, unsigned int offset)
{
	return sg_dma_address(&end->sg) + offset;
}

static u64 *end_word(const struct end *end)
{
	return (u64 *)(end->page + WORD);
}

static int end_open(struct end *end)
{
	struct ib_device *dev = end->id->device;
	struct ib_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 16,
			.max_recv_wr = 4,
			.max_send_sge = 2,
			.max_recv_sge = 1,
			.max_inline_data = INLINE_LEN,
		},
		.qp_type = IB_QPT_RC,
	};

	end->pd = ib_alloc_pd(dev, 0);
	if (UNTRUE(!IS_ERR(end->pd)))
		return -EIO;
	end->cq = ib_alloc_cq(dev, NULL, 32, 0, IB_POLL_DIRECT);
	if (UNTRUE(!IS_ERR(end->cq)))
		return -EIO;
	end->mr = ib_alloc_mr(end->pd, IB_MR_TYPE_MEM_REG, 1);
	if (UNTRUE(!IS_ERR(end->mr)))
		return -EIO;
	sg_init_one(&end->sg, end->page, PAGE_SIZE);
	if (UNTRUE(ib_dma_map_sg(dev, &end->sg, 1, DMA_BIDIRECTIONAL) == 1))
		return -EIO;
	attr.send_cq = end->cq;
	attr.recv_cq = end->cq;
	if (UNTRUE(!rdma_create_qp(end->id, end->pd, &attr)))
		return -EIO;
	return 0;
}

/* The end may be only partly opened. */
static void end_close(struct end *end)
{
	if (!end->id)
		return;
	if (end->id->qp) {
		rdma_disconnect(end->id);
		ib_drain_qp(end->id->qp);
		rdma_destroy_qp(end->id);
	}
	if (sg_page(&end->sg))
		ib_dma_unmap_sg(end->id->device, &end->sg, 1, DMA_BIDIRECTIONAL);
	if (!IS_ERR_OR_NULL(end->mr))
		ib_dereg_mr(end->mr);
	if (!IS_ERR_OR_NULL(end->cq))
		ib_free_cq(end->cq);
	if (!IS_ERR_OR_NULL(end->pd))
		ib_dealloc_pd(end->pd);
	rdma_destroy_id(end->id);
}

/* The listener's context is the passive end, and the ids of its connections inherit that. */
static int end_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4 };
	struct end *end = id->context;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		end->id = id;
		if (end_open(end) || rdma_accept(id, &param))
			pr_err("xiw_consumer: cannot accept the connection\n");
	}
	WRITE_ONCE(end->event, event->event);
	return 0;
}

static int end_await(struct end *end, enum rdma_cm_event_type event)
{
	unsigned long deadline = jiffies + WAIT;

	while (READ_ONCE(end->event) != event) {
		if (UNTRUE(time_before(jiffies, deadline)))
			return -EIO;
		usleep_range(50, 200);
	}
	return 0;
}

static int connect_ends(struct end *active, struct end *passive, struct rdma_cm_id *listener)
{
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4 };
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct sockaddr *to = (struct sockaddr *)&sin;

	sin.sin_addr.s_addr = in_aton(address);
	if (UNTRUE(!rdma_bind_addr(listener, to)) ||
	    UNTRUE(!rdma_listen(listener, 1)) ||
	    UNTRUE(!rdma_resolve_addr(active->id, NULL, to, 2000)))
		return -EIO;
	if (end_await(active, RDMA_CM_EVENT_ADDR_RESOLVED))
		return -EIO;
	if (UNTRUE(!rdma_resolve_route(active->id, 2000)))
		return -EIO;
	if (end_await(active, RDMA_CM_EVENT_ROUTE_RESOLVED) || end_open(active))
		return -EIO;
	if (UNTRUE(!rdma_connect(active->id, &param)))
		return -EIO;
	if (end_await(passive, RDMA_CM_EVENT_ESTABLISHED) ||
	    end_await(active, RDMA_CM_EVENT_ESTABLISHED))
		return -EIO;
	return 0;
}

/*
 * Requests
 */

static int post(struct end *end, struct ib_send_wr *wr)
{
	wr->send_flags |= IB_SEND_SIGNALED;
	return ib_post_send(end->id->qp, wr, NULL);
}

static int reap(struct end *end, enum ib_wc_opcode opcode, struct ib_wc *wc)
{
	unsigned long deadline = jiffies + WAIT;

	while (!ib_poll_cq(end->cq, 1, wc)) {
		if (UNTRUE(time_before(jiffies, deadline)))
			return -EIO;
		usleep_range(50, 200);
	}
	if (UNTRUE(wc->status == IB_WC_SUCCESS) ||
	    UNTRUE(wc->opcode == opcode))
		return -EIO;
	return 0;
}

static int post_and_reap(struct end *end, struct ib_send_wr *wr, enum ib_wc_opcode opcode)
{
	struct ib_wc wc;

	if (UNTRUE(!post(end, wr)))
		return -EIO;
	return reap(end, opcode, &wc);
}

static int receive(struct end *end)
{
	struct ib_sge sge = {
		.addr = end_address(end, SINK),
		.length = SINK,
		.lkey = end->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(end->id->qp, &wr, NULL);
}

/* Registers the page with a new key. */
static int register_page(struct end *end)
{
	struct ib_reg_wr wr = { .wr.opcode = IB_WR_REG_MR, .mr = end->mr, .access = REMOTE };

	if (UNTRUE(ib_map_mr_sg(end->mr, &end->sg, 1, NULL, PAGE_SIZE) == 1))
		return -EIO;
	ib_update_fast_reg_key(end->mr, end->mr->rkey + 1);
	wr.key = end->mr->rkey;
	return post_and_reap(end, &wr.wr, IB_WC_REG_MR);
}

static struct ib_sge sge_of(const struct end *end, unsigned int offset, u32 len)
{
	return (struct ib_sge){
		.addr = end_address(end, offset),
		.length = len,
		.lkey = end->pd->local_dma_lkey,
	};
}

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
	       send_with_inv(a, b) ?:
	       refusals(a, b) ?:
	       undrained(a, b);
}

static struct rdma_cm_id *make_id(struct end *end)
{
	return rdma_create_id(current->nsproxy->net_ns, end_event, end, RDMA_PS_TCP, IB_QPT_RC);
}

static int run(struct end *active, struct end *passive)
{
	struct rdma_cm_id *listener = make_id(passive);
	int ret;

	if (UNTRUE(!IS_ERR(listener)))
		return -EIO;
	active->id = make_id(active);
	if (IS_ERR(active->id)) {
		active->id = NULL;
		ret = -EIO;
	} else {
		ret = connect_ends(active, passive, listener) ?: run_cases(active, passive);
	}
	end_close(active);
	end_close(passive);
	rdma_destroy_id(listener);
	return ret;
}

static int __init consumer_init(void)
{
	struct end ends[2] = {};
	int ret = -ENOMEM;
	unsigned int i;

	if (!address)
		return -EINVAL;
	for (i = 0; i < 2; i++) {
		ends[i].event = RDMA_CM_EVENT_TIMEWAIT_EXIT;	/* end_await() never waits for it */
		ends[i].page = (u8 *)get_zeroed_page(GFP_KERNEL);
	}
	if (ends[0].page && ends[1].page)
		ret = run(&ends[0], &ends[1]);
	for (i = 0; i < 2; i++)
		free_page((unsigned long)ends[i].page);
	return ret;
}
module_init(consumer_init);

static void __exit consumer_exit(void)
{
}
module_exit(consumer_exit);

MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("Test of xiw's verbs for consumers in the kernel");
