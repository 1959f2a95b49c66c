// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* trace.c - defines the tracepoints of trace.h, and what they look up */

#include <linux/sched.h>
#include <linux/string.h>

#include "conn/ep.h"
#include "stream/qp.h"

#define CREATE_TRACE_POINTS	/* only of what follows */
#include "trace.h"

/* The core has the task, or the name of the module, for as long as the queue pair exists. */
pid_t xiw_trace_owner(const struct xiw_qp *qp, char *name)
{
	struct task_struct *task = qp->ibqp.res.task;

	strscpy_pad(name, task ? task->comm : qp->ibqp.res.kern_name, XIW_TRACE_OWNER);
	return task ? task_tgid_nr(task) : 0;
}
