// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Stack traces of User Mode Linux along the frame pointers.
 *
 * It replaces the kernel's file of this name, which looks up each word of the stack. With checkers
 * on, each lookup takes locks, each allocation saves a trace, and the guest does little else.
 */

#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/stacktrace.h>
#include <asm/stacktrace.h>

void dump_trace(struct task_struct *tsk, const struct stacktrace_ops *ops, void *data)
{
	unsigned long sp = (unsigned long)get_stack_pointer(tsk, tsk->thread.segv_regs);
	unsigned long frame = get_frame_pointer(tsk, tsk->thread.segv_regs);
	unsigned long last = (sp | (THREAD_SIZE - 1)) - sizeof(struct stack_frame) + 1;

	while (frame >= sp && frame <= last && IS_ALIGNED(frame, sizeof(long))) {
		struct stack_frame *f = (struct stack_frame *)frame;
		unsigned long address = READ_ONCE_NOCHECK(f->return_address);

		if (!__kernel_text_address(address))
			break;
		ops->address(data, address, 1);
		sp = frame + sizeof(struct stack_frame);
		frame = (unsigned long)READ_ONCE_NOCHECK(f->next_frame);
	}
}

static void save_address(void *data, unsigned long address, int reliable)
{
	struct stack_trace *trace = data;

	if (trace->skip)
		trace->skip--;
	else if (trace->nr_entries < trace->max_entries)
		trace->entries[trace->nr_entries++] = address;
}

static const struct stacktrace_ops save_ops = { .address = save_address };

void save_stack_trace_tsk(struct task_struct *tsk, struct stack_trace *trace)
{
	dump_trace(tsk, &save_ops, trace);
}
EXPORT_SYMBOL_GPL(save_stack_trace_tsk);

void save_stack_trace(struct stack_trace *trace)
{
	trace->skip++;	/* this function itself */
	save_stack_trace_tsk(current, trace);
}
EXPORT_SYMBOL_GPL(save_stack_trace);
