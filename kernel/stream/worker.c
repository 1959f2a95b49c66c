// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* worker.c - per-CPU threads that send and receive for busy queue pairs */

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/kthread.h>
#include <linux/minmax.h>
#include <linux/rcupdate.h>
#include <linux/sched/clock.h>
#include <linux/sched/isolation.h>
#include <linux/sched/stat.h>
#include <linux/timer.h>
#include <uapi/linux/sched/types.h>

#include "pause.h"
#include "stream/rx.h"
#include "stream/tx.h"
#include "stream/worker.h"

/*
 * The slice of a worker, the shortest that there is. A process that spins mostly has its CPU for
 * some milliseconds at a time, and a worker that becomes runnable would wait for the end of that. A
 * task with a shorter slice need not. It gets no more of the CPU than another task does.
 */
#define WORKER_SLICE_NS	(100 * NSEC_PER_USEC)

/* How long a worker waits for the holder of a socket, which mostly says when it has unlocked it. */
#define WORKER_LOCKED_OUT_NS	(50 * NSEC_PER_USEC)

/* The longest pause before a queue pair that had no memory tries again. */
#define WORKER_PAUSE_MS	100

/**
 * struct worker - the worker of one CPU
 * @task: the thread, bound to the CPU; NULL if there is none
 * @fresh: queue pairs handed over to the worker; any context adds to it
 * @active: queue pairs that the worker watches; private to the thread
 */
struct worker {
	struct task_struct	*task;
	struct llist_head	fresh;
	struct list_head	active;
};

static DEFINE_PER_CPU(struct worker, workers);

/*
 * CPUs whose workers take queue pairs. worker_give() looks for one under RCU, so that worker_end()
 * can wait before it stops the thread.
 */
static struct cpumask worker_cpus;

static enum cpuhp_state worker_hotplug;

/*
 * Handing over
 */

/*
 * Picks a worker on another CPU, so that posting and sending overlap; on the same CPU if there is
 * no other. A process that has asked for a completion event will soon sleep and leave its CPU to
 * the worker. It gets the worker of its own CPU, because the next CPU may be busy with the peer if
 * the peer is on this host.
 */
static struct worker *worker_pick(struct xiw_qp *qp)
{
	unsigned int cpu = raw_smp_processor_id();
	bool in_process = in_task() && !(current->flags & PF_KTHREAD);
	bool leaves = in_process && xiw_cq_awaited(xiw_qp_send_cq(qp));

	if (!leaves || !cpumask_test_cpu(cpu, &worker_cpus))
		cpu = cpumask_next_and(cpu, &worker_cpus, cpu_online_mask);
	while (cpu >= nr_cpu_ids)	/* never empty, but it may change while we search */
		cpu = cpumask_first(&worker_cpus);
	smp_rmb();	/* pairs with worker_begin(): if we see the CPU, we see its thread */
	return per_cpu_ptr(&workers, cpu);
}

/* Hands the caller's reference over to a worker. */
static void worker_give(struct xiw_qp *qp)
{
	struct worker *worker;

	rcu_read_lock();	/* pairs with worker_end() */
	worker = worker_pick(qp);
	if (llist_add(&qp->worker_new, &worker->fresh)) {
		xiw_stat_inc(qp->dev, XIW_STAT_WORKER_WAKEUPS);
		wake_up_process(worker->task);
	}
	rcu_read_unlock();
}

/* The kernel-doc of public functions is in worker.h. */
void xiw_worker_resume(struct xiw_qp *qp)
{
	if (test_and_set_bit(XIW_WORKER_QUEUED, &qp->worker_flags))
		return;
	xiw_qp_get(qp);
	worker_give(qp);
}

void xiw_worker_queue(struct xiw_qp *qp)
{
	set_bit(XIW_WORKER_WANTED, &qp->worker_flags);
	xiw_worker_resume(qp);
}

/*
 * A CPU without a worker is isolated, or goes offline. It keeps its work to itself, and so does the
 * only CPU.
 */
bool xiw_worker_receive(struct xiw_qp *qp)
{
	if (!cpumask_test_cpu(raw_smp_processor_id(), &worker_cpus) ||
	    data_race(cpumask_weight(&worker_cpus)) == 1)	/* CPUs may come and go */
		return false;
	set_bit(XIW_WORKER_RECEIVES, &qp->worker_flags);
	xiw_worker_resume(qp);
	return true;
}

void xiw_worker_receive_again(struct xiw_qp *qp)
{
	set_bit(XIW_WORKER_RECEIVES, &qp->worker_flags);
}

/*
 * Trying again
 */

static void worker_retry_fired(struct timer_list *timer)
{
	struct xiw_qp *qp = container_of(timer, struct xiw_qp, retry);

	xiw_worker_queue(qp);
	xiw_qp_put(qp);
}

static void worker_retry_in(struct xiw_qp *qp, unsigned long pause)
{
	xiw_qp_get(qp);
	if (mod_timer(&qp->retry, jiffies + pause))
		xiw_qp_put(qp);		/* the pending timer had a reference */
}

