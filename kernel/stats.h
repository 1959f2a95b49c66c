/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* stats.h - event counters of a device */
#ifndef XIW_STATS_H
#define XIW_STATS_H

#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/types.h>

#include "wire/terminate.h"

struct ib_device;
struct rdma_hw_stats;
struct xiw_qp;

/*
 * The counters of a device. `rdma statistic` shows them by the names in stats.c.
 *
 * Counters below XIW_NUM_QP_STATS belong to the data path. Each queue pair has its own, which
 * xiw_qp_count() increments. The last counters are one for each enum xiw_cause except XIW_OK, at
 * XIW_STAT_CAUSES + cause.
 */
enum xiw_stat {
	XIW_STAT_TX_WRS,		/* work requests taken from send queues */
	XIW_STAT_TX_FPDUS,
	XIW_STAT_TX_LOOP,		/* segments placed at a peer on this host, without TCP */
	XIW_STAT_TX_BYTES,		/* bytes handed to TCP */
	XIW_STAT_TX_SENDS,		/* calls into TCP */
	XIW_STAT_TX_INLINE,		/* transmit runs in the caller of a doorbell */
	XIW_STAT_TX_RX,			/* transmit runs in the receive context */
	XIW_STAT_TX_WORKER,		/* transmit runs in a worker, or in an orderly close */
	XIW_STAT_RX_FPDUS,
	XIW_STAT_RX_BYTES,
	XIW_STAT_RX_BATCHES,		/* receive runs */
	XIW_STAT_RX_KEPT,		/* FPDUs for which TCP had no room (keep.h) */
	XIW_NUM_QP_STATS,
	/* system calls that announced work requests */
	XIW_STAT_DOORBELLS = XIW_NUM_QP_STATS,
	XIW_STAT_WORKER_WAKEUPS,
	XIW_STAT_NOTIFICATIONS,		/* completion events */
	XIW_STAT_PAGE_FETCHES,		/* accesses to regions on demand that missed pages */
	XIW_STAT_CONNECTS,		/* connections established, active side */
	XIW_STAT_ACCEPTS,		/* connections established, passive side */
	XIW_STAT_CONN_FAILURES,		/* handshakes that failed */
	XIW_STAT_TX_TERMINATES,
	XIW_STAT_RX_TERMINATES,
	XIW_STAT_CAUSES = XIW_STAT_RX_TERMINATES,
	XIW_NUM_STATS = XIW_STAT_CAUSES + XIW_NUM_CAUSES
};

/* Counters of one CPU. What the device keeps of queue pairs is added to the current CPU's. */
struct xiw_stats {
	u64	count[XIW_NUM_STATS];
};

/**
 * struct xiw_qp_stats - counters of one queue pair
 * @entry: entry in xiw_device.qp_stats
 * @count: written under the locks that guard the queue pair's progress; read without them
 * @kept: the part of @count that the device or a counter of the administrator has added to its own;
 *	guarded by xiw_device.qp_stats_lock
 */
struct xiw_qp_stats {
	struct list_head	entry;
	u64			count[XIW_NUM_QP_STATS];
	u64			kept[XIW_NUM_QP_STATS];
};

/* Any context: this_cpu_add() is safe against preemption and interrupts. */
#define xiw_stat_add(dev, stat, n)	this_cpu_add((dev)->stats->count[stat], n)
#define xiw_stat_inc(dev, stat)		xiw_stat_add(dev, stat, 1)

/* stats.c APIs */

/* Builds the names of the counters. Call it once, before there is a device. */
void xiw_stats_init(void);

/* Adds and removes the counters of a queue pair. The device keeps their values on removal. */
void xiw_stats_join(struct xiw_qp *qp);
void xiw_stats_leave(struct xiw_qp *qp);

/* Moves to @sums what a queue pair has counted and nobody keeps yet. qp_stats_lock is held. */
void xiw_stats_move(struct xiw_qp *qp, u64 *sums);

/* Moves it to the device. The lock is held. */
void xiw_stats_keep(struct xiw_qp *qp);

/* Members of struct ib_device_ops; kernel-doc is in stats.c. */
struct rdma_hw_stats *xiw_stats_alloc(struct ib_device *ibdev, u32 port);
int xiw_stats_get(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index);

#endif /* XIW_STATS_H */
