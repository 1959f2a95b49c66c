/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* ends.h - two connected ends in the kernel, for the cases of xiw_consumer */
#ifndef XIW_TEST_ENDS_H
#define XIW_TEST_ENDS_H

#include <linux/scatterlist.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define INLINE_LEN	64

/* Offsets in the page that each end has. */
#define SINK		1024
#define WORD		2048

/* True if the claim does not hold, after logging that. */
#define UNTRUE(claim)	(!(claim) && consumer_says(__FILE_NAME__, __LINE__, #claim))

bool consumer_says(const char *file, int line, const char *claim);

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

static inline u64 end_address(const struct end *end, unsigned int offset)
{
	return sg_dma_address(&end->sg) + offset;
}

static inline u64 *end_word(const struct end *end)
{
	return (u64 *)(end->page + WORD);
}

static inline struct ib_sge sge_of(const struct end *end, unsigned int offset, u32 len)
{
	return (struct ib_sge){
		.addr = end_address(end, offset),
		.length = len,
		.lkey = end->pd->local_dma_lkey,
	};
}

/* ends.c APIs; those that return an int return 0 or -EIO, and have said what does not hold */

/* Connects two ends over the device of an IPv4 address, calls @cases, and closes the ends. */
int run_connected(const char *address, int (*cases)(struct end *active, struct end *passive));

int end_await(struct end *end, enum rdma_cm_event_type event);
int post(struct end *end, struct ib_send_wr *wr);
int receive(struct end *end);

/* Waits for a completion, which must have this status. */
int reap_status(struct end *end, enum ib_wc_status status, struct ib_wc *wc);
int reap(struct end *end, enum ib_wc_opcode opcode, struct ib_wc *wc);
int post_and_reap(struct end *end, struct ib_send_wr *wr, enum ib_wc_opcode opcode);

/* A request that registers the page with a new key, and its execution. */
int prepare_register(struct end *end, struct ib_reg_wr *wr);
int register_page(struct end *end);

/* refused.c APIs */

/* Runs all cases of requests that fail, each on a connection of its own. */
int run_refused(const char *address);

#endif /* XIW_TEST_ENDS_H */
