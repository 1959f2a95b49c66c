// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* lane.c - runs the jobs of one consumer in order, in parallel with those of other consumers */

#include <linux/ktime.h>
#include <linux/slab.h>

#include "conn/lane.h"

/* A turn of a lane ends after that many jobs, and after a job that took long. */
#define LANE_TURN_JOBS	16
#define LANE_TURN_NS	(2 * NSEC_PER_MSEC)

struct workqueue_struct *xiw_lane_wq;

static void lane_free(struct kref *ref)
{
	kfree(container_of(ref, struct xiw_lane, ref));
}

void xiw_lane_put(struct xiw_lane *lane)
{
	kref_put(&lane->ref, lane_free);
}

/* Returns the first job, or NULL after it has noted that the lane is idle. */
static struct xiw_job *lane_take(struct xiw_lane *lane)
{
	struct xiw_job *job;

	spin_lock_irq(&lane->lock);
	job = list_first_entry_or_null(&lane->jobs, struct xiw_job, entry);
	if (job)
		list_del_init(&job->entry);	/* it may be queued again while it runs */
	else
		lane->busy = false;
	spin_unlock_irq(&lane->lock);
	return job;
}

/*
 * To queue the work after each job would wake another thread each time, which finds that the work
 * still runs. After a turn it is queued all the same, so that lanes take turns when there are more
 * of them than threads. A work item never runs twice at the same time, and therefore neither do two
 * jobs of a lane.
 */
static void lane_work(struct work_struct *work)
{
	struct xiw_lane *lane = container_of(work, struct xiw_lane, work);
	u64 end = ktime_get_ns() + LANE_TURN_NS;
	unsigned int left = LANE_TURN_JOBS;
	struct xiw_job *job;

	do {
		job = lane_take(lane);
		if (!job) {
			xiw_lane_put(lane);
			return;
		}
		job->run(job);
		cond_resched();
	} while (--left && ktime_get_ns() < end);
	queue_work(xiw_lane_wq, &lane->work);
}

struct xiw_lane *xiw_lane_create(void)
{
	struct xiw_lane *lane = kzalloc_obj(*lane, GFP_KERNEL_ACCOUNT);

	if (!lane)
		return NULL;
	kref_init(&lane->ref);
	spin_lock_init(&lane->lock);
	INIT_LIST_HEAD(&lane->jobs);
	INIT_WORK(&lane->work, lane_work);
	return lane;
}

bool xiw_lane_queue(struct xiw_lane *lane, struct xiw_job *job)
{
	unsigned long flags;
	bool fresh;

	spin_lock_irqsave(&lane->lock, flags);
	fresh = list_empty(&job->entry);
	if (fresh) {
		list_add_tail(&job->entry, &lane->jobs);
		if (!lane->busy) {
			lane->busy = true;
			queue_work(xiw_lane_wq, &xiw_lane_get(lane)->work);
		}
	}
	spin_unlock_irqrestore(&lane->lock, flags);
	return fresh;
}

bool xiw_lane_idle(struct xiw_lane *lane)
{
	unsigned long flags;
	bool idle;

	spin_lock_irqsave(&lane->lock, flags);
	idle = !lane->busy;
	spin_unlock_irqrestore(&lane->lock, flags);
	return idle;
}

int xiw_lanes_init(void)
{
	xiw_lane_wq = alloc_workqueue("xiw_lane", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return xiw_lane_wq ? 0 : -ENOMEM;
}

void xiw_lanes_exit(void)
{
	destroy_workqueue(xiw_lane_wq);
}
