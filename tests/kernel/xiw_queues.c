// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * xiw_queues.c - a consumer in the kernel whose queues are full, shared, resized, armed, too small
 *
 * Others are refused, because they would be too large or of a kind that xiw does not have.
 *
 * The test runs while the module is being loaded, in the network namespace of the process that
 * loads it. Loading fails if a check fails; the kernel's log has the line of the check. Nothing is
 * connected: requests of a queue pair in ERROR complete at once.
 */

#include <linux/inet.h>
#include <linux/jiffies.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/scatterlist.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

static char *address;
module_param(address, charp, 0444);
MODULE_PARM_DESC(address, "IPv4 address of the device");

#define WAIT	(10 * HZ)
#define DEPTH	4
#define LONG	600

/* True if the claim does not hold, after logging that. */
#define UNTRUE(claim)	(!(claim) && queues_say(__LINE__, #claim))

static bool queues_say(int line, const char *claim)
{
	pr_err("xiw_queues: line %d: does not hold: %s\n", line, claim);
	return true;
}

/**
 * struct queues - what a case uses
 * @pd: protection domain
 * @cq: completions of both queues of @qp
 * @srq: the queue that @qp receives from, or NULL
 * @qp: the queue pair
 * @calls: how often the handler of @cq was called
 * @errors: how often @cq has reported an error
 */
struct queues {
	struct ib_pd	*pd;
	struct ib_cq	*cq;
	struct ib_srq	*srq;
	struct ib_qp	*qp;
	atomic_t	calls;
	atomic_t	errors;
};

static void queues_called(struct ib_cq *cq, void *context)
{
	struct queues *q = context;

	atomic_inc(&q->calls);
}

static void queues_failed(struct ib_event *event, void *context)
{
	struct queues *q = context;

	if (event->event == IB_EVENT_CQ_ERR && event->element.cq == q->cq)
		atomic_inc(&q->errors);
}

static void queues_close(struct queues *q)
{
	if (!IS_ERR_OR_NULL(q->qp))
		ib_destroy_qp(q->qp);
	if (!IS_ERR_OR_NULL(q->srq))
		ib_destroy_srq(q->srq);
	if (!IS_ERR_OR_NULL(q->cq))
		ib_destroy_cq(q->cq);
	if (!IS_ERR_OR_NULL(q->pd))
		ib_dealloc_pd(q->pd);
}

static int queues_open(struct ib_device *dev, struct queues *q, unsigned int depth,
		       unsigned int cqe, bool shared)
{
	struct ib_srq_init_attr srq_attr = { .attr = { .max_wr = depth, .max_sge = 1 } };
	struct ib_cq_init_attr cq_attr = { .cqe = cqe };
	struct ib_qp_init_attr attr = {
		.cap = {
			.max_send_wr = depth,
			.max_recv_wr = depth,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IB_QPT_RC,
	};

	q->pd = ib_alloc_pd(dev, 0);
	if (UNTRUE(!IS_ERR(q->pd)))
		return -EIO;
	q->cq = ib_create_cq(dev, queues_called, queues_failed, q, &cq_attr);
	if (UNTRUE(!IS_ERR(q->cq)))
		return -EIO;
	if (shared) {
		q->srq = ib_create_srq(q->pd, &srq_attr);
		if (UNTRUE(!IS_ERR(q->srq)))
			return -EIO;
	}
	attr.send_cq = q->cq;
	attr.recv_cq = q->cq;
	attr.srq = q->srq;
	q->qp = ib_create_qp(q->pd, &attr);
	return UNTRUE(!IS_ERR(q->qp)) ? -EIO : 0;
}

static int queues_fail(struct queues *q)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	return UNTRUE(!ib_modify_qp(q->qp, &attr, IB_QP_STATE)) ? -EIO : 0;
}

/* A receive of no bytes. */
static int receive(struct queues *q, int num_sge)
{
	struct ib_sge sges[2] = {};
	struct ib_recv_wr wr = { .sg_list = sges, .num_sge = num_sge };

	return q->srq ? ib_post_srq_recv(q->srq, &wr, NULL) : ib_post_recv(q->qp, &wr, NULL);
}

static int send(struct queues *q)
{
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .send_flags = IB_SEND_SIGNALED };

	return ib_post_send(q->qp, &wr, NULL);
}

/* Posts a receive to a queue pair in ERROR, and waits for the count to become @wanted. */
static int receive_and_await(struct queues *q, atomic_t *count, int wanted)
{
	unsigned long deadline = jiffies + WAIT;

	if (UNTRUE(!receive(q, 0)))
		return -EIO;
	while (atomic_read(count) != wanted) {
		if (UNTRUE(time_before(jiffies, deadline)))
			return -EIO;
		usleep_range(50, 200);
	}
	return 0;
}

