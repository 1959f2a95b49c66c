/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* trace.h - tracepoints */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM xiw

#if !defined(XIW_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define XIW_TRACE_H

#include <linux/tracepoint.h>
#include <rdma/xiw-abi.h>

#include "conn/ep.h"
#include "device.h"
#include "stream/qp.h"
#include "wire/mpa.h"
#include "wire/wire.h"

/*
 * Callers pass the object that they work on. What is told of it is looked up only while the
 * tracepoint is enabled.
 *
 * A queue pair is told by device and number, because two devices number theirs alike. The thread
 * that runs is often a worker, or has been interrupted, so some tracepoints tell the owner, too:
 * the program that made the queue pair, and its process. For a consumer in the kernel it is the
 * module that made it, mostly rdma_cm, and process 0.
 */

/*
 * Texts that scripts for bpftrace use are arrays, padded with zeros. Debian 13's bpftrace (0.23)
 * reads strings of variable length from the wrong place.
 */
#define XIW_TRACE_DEVICE	32	/* bytes of the name of a device; a longer one is cut */
#define XIW_TRACE_OWNER		16	/* bytes of the name, as in struct task_struct */
#define XIW_TRACE_ADDRESS	48	/* bytes of an IPv6 address in brackets and a port */
#define XIW_TRACE_WHY		32	/* bytes of a word */

/* trace.c APIs, for the tracepoints alone */

/* Writes the name of the owner to @name, "-" without a queue pair. Return: its process. */
pid_t xiw_trace_owner(const struct xiw_qp *qp, char *name);

/* Writes addresses and ports of both ends of TCP, "-" without a socket. */
void xiw_trace_addresses(const struct sock *sk, char *local, char *peer);

/* Why a connection has ended, in a word: the name of a cause, or one of trace.c. */
const char *xiw_trace_why(const struct xiw_ep *ep, int err, enum xiw_cause cause);

/*
 * Posting, from the doorbell to the end. Between them are the FPDUs below, if TCP carries the
 * stream. A process that posts while a worker looks at its ring rings no doorbell, and neither does
 * a consumer in the kernel, whose wr_id is 0 here. A request that is malformed, or flushed before
 * it was taken, is only done. A request that is not signalled is done without a completion. seq is
 * the request's number in its queue, so it tells which of two requests with one wr_id is done.
 */

TRACE_EVENT(xiw_doorbell,
	TP_PROTO(const struct xiw_qp *qp, bool deferred),
	TP_ARGS(qp, deferred),
	TP_STRUCT__entry(
		__array(char, dev, XIW_TRACE_DEVICE)
		__field(u32, qpn)
		__field(bool, deferred)
	),
	TP_fast_assign(
		strscpy_pad(__entry->dev, qp->dev->ibdev.name);
		__entry->qpn = qp->qpn;
		__entry->deferred = deferred;
	),
	TP_printk("dev=%s qpn=%u by=%s", __entry->dev, __entry->qpn,
		  __entry->deferred ? "worker" : "caller")
);

/* perf and trace-cmd need the numbers, too. */
TRACE_DEFINE_ENUM(XIW_OP_WRITE);
TRACE_DEFINE_ENUM(XIW_OP_WRITE_IMM);
TRACE_DEFINE_ENUM(XIW_OP_SEND);
TRACE_DEFINE_ENUM(XIW_OP_READ);
TRACE_DEFINE_ENUM(XIW_OP_CMP_SWP);
TRACE_DEFINE_ENUM(XIW_OP_FETCH_ADD);
TRACE_DEFINE_ENUM(XIW_OP_LOCAL_INV);
TRACE_DEFINE_ENUM(XIW_OP_BIND_MW);
TRACE_DEFINE_ENUM(XIW_OP_SEND_INV);
TRACE_DEFINE_ENUM(XIW_OP_READ_INV);
TRACE_DEFINE_ENUM(XIW_OP_REG_MR);

#define xiw_show_request(opcode)					\
	__print_symbolic(opcode,					\
			 { XIW_OP_WRITE, "WRITE" },			\
			 { XIW_OP_WRITE_IMM, "WRITE_IMM" },		\
			 { XIW_OP_SEND, "SEND" },			\
			 { XIW_OP_READ, "READ" },			\
			 { XIW_OP_CMP_SWP, "CMP_SWP" },			\
			 { XIW_OP_FETCH_ADD, "FETCH_ADD" },		\
			 { XIW_OP_LOCAL_INV, "LOCAL_INV" },		\
			 { XIW_OP_BIND_MW, "BIND_MW" },			\
			 { XIW_OP_SEND_INV, "SEND_INV" },		\
			 { XIW_OP_READ_INV, "READ_INV" },		\
			 { XIW_OP_REG_MR, "REG_MR" })

