// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * xiw_plant.c - plants one fault in the kernel, to test that the checks find it
 *
 * The parameter "fault" selects the fault. It happens while the module is being loaded.
 */

#include <linux/bug.h>
#include <linux/compiler.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

static char *fault = "none";
module_param(fault, charp, 0444);
MODULE_PARM_DESC(fault, "what to plant; see the table of faults");

#define OBJECT	192

static void plant_warn(void)
{
	WARN(1, "planted\n");
}

static void plant_oops(void)
{
	int *nowhere = NULL;

	OPTIMIZER_HIDE_VAR(nowhere);
	WRITE_ONCE(*nowhere, 1);
}

/* Hides the address from the compiler, which would warn. */
static void write_at(char *object, size_t at)
{
	OPTIMIZER_HIDE_VAR(at);
	OPTIMIZER_HIDE_VAR(object);
	WRITE_ONCE(object[at], 1);
}

static void plant_out_of_bounds(void)
{
	char *object = kzalloc(OBJECT, GFP_KERNEL);

	if (object)
		write_at(object, OBJECT);
	kfree(object);
}

static void plant_use_after_free(void)
{
	char *object = kzalloc(OBJECT, GFP_KERNEL), *freed = object;

	OPTIMIZER_HIDE_VAR(freed);
	kfree(object);
	if (freed)
		write_at(freed, OBJECT / 2);
}

/*
 * Plants many, because the slab allocator's per-CPU arrays still have the addresses of some dozens
 * and kmemleak does not report those.
 */
static void plant_leak(void)
{
	char *object;
	int i;

	for (i = 0; i < 2000; i++) {
		object = kzalloc(OBJECT, GFP_KERNEL);
		if (object)
			write_at(object, 0);
	}
}

static DEFINE_SPINLOCK(first);
static DEFINE_SPINLOCK(second);

/* Takes the locks in both orders. Two threads that do so could deadlock. */
static void plant_inversion(void)
{
	spin_lock(&first);
	spin_lock(&second);
	spin_unlock(&second);
	spin_unlock(&first);
	spin_lock(&second);
	spin_lock(&first);
	spin_unlock(&first);
	spin_unlock(&second);
}

static void plant_sleep_in_atomic(void)
{
	spin_lock(&first);
	msleep(20);
	spin_unlock(&first);
}

static DECLARE_COMPLETION(never);

static int wait_for_ever(void *unused)
{
	wait_for_completion(&never);
	return 0;
}

static void plant_hung_task(void)
{
	struct task_struct *task = kthread_run(wait_for_ever, NULL, "xiw_hung");

	if (IS_ERR(task))
		pr_err("xiw_plant: no thread\n");
}

static int counter;

static int count(void *unused)
{
	int i;

	for (i = 0; i < 1000000; i++) {
		counter++;
		barrier();
	}
	return 0;
}

/* Two threads count with neither lock nor marks. */
static void plant_data_race(void)
{
	int i;

	for (i = 0; i < 2; i++)
		if (IS_ERR(kthread_run(count, NULL, "xiw_counts")))
			pr_err("xiw_plant: no thread\n");
}

static const struct {
	const char	*name;
	void		(*plant)(void);
} faults[] = {
	{ "warn",		plant_warn },
	{ "oops",		plant_oops },
	{ "out_of_bounds",	plant_out_of_bounds },
	{ "use_after_free",	plant_use_after_free },
	{ "leak",		plant_leak },
	{ "inversion",		plant_inversion },
	{ "sleep_in_atomic",	plant_sleep_in_atomic },
	{ "hung_task",		plant_hung_task },
	{ "data_race",		plant_data_race },
};

static int __init plant_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		if (strcmp(fault, faults[i].name))
			continue;
		pr_info("xiw_plant: %s\n", fault);
		faults[i].plant();
		return 0;
	}
	pr_err("xiw_plant: no such fault: %s\n", fault);
	return -EINVAL;
}
module_init(plant_init);

static void __exit plant_exit(void)
{
	complete_all(&never);
}
module_exit(plant_exit);

MODULE_DESCRIPTION("Plants a fault for the checks to find");
MODULE_LICENSE("Dual BSD/GPL");
