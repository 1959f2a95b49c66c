/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* trace.h - tracepoints */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM xiw

#if !defined(XIW_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define XIW_TRACE_H

#include <linux/tracepoint.h>

#include "wire/wire.h"

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