TRACE_EVENT(xiw_request,
	TP_PROTO(const struct xiw_qp *qp, const struct xiw_request *request),
	TP_ARGS(qp, request),
	TP_STRUCT__entry(
		__field(u64, wr_id)
		__array(char, dev, XIW_TRACE_DEVICE)
		__array(char, owner, XIW_TRACE_OWNER)
		__field(pid_t, pid)
		__field(u32, qpn)
		__field(u32, seq)
		__field(u32, len)
		__field(u8, opcode)
	),
	TP_fast_assign(
		strscpy_pad(__entry->dev, qp->dev->ibdev.name);
		__entry->pid = xiw_trace_owner(qp, __entry->owner);
		__entry->qpn = qp->qpn;
		__entry->seq = qp->sq.taken - 1;
		__entry->wr_id = xiw_qp_traced_id(qp, request->slot->wr_id);
		__entry->opcode = request->slot->opcode;
		__entry->len = request->len;
	),
	TP_printk("dev=%s qpn=%u owner=%s pid=%d seq=%u wr_id=%llu opcode=%s len=%u",
		  __entry->dev, __entry->qpn, __entry->owner, __entry->pid, __entry->seq,
		  __entry->wr_id, xiw_show_request(__entry->opcode), __entry->len)
);

TRACE_EVENT(xiw_send_done,
	TP_PROTO(const struct xiw_qp *qp, const struct xiw_send_wr *wr),
	TP_ARGS(qp, wr),
	TP_STRUCT__entry(
		__field(u64, wr_id)
		__array(char, dev, XIW_TRACE_DEVICE)
		__field(u32, qpn)
		__field(u32, seq)
		__field(u32, len)
		__field(u8, opcode)
		__field(u8, status)
	),
	TP_fast_assign(
		strscpy_pad(__entry->dev, qp->dev->ibdev.name);
		__entry->qpn = qp->qpn;
		__entry->seq = qp->sq.returned - 1;
		__entry->wr_id = xiw_qp_traced_id(qp, wr->wr_id);
		__entry->opcode = wr->opcode;
		__entry->status = wr->status;
		__entry->len = wr->byte_len;
	),
	TP_printk("dev=%s qpn=%u seq=%u wr_id=%llu opcode=%s status=%u len=%u", __entry->dev,
		  __entry->qpn, __entry->seq, __entry->wr_id, xiw_show_request(__entry->opcode),
		  __entry->status, __entry->len)
);

TRACE_EVENT(xiw_recv_done,
	TP_PROTO(const struct xiw_qp *qp, const struct xiw_cqe *cqe),
	TP_ARGS(qp, cqe),
	TP_STRUCT__entry(
		__field(u64, wr_id)
		__array(char, dev, XIW_TRACE_DEVICE)
		__field(u32, qpn)
		__field(u32, status)
		__field(u32, len)
	),
	TP_fast_assign(
		strscpy_pad(__entry->dev, qp->dev->ibdev.name);
		__entry->qpn = qp->qpn;
		__entry->wr_id = xiw_qp_traced_id(qp, cqe->wr_id);
		__entry->status = cqe->status;
		__entry->len = cqe->byte_len;
	),
	TP_printk("dev=%s qpn=%u wr_id=%llu status=%u len=%u", __entry->dev, __entry->qpn,
		  __entry->wr_id, __entry->status, __entry->len)
);

/*
 * FPDUs. Segments that stay within the host are received, but not sent. stag and to are those of a
 * tagged header, or the STag that a Send invalidates; qn, msn and mo are those of an untagged one.
 * What the header does not have is 0.
 */

TRACE_DEFINE_ENUM(RDMAP_WRITE);
TRACE_DEFINE_ENUM(RDMAP_READ_REQ);
TRACE_DEFINE_ENUM(RDMAP_READ_RESP);
TRACE_DEFINE_ENUM(RDMAP_SEND);
TRACE_DEFINE_ENUM(RDMAP_SEND_INV);
TRACE_DEFINE_ENUM(RDMAP_SEND_SE);
TRACE_DEFINE_ENUM(RDMAP_SEND_SE_INV);
TRACE_DEFINE_ENUM(RDMAP_TERMINATE);
TRACE_DEFINE_ENUM(RDMAP_IMM);
TRACE_DEFINE_ENUM(RDMAP_IMM_SE);
TRACE_DEFINE_ENUM(RDMAP_ATOMIC_REQ);
TRACE_DEFINE_ENUM(RDMAP_ATOMIC_RESP);

