// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * refused.c - requests of a consumer in the kernel that fail, and end their connection
 *
 * They register what cannot be registered, and invalidate what cannot be invalidated.
 */

#include "ends.h"

#define NO_STAG		0x42	/* no region has an STag with the index 0 */
#define STRANGE_RIGHT	BIT(30)

/* The request fails for what it names. The later one is flushed, and the peer is told. */
static int expect_end(struct end *from, struct end *to, struct ib_send_wr *wr)
{
	struct ib_send_wr later = { .opcode = IB_WR_SEND };
	struct ib_wc wc;

	if (UNTRUE(!post(from, wr)) || UNTRUE(!post(from, &later)))
		return -EIO;
	return reap_status(from, IB_WC_LOC_PROT_ERR, &wc) ?:
	       reap_status(from, IB_WC_WR_FLUSH_ERR, &wc) ?:
	       end_await(to, RDMA_CM_EVENT_DISCONNECTED);
}

static int expect_no_registration(struct end *from, struct end *to, struct ib_reg_wr *wr)
{
	return expect_end(from, to, &wr->wr);
}

static int expect_no_invalidation(struct end *from, struct end *to, u32 stag)
{
	struct ib_send_wr wr = { .opcode = IB_WR_LOCAL_INV, .ex.invalidate_rkey = stag };

	return expect_end(from, to, &wr);
}

/*
 * Registrations
 */

static int register_key(struct end *from, struct end *to, u32 key)
{
	struct ib_reg_wr wr;

	if (prepare_register(from, &wr))
		return -EIO;
	wr.key = key;
	return expect_no_registration(from, to, &wr);
}

static int register_no_stag(struct end *from, struct end *to)
{
	return register_key(from, to, NO_STAG);
}

static int register_all_memory(struct end *from, struct end *to)
{
	return register_key(from, to, from->pd->local_dma_lkey);
}

static int register_in_other_domain(struct end *from, struct end *to)
{
	return register_key(from, to, to->mr->rkey);
}

static int register_twice(struct end *from, struct end *to)
{
	return register_page(from) ?: register_key(from, to, from->mr->rkey);
}

static int register_with_strange_right(struct end *from, struct end *to)
{
	struct ib_reg_wr wr;

	if (prepare_register(from, &wr))
		return -EIO;
	wr.access |= STRANGE_RIGHT;
	return expect_no_registration(from, to, &wr);
}

static int register_no_pages(struct end *from, struct end *to)
{
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.mr = from->mr,
		.key = from->mr->rkey,
	};

	return expect_no_registration(from, to, &wr);
}

/*
 * Invalidations
 */

static int invalidate_no_stag(struct end *from, struct end *to)
{
	return expect_no_invalidation(from, to, NO_STAG);
}

static int invalidate_other_key(struct end *from, struct end *to)
{
	return register_page(from) ?: expect_no_invalidation(from, to, from->mr->rkey ^ 1);
}

static int invalidate_in_other_domain(struct end *from, struct end *to)
{
	return register_page(to) ?: expect_no_invalidation(from, to, to->mr->rkey);
}

static int invalidate_all_memory(struct end *from, struct end *to)
{
	return expect_no_invalidation(from, to, from->pd->local_dma_lkey);
}

/* The Read is answered. Only then its sink would be invalidated. */
static int invalidate_all_memory_after_read(struct end *from, struct end *to)
{
	struct ib_sge sge = sge_of(from, SINK, 200);
	struct ib_rdma_wr wr = {
		.wr = {
			.opcode = IB_WR_RDMA_READ_WITH_INV,
			.ex.invalidate_rkey = sge.lkey,
			.sg_list = &sge,
			.num_sge = 1,
		},
		.remote_addr = end_address(to, 0),
	};

	if (register_page(to))
		return -EIO;
	wr.rkey = to->mr->rkey;
	return expect_end(from, to, &wr.wr);
}

/* What a peer asks to be invalidated is judged there. The Send is not delivered. */
static int invalidate_all_memory_of_peer(struct end *from, struct end *to)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND_WITH_INV,
		.ex.invalidate_rkey = to->pd->local_dma_lkey,
	};
	struct ib_wc wc;

	if (UNTRUE(!receive(to)) || post_and_reap(from, &wr, IB_WC_SEND))
		return -EIO;
	return reap_status(to, IB_WC_WR_FLUSH_ERR, &wc) ?:
	       end_await(from, RDMA_CM_EVENT_DISCONNECTED);
}

static const struct {
	const char *name;
	int (*prove)(struct end *from, struct end *to);
} refused[] = {
	{ "a registration of an STag that does not exist", register_no_stag },
	{ "a registration of what is always registered", register_all_memory },
	{ "a registration in another domain", register_in_other_domain },
	{ "a second registration", register_twice },
	{ "a registration with a right that does not exist", register_with_strange_right },
	{ "a registration without pages", register_no_pages },
	{ "an invalidation of an STag that does not exist", invalidate_no_stag },
	{ "an invalidation with another key", invalidate_other_key },
	{ "an invalidation in another domain", invalidate_in_other_domain },
	{ "an invalidation of what is always registered", invalidate_all_memory },
	{ "an invalidation of that after a Read", invalidate_all_memory_after_read },
	{ "an invalidation of that by the peer", invalidate_all_memory_of_peer },
};

int run_refused(const char *address)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(refused); i++) {
		if (run_connected(address, refused[i].prove)) {
			pr_err("xiw_consumer: not refused: %s\n", refused[i].name);
			return -EIO;
		}
	}
	return 0;
}