void xiw_worker_retry(struct xiw_qp *qp)
{
	xiw_qp_assert_locked(qp);

	qp->retry_after = clamp(2 * qp->retry_after, 1UL, msecs_to_jiffies(WORKER_PAUSE_MS));
	worker_retry_in(qp, qp->retry_after);
}

void xiw_worker_prepare(struct xiw_qp *qp)
{
	timer_setup(&qp->retry, worker_retry_fired, 0);
}

void xiw_worker_forget(struct xiw_qp *qp)
{
	if (timer_delete_sync(&qp->retry))
		xiw_qp_put(qp);
}

/*
 * Serving
 */

/* Return: false if a process has the socket locked: other queue pairs wait for this worker. */
static bool worker_transmit(struct xiw_qp *qp)
{
	enum xiw_tx_result result;

	result = xiw_tx_drive_now(qp, XIW_TX_BUDGET_WORKER, XIW_STAT_TX_WORKER);
	if (result != XIW_TX_DONE)
		set_bit(XIW_WORKER_WANTED, &qp->worker_flags);
	return result != XIW_TX_LOCKED_OUT;
}

static void worker_receive(struct xiw_qp *qp)
{
	if (!xiw_rx_drive_now(qp))
		xiw_worker_receive_again(qp);
}

/* Asks for doorbells, if the worker has watched the ring, and gives the queue pair up. */
static void worker_leave(struct xiw_qp *qp)
{
	if (test_and_clear_bit(XIW_WORKER_WATCHES, &qp->worker_flags))
		worker_transmit(qp);
	clear_bit_unlock(XIW_WORKER_QUEUED, &qp->worker_flags);
	smp_mb__after_atomic();	/* pairs with xiw_worker_resume(): its callers set a flag first */
	if (test_bit(XIW_WORKER_LOCKED_OUT, &qp->worker_flags))
		worker_retry_in(qp, 1);	/* in case xiw_qp_unlocked() is not called */
	else if (test_bit(XIW_WORKER_WANTED, &qp->worker_flags) ||
		 test_bit(XIW_WORKER_RECEIVES, &qp->worker_flags))
		xiw_worker_resume(qp);
	xiw_qp_put(qp);
}

/*
 * Whether there may be something to send. A worker that came to receive does not watch the ring:
 * the process goes on ringing, and what it posts does not wait until the worker has received.
 */
static bool worker_looks(struct xiw_qp *qp)
{
	if (test_and_clear_bit(XIW_WORKER_WANTED, &qp->worker_flags)) {
		set_bit(XIW_WORKER_WATCHES, &qp->worker_flags);
		return true;
	}
	return xiw_worker_watches(qp) && xiw_tx_wants(qp);
}

/* Return: whether the worker found something to do. */
static bool worker_serve(struct xiw_qp *qp)
{
	bool receives;

	if (test_bit(XIW_WORKER_LOCKED_OUT, &qp->worker_flags))
		return false;
	receives = xiw_worker_take(qp, XIW_WORKER_RECEIVES);
	if (receives) {
		xiw_pause("worker_receive");
		worker_receive(qp);
	}
	return (worker_looks(qp) && worker_transmit(qp)) || receives;
}

/*
 * Whether the worker stops looking at a queue pair that needs nothing. A ring that it watches may
 * be filled soon, but that is not worth more than another task on this CPU: on a machine with few
 * CPUs that may be the program that fills the ring. While it watches, the process posts without
 * system calls: with 50 us ib_write_bw -s 64 makes 0.018 doorbells for each request.
 */
static bool worker_gives_up(const struct xiw_qp *qp, u64 now)
{
	u64 idle = now - qp->worker_idle_ns;

	if (test_bit(XIW_WORKER_LOCKED_OUT, &qp->worker_flags))
		return idle > WORKER_LOCKED_OUT_NS || !single_task_running();
	return !xiw_worker_watches(qp) || idle > READ_ONCE(qp->worker_spin_ns) ||
	       !single_task_running();
}

static void worker_visit(struct xiw_qp *qp, u64 now)
{
	if (worker_serve(qp)) {
		qp->worker_idle_ns = now;
	} else if (worker_gives_up(qp, now)) {
		list_del(&qp->worker_entry);
		worker_leave(qp);
	}
}

static void worker_adopt(struct worker *worker, u64 now)
{
	struct llist_node *fresh = llist_reverse_order(llist_del_all(&worker->fresh));
	struct xiw_qp *qp, *next;

	llist_for_each_entry_safe(qp, next, fresh, worker_new) {
		clear_bit(XIW_WORKER_LOCKED_OUT, &qp->worker_flags);
		qp->worker_idle_ns = now;
		list_add_tail(&qp->worker_entry, &worker->active);
	}
}

static void worker_round(struct worker *worker)
{
	struct xiw_qp *qp, *next;

	lockdep_assert(worker->task == current);	/* the list is private to the thread */

	xiw_pause("worker_round");
	list_for_each_entry_safe(qp, next, &worker->active, worker_entry) {
		worker_visit(qp, local_clock());
		cond_resched();
	}
}