/*
 * The cases
 */

static int full_queues(struct queues *q)
{
	unsigned int i;

	if (UNTRUE(receive(q, 2) == -EINVAL))
		return -EIO;
	for (i = 0; i < DEPTH; i++)
		if (UNTRUE(!send(q)) || UNTRUE(!receive(q, 1)))
			return -EIO;
	return UNTRUE(send(q) == -ENOMEM) || UNTRUE(receive(q, 1) == -ENOMEM) ? -EIO : 0;
}

/* Requests that wait survive the resize, and so they need room. */
static int shared_queue(struct queues *q)
{
	struct ib_recv_wr wr = {};
	struct ib_srq_attr attr = { .max_wr = 2 * DEPTH };
	unsigned int i;

	if (UNTRUE(ib_post_recv(q->qp, &wr, NULL) == -EINVAL) || full_queues(q))
		return -EIO;
	if (UNTRUE(!ib_modify_srq(q->srq, &attr, IB_SRQ_MAX_WR)))
		return -EIO;
	for (i = 0; i < DEPTH; i++)
		if (UNTRUE(!receive(q, 1)))
			return -EIO;
	if (UNTRUE(receive(q, 1) == -ENOMEM))
		return -EIO;
	attr.max_wr = DEPTH;
	return UNTRUE(ib_modify_srq(q->srq, &attr, IB_SRQ_MAX_WR) == -EINVAL) ? -EIO : 0;
}

/*
 * The handler is called once for each time that the queue is armed. A request that failed counts as
 * solicited.
 */
static int notifications(struct queues *q)
{
	struct ib_wc wc[DEPTH];

	if (queues_fail(q) || UNTRUE(!ib_req_notify_cq(q->cq, IB_CQ_NEXT_COMP)))
		return -EIO;
	if (UNTRUE(!ib_req_notify_cq(q->cq, IB_CQ_SOLICITED)))	/* the other one stays in force */
		return -EIO;
	if (receive_and_await(q, &q->calls, 1) || UNTRUE(!receive(q, 0)))
		return -EIO;
	msleep(50);	/* until the second has completed, too */
	if (UNTRUE(atomic_read(&q->calls) == 1) ||
	    UNTRUE(ib_req_notify_cq(q->cq, IB_CQ_SOLICITED | IB_CQ_REPORT_MISSED_EVENTS) == 1) ||
	    UNTRUE(ib_poll_cq(q->cq, DEPTH, wc) == 2) ||
	    UNTRUE(wc[0].status == IB_WC_WR_FLUSH_ERR))
		return -EIO;
	if (UNTRUE(!ib_req_notify_cq(q->cq, IB_CQ_SOLICITED | IB_CQ_REPORT_MISSED_EVENTS)))
		return -EIO;
	return receive_and_await(q, &q->calls, 2);
}

/* A completion queue that overflows says so once. */
static int overflow(struct queues *q)
{
	if (queues_fail(q) || UNTRUE(!receive(q, 0)))
		return -EIO;
	if (receive_and_await(q, &q->errors, 1) || UNTRUE(!receive(q, 0)))
		return -EIO;
	msleep(50);
	return UNTRUE(atomic_read(&q->errors) == 1) ? -EIO : 0;
}

/* More entries than are read with interrupts off. They come in order, and each one once. */
static int long_queue(struct queues *q)
{
	struct ib_wc *wc = kcalloc(LONG + 1, sizeof(*wc), GFP_KERNEL);
	struct ib_recv_wr wr = {};
	int ret = -EIO;
	u64 i;

	if (UNTRUE(wc))
		return -ENOMEM;
	for (i = 0; i < LONG; i++) {
		wr.wr_id = i;
		if (UNTRUE(!ib_post_recv(q->qp, &wr, NULL)))
			goto free;
	}
	if (queues_fail(q) || UNTRUE(ib_poll_cq(q->cq, LONG + 1, wc) == LONG))
		goto free;
	for (i = 0; i < LONG; i++)
		if (UNTRUE(wc[i].wr_id == i) || UNTRUE(wc[i].status == IB_WC_WR_FLUSH_ERR))
			goto free;
	ret = 0;
free:
	kfree(wc);
	return ret;
}

/*
 * Refusals
 */

/* Whether @made is the error @err. If it is an object, @destroy destroys it. */
#define REFUSED(made, err, destroy)					\
({									\
	typeof(made) _made = (made);					\
	if (!IS_ERR(_made))						\
		destroy(_made);						\
	PTR_ERR(_made) == (err);					\
})

