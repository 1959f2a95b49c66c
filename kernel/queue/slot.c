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

static int slot_judge_inline(const struct xiw_send_slot *cur, const struct xiw_send_limits *limits)
{
	if (slot_reads(cur->opcode) || xiw_slot_atomic(cur) || cur->num_sge)
		return -EINVAL;
	return cur->inline_len > limits->max_inline ? -EMSGSIZE : 0;
}

static int slot_judge_sges(const struct xiw_send_slot *cur, const struct xiw_send_limits *limits)
{
	u32 limit = slot_reads(cur->opcode) ? XIW_MAX_SGE_RD : limits->max_sge;

	if (xiw_slot_atomic(cur))
		return cur->num_sge != 1 || cur->inline_len ? -EINVAL : 0;
	return cur->num_sge > limit || cur->inline_len ? -EINVAL : 0;
}

/* Kernel-doc of the functions that other files call is in slot.h. */
int xiw_slot_judge_send(const struct xiw_send_slot *cur, const struct xiw_send_limits *limits,
			u32 *data)
{
	int ret;

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
		if (!limits->kernel)
			return -EINVAL;
		fallthrough;
	case XIW_OP_LOCAL_INV:
	case XIW_OP_BIND_MW:
		*data = cur->opcode == XIW_OP_BIND_MW ? sizeof(struct xiw_bind) : 0;
		return cur->num_sge || cur->inline_len ? -EINVAL : 0;
	default:
		return -EINVAL;
	}
	if (cur->flags & XIW_SEND_INLINE) {
		ret = slot_judge_inline(cur, limits);
		*data = cur->inline_len;
	} else {
		ret = slot_judge_sges(cur, limits);
		*data = (void *)(xiw_slot_sges(cur) + cur->num_sge) - xiw_slot_data(cur);
	}
	return ret;
}

static u64 slot_payload(const struct xiw_send_slot *cur)
{
	const struct xiw_sge *sges = xiw_slot_sges(cur);
	u64 len = cur->inline_len;
	unsigned int i;

	for (i = 0; i < cur->num_sge; i++)
		len += sges[i].length;
	return len;
}

int xiw_slot_judge_payload(const struct xiw_send_slot *cur, u64 len)
{
	if (len > XIW_MAX_MESSAGE)
		return -EMSGSIZE;
	return xiw_slot_atomic(cur) && len != sizeof(u64) ? -EINVAL : 0;
}

int xiw_slot_take_send(struct xiw_send_slot *cur, struct xiw_ring *ring,
		       const struct xiw_send_limits *limits, u32 *payload)
{
	u32 ready = xiw_ring_ready(ring);
	const void *slot;
	u32 data = 0;
	u64 len;
	int ret;

	if (!ready)
		return -ENOENT;
	if (ready == XIW_RING_BROKEN)
		return -EPROTO;
	slot = xiw_ring_slot(ring, ring->taken++);
	memcpy(cur, slot, XIW_SLOT_HEADER);
	barrier();	/* check the copy, never the slot */
	ret = xiw_slot_judge_send(cur, limits, &data);
	if (ret)
		return ret;
	memcpy(xiw_slot_data(cur), slot + XIW_SLOT_HEADER, data);
	barrier();
	len = slot_payload(cur);
	ret = xiw_slot_judge_payload(cur, len);
	*payload = ret ? 0 : len;
	return ret;
}

/*
 * Receive requests
 */

int xiw_slot_take_recv(struct xiw_recv *recv, struct xiw_ring *ring, u32 max_sge)
{
	struct xiw_recv_slot *slot = xiw_ring_slot(ring, ring->taken);
	u32 ready = xiw_ring_ready(ring);
	int ret = 0;
	u32 i;

	if (!ready)
		return -ENOENT;
	if (unlikely(ready == XIW_RING_BROKEN))
		return -EINVAL;

	recv->wr_id = READ_ONCE(slot->wr_id);
	recv->num_sge = READ_ONCE(slot->num_sge);
	recv->length = 0;
	if (unlikely(recv->num_sge > max_sge)) {
		recv->num_sge = 0;
		ret = -EINVAL;
	}
	memcpy(recv->sge, xiw_recv_slot_sges(slot), recv->num_sge * sizeof(recv->sge[0]));
	barrier();	/* add up the copy, never the slot */
	for (i = 0; i < recv->num_sge; i++)
		recv->length += recv->sge[i].length;
	/* No message is longer (RFC 5041 section 5.2), and a completion cannot report more. */
	recv->length = min(recv->length, U32_MAX);

	ring->taken++;
	xiw_ring_return(ring, 1);
	return ret;
}

static void slot_fill_recv(struct xiw_recv_slot *slot, const struct ib_recv_wr *wr)
{
	static_assert(sizeof(struct ib_sge) == sizeof(struct xiw_sge));
	static_assert(offsetof(struct ib_sge, length) == offsetof(struct xiw_sge, length));
	static_assert(offsetof(struct ib_sge, lkey) == offsetof(struct xiw_sge, lkey));

	slot->wr_id = wr->wr_id;
	slot->num_sge = wr->num_sge;
	memcpy(xiw_recv_slot_sges(slot), wr->sg_list, wr->num_sge * sizeof(struct xiw_sge));
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