#define xiw_show_rdmap(opcode)						\
	__print_symbolic(opcode,					\
			 { RDMAP_WRITE, "WRITE" },			\
			 { RDMAP_READ_REQ, "READ_REQ" },		\
			 { RDMAP_READ_RESP, "READ_RESP" },		\
			 { RDMAP_SEND, "SEND" },			\
			 { RDMAP_SEND_INV, "SEND_INV" },		\
			 { RDMAP_SEND_SE, "SEND_SE" },			\
			 { RDMAP_SEND_SE_INV, "SEND_SE_INV" },		\
			 { RDMAP_TERMINATE, "TERMINATE" },		\
			 { RDMAP_IMM, "IMM" },				\
			 { RDMAP_IMM_SE, "IMM_SE" },			\
			 { RDMAP_ATOMIC_REQ, "ATOMIC_REQ" },		\
			 { RDMAP_ATOMIC_RESP, "ATOMIC_RESP" })

#define XIW_SHOW_HEADER	"stag=%#x to=%#llx qn=%u msn=%u mo=%u"

DECLARE_EVENT_CLASS(xiw_fpdu,
	TP_PROTO(const struct xiw_qp *qp, const struct xiw_headers *hdr, u32 ulpdu),
	TP_ARGS(qp, hdr, ulpdu),
	TP_STRUCT__entry(
		__field(u64, to)
		__array(char, dev, XIW_TRACE_DEVICE)
		__array(char, owner, XIW_TRACE_OWNER)
		__field(pid_t, pid)
		__field(u32, qpn)
		__field(u32, stag)
		__field(u32, qn)
		__field(u32, msn)
		__field(u32, mo)
		__field(u32, ulpdu)
		__field(u32, len)
		__field(u8, ddp)
		__field(u8, opcode)
	),
	TP_fast_assign(
		const struct xiw_ddp_tagged tagged = ulpdu >= sizeof(tagged) &&
			hdr->ctrl.ddp & DDP_TAGGED ? hdr->tagged : (struct xiw_ddp_tagged){};
		const struct xiw_ddp_untagged untagged = ulpdu >= sizeof(untagged) &&
			!(hdr->ctrl.ddp & DDP_TAGGED) ? hdr->untagged :
			(struct xiw_ddp_untagged){};

		strscpy_pad(__entry->dev, qp->dev->ibdev.name);
		__entry->pid = xiw_trace_owner(qp, __entry->owner);
		__entry->qpn = qp->qpn;
		__entry->ddp = hdr->ctrl.ddp;
		__entry->opcode = hdr->ctrl.rdmap & RDMAP_OPCODE_MASK;
		__entry->stag = be32_to_cpu(tagged.stag | untagged.inv_stag);
		__entry->to = be64_to_cpu(tagged.to);
		__entry->qn = be32_to_cpu(untagged.qn);
		__entry->msn = be32_to_cpu(untagged.msn);
		__entry->mo = be32_to_cpu(untagged.mo);
		__entry->ulpdu = ulpdu;
		__entry->len = xiw_fpdu_len(ulpdu);
	),
	TP_printk("dev=%s qpn=%u owner=%s pid=%d opcode=%s%s " XIW_SHOW_HEADER " ulpdu=%u len=%u",
		  __entry->dev, __entry->qpn, __entry->owner, __entry->pid,
		  xiw_show_rdmap(__entry->opcode), __entry->ddp & DDP_LAST ? " last" : "",
		  __entry->stag, __entry->to, __entry->qn, __entry->msn, __entry->mo,
		  __entry->ulpdu, __entry->len)
);

DEFINE_EVENT(xiw_fpdu, xiw_tx_fpdu,
	TP_PROTO(const struct xiw_qp *qp, const struct xiw_headers *hdr, u32 ulpdu),
	TP_ARGS(qp, hdr, ulpdu)
);

DEFINE_EVENT(xiw_fpdu, xiw_rx_fpdu,
	TP_PROTO(const struct xiw_qp *qp, const struct xiw_headers *hdr, u32 ulpdu),
	TP_ARGS(qp, hdr, ulpdu)
);

