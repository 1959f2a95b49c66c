/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* lane.h - runs the jobs of one consumer in order, in parallel with those of other consumers */
#ifndef XIW_LANE_H
#define XIW_LANE_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

/*
 * A consumer that opens several connections at once sees them established in the order in which it
 * opened them, and its peer sees the requests in that order. Programs rely on this. But no consumer
 * may wait for another one, so consumers do not share lanes. A listener has a lane for all incoming
 * connections of its port. A process has one for all outgoing connections on one device. A kernel
 * consumer has one for each outgoing connection.
 *
 * A job is one step of a connection. The process that opens a connection may take the first step
 * itself while the lane is idle, because no older one is left behind then.
 */

/**
 * struct xiw_job - a function that a lane runs; the owner keeps the job alive until it has run
 * @entry: entry in xiw_lane.jobs, empty if the job is not queued; guarded by the lane's lock
 * @run: the function; the job may be queued again while it runs
 */
struct xiw_job {
	struct list_head	entry;
	void			(*run)(struct xiw_job *job);
};

/**
 * struct xiw_lane - runs jobs one at a time, in the order in which they were queued
 * @ref: one for each user that may queue jobs, one while the lane is busy
 * @lock: guards @jobs and @busy; any context
 * @jobs: the queued jobs, the oldest first
 * @busy: @work is queued or running, and will look at @jobs again
 * @work: runs the jobs
 */
struct xiw_lane {
	struct kref		ref;
	spinlock_t		lock;
	struct list_head	jobs;
	bool			busy;
	struct work_struct	work;
};

/* Runs the lanes, and the timer of a listener. */
extern struct workqueue_struct *xiw_lane_wq;

/* lane.c APIs */

/* Returns a lane with a reference, or NULL if there is no memory. It is charged to the caller. */
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
 * xiw_lane_queue - run a job after all jobs that are queued before it
 * @lane: the lane, the same one for each call with @job
 * @job: the job
 *
 * Context: any.
 * Return: true, or false if @job was queued already.
 */
bool xiw_lane_queue(struct xiw_lane *lane, struct xiw_job *job);

/* Returns whether all jobs that were queued before the call have run. Context: any. */
bool xiw_lane_idle(struct xiw_lane *lane);

int xiw_lanes_init(void);

/* Waits for all queued jobs. */
void xiw_lanes_exit(void);

#endif /* XIW_LANE_H */
