// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* counter.c - counters of chosen queue pairs, "rdma statistic qp" */

#include <linux/idr.h>
#include <linux/rcupdate.h>

#include "counter.h"
#include "device.h"
#include "stream/qp.h"

/*
 * The administrator binds queue pairs to counters, one by one or each new one by a rule. A counter
 * has what its queue pairs have counted while they were bound to it. The core adds that to what the
 * device shows, also when the counter has gone, so the device does not count it as well.
 *
 * struct ib_qp.counter and the values of counters are guarded by xiw_device.qp_stats_lock. The core
 * reads them without it. That is why two administrators should not unbind one queue pair at once:
 * the core may then give one counter back twice.
 *
 * A rule makes counters for any process, so their number has a limit, and nothing here takes longer
 * the more there are. What finds no counter counts for the device.
 */

/* Queue pairs of one counter. A message of netlink names all of them and must have room. */
#define COUNTER_MAX_QPS	200

/**
 * xiw_counter_init - nothing to prepare, but the core calls it
 * @counter: a new counter
 */
void xiw_counter_init(struct rdma_counter *counter)
{
}

/**
 * xiw_counter_alloc_stats - describe what a counter has
 * @counter: the counter
 *
 * Only events of the data path are counted for each queue pair, so the others are disabled. The
 * core needs their places.
 *
 * Return: the description, or NULL if there is no memory.
 */
struct rdma_hw_stats *xiw_counter_alloc_stats(struct rdma_counter *counter)
{
	struct rdma_hw_stats *stats = xiw_stats_alloc(counter->device, counter->port);

	if (stats)
		bitmap_set(stats->is_disabled, XIW_NUM_QP_STATS, XIW_NUM_STATS - XIW_NUM_QP_STATS);
	return stats;
}

static void counter_move(struct rdma_counter *counter, struct xiw_qp *qp)
{
	u64 *value = counter->stats->value;

	xiw_stats_move(qp, value);
	value[XIW_STAT_DOORBELLS] = value[XIW_STAT_TX_INLINE];	/* see xiw_stats_get() */
}

static int counter_add(struct rdma_counter *counter, struct xiw_qp *qp)
{
	lockdep_assert_held(&qp->dev->qp_stats_lock);

	if (qp->ibqp.counter || list_empty(&qp->stats.entry))	/* the latter: it is destroyed */
		return -EINVAL;
	if (qp->dev->counter_qps[counter->id] == COUNTER_MAX_QPS)
		return -ENOSPC;
	qp->dev->counter_qps[counter->id]++;
	xiw_stats_keep(qp);
	WRITE_ONCE(qp->ibqp.counter, counter);
	return 0;
}

/**
 * xiw_counter_bind - let a queue pair count for a counter
 * @counter: the counter, which gets its number here if it is new
 * @ibqp: the queue pair
 * @port: its port
 *
 * Context: counter->lock is held.
 * Return: 0; -EINVAL if it has a counter already or is being destroyed; -ENOSPC if the counter or
 *	the device has too many; -ENOMEM.
 */
int xiw_counter_bind(struct rdma_counter *counter, struct ib_qp *ibqp, u32 port)
{
	struct xiw_qp *qp = to_xiw_qp(ibqp);
	struct xiw_device *dev = qp->dev;
	const bool is_new = !counter->id;
	int ret;

	if (is_new) {
		ret = ida_alloc_range(&dev->counter_ids, 1, XIW_MAX_COUNTERS, GFP_KERNEL);
		if (ret < 0)
			return ret;
		counter->id = ret;
	}
	mutex_lock(&dev->qp_stats_lock);
	ret = counter_add(counter, qp);
	mutex_unlock(&dev->qp_stats_lock);
	if (ret && is_new) {
		ida_free(&dev->counter_ids, counter->id);
		counter->id = 0;
	}
	return ret;
}

/**
 * xiw_counter_unbind - let a queue pair count for the device
 * @ibqp: the queue pair
 * @port: its port
 *
 * The core looks at the counters of all queue pairs that can be found, under a spinlock of its own
 * (fill_stat_counter_qps()), and frees the counter after this. While a queue pair is being
 * destroyed, newer kernels do not find it any more.
 *
 * Context: the lock of its counter is held.
 * Return: 0, or -EINVAL if it has no counter.
 */
int xiw_counter_unbind(struct ib_qp *ibqp, u32 port)
{
	struct xiw_qp *qp = to_xiw_qp(ibqp);
	struct rdma_counter *counter;

	mutex_lock(&qp->dev->qp_stats_lock);
	counter = ibqp->counter;
	if (counter) {
		counter_move(counter, qp);
		qp->dev->counter_qps[counter->id]--;
		WRITE_ONCE(ibqp->counter, NULL);
	}
	mutex_unlock(&qp->dev->qp_stats_lock);
	if (counter && kref_read(&ibqp->res.kref))
		synchronize_rcu_expedited();
	return counter ? 0 : -EINVAL;
}

/**
 * xiw_counter_update - bring counters up to date
 * @counter: one of them
 *
 * To show the device's numbers, the core calls this for each number and each counter. So it brings
 * all counters up to date, unless that was a moment ago.
 *
 * Context: counter->lock is held.
 * Return: 0.
 */
int xiw_counter_update(struct rdma_counter *counter)
{
	struct xiw_device *dev = to_xiw_device(counter->device);
	struct xiw_qp *qp;

	mutex_lock(&dev->qp_stats_lock);
	if (time_after(jiffies, dev->counters_moved + counter->stats->lifespan)) {
		list_for_each_entry(qp, &dev->qp_stats, stats.entry)
			if (qp->ibqp.counter)
				counter_move(qp->ibqp.counter, qp);
		dev->counters_moved = jiffies;
	}
	mutex_unlock(&dev->qp_stats_lock);
	return 0;
}

/**
 * xiw_counter_dealloc - give up a counter, to which no queue pair is bound any more
 * @counter: the counter
 *
 * Return: 0.
 */
int xiw_counter_dealloc(struct rdma_counter *counter)
{
	ida_free(&to_xiw_device(counter->device)->counter_ids, counter->id);
	return 0;
}