/*
 * The life of connections and queue pairs
 */

TRACE_EVENT(xiw_connect,
	TP_PROTO(const struct xiw_qp *qp, bool initiator, const struct xiw_mpa_terms *terms),
	TP_ARGS(qp, initiator, terms),
	TP_STRUCT__entry(
		__array(char, dev, XIW_TRACE_DEVICE)
		__field(u32, qpn)
		__field(u16, ird)
		__field(u16, ord)
		__field(u8, rtr)
		__field(bool, initiator)
		__field(bool, crc)
		__field(bool, markers)
		__field(bool, large)
	),
	TP_fast_assign(
		strscpy_pad(__entry->dev, qp->dev->ibdev.name);
		__entry->qpn = qp->qpn;
		__entry->ird = terms->ird;
		__entry->ord = terms->ord;
		__entry->rtr = terms->rtr;
		__entry->initiator = initiator;
		__entry->crc = terms->crc;
		__entry->markers = terms->tx_markers;
		__entry->large = terms->tx_large_fpdus;
	),
	TP_printk("dev=%s qpn=%u %s crc=%d tx_markers=%d tx_large_fpdus=%d ird=%u ord=%u rtr=%#x",
		  __entry->dev, __entry->qpn, __entry->initiator ? "initiator" : "responder",
		  __entry->crc, __entry->markers, __entry->large, __entry->ird, __entry->ord,
		  __entry->rtr)
);

TRACE_DEFINE_ENUM(XIW_QP_IDLE);
TRACE_DEFINE_ENUM(XIW_QP_RTS);
TRACE_DEFINE_ENUM(XIW_QP_ERROR);

#define xiw_show_qp_state(state)					\
	__print_symbolic(state,						\
			 { XIW_QP_IDLE, "IDLE" },			\
			 { XIW_QP_RTS, "RTS" },				\
			 { XIW_QP_ERROR, "ERROR" })

TRACE_EVENT(xiw_qp_move,
	TP_PROTO(const struct xiw_qp *qp, enum xiw_qp_state to),
	TP_ARGS(qp, to),
	TP_STRUCT__entry(
		__array(char, dev, XIW_TRACE_DEVICE)
		__field(u32, qpn)
		__field(u8, from)
		__field(u8, to)
	),
	TP_fast_assign(
		strscpy_pad(__entry->dev, qp->dev->ibdev.name);
		__entry->qpn = qp->qpn;
		__entry->from = qp->state;
		__entry->to = to;
	),
	TP_printk("dev=%s qpn=%u %s -> %s", __entry->dev, __entry->qpn,
		  xiw_show_qp_state(__entry->from), xiw_show_qp_state(__entry->to))
);

TRACE_DEFINE_ENUM(XIW_EP_CONNECTING);
TRACE_DEFINE_ENUM(XIW_EP_WAIT_REPLY);
TRACE_DEFINE_ENUM(XIW_EP_WAIT_REQUEST);
TRACE_DEFINE_ENUM(XIW_EP_ASKED);
TRACE_DEFINE_ENUM(XIW_EP_WAIT_OPENING);
TRACE_DEFINE_ENUM(XIW_EP_OPEN);
TRACE_DEFINE_ENUM(XIW_EP_FAREWELL);
TRACE_DEFINE_ENUM(XIW_EP_CLOSED);

#define xiw_show_ep_state(state)					\
	__print_symbolic(state,						\
			 { XIW_EP_CONNECTING, "CONNECTING" },		\
			 { XIW_EP_WAIT_REPLY, "WAIT_REPLY" },		\
			 { XIW_EP_WAIT_REQUEST, "WAIT_REQUEST" },	\
			 { XIW_EP_ASKED, "ASKED" },			\
			 { XIW_EP_WAIT_OPENING, "WAIT_OPENING" },	\
			 { XIW_EP_OPEN, "OPEN" },			\
			 { XIW_EP_FAREWELL, "FAREWELL" },		\
			 { XIW_EP_CLOSED, "CLOSED" })

