/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* stats.h - event counters of a device */
#ifndef XIW_STATS_H
#define XIW_STATS_H

#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/types.h>

#include "terminate.h"

struct ib_device;
struct rdma_hw_stats;
struct xiw_qp;

/*
 * What is counted for each device. Names are in stats.c, shown by `rdma statistic`.
 *
 * The first are those of the data path, which each queue pair counts for itself: xiw_qp_count().
 * After the named ones comes one counter for each enum xiw_cause but XIW_OK, at
 * XIW_STAT_CAUSES + cause.
 */
enum xiw_stat {
	XIW_STAT_TX_WRS,		/* work requests taken from send queues */
	XIW_STAT_TX_FPDUS,
	XIW_STAT_TX_LOOP,		/* segments placed at a peer on this host, without TCP */
	XIW_STAT_TX_BYTES,		/* octets handed to TCP */
	XIW_STAT_TX_SENDS,		/* calls into TCP */
	XIW_STAT_TX_INLINE,		/* transmit runs of the caller, each a doorbell */
	XIW_STAT_TX_RX,			/* ... in the receive context */
	XIW_STAT_TX_WORKER,		/* ... in a worker, or at the end */
	XIW_STAT_RX_FPDUS,
	XIW_STAT_RX_BYTES,
	XIW_STAT_RX_BATCHES,		/* receive runs */
	XIW_NUM_QP_STATS,
	/* system calls that announced work requests */
	XIW_STAT_DOORBELLS = XIW_NUM_QP_STATS,
	XIW_STAT_WORKER_WAKEUPS,
	XIW_STAT_NOTIFICATIONS,		/* completion events */
	XIW_STAT_PAGE_FETCHES,		/* accesses that missed pages of a region on demand */
	XIW_STAT_CONNECTS,		/* connections established, active side */
	XIW_STAT_ACCEPTS,		/* ... passive side */
	XIW_STAT_CONN_FAILURES,		/* handshakes that failed */
	XIW_STAT_TX_TERMINATES,
	XIW_STAT_RX_TERMINATES,
	XIW_STAT_CAUSES = XIW_STAT_RX_TERMINATES,
	XIW_NUM_STATS = XIW_STAT_CAUSES + XIW_NUM_CAUSES
};

/* What one CPU has counted; what queue pairs counted that are gone is added to any. */
struct xiw_stats {
	u64	count[XIW_NUM_STATS];
};

/**
 * struct xiw_qp_stats - what one queue pair has counted
 * @entry: among those of its device
 * @count: guarded as the progress of the queue pair is; read without
 */
struct xiw_qp_stats {
	struct list_head	entry;
	u64			count[XIW_NUM_QP_STATS];
};

/* Any context: this_cpu_add() is safe against preemption and interrupts. */
#define xiw_stat_add(dev, stat, n)	this_cpu_add((dev)->stats->count[stat], n)
#define xiw_stat_inc(dev, stat)		xiw_stat_add(dev, stat, 1)

/* stats.c APIs */

/* Spells the names; once, before the first device. */
void xiw_stats_init(void);

/* A queue pair's counters count for its device, and go on doing so when it has left. */
void xiw_stats_join(struct xiw_qp *qp);
void xiw_stats_leave(struct xiw_qp *qp);

/* As struct ib_device_ops wants them; kernel-doc is in stats.c. */
struct rdma_hw_stats *xiw_stats_alloc(struct ib_device *ibdev, u32 port);
int xiw_stats_get(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index);

#endif /* XIW_STATS_H */