static int worker_main(void *arg)
{
	struct worker *worker = arg;

	while (!kthread_should_stop()) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (list_empty(&worker->active) && llist_empty(&worker->fresh) &&
		    !kthread_should_stop())
			schedule();
		__set_current_state(TASK_RUNNING);

		worker_adopt(worker, local_clock());
		worker_round(worker);
		cond_resched();
	}
	return 0;
}

/* While a CPU goes offline, its worker may run on another one. */
bool xiw_worker_is_current(void)
{
	return in_task() && kthread_func(current) == worker_main;
}

/*
 * CPUs come and go
 */

/* Leaves CPUs alone that are isolated, or that run one task without a tick. */
static bool worker_may_use(unsigned int cpu)
{
	bool may;

	rcu_read_lock();	/* isolation may change at run time */
	may = housekeeping_test_cpu(cpu, HK_TYPE_DOMAIN) && housekeeping_test_cpu(cpu, HK_TYPE_WQ);
	rcu_read_unlock();
	return may;
}

static int worker_begin(unsigned int cpu)
{
	const struct sched_attr short_slices = {
		.size = sizeof(short_slices),
		.sched_policy = SCHED_NORMAL,
		.sched_runtime = WORKER_SLICE_NS,
	};
	struct worker *worker = per_cpu_ptr(&workers, cpu);
	struct task_struct *task;

	if (worker->task)
		return 0;
	init_llist_head(&worker->fresh);
	INIT_LIST_HEAD(&worker->active);
	task = kthread_create_on_cpu(worker_main, worker, cpu, "xiw/%u");
	if (IS_ERR(task))
		return PTR_ERR(task);
	sched_setattr_nocheck(task, &short_slices);
	worker->task = task;
	smp_wmb();	/* pairs with worker_pick() */
	cpumask_set_cpu(cpu, &worker_cpus);
	wake_up_process(task);
	return 0;
}

/* Gives the queue pairs of a stopped thread to other workers. Nothing adds to @fresh any more. */
static void worker_hand_over(struct worker *worker)
{
	struct xiw_qp *qp, *next;

	worker_adopt(worker, local_clock());
	list_for_each_entry_safe(qp, next, &worker->active, worker_entry) {
		list_del(&qp->worker_entry);
		set_bit(XIW_WORKER_WANTED, &qp->worker_flags);
		xiw_qp_get(qp);		/* the next worker may drop its reference at once */
		worker_give(qp);
		xiw_qp_put(qp);
	}
}

/*
 * 1. Clearing the CPU keeps new callers from finding this worker.
 * 2. After the grace period, callers that had found it have added to @fresh.
 * 3. The thread stops, if it ever ran, and other workers get its queue pairs.
 */
static void worker_end(unsigned int cpu)
{
	struct worker *worker = per_cpu_ptr(&workers, cpu);

	if (!worker->task)
		return;
	cpumask_clear_cpu(cpu, &worker_cpus);
	synchronize_rcu();
	kthread_stop(worker->task);
	worker->task = NULL;
	worker_hand_over(worker);
}

/* With a CPU that may be used, the workers on CPUs that should be left alone can stop. */
static int worker_cpu_comes(unsigned int cpu)
{
	unsigned int other;
	int ret;

	if (!worker_may_use(cpu))
		return 0;
	ret = worker_begin(cpu);
	if (ret)
		return ret;
	for_each_cpu(other, &worker_cpus) {
		if (!worker_may_use(other))
			worker_end(other);
	}
	return 0;
}

/* If this was the last CPU, the worker moves to one that should be left alone: xiw has to send. */
static int worker_cpu_goes(unsigned int cpu)
{
	int ret = 0;

	if (cpumask_any_but(&worker_cpus, cpu) >= nr_cpu_ids)
		ret = worker_begin(cpumask_any_but(cpu_online_mask, cpu));
	if (!ret)
		worker_end(cpu);
	return ret;
}

/* No queue pair is left: each one holds its device, and each device holds the module. */
static void worker_end_all(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		worker_end(cpu);
}

/*
 * The caller holds cpus_read_lock(), so CPUs neither come nor go. Linux 6.12 does not export the
 * assertion for that.
 */
static int worker_begin_all(void)
{
	unsigned int cpu;
	int ret = 0;

	for_each_online_cpu(cpu) {
		ret = worker_cpu_comes(cpu);
		if (ret)
			return ret;
	}
	return cpumask_empty(&worker_cpus) ? worker_begin(cpumask_first(cpu_online_mask)) : 0;
}

void xiw_workers_exit(void)
{
	cpuhp_remove_state_nocalls(worker_hotplug);
	worker_end_all();
}

int xiw_workers_init(void)
{
	int ret;

	cpus_read_lock();
	ret = worker_begin_all();
	if (!ret)
		ret = cpuhp_setup_state_nocalls_cpuslocked(CPUHP_AP_ONLINE_DYN, "rdma/xiw:online",
							   worker_cpu_comes, worker_cpu_goes);
	cpus_read_unlock();
	if (ret < 0)
		worker_end_all();
	worker_hotplug = ret;
	return min(ret, 0);
}
