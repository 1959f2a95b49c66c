/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* odp.h - on-demand paging: regions that know their pages only while the process has them */
#ifndef XIW_ODP_H
#define XIW_ODP_H

#include <rdma/ib_verbs.h>

#include "mem.h"

struct xiw_fetch;
struct xiw_qp;

/**
 * struct xiw_accessor - one direction of a queue pair, as memory sees it: who accesses
 * @ibqp: the queue pair
 * @resume: has the direction try again; any context
 * @found: the last region; guarded by the socket lock
 * @fetch: gets the pages that the last access missed
 * @failed: not 0 if it could not have them: how many misses of others are put off until the access
 *	has tried again; the socket lock guards this and what follows, unless the fetch is under way
 * @stag: the access that missed them; 0 if it is over
 * @addr: its first octet
 */
struct xiw_accessor {
	struct ib_qp		*ibqp;
	void			(*resume)(struct xiw_qp *qp);
	struct xiw_found	found;
	struct xiw_fetch	*fetch;
	u8			failed;
	u32			stag;
	u64			addr;
};

/* Of an earlier connection nothing is remembered; its fetch may still be under way. */
static inline void xiw_accessor_begin(struct xiw_accessor *by)
{
	by->failed = 0;
	by->stag = 0;	/* no region has it */
}

static inline bool xiw_mr_on_demand(const struct xiw_mr *mr)
{
	return IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING) && mr->odp;
}

/* odp.c APIs, which are there if CONFIG_INFINIBAND_ON_DEMAND_PAGING is */

/**
 * xiw_odp_enter - begin to touch pages of a region
 * @mr: region on demand, or a window on one, with a reference; softirqs are off
 * @by: who; its socket lock is held
 * @addr: first octet
 * @len: octets; more than 0, and all inside @mr
 *
 * Return: XIW_MEM_OK: the pages stay until xiw_odp_leave(). XIW_MEM_ABSENT: some are not there, or
 * are just being taken away or fetched; then @by is resumed. XIW_MEM_BAD_BOUNDS: the process has no
 * such pages.
 */
enum xiw_mem_fault xiw_odp_enter(struct xiw_mr *mr, struct xiw_accessor *by, u64 addr, u64 len);
void xiw_odp_leave(struct xiw_mr *mr);

/**
 * xiw_odp_attach - make a region on demand
 * @mr: new region; rights are set
 * @start: where it is in this process
 * @len: octets
 *
 * Return: 0 or a negative errno.
 */
int xiw_odp_attach(struct xiw_mr *mr, u64 start, u64 len);

/* Gives back what xiw_odp_attach() made. Nobody touches the pages any more. Sleeps. */
void xiw_odp_put(struct xiw_odp *odp);

/* Prepares what is to access regions on demand. Return: 0 or -ENOMEM. */
int xiw_odp_prepare(struct xiw_accessor *by);

/*
 * No fetch resumes @by any more; nothing is attached. One that is under way is not waited for, as
 * the process decides how long it takes, unless there are many of that kind. May sleep.
 */
void xiw_odp_leave_alone(struct xiw_accessor *by);

/* A verb, as struct ib_device_ops wants it; kernel-doc is in odp.c. */
int xiw_odp_advise(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
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

static inline void xiw_accessor_init(struct xiw_accessor *by, struct ib_qp *ibqp,
				     void (*resume)(struct xiw_qp *qp))
{
	by->ibqp = ibqp;
	by->resume = resume;
}

#endif /* XIW_ODP_H */