/* No two connections of a host have the same id. Without a queue pair, qpn is 0. */
TRACE_EVENT(xiw_ep_move,
	TP_PROTO(const struct xiw_ep *ep, enum xiw_ep_state to),
	TP_ARGS(ep, to),
	TP_STRUCT__entry(
		__field(unsigned long, id)
		__array(char, dev, XIW_TRACE_DEVICE)
		__field(u32, qpn)
		__field(u8, from)
		__field(u8, to)
	),
	TP_fast_assign(
		strscpy_pad(__entry->dev, ep->dev->ibdev.name);
		__entry->qpn = ep->qp ? ep->qp->qpn : 0;
		__entry->id = ep->id;
		__entry->from = ep->state;
		__entry->to = to;
	),
	TP_printk("dev=%s qpn=%u id=%lu %s -> %s", __entry->dev, __entry->qpn, __entry->id,
		  xiw_show_ep_state(__entry->from), xiw_show_ep_state(__entry->to))
);

TRACE_EVENT(xiw_qp_fail,
	TP_PROTO(const struct xiw_qp *qp, enum xiw_cause cause),
	TP_ARGS(qp, cause),
	TP_STRUCT__entry(
		__array(char, dev, XIW_TRACE_DEVICE)
		__string(cause, xiw_causes[cause].name)
		__field(u32, qpn)
	),
	TP_fast_assign(
		strscpy_pad(__entry->dev, qp->dev->ibdev.name);
		__assign_str(cause);
		__entry->qpn = qp->qpn;
	),
	TP_printk("dev=%s qpn=%u cause=%s", __entry->dev, __entry->qpn, __get_str(cause))
);

/* Terminates. Those that are sent are not among the FPDUs above. */

DECLARE_EVENT_CLASS(xiw_terminate,
	TP_PROTO(const struct xiw_qp *qp, const struct xiw_headers *hdr),
	TP_ARGS(qp, hdr),
	TP_STRUCT__entry(
		__array(char, dev, XIW_TRACE_DEVICE)
		__field(u32, qpn)
		__field(u8, layer_etype)
		__field(u8, code)
	),
	TP_fast_assign(
		strscpy_pad(__entry->dev, qp->dev->ibdev.name);
		__entry->qpn = qp->qpn;
		__entry->layer_etype = hdr->term.layer_etype;
		__entry->code = hdr->term.code;
	),
	TP_printk("dev=%s qpn=%u layer=%u etype=%u code=%#04x", __entry->dev, __entry->qpn,
		  __entry->layer_etype >> 4, __entry->layer_etype & 0xf, __entry->code)
);

DEFINE_EVENT(xiw_terminate, xiw_tx_terminate,
	TP_PROTO(const struct xiw_qp *qp, const struct xiw_headers *hdr),
	TP_ARGS(qp, hdr)
);

DEFINE_EVENT(xiw_terminate, xiw_rx_terminate,
	TP_PROTO(const struct xiw_qp *qp, const struct xiw_headers *hdr),
	TP_ARGS(qp, hdr)
);

/*
 * The end of a connection, or of an attempt to make one, after its Terminate. Only a half-open
 * connection that gives way to a newer one ends without it.
 */
TRACE_EVENT(xiw_end,
	TP_PROTO(const struct xiw_ep *ep, int err, enum xiw_cause cause),
	TP_ARGS(ep, err, cause),
	TP_STRUCT__entry(
		__array(char, dev, XIW_TRACE_DEVICE)
		__array(char, why, XIW_TRACE_WHY)
		__array(char, owner, XIW_TRACE_OWNER)
		__array(char, local, XIW_TRACE_ADDRESS)
		__array(char, peer, XIW_TRACE_ADDRESS)
		__field(pid_t, pid)
		__field(u32, qpn)
		__field(int, err)
		__field(bool, initiator)
		__field(u8, state)
	),
	TP_fast_assign(
		strscpy_pad(__entry->dev, ep->dev->ibdev.name);
		strscpy_pad(__entry->why, xiw_trace_why(ep, err, cause));
		__entry->pid = xiw_trace_owner(ep->qp, __entry->owner);
		__entry->qpn = ep->qp ? ep->qp->qpn : 0;
		__entry->err = err;
		__entry->initiator = ep->initiator;
		__entry->state = ep->state;
		xiw_trace_addresses(ep->sk, __entry->local, __entry->peer);
	),
	TP_printk("dev=%s qpn=%u owner=%s pid=%d %s local=%s peer=%s state=%s why=%s err=%d",
		  __entry->dev, __entry->qpn, __entry->owner, __entry->pid,
		  __entry->initiator ? "initiator" : "responder", __entry->local, __entry->peer,
		  xiw_show_ep_state(__entry->state), __entry->why, __entry->err)
);

#endif /* XIW_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