static bool cq_refused(struct queues *q, struct ib_cq_init_attr attr, int err)
{
	return REFUSED(ib_create_cq(q->cq->device, NULL, NULL, NULL, &attr), err, ib_destroy_cq);
}

static bool srq_refused(struct queues *q, struct ib_srq_init_attr attr, int err)
{
	return REFUSED(ib_create_srq(q->pd, &attr), err, ib_destroy_srq);
}

static bool qp_refused(struct queues *q, struct ib_qp_init_attr attr, int err)
{
	attr.send_cq = q->cq;
	attr.recv_cq = q->cq;
	return REFUSED(ib_create_qp(q->pd, &attr), err, ib_destroy_qp);
}

static bool mr_refused(struct queues *q, enum ib_mr_type type, u32 max_num_sg, int err)
{
	return REFUSED(ib_alloc_mr(q->pd, type, max_num_sg), err, ib_dereg_mr);
}

/* Each limit of the device is exceeded by one. */
static int too_large(struct queues *q)
{
	const struct ib_device_attr *max = &q->cq->device->attrs;
	const u32 wr = max->max_qp_wr + 1;

#define SRQ_OF(...)	((struct ib_srq_init_attr){ .attr = { __VA_ARGS__ } })
#define QP_OF(...)	((struct ib_qp_init_attr){ .qp_type = IB_QPT_RC, .cap = { __VA_ARGS__ } })
	return UNTRUE(cq_refused(q, (struct ib_cq_init_attr){ .cqe = max->max_cqe + 1 },
				 -EINVAL)) ||
	       UNTRUE(srq_refused(q, SRQ_OF(.max_wr = 0), -EINVAL)) ||
	       UNTRUE(srq_refused(q, SRQ_OF(.max_wr = max->max_srq_wr + 1), -EINVAL)) ||
	       UNTRUE(srq_refused(q, SRQ_OF(.max_wr = 1, .max_sge = max->max_srq_sge + 1),
				  -EINVAL)) ||
	       UNTRUE(qp_refused(q, QP_OF(.max_send_wr = wr), -EINVAL)) ||
	       UNTRUE(qp_refused(q, QP_OF(.max_recv_wr = wr), -EINVAL)) ||
	       UNTRUE(qp_refused(q, QP_OF(.max_send_sge = max->max_send_sge + 1), -EINVAL)) ||
	       UNTRUE(qp_refused(q, QP_OF(.max_recv_sge = max->max_recv_sge + 1), -EINVAL)) ||
	       UNTRUE(qp_refused(q, QP_OF(.max_inline_data = PAGE_SIZE), -EINVAL)) ||
	       UNTRUE(mr_refused(q, IB_MR_TYPE_MEM_REG, max->max_fast_reg_page_list_len + 1,
				 -EINVAL)) ||
	       UNTRUE(mr_refused(q, IB_MR_TYPE_MEM_REG, 0, -EINVAL)) ? -EIO : 0;
}

/* Kinds of objects, and flags, that other devices have. */
static int unknown_kinds(struct queues *q)
{
	struct ib_cq_init_attr cq = { .cqe = 1, .flags = IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN };
	struct ib_srq_init_attr srq = { .srq_type = IB_SRQT_TM, .attr.max_wr = 1, .ext.cq = q->cq };
	struct ib_qp_init_attr qp = { .qp_type = IB_QPT_UD };

	if (UNTRUE(cq_refused(q, cq, -EOPNOTSUPP)) || UNTRUE(srq_refused(q, srq, -EOPNOTSUPP)) ||
	    UNTRUE(qp_refused(q, qp, -EOPNOTSUPP)) ||
	    UNTRUE(mr_refused(q, IB_MR_TYPE_SG_GAPS, 1, -EOPNOTSUPP)))
		return -EIO;
	qp.qp_type = IB_QPT_RC;
	qp.create_flags = IB_QP_CREATE_SCATTER_FCS;
	return UNTRUE(qp_refused(q, qp, -EOPNOTSUPP)) ? -EIO : 0;
}

