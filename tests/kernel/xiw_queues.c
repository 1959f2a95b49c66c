// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * xiw_queues.c - a consumer in the kernel whose queues are full, shared, resized, armed, too small
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
#include <linux/sched.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

static char *address;
module_param(address, charp, 0444);
MODULE_PARM_DESC(address, "IPv4 address of the device");

#define WAIT	(10 * HZ)
#define DEPTH	4

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

static int queues_open(struct ib_device *dev, struct queues *q, unsigned int cqe, bool shared)
{
	struct ib_srq_init_attr srq_attr = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct ib_cq_init_attr cq_attr = { .cqe = cqe };
	struct ib_qp_init_attr attr = {
		.cap = {
			.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
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

static int prove(struct ib_device *dev, int (*claim)(struct queues *q), unsigned int cqe,
		 bool shared)
{
	struct queues q = {};
	int ret = queues_open(dev, &q, cqe, shared) ?: claim(&q);

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
		ret = prove(dev, full_queues, 4 * DEPTH, false) ?:
		      prove(dev, shared_queue, 4 * DEPTH, true) ?:
		      prove(dev, notifications, 4 * DEPTH, false) ?:
		      prove(dev, overflow, 1, false);
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
