// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* ep_timer.c - the timers of an endpoint: its deadline, and looking again later */

#include <linux/jiffies.h>
#include <linux/timer.h>

#include "conn/ep.h"

static void ep_clear_timer(struct xiw_ep *ep, struct timer_list *timer)
{
	if (timer_delete(timer))
		xiw_ep_put(ep);
}

/*
 * A pending timer holds a reference. Takes that first, because the timer may expire at once. A
 * timer that is set again while it is about to expire might expire early, so it is deleted before.
 */
static void ep_set_timer(struct xiw_ep *ep, struct timer_list *timer, unsigned int timeout_ms)
{
	ep_clear_timer(ep, timer);
	xiw_ep_get(ep);
	if (mod_timer(timer, jiffies + msecs_to_jiffies(timeout_ms)))
		xiw_ep_put(ep);		/* another thread has set it meanwhile */
}

void xiw_ep_set_deadline(struct xiw_ep *ep, unsigned int timeout_ms)
{
	ep->due = jiffies + msecs_to_jiffies(timeout_ms);
	ep_set_timer(ep, &ep->deadline, timeout_ms);
}

void xiw_ep_clear_deadline(struct xiw_ep *ep)
{
	lockdep_assert_held(&ep->lock);

	ep->due = jiffies + MAX_JIFFY_OFFSET;
	ep_clear_timer(ep, &ep->deadline);
}

bool xiw_ep_is_due(const struct xiw_ep *ep)
{
	lockdep_assert_held(&ep->lock);

	return time_after_eq(jiffies, ep->due);
}

void xiw_ep_look_later(struct xiw_ep *ep, unsigned int timeout_ms)
{
	unsigned long flags;
	bool pending;

	xiw_ep_get(ep);
	spin_lock_irqsave(&ep->retry_lock, flags);
	pending = timer_reduce(&ep->retry, jiffies + msecs_to_jiffies(timeout_ms));
	spin_unlock_irqrestore(&ep->retry_lock, flags);
	if (pending)
		xiw_ep_put(ep);		/* the pending timer had a reference */
}

void xiw_ep_clear_timers(struct xiw_ep *ep)
{
	xiw_ep_clear_deadline(ep);
	ep_clear_timer(ep, &ep->retry);
}

/*
 * These two only queue the job. They may put the last reference. After that nothing waits for them
 * but main_exit(), by an RCU grace period.
 */
static void ep_deadline_expired(struct timer_list *timer)
{
	struct xiw_ep *ep = container_of(timer, struct xiw_ep, deadline);

	xiw_ep_wake(ep, XIW_EP_EV_DEADLINE);
	xiw_ep_put(ep);
}

static void ep_retry_expired(struct timer_list *timer)
{
	struct xiw_ep *ep = container_of(timer, struct xiw_ep, retry);

	xiw_ep_wake(ep, XIW_EP_EV_SOCKET);
	xiw_ep_put(ep);
}

void xiw_ep_init_timers(struct xiw_ep *ep)
{
	timer_setup(&ep->deadline, ep_deadline_expired, 0);
	timer_setup(&ep->retry, ep_retry_expired, 0);
	spin_lock_init(&ep->retry_lock);
	ep->due = jiffies + MAX_JIFFY_OFFSET;
}
