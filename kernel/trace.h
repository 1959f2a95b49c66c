/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* trace.h - tracepoints */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM xiw

#if !defined(XIW_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define XIW_TRACE_H

#include <linux/tracepoint.h>
#include <rdma/xiw-abi.h>

#include "wire/mpa.h"
#include "wire/wire.h"

/*
 * Posting, from the doorbell to the end. Between them are the FPDUs below, if TCP carries the
 * stream. A process that posts while a worker looks at its ring rings no doorbell, and neither does
 * a consumer in the kernel, whose wr_id is 0 here. A request that is malformed, or flushed before
 * it was taken, is only done. A request that is not signalled is done without a completion.
 */

TRACE_EVENT(xiw_doorbell,
	TP_PROTO(u32 qpn, bool deferred),
	TP_ARGS(qpn, deferred),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(bool, deferred)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->deferred = deferred;
	),
	TP_printk("qpn=%u by=%s", __entry->qpn, __entry->deferred ? "worker" : "caller")
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

TRACE_EVENT(xiw_request,
	TP_PROTO(u32 qpn, u64 wr_id, u8 opcode, u32 len),
	TP_ARGS(qpn, wr_id, opcode, len),
	TP_STRUCT__entry(
		__field(u64, wr_id)
		__field(u32, qpn)
		__field(u32, len)
		__field(u8, opcode)
	),
	TP_fast_assign(
		__entry->wr_id = wr_id;
		__entry->qpn = qpn;
		__entry->len = len;
		__entry->opcode = opcode;
	),
	TP_printk("qpn=%u wr_id=%llu opcode=%s len=%u", __entry->qpn, __entry->wr_id,
		  __print_symbolic(__entry->opcode,
				   { XIW_OP_WRITE, "WRITE" },
				   { XIW_OP_WRITE_IMM, "WRITE_IMM" },
				   { XIW_OP_SEND, "SEND" },
				   { XIW_OP_READ, "READ" },
				   { XIW_OP_CMP_SWP, "CMP_SWP" },
				   { XIW_OP_FETCH_ADD, "FETCH_ADD" },
				   { XIW_OP_LOCAL_INV, "LOCAL_INV" },
				   { XIW_OP_BIND_MW, "BIND_MW" },
				   { XIW_OP_SEND_INV, "SEND_INV" },
				   { XIW_OP_READ_INV, "READ_INV" },
				   { XIW_OP_REG_MR, "REG_MR" }),
		  __entry->len)
);

DECLARE_EVENT_CLASS(xiw_done,
	TP_PROTO(u32 qpn, u64 wr_id, u32 status, u32 len),
	TP_ARGS(qpn, wr_id, status, len),
	TP_STRUCT__entry(
		__field(u64, wr_id)
		__field(u32, qpn)
		__field(u32, status)
		__field(u32, len)
	),
	TP_fast_assign(
		__entry->wr_id = wr_id;
		__entry->qpn = qpn;
		__entry->status = status;
		__entry->len = len;
	),
	TP_printk("qpn=%u wr_id=%llu status=%u len=%u", __entry->qpn, __entry->wr_id,
		  __entry->status, __entry->len)
);

DEFINE_EVENT(xiw_done, xiw_send_done,
	TP_PROTO(u32 qpn, u64 wr_id, u32 status, u32 len),
	TP_ARGS(qpn, wr_id, status, len)
);

DEFINE_EVENT(xiw_done, xiw_recv_done,
	TP_PROTO(u32 qpn, u64 wr_id, u32 status, u32 len),
	TP_ARGS(qpn, wr_id, status, len)
);

/*
 * FPDUs. Segments that stay within the host are received, but not sent.
 */

DECLARE_EVENT_CLASS(xiw_fpdu,
	TP_PROTO(u32 qpn, const struct xiw_headers *hdr, u32 len),
	TP_ARGS(qpn, hdr, len),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u32, len)
		__field(u8, ddp)
		__field(u8, rdmap)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->len = len;
		__entry->ddp = hdr->ctrl.ddp;
		__entry->rdmap = hdr->ctrl.rdmap;
	),
	TP_printk("qpn=%u opcode=%u%s len=%u", __entry->qpn,
		  __entry->rdmap & RDMAP_OPCODE_MASK,
		  __entry->ddp & DDP_LAST ? " last" : "", __entry->len)
);

DEFINE_EVENT(xiw_fpdu, xiw_tx_fpdu,
	TP_PROTO(u32 qpn, const struct xiw_headers *hdr, u32 len),
	TP_ARGS(qpn, hdr, len)
);

DEFINE_EVENT(xiw_fpdu, xiw_rx_fpdu,
	TP_PROTO(u32 qpn, const struct xiw_headers *hdr, u32 len),
	TP_ARGS(qpn, hdr, len)
);

/*
 * The life of connections and queue pairs
 */

TRACE_EVENT(xiw_connect,
	TP_PROTO(u32 qpn, bool initiator, const struct xiw_mpa_terms *terms),
	TP_ARGS(qpn, initiator, terms),
	TP_STRUCT__entry(
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
		__entry->qpn = qpn;
		__entry->ird = terms->ird;
		__entry->ord = terms->ord;
		__entry->rtr = terms->rtr;
		__entry->initiator = initiator;
		__entry->crc = terms->crc;
		__entry->markers = terms->tx_markers;
		__entry->large = terms->tx_large_fpdus;
	),
	TP_printk("qpn=%u %s crc=%d tx_markers=%d tx_large_fpdus=%d ird=%u ord=%u rtr=%#x",
		  __entry->qpn, __entry->initiator ? "initiator" : "responder", __entry->crc,
		  __entry->markers, __entry->large, __entry->ird, __entry->ord, __entry->rtr)
);

DECLARE_EVENT_CLASS(xiw_move,
	TP_PROTO(unsigned long id, unsigned int from, unsigned int to),
	TP_ARGS(id, from, to),
	TP_STRUCT__entry(
		__field(unsigned long, id)
		__field(unsigned int, from)
		__field(unsigned int, to)
	),
	TP_fast_assign(
		__entry->id = id;
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("id=%lu %u -> %u", __entry->id, __entry->from, __entry->to)
);

DEFINE_EVENT(xiw_move, xiw_qp_move,
	TP_PROTO(unsigned long id, unsigned int from, unsigned int to),
	TP_ARGS(id, from, to)
);

DEFINE_EVENT(xiw_move, xiw_ep_move,
	TP_PROTO(unsigned long id, unsigned int from, unsigned int to),
	TP_ARGS(id, from, to)
);

TRACE_EVENT(xiw_qp_fail,
	TP_PROTO(u32 qpn, const char *cause),
	TP_ARGS(qpn, cause),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__string(cause, cause)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__assign_str(cause);
	),
	TP_printk("qpn=%u cause=%s", __entry->qpn, __get_str(cause))
);

TRACE_EVENT(xiw_rx_terminate,
	TP_PROTO(u32 qpn, u8 layer_etype, u8 code),
	TP_ARGS(qpn, layer_etype, code),
	TP_STRUCT__entry(
		__field(u32, qpn)
		__field(u8, layer_etype)
		__field(u8, code)
	),
	TP_fast_assign(
		__entry->qpn = qpn;
		__entry->layer_etype = layer_etype;
		__entry->code = code;
	),
	TP_printk("qpn=%u layer=%u etype=%u code=%#04x", __entry->qpn,
		  __entry->layer_etype >> 4, __entry->layer_etype & 0xf, __entry->code)
);

#endif /* XIW_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
