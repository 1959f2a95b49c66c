// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* slot.c - copies work requests out of a ring and checks them, or posts them for the kernel */

#include <linux/minmax.h>

#include "device.h"
#include "queue/slot.h"

/*
 * Send requests
 */

static bool slot_reads(u8 opcode)
{
	return opcode == XIW_OP_READ || opcode == XIW_OP_READ_INV;
}

static enum xiw_slot_result slot_judge_inline(const struct xiw_send_slot *cur,
					      const struct ib_qp_cap *cap)
{
	if (slot_reads(cur->opcode) || xiw_slot_atomic(cur) || cur->num_sge)
		return XIW_SLOT_MALFORMED;
	return cur->inline_len > cap->max_inline_data ? XIW_SLOT_TOO_LONG : XIW_SLOT_GOOD;
}

static enum xiw_slot_result slot_judge_sges(const struct xiw_send_slot *cur,
					    const struct ib_qp_cap *cap)
{
	u32 limit = slot_reads(cur->opcode) ? XIW_MAX_SGE_RD : cap->max_send_sge;
	bool fits = xiw_slot_atomic(cur) ? cur->num_sge == 1 : cur->num_sge <= limit;

	return fits && !cur->inline_len ? XIW_SLOT_GOOD : XIW_SLOT_MALFORMED;
}

/* Kernel-doc of the functions that other files call is in slot.h. */
enum xiw_slot_result xiw_slot_judge_send(const struct xiw_send_slot *cur,
					 const struct ib_qp_cap *cap, u32 *data)
{
	switch (cur->opcode) {
	case XIW_OP_WRITE:
	case XIW_OP_WRITE_IMM:
	case XIW_OP_SEND:
	case XIW_OP_SEND_INV:
	case XIW_OP_READ:
	case XIW_OP_READ_INV:
	case XIW_OP_CMP_SWP:
	case XIW_OP_FETCH_ADD:
		break;
	case XIW_OP_REG_MR:
	case XIW_OP_LOCAL_INV:
	case XIW_OP_BIND_MW:
		*data = cur->opcode == XIW_OP_BIND_MW ? sizeof(struct xiw_bind) : 0;
		return cur->num_sge || cur->inline_len ? XIW_SLOT_MALFORMED : XIW_SLOT_GOOD;
	default:
		return XIW_SLOT_MALFORMED;
	}
	if (cur->flags & XIW_SEND_INLINE) {
		*data = cur->inline_len;
		return slot_judge_inline(cur, cap);
	}
	*data = (void *)(xiw_slot_sges(cur) + cur->num_sge) - xiw_slot_data(cur);
	return slot_judge_sges(cur, cap);
}

enum xiw_slot_result xiw_slot_judge_payload(const struct xiw_send_slot *cur, u64 len)
{
	if (len > XIW_MAX_MESSAGE)
		return XIW_SLOT_TOO_LONG;
	return xiw_slot_atomic(cur) && len != sizeof(u64) ? XIW_SLOT_MALFORMED : XIW_SLOT_GOOD;
}

enum xiw_slot_result xiw_slot_take_send(struct xiw_send_slot *cur, struct xiw_ring *ring,
					const struct ib_qp_cap *cap, u32 *payload)
{
	u32 ready = xiw_ring_look(ring);
	enum xiw_slot_result result;
	const void *slot;
	u32 data = 0;
	u64 len;

	if (!ready)
		return XIW_SLOT_NONE;
	if (ready == XIW_RING_BROKEN)
		return XIW_SLOT_BROKEN;
	slot = xiw_ring_slot(ring, xiw_ring_take(ring, 1));
	memcpy(cur, slot, XIW_SLOT_HEADER);
	barrier();	/* check the copy, never the slot */
	result = xiw_slot_judge_send(cur, cap, &data);
	if (result != XIW_SLOT_GOOD)
		return result;
	memcpy(xiw_slot_data(cur), slot + XIW_SLOT_HEADER, data);
	barrier();
	len = cur->inline_len + xiw_sges_length(xiw_slot_sges(cur), cur->num_sge);
	result = xiw_slot_judge_payload(cur, len);
	*payload = result == XIW_SLOT_GOOD ? len : 0;
	return result;
}

/*
 * Receive requests
 */

enum xiw_slot_result xiw_slot_take_recv(struct xiw_recv *recv, struct xiw_ring *ring, u32 max_sge)
{
	enum xiw_slot_result result = XIW_SLOT_GOOD;
	struct xiw_recv_slot *slot = xiw_ring_slot(ring, ring->taken);
	u32 ready = xiw_ring_look(ring);

	if (!ready)
		return XIW_SLOT_NONE;
	if (unlikely(ready == XIW_RING_BROKEN))
		return XIW_SLOT_BROKEN;

	recv->wr_id = READ_ONCE(slot->wr_id);
	recv->num_sge = READ_ONCE(slot->num_sge);
	if (unlikely(recv->num_sge > max_sge)) {
		recv->num_sge = 0;
		result = XIW_SLOT_MALFORMED;
	}
	memcpy(recv->sge, xiw_recv_slot_sges(slot), recv->num_sge * sizeof(recv->sge[0]));
	barrier();	/* add up the copy, never the slot */
	/* No message is longer (RFC 5041 section 5.2), and a completion cannot report more. */
	recv->length = min(xiw_sges_length(recv->sge, recv->num_sge), U32_MAX);

	xiw_ring_take(ring, 1);
	xiw_ring_return(ring, 1);
	return result;
}

static void slot_fill_recv(struct xiw_recv_slot *slot, const struct ib_recv_wr *wr)
{
	slot->wr_id = wr->wr_id;
	slot->num_sge = wr->num_sge;
	memcpy(xiw_recv_slot_sges(slot), xiw_sges(wr->sg_list),
	       wr->num_sge * sizeof(struct xiw_sge));
}

int xiw_slot_post_recv(struct xiw_ring *ring, u32 max_wr, u32 max_sge, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad_wr)
{
	int ret = 0;

	for (; wr; wr = wr->next) {
		/* pairs with xiw_ring_return(): the slot is read before it is filled again */
		if (ring->posted - smp_load_acquire(&ring->ctl->consumed) >= max_wr)
			ret = -ENOMEM;
		else if (wr->num_sge < 0 || wr->num_sge > max_sge)
			ret = -EINVAL;
		if (unlikely(ret)) {
			*bad_wr = wr;
			break;
		}
		slot_fill_recv(xiw_ring_slot(ring, ring->posted), wr);
		ring->posted++;
	}
	/* pairs with xiw_ring_ready(): slots are filled before they are counted */
	smp_store_release(&ring->ctl->produced, ring->posted);
	return ret;
}
