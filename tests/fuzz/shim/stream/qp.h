/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* stream/qp.h - what a stream needs of a queue pair, and what it calls */
#ifndef XIW_FUZZ_STREAM_QP_H
#define XIW_FUZZ_STREAM_QP_H

#include <linux/compiler.h>
#include <linux/types.h>

#include "stream/progress.h"

struct sock;
struct xiw_ep;
struct xiw_srq;

struct xiw_carrier {
	bool	resends;
};

struct xiw_driver {
	const struct xiw_carrier	*carrier;
};

enum xiw_qp_lock_result {
	XIW_QP_LOCKED,
	XIW_QP_NO_SOCKET,
	XIW_QP_LOCKED_OUT,
};

struct xiw_qp {
	u32				qpn;
	struct sock			*sk;
	void				*loop;
	enum xiw_qp_lock_result		lock;		/* result of a try to lock it */
	struct {
		struct xiw_srq		*srq;
	}				ibqp;
	int				srq_waiter;
	u32				doorbells;
	const struct xiw_carrier	*carrier;
	struct xiw_ep			*ep;
	struct xiw_tx			tx;
	struct xiw_rx			rx;
	bool				open;
	enum xiw_cause			cause;

	/* Who was asked for what. */
	u32				opened;
	u32				looks_again;	/* by its endpoint */
	bool				worker_may;	/* receive */
	bool				worker_asked;
};

#define XIW_EP_EV_SOCKET	0
#define XIW_EP_EV_OPENED	1
#define XIW_TX_BUDGET_RX	0

#define xiw_qp_count(qp, stat, n)	do { } while (0)
#define trace_xiw_rx_fpdu(qp, hdr, ulpdu)	do { } while (0)

extern bool fuzz_softirq;
extern bool fuzz_worker;

#define in_softirq()			fuzz_softirq
#define in_task()			(!fuzz_softirq)

static inline bool xiw_qp_open(const struct xiw_qp *qp)
{
	return qp->open;
}

/* The first fault counts. */
static inline void xiw_qp_fail(struct xiw_qp *qp, enum xiw_cause cause,
			       const struct xiw_headers *fault)
{
	if (qp->open)
		qp->cause = cause;
	qp->open = false;
}

static inline void xiw_qp_lost(struct xiw_qp *qp)
{
	qp->open = false;
}

void xiw_ep_wake(struct xiw_ep *ep, int event);

void xiw_ep_look_later(struct xiw_ep *ep, unsigned int ms);

static inline enum xiw_qp_lock_result xiw_qp_lock_now(struct xiw_qp *qp)
{
	return qp->lock;
}

static inline void xiw_qp_unlock(struct xiw_qp *qp)
{
}

static inline void xiw_qp_fire(struct xiw_qp *qp)
{
}

static inline void xiw_worker_queue(struct xiw_qp *qp)
{
}

static inline bool xiw_worker_receive(struct xiw_qp *qp)
{
	qp->worker_asked |= qp->worker_may;
	return qp->worker_may;
}

static inline void xiw_worker_receive_again(struct xiw_qp *qp)
{
	qp->worker_asked = true;
}

static inline bool xiw_worker_is_current(void)
{
	return fuzz_worker;
}

static inline bool xiw_worker_receives(const struct xiw_qp *qp)
{
	return qp->worker_asked;
}

static inline bool xiw_tx_run(struct xiw_qp *qp, u32 budget)
{
	return false;
}

static inline struct xiw_qp *xiw_carrier_peer(const struct xiw_qp *qp)
{
	return NULL;
}

static inline struct xiw_driver xiw_carrier_enter(const struct xiw_qp *qp)
{
	return (struct xiw_driver){ .carrier = qp->carrier };
}

static inline void xiw_carrier_leave(const struct xiw_driver *driver)
{
}

static inline struct xiw_srq *xiw_qp_srq(const struct xiw_qp *qp)
{
	return qp->ibqp.srq;
}

static inline void xiw_srq_leave(struct xiw_srq *srq, int *waiter)
{
}

#endif /* XIW_FUZZ_STREAM_QP_H */
