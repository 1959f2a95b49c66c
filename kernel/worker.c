// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* worker.c - threads that transmit for queue pairs which are busy */

#include <linux/cpu.h>
#include <linux/kthread.h>
#include <linux/sched/clock.h>

#include "cm.h"
#include "tx.h"
#include "worker.h"

/* How long a worker goes on looking at a ring that stays empty. */
#define WORKER_SPIN_NS	(50 * NSEC_PER_USEC)

/**
 * struct worker - one thread
 * @task: the thread, bound to its CPU
 * @fresh: queue pairs that were handed over, any context adds
 * @active: those that it looks at, private to the thread
 */
struct worker {
	struct task_struct	*task;
	struct llist_head	fresh;
	struct list_head	active;
};

static DEFINE_PER_CPU(struct worker, workers);

static struct cpumask worker_cpus;

/*
 * Another CPU than the caller's, so that posting and sending overlap; its own if it is alone. A
 * process that has asked for an event will soon leave its own to the worker, while on the other the
 * peer may be at work, if it is on this host.
 */
static struct worker *worker_pick(struct xiw_qp *qp)
{
	unsigned int cpu = raw_smp_processor_id();
	bool leaves = in_task() && xiw_cq_awaited(xiw_qp_send_cq(qp));

	if (!leaves || !cpumask_test_cpu(cpu, &worker_cpus))
		cpu = cpumask_next_and(cpu, &worker_cpus, cpu_online_mask);
	if (cpu >= nr_cpu_ids)
		cpu = cpumask_first(&worker_cpus);
	return per_cpu_ptr(&workers, cpu);
}

void xiw_worker_queue(struct xiw_qp *qp)
{
	struct worker *worker;

	set_bit(XIW_WORKER_WANTED, &qp->worker_flags);
	if (test_and_set_bit(XIW_WORKER_QUEUED, &qp->worker_flags))
		return;
	xiw_qp_get(qp);
	worker = worker_pick(qp);
	if (llist_add(&qp->worker_new, &worker->fresh)) {
		xiw_stat_inc(qp->dev, XIW_STAT_WORKER_WAKEUPS);
		wake_up_process(worker->task);
	}
}

/* Return: true if there is more to do at once. */
static bool worker_transmit(struct xiw_qp *qp)
{
	return xiw_tx_drive(qp, XIW_TX_BUDGET_WORKER, XIW_STAT_TX_WORKER);
}

/* The worker has looked long enough: from here on doorbells are needed. */
static void worker_leave(struct xiw_qp *qp)
{
	clear_bit(XIW_WORKER_WATCHES, &qp->worker_flags);
	if (worker_transmit(qp))
		set_bit(XIW_WORKER_WANTED, &qp->worker_flags);
	clear_bit_unlock(XIW_WORKER_QUEUED, &qp->worker_flags);
	smp_mb__after_atomic();	/* whoever saw QUEUED has set WANTED before */
	if (test_bit(XIW_WORKER_WANTED, &qp->worker_flags))
		xiw_worker_queue(qp);
	xiw_qp_put(qp);
}

static void worker_visit(struct xiw_qp *qp, u64 now)
{
	if (test_and_clear_bit(XIW_WORKER_WANTED, &qp->worker_flags) || xiw_tx_wants(qp)) {
		qp->worker_idle_ns = now;
		if (worker_transmit(qp))
			set_bit(XIW_WORKER_WANTED, &qp->worker_flags);
	} else if (now - qp->worker_idle_ns > WORKER_SPIN_NS) {
		list_del(&qp->worker_entry);
		worker_leave(qp);
	}
}

static void worker_adopt(struct worker *worker, u64 now)
{
	struct llist_node *fresh = llist_reverse_order(llist_del_all(&worker->fresh));
	struct xiw_qp *qp, *next;

	llist_for_each_entry_safe(qp, next, fresh, worker_new) {
		set_bit(XIW_WORKER_WATCHES, &qp->worker_flags);
		qp->worker_idle_ns = now;
		list_add_tail(&qp->worker_entry, &worker->active);
	}
}

static int worker_main(void *arg)
{
	struct worker *worker = arg;
	struct xiw_qp *qp, *next;

	while (!kthread_should_stop()) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (list_empty(&worker->active) && llist_empty(&worker->fresh) &&
		    !kthread_should_stop())
			schedule();
		__set_current_state(TASK_RUNNING);

		worker_adopt(worker, local_clock());
		list_for_each_entry_safe(qp, next, &worker->active, worker_entry)
			worker_visit(qp, local_clock());
		cond_resched();
	}
	return 0;
}

/* No queue pair is left: each holds a device, and each device the module. */
void xiw_workers_exit(void)
{
	unsigned int cpu;

	for_each_cpu(cpu, &worker_cpus)
		kthread_stop(per_cpu_ptr(&workers, cpu)->task);
	cpumask_clear(&worker_cpus);
}

int xiw_workers_init(void)
{
	struct worker *worker;
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		worker = per_cpu_ptr(&workers, cpu);
		init_llist_head(&worker->fresh);
		INIT_LIST_HEAD(&worker->active);
		worker->task = kthread_create_on_cpu(worker_main, worker, cpu, "xiw/%u");
		if (IS_ERR(worker->task)) {
			xiw_workers_exit();
			return PTR_ERR(worker->task);
		}
		cpumask_set_cpu(cpu, &worker_cpus);
		wake_up_process(worker->task);
	}
	return 0;
}