/* Nothing changes if a limit or a size does not fit. */
static int wrong_changes(struct queues *q)
{
	const struct ib_device_attr *max = &q->cq->device->attrs;
	const enum ib_srq_attr_mask both = IB_SRQ_LIMIT | IB_SRQ_MAX_WR;
	struct ib_srq_attr attr = { .srq_limit = DEPTH + 1 };

	if (UNTRUE(ib_modify_srq(q->srq, &attr, IB_SRQ_LIMIT) == -EINVAL) ||
	    UNTRUE(ib_modify_srq(q->srq, &attr, 1 << 5) == -EINVAL) ||
	    UNTRUE(ib_modify_srq(q->srq, &attr, IB_SRQ_MAX_WR) == -EINVAL))	/* no size */
		return -EIO;
	attr.max_wr = DEPTH;
	if (UNTRUE(ib_modify_srq(q->srq, &attr, both) == -EINVAL))
		return -EIO;
	attr.max_wr = max->max_srq_wr + 1;
	if (UNTRUE(ib_modify_srq(q->srq, &attr, both) == -EINVAL) ||
	    UNTRUE(receive(q, -1) == -EINVAL) ||
	    UNTRUE(!ib_query_srq(q->srq, &attr)))
		return -EIO;
	return UNTRUE(attr.max_wr == DEPTH) || UNTRUE(!attr.srq_limit) ? -EIO : 0;
}

/* A region for one page takes the first page of two. */
static int one_page_of_two(struct queues *q)
{
	struct ib_mr *mr = ib_alloc_mr(q->pd, IB_MR_TYPE_MEM_REG, 1);
	struct page *pages[2] = {};
	struct scatterlist sg[2];
	int ret = -EIO;
	int i;

	if (UNTRUE(!IS_ERR(mr)))
		return -EIO;
	sg_init_table(sg, 2);
	for (i = 0; i < 2; i++) {
		pages[i] = alloc_page(GFP_KERNEL);
		if (UNTRUE(pages[i]))
			goto free;
		sg_set_page(&sg[i], pages[i], PAGE_SIZE, 0);
	}
	if (UNTRUE(ib_dma_map_sg(q->cq->device, sg, 2, DMA_BIDIRECTIONAL) == 2))
		goto free;
	if (!UNTRUE(ib_map_mr_sg(mr, sg, 2, NULL, PAGE_SIZE) == 1) &&
	    !UNTRUE(mr->length == PAGE_SIZE))
		ret = 0;
	ib_dma_unmap_sg(q->cq->device, sg, 2, DMA_BIDIRECTIONAL);
free:
	for (i = 0; i < 2; i++)
		if (pages[i])
			__free_page(pages[i]);
	ib_dereg_mr(mr);
	return ret;
}

/* An RNIC has one GID and one key, each at index 0. */
static int tables_of_one(struct queues *q)
{
	struct ib_device *dev = q->cq->device;
	union ib_gid gid;
	u16 pkey;

	return UNTRUE(!ib_query_pkey(dev, 1, 0, &pkey)) || UNTRUE(pkey == 0xffff) ||
	       UNTRUE(ib_query_pkey(dev, 1, 1, &pkey) == -EINVAL) ||
	       UNTRUE(!dev->ops.query_gid(dev, 1, 0, &gid)) ||
	       UNTRUE(dev->ops.query_gid(dev, 1, 1, &gid) == -EINVAL) ? -EIO : 0;
}

static int prove(struct ib_device *dev, int (*claim)(struct queues *q), unsigned int depth,
		 unsigned int cqe, bool shared)
{
	struct queues q = {};
	int ret = queues_open(dev, &q, depth, cqe, shared) ?: claim(&q);

	queues_close(&q);
	return ret;
}

static int event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	return 0;
}

static int __init queues_init(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	struct ib_device *dev;
	struct rdma_cm_id *id;
	int ret = -EIO;

	if (!address)
		return -EINVAL;
	sin.sin_addr.s_addr = in_aton(address);
	id = rdma_create_id(current->nsproxy->net_ns, event, NULL, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	if (!UNTRUE(!rdma_bind_addr(id, (struct sockaddr *)&sin)) && !UNTRUE(id->device)) {
		dev = id->device;
		ret = prove(dev, full_queues, DEPTH, 4 * DEPTH, false) ?:
		      prove(dev, shared_queue, DEPTH, 4 * DEPTH, true) ?:
		      prove(dev, notifications, DEPTH, 4 * DEPTH, false) ?:
		      prove(dev, overflow, DEPTH, 1, false) ?:
		      prove(dev, long_queue, LONG, 2 * LONG, false) ?:
		      prove(dev, too_large, DEPTH, 1, false) ?:
		      prove(dev, unknown_kinds, DEPTH, 1, false) ?:
		      prove(dev, wrong_changes, DEPTH, 1, true) ?:
		      prove(dev, one_page_of_two, DEPTH, 1, false) ?:
		      prove(dev, tables_of_one, DEPTH, 1, false);
	}
	rdma_destroy_id(id);
	return ret;
}
module_init(queues_init);

static void __exit queues_exit(void)
{
}
module_exit(queues_exit);

MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("Test of xiw's queues for consumers in the kernel");
