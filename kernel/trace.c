// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* trace.c - defines the tracepoints of trace.h, and what they look up */

#include <linux/sched.h>
#include <linux/sprintf.h>
#include <linux/string.h>
#include <net/inet_sock.h>

#include "conn/ep.h"
#include "stream/qp.h"

#define CREATE_TRACE_POINTS	/* only of what follows */
#include "trace.h"

/* The core has the task, or the name of the module, for as long as the queue pair exists. */
pid_t xiw_trace_owner(const struct xiw_qp *qp, char *name)
{
	struct task_struct *task = qp ? qp->ibqp.res.task : NULL;
	const char *module = qp ? qp->ibqp.res.kern_name : "-";

	strscpy_pad(name, task ? task->comm : module, XIW_TRACE_OWNER);
	return task ? task_tgid_nr(task) : 0;
}

/* TCP keeps the addresses when the connection ends. */
void xiw_trace_addresses(const struct sock *sk, char *local, char *peer)
{
	const struct inet_sock *inet;

	strscpy_pad(local, "-", XIW_TRACE_ADDRESS);
	strscpy_pad(peer, "-", XIW_TRACE_ADDRESS);
	if (!sk)
		return;
	inet = inet_sk(sk);
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr)) {
		snprintf(local, XIW_TRACE_ADDRESS, "[%pI6c]:%u", &inet6_sk(sk)->saddr,
			 ntohs(inet->inet_sport));
		snprintf(peer, XIW_TRACE_ADDRESS, "[%pI6c]:%u", &sk->sk_v6_daddr,
			 ntohs(inet->inet_dport));
		return;
	}
#endif
	snprintf(local, XIW_TRACE_ADDRESS, "%pI4:%u", &inet->inet_saddr, ntohs(inet->inet_sport));
	snprintf(peer, XIW_TRACE_ADDRESS, "%pI4:%u", &inet->inet_daddr, ntohs(inet->inet_dport));
}

/* What TCP says, or NULL if it says nothing: a FIN is no error. */
static const char *trace_tcp_error(const struct sock *sk)
{
	switch (sk ? READ_ONCE(sk->sk_err) : 0) {
	case 0:
		return NULL;
	case ECONNREFUSED:
		return "tcp_refused";
	case ECONNRESET:
	case EPIPE:
		return "tcp_reset";
	case ETIMEDOUT:
		return "tcp_timeout";
	default:
		return "tcp_error";
	}
}

const char *xiw_trace_why(const struct xiw_ep *ep, int err, enum xiw_cause cause)
{
	const char *tcp_error = trace_tcp_error(ep->sk);

	if (cause != XIW_OK)
		return xiw_causes[cause].name;
	if (ep->qp && ep->qp->fault.has_hdr)
		return "peer_terminate";
	if (tcp_error)
		return tcp_error;
	switch (err) {
	case -ECONNABORTED:
		return "closed";
	case -ECONNREFUSED:
		return "rejected";
	case -ECONNRESET:
		return "peer_closed";
	case -ETIMEDOUT:
		return "deadline";
	default:
		return "failed";
	}
}
