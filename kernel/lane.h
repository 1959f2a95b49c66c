/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* lane.h - jobs of one consumer, one after the other, beside those of all others */
#ifndef XIW_LANE_H
#define XIW_LANE_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

/*
 * A consumer that opens several connections at once sees them established, and its peer sees them
 * requested, in the order in which it asked. Programs count on that. But no consumer may wait for
 * another: so each has a lane of its own. A listener has one for all that comes in at its port; a
 * process has one for all that it calls, on one device; a kernel consumer has one for each call.
 */

/**
 * struct xiw_job - what a lane runs; its owner takes care that it lives until it has run
 * @entry: place in the lane's line, empty if it does not wait; guarded by the lane's lock
 * @run: what it does; it may be queued again meanwhile
 */
struct xiw_job {
	struct list_head	entry;
	void			(*run)(struct xiw_job *job);
};

/**
 * struct xiw_lane - runs jobs one at a time, in the order in which they were queued
 * @ref: one for each that may queue jobs, one while @work is queued
 * @lock: guards @jobs; any context
 * @jobs: which wait
 * @work: runs the first of them
 */
struct xiw_lane {
	struct kref		ref;
	spinlock_t		lock;
	struct list_head	jobs;
	struct work_struct	work;
};

/* Runs lanes, and timers that queue jobs. */
extern struct workqueue_struct *xiw_lane_wq;

/* lane.c APIs */

/* Returns a lane with a reference, or NULL without memory; it is charged to the caller. */
struct xiw_lane *xiw_lane_create(void);

static inline struct xiw_lane *xiw_lane_get(struct xiw_lane *lane)
{
	kref_get(&lane->ref);
	return lane;
}

void xiw_lane_put(struct xiw_lane *lane);

static inline void xiw_job_init(struct xiw_job *job, void (*run)(struct xiw_job *job))
{
	INIT_LIST_HEAD(&job->entry);
	job->run = run;
}

/**
 * xiw_lane_queue - have a job run when all jobs that wait before it have run
 * @lane: always the same for a job
 * @job: the job
 *
 * Context: any.
 * Return: false if it waits already.
 */
bool xiw_lane_queue(struct xiw_lane *lane, struct xiw_job *job);

int xiw_lanes_init(void);

/* Waits for all jobs. */
void xiw_lanes_exit(void);

#endif /* XIW_LANE_H */
