// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* ep_timer.c - the timers of an endpoint: its deadline, and the retry of received data */

#include <linux/jiffies.h>

#include "conn/ep.h"

/* A pending timer holds a reference. Takes that first, because the timer may expire at once. */
static void ep_set_timer(struct xiw_ep *ep, struct delayed_work *timer, unsigned int timeout_ms)
{
	xiw_ep_get(ep);
	if (mod_delayed_work(xiw_lane_wq, timer, msecs_to_jiffies(timeout_ms)))
		xiw_ep_put(ep);		/* it was pending and has a reference */
}

static void ep_clear_timer(struct xiw_ep *ep, struct delayed_work *timer)
{
	if (cancel_delayed_work(timer))
		xiw_ep_put(ep);
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

void xiw_ep_retry_rx(struct xiw_ep *ep, unsigned int timeout_ms)
{
	ep_set_timer(ep, &ep->retry, timeout_ms);
}

void xiw_ep_clear_timers(struct xiw_ep *ep)
{
	xiw_ep_clear_deadline(ep);
	ep_clear_timer(ep, &ep->retry);
}

static void ep_deadline_work(struct work_struct *work)
{
	struct xiw_ep *ep = container_of(to_delayed_work(work), struct xiw_ep, deadline);

	xiw_ep_wake(ep, XIW_EP_EV_DEADLINE);
	xiw_ep_put(ep);
}

static void ep_retry_work(struct work_struct *work)
{
	struct xiw_ep *ep = container_of(to_delayed_work(work), struct xiw_ep, retry);

	xiw_ep_wake(ep, XIW_EP_EV_SOCKET);
	xiw_ep_put(ep);
}

void xiw_ep_init_timers(struct xiw_ep *ep)
{
	INIT_DELAYED_WORK(&ep->deadline, ep_deadline_work);
	INIT_DELAYED_WORK(&ep->retry, ep_retry_work);
	ep->due = jiffies + MAX_JIFFY_OFFSET;
}
