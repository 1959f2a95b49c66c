// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* response.c - answers a Read or Atomic of the peer with the segments of its Response */

#include "carrier/segment.h"
#include "stream/fault.h"
#include "stream/response.h"

/* Whether the peer's Read invalidates the STag of its sink. Known only of a peer on this host. */
static bool response_invalidates(const struct xiw_qp *qp)
{
	const struct xiw_qp *peer = xiw_carrier_peer(qp);

	return peer && peer->reads.used && peer->read_slots[peer->reads.head].invalidate;
}

/* Builds the Read Request for what is still to be sent, for a Terminate (RFC 5040 section 4.8). */
static void response_fault_header(struct xiw_headers *hdr, const struct xiw_inbound_read *inbound)
{
	*hdr = (struct xiw_headers){
		.mpa.ulpdu_len = cpu_to_be16(sizeof(hdr->untagged) + sizeof(hdr->read)),
		.untagged = {
			.ctrl.ddp = DDP_LAST | DDP_VERSION,
			.ctrl.rdmap = RDMAP_VERSION | RDMAP_READ_REQ,
			.qn = cpu_to_be32(DDP_QN_READ),
			.msn = cpu_to_be32(inbound->msn),
		},
		.read = {
			.sink_stag = cpu_to_be32(inbound->sink_stag),
			.sink_to = cpu_to_be64(inbound->sink_to + inbound->sent),
			.size = cpu_to_be32(inbound->size - inbound->sent),
			.src_stag = cpu_to_be32(inbound->src_stag),
			.src_to = cpu_to_be64(inbound->src_to + inbound->sent),
		},
	};
}

static enum xiw_segment_result response_stage_atomic(struct xiw_run *run,
						     const struct xiw_inbound_read *inbound)
{
	struct xiw_atomic_resp resp = {
		.request_id = cpu_to_be32(inbound->request_id),
		.original = cpu_to_be64(inbound->original),
	};
	enum xiw_segment_result result = xiw_segment_message(run, RDMAP_ATOMIC_RESP, &resp,
							     sizeof(resp));

	if (result == XIW_SEGMENT_STAGED)
		xiw_fifo_pop(&run->qp->inbound);
	return result;
}

/* Stages the next FPDU of a Read Response. */
static enum xiw_segment_result response_stage_read(struct xiw_run *run,
						   struct xiw_inbound_read *inbound)
{
	struct xiw_qp *qp = run->qp;
	u32 left = inbound->size - inbound->sent;
	u32 payload = left;
	enum xiw_segment_result result;
	struct xiw_headers fault;
	struct xiw_fpdu fpdu;
	enum xiw_mem_fault bad;
	bool last;

	result = xiw_segment_begin(run, &fpdu, sizeof(struct xiw_ddp_tagged), &payload);
	if (result != XIW_SEGMENT_STAGED)
		return result;
	last = xiw_segment_is_last(qp, payload, left, response_invalidates(qp));
	xiw_fpdu_put_tagged(&fpdu, RDMAP_READ_RESP, last, inbound->sink_stag,
			    inbound->sink_to + inbound->sent);
	bad = xiw_segment_add(run, &fpdu, inbound->src_stag, inbound->src_to + inbound->sent,
			      payload, IB_ACCESS_REMOTE_READ);
	if (unlikely(bad == XIW_MEM_ABSENT))
		return XIW_SEGMENT_NONE;
	if (unlikely(bad)) {
		response_fault_header(&fault, inbound);
		xiw_qp_fail(qp, xiw_fault_source(bad), &fault);
		return XIW_SEGMENT_NONE;
	}
	if (!xiw_segment_end(run, &fpdu))
		return XIW_SEGMENT_NONE;
	inbound->sent += payload;
	if (last)
		xiw_fifo_pop(&qp->inbound);
	return XIW_SEGMENT_STAGED;
}

/* Kernel-doc is in response.h. */
enum xiw_segment_result xiw_response_stage(struct xiw_run *run)
{
	struct xiw_qp *qp = run->qp;
	struct xiw_inbound_read *inbound;

	xiw_qp_assert_locked(qp);

	if (!qp->inbound.used)
		return XIW_SEGMENT_NONE;
	inbound = &qp->inbound_slots[qp->inbound.head];
	if (inbound->atomic)
		return response_stage_atomic(run, inbound);
	return response_stage_read(run, inbound);
}
