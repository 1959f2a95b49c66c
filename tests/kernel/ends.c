// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* ends.c - two connected ends in the kernel, for the cases of xiw_consumer */

#include <linux/delay.h>
#include <linux/inet.h>
#include <linux/jiffies.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "ends.h"

#define WAIT		(10 * HZ)
#define PORT		7471
#define REMOTE	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
		 IB_ACCESS_REMOTE_ATOMIC)

bool consumer_says(const char *file, int line, const char *claim)
{
	pr_err("xiw_consumer: %s:%d: does not hold: %s\n", file, line, claim);
	return true;
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
		.sq_sig_type = IB_SIGNAL_REQ_WR,
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

int end_await(struct end *end, enum rdma_cm_event_type event)
{
	unsigned long deadline = jiffies + WAIT;

	while (READ_ONCE(end->event) != event) {
		if (UNTRUE(time_before(jiffies, deadline)))
			return -EIO;
		usleep_range(50, 200);
	}
	return 0;
}

static int connect_ends(const char *address, struct end *active, struct end *passive,
			struct rdma_cm_id *listener)
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

int post(struct end *end, struct ib_send_wr *wr)
{
	wr->send_flags |= IB_SEND_SIGNALED;
	return ib_post_send(end->id->qp, wr, NULL);
}

int reap_status(struct end *end, enum ib_wc_status status, struct ib_wc *wc)
{
	unsigned long deadline = jiffies + WAIT;

	while (!ib_poll_cq(end->cq, 1, wc)) {
		if (UNTRUE(time_before(jiffies, deadline)))
			return -EIO;
		usleep_range(50, 200);
	}
	return UNTRUE(wc->status == status) ? -EIO : 0;
}

int reap(struct end *end, enum ib_wc_opcode opcode, struct ib_wc *wc)
{
	if (reap_status(end, IB_WC_SUCCESS, wc))
		return -EIO;
	return UNTRUE(wc->opcode == opcode) || UNTRUE(wc->port_num == 1) ? -EIO : 0;
}

int post_and_reap(struct end *end, struct ib_send_wr *wr, enum ib_wc_opcode opcode)
{
	struct ib_wc wc;

	if (UNTRUE(!post(end, wr)))
		return -EIO;
	return reap(end, opcode, &wc);
}

int receive(struct end *end)
{
	struct ib_sge sge = {
		.addr = end_address(end, SINK),
		.length = SINK,
		.lkey = end->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(end->id->qp, &wr, NULL);
}

int prepare_register(struct end *end, struct ib_reg_wr *wr)
{
	*wr = (struct ib_reg_wr){ .wr.opcode = IB_WR_REG_MR, .mr = end->mr, .access = REMOTE };
	if (UNTRUE(ib_map_mr_sg(end->mr, &end->sg, 1, NULL, PAGE_SIZE) == 1))
		return -EIO;
	ib_update_fast_reg_key(end->mr, end->mr->rkey + 1);
	wr->key = end->mr->rkey;
	return 0;
}

int register_page(struct end *end)
{
	struct ib_reg_wr wr;

	return prepare_register(end, &wr) ?: post_and_reap(end, &wr.wr, IB_WC_REG_MR);
}

/*
 * A connection
 */

static struct rdma_cm_id *make_id(struct end *end)
{
	return rdma_create_id(current->nsproxy->net_ns, end_event, end, RDMA_PS_TCP, IB_QPT_RC);
}

static int run(const char *address, struct end *active, struct end *passive,
	       int (*cases)(struct end *active, struct end *passive))
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
		ret = connect_ends(address, active, passive, listener) ?: cases(active, passive);
	}
	end_close(active);
	end_close(passive);
	rdma_destroy_id(listener);
	return ret;
}

int run_connected(const char *address, int (*cases)(struct end *active, struct end *passive))
{
	struct end ends[2] = {};
	int ret = -ENOMEM;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		ends[i].event = RDMA_CM_EVENT_TIMEWAIT_EXIT;	/* end_await() never waits for it */
		ends[i].page = (u8 *)get_zeroed_page(GFP_KERNEL);
	}
	if (ends[0].page && ends[1].page)
		ret = run(address, &ends[0], &ends[1], cases);
	for (i = 0; i < 2; i++)
		free_page((unsigned long)ends[i].page);
	return ret;
}
