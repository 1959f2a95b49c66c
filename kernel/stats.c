// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* stats.c - names and sums of the event counters */

#include <linux/init.h>
#include <linux/sprintf.h>
#include <rdma/ib_verbs.h>

#include "stats.h"
#include "stream/qp.h"

#define STATS_NAME_LEN	40

/* "err_" and the name of the cause. */
static char stats_cause_names[XIW_NUM_CAUSES][STATS_NAME_LEN];

static struct rdma_stat_desc stats_descs[XIW_NUM_STATS] = {
	[XIW_STAT_TX_WRS].name		= "tx_wrs",
	[XIW_STAT_TX_FPDUS].name	= "tx_fpdus",
	[XIW_STAT_TX_LOOP].name		= "tx_loop",
	[XIW_STAT_TX_BYTES].name	= "tx_bytes",
	[XIW_STAT_TX_SENDS].name	= "tx_sends",
	[XIW_STAT_TX_INLINE].name	= "tx_inline",
	[XIW_STAT_TX_RX].name		= "tx_rx",
	[XIW_STAT_TX_WORKER].name	= "tx_worker",
	[XIW_STAT_RX_FPDUS].name	= "rx_fpdus",
	[XIW_STAT_RX_BYTES].name	= "rx_bytes",
	[XIW_STAT_RX_BATCHES].name	= "rx_batches",
	[XIW_STAT_RX_KEPT].name		= "rx_kept",
	[XIW_STAT_DOORBELLS].name	= "doorbells",
	[XIW_STAT_WORKER_WAKEUPS].name	= "worker_wakeups",
	[XIW_STAT_NOTIFICATIONS].name	= "notifications",
	[XIW_STAT_PAGE_FETCHES].name	= "page_fetches",
	[XIW_STAT_CONNECTS].name	= "connects",
	[XIW_STAT_ACCEPTS].name		= "accepts",
	[XIW_STAT_CONN_FAILURES].name	= "conn_failures",
	[XIW_STAT_TX_TERMINATES].name	= "tx_terminates",
	[XIW_STAT_RX_TERMINATES].name	= "rx_terminates",
};

/* The kernel-doc of public functions is in stats.h. */
void __init xiw_stats_init(void)
{
	unsigned int i;

	for (i = XIW_OK + 1; i < XIW_NUM_CAUSES; i++) {
		snprintf(stats_cause_names[i], sizeof(stats_cause_names[i]), "err_%s",
			 xiw_causes[i].name);
		stats_descs[XIW_STAT_CAUSES + i].name = stats_cause_names[i];
	}
}

/**
 * xiw_stats_alloc - describe the counters to the core
 * @ibdev: the device
 * @port: its port
 *
 * Return: the description, or NULL if there is no memory.
 */
struct rdma_hw_stats *xiw_stats_alloc(struct ib_device *ibdev, u32 port)
{
	return rdma_alloc_hw_stats_struct(stats_descs, ARRAY_SIZE(stats_descs),
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

void xiw_stats_join(struct xiw_qp *qp)
{
	mutex_lock(&qp->dev->qp_stats_lock);
	list_add(&qp->stats.entry, &qp->dev->qp_stats);
	mutex_unlock(&qp->dev->qp_stats_lock);
}

void xiw_stats_move(struct xiw_qp *qp, u64 *sums)
{
	unsigned int i;
	u64 count;

	lockdep_assert_held(&qp->dev->qp_stats_lock);

	for (i = 0; i < XIW_NUM_QP_STATS; i++) {
		count = READ_ONCE(qp->stats.count[i]);
		sums[i] += count - qp->stats.kept[i];
		qp->stats.kept[i] = count;
	}
}

void xiw_stats_keep(struct xiw_qp *qp)
{
	u64 sums[XIW_NUM_QP_STATS] = {};
	unsigned int i;

	xiw_stats_move(qp, sums);
	for (i = 0; i < XIW_NUM_QP_STATS; i++)
		xiw_stat_add(qp->dev, i, sums[i]);
}

void xiw_stats_leave(struct xiw_qp *qp)
{
	mutex_lock(&qp->dev->qp_stats_lock);
	list_del_init(&qp->stats.entry);
	xiw_stats_keep(qp);
	mutex_unlock(&qp->dev->qp_stats_lock);
}

static void stats_add_cpus(struct xiw_device *dev, u64 *sums)
{
	unsigned int i;
	int cpu;

	for_each_possible_cpu(cpu)
		for (i = 0; i < XIW_NUM_STATS; i++)
			sums[i] += READ_ONCE(per_cpu_ptr(dev->stats, cpu)->count[i]);
}

/* The core adds what counters of the administrator have by itself. */
static void stats_add_qps(struct xiw_device *dev, u64 *sums)
{
	struct xiw_qp *qp;
	unsigned int i;

	list_for_each_entry(qp, &dev->qp_stats, stats.entry) {
		if (qp->ibqp.counter)
			continue;
		for (i = 0; i < XIW_NUM_QP_STATS; i++)
			sums[i] += READ_ONCE(qp->stats.count[i]) - qp->stats.kept[i];
	}
}

/**
 * xiw_stats_get - add up the counters of all CPUs and queue pairs
 * @ibdev: the device
 * @stats: results
 * @port: its port
 * @index: the counter that the core asks for; ignored, all are filled in
 *
 * Return: number of counters.
 */
int xiw_stats_get(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index)
{
	struct xiw_device *dev = to_xiw_device(ibdev);

	memset(stats->value, 0, XIW_NUM_STATS * sizeof(*stats->value));
	mutex_lock(&dev->qp_stats_lock);
	stats_add_cpus(dev, stats->value);
	stats_add_qps(dev, stats->value);
	mutex_unlock(&dev->qp_stats_lock);
	/* So far only doorbells that handed over to a worker are counted. */
	stats->value[XIW_STAT_DOORBELLS] += stats->value[XIW_STAT_TX_INLINE];
	return XIW_NUM_STATS;
}
