/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* odp.h - on-demand paging: regions whose pages are fetched when needed, and are not pinned */
#ifndef XIW_ODP_H
#define XIW_ODP_H

#include <rdma/ib_verbs.h>

#include "mem/mem.h"

struct xiw_accessor;
struct xiw_fetch;

/**
 * struct xiw_accessor_ops - what the memory code asks of one direction of a queue pair
 * @get: take a reference to the queue pair
 * @put: drop that reference
 * @resume: try again now
 * @retry: try again after a pause; the caller has locked what drives the queue pair
 *
 * Context: any.
 */
struct xiw_accessor_ops {
	void	(*get)(struct xiw_accessor *by);
	void	(*put)(struct xiw_accessor *by);
	void	(*resume)(struct xiw_accessor *by);
	void	(*retry)(struct xiw_accessor *by);
};

/**
 * struct xiw_accessor - one direction of a queue pair, as the memory code sees it
 * @ibqp: the queue pair
 * @ops: callbacks for it
 * @found: result of the last STag lookup; guarded by the socket lock
 * @fetch: fetches the pages that the last access missed
 * @failed: nonzero after a failed fetch, until the access has tried again. Misses of other
 *	accesses count it down, and are put off until it is 0. The socket lock guards this and the
 *	fields below, unless the fetch is under way
 * @stag: STag of the access that missed pages; 0 once that access has ended
 * @addr: address of its first byte
 */
struct xiw_accessor {
	struct ib_qp		*ibqp;
	const struct xiw_accessor_ops *ops;
	struct xiw_found	found;
	struct xiw_fetch	*fetch;
	u8			failed;
	u32			stag;
	u64			addr;
};

/* Forgets the misses of an earlier connection. Its fetch may still be under way. */
static inline void xiw_accessor_begin(struct xiw_accessor *by)
{
	WRITE_ONCE(by->failed, 0);
	by->stag = 0;	/* no region has this STag */
}

static inline bool xiw_mr_on_demand(const struct xiw_mr *mr)
{
	return IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING) && mr->odp;
}

/* odp.c APIs, available if CONFIG_INFINIBAND_ON_DEMAND_PAGING is set */

/**
 * xiw_odp_enter - begin an access to pages of a region
 * @mr: on-demand region, or a window on one, with a reference; softirqs are off
 * @by: accessor; the caller holds its socket lock
 * @addr: address of the first byte
 * @len: number of bytes, more than 0; all of them are inside @mr
 *
 * Return: XIW_MEM_OK: the pages stay in place until xiw_odp_leave(). XIW_MEM_ABSENT: some pages are
 * missing, or are being removed or fetched right now; @by is resumed later. XIW_MEM_BAD_BOUNDS: the
 * process has no such pages.
 */
enum xiw_mem_fault xiw_odp_enter(struct xiw_mr *mr, struct xiw_accessor *by, u64 addr, u64 len);
void xiw_odp_leave(struct xiw_mr *mr);

/**
 * xiw_odp_attach - make a region an on-demand region
 * @mr: new region; its rights are set
 * @start: address in this process
 * @len: length in bytes
 *
 * Return: 0 or a negative errno.
 */
int xiw_odp_attach(struct xiw_mr *mr, u64 start, u64 len);

void xiw_odp_get(struct xiw_odp *odp);

/* Drops a reference, such as the one from xiw_odp_attach(). Dropping the last one sleeps. */
void xiw_odp_put(struct xiw_odp *odp);

/* Prepares @by to access on-demand regions. Return: 0 or -ENOMEM. */
int xiw_odp_prepare(struct xiw_accessor *by);

/*
 * Detaches @by from its fetch: @by is not resumed any more. No connection is attached at this time.
 * A fetch under way is not waited for, because the process decides how long it takes, unless there
 * are already many such fetches. May sleep.
 */
void xiw_odp_leave_alone(struct xiw_accessor *by);

/**
 * xiw_odp_fetch - fetch all pages of a range of bytes
 * @odp: pages of the region, with a reference
 * @offset: offset of the first byte from the first page
 * @len: number of bytes, more than 0
 * @flags: FOLL_NOFAULT to fetch only pages that are present; missing ones are then no error
 *
 * The process may lose the pages again at once.
 *
 * Context: process; sleeps.
 * Return: 0; -EAGAIN if the process loses the pages over and over; -EINTR; or another negative
 * errno.
 */
int xiw_odp_fetch(struct xiw_odp *odp, u64 offset, u64 len, unsigned int flags);

/* advise.c APIs: a verb for struct ib_device_ops; kernel-doc is in advise.c. */
int xiw_advise_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		  struct ib_sge *sg_list, u32 num_sge, struct uverbs_attr_bundle *attrs);

#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
int xiw_odp_init(void);
void xiw_odp_exit(void);
#else
static inline int xiw_odp_init(void)
{
	return 0;
}

static inline void xiw_odp_exit(void)
{
}
#endif

#endif /* XIW_ODP_H */
