// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* accessor.c - how memory calls back into the two directions of a queue pair */

#include "carrier/carrier.h"
#include "conn/ep.h"
#include "mem/odp.h"
#include "stream/accessor.h"
#include "stream/qp.h"
#include "stream/worker.h"

/* The pause before received data asks for its pages again. */
#define ACCESSOR_PAUSE_MS	10

static struct xiw_qp *accessor_qp(const struct xiw_accessor *by)
{
	return to_xiw_qp(by->ibqp);
}

static void accessor_get(struct xiw_accessor *by)
{
	xiw_qp_get(accessor_qp(by));
}

static void accessor_put(struct xiw_accessor *by)
{
	xiw_qp_put(accessor_qp(by));
}

static void accessor_resume_tx(struct xiw_accessor *by)
{
	xiw_worker_queue(accessor_qp(by));
}

static void accessor_resume_rx(struct xiw_accessor *by)
{
	xiw_qp_wake(accessor_qp(by));
}

static void accessor_retry_tx(struct xiw_accessor *by)
{
	xiw_worker_retry(accessor_qp(by));
}

static void accessor_retry_rx(struct xiw_accessor *by)
{
	struct xiw_qp *qp = accessor_qp(by);

	if (qp->carrier->resends)	/* its run makes the peer try again, too */
		xiw_worker_retry(qp);
	else if (!(qp->rx.waits & XIW_WAIT_RECEIVE))	/* whose retry covers this */
		xiw_ep_look_later(qp->ep, ACCESSOR_PAUSE_MS);
}

static const struct xiw_accessor_ops accessor_tx_ops = {
	.get = accessor_get,
	.put = accessor_put,
	.resume = accessor_resume_tx,
	.retry = accessor_retry_tx,
};

static const struct xiw_accessor_ops accessor_rx_ops = {
	.get = accessor_get,
	.put = accessor_put,
	.resume = accessor_resume_rx,
	.retry = accessor_retry_rx,
};

/* Kernel-doc of the functions that other files call is in accessor.h. */
int xiw_accessor_init(struct xiw_qp *qp)
{
	qp->tx_accessor = (struct xiw_accessor){ .ibqp = &qp->ibqp, .ops = &accessor_tx_ops };
	qp->rx_accessor = (struct xiw_accessor){ .ibqp = &qp->ibqp, .ops = &accessor_rx_ops };
	if (!IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING))
		return 0;
	return xiw_odp_prepare(&qp->tx_accessor) ?: xiw_odp_prepare(&qp->rx_accessor);
}

void xiw_accessor_exit(struct xiw_qp *qp)
{
	if (!IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING))
		return;
	xiw_odp_leave_alone(&qp->tx_accessor);
	xiw_odp_leave_alone(&qp->rx_accessor);
}
