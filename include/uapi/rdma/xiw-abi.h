/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause */
/* xiw-abi.h - interface between kernel and provider; both include this one file */
#ifndef XIW_ABI_H
#define XIW_ABI_H

#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>

#ifdef __KERNEL__
#include <linux/build_bug.h>
#elif __STDC_VERSION__ >= 201112L || __cplusplus >= 201103L
#include <assert.h>
#endif

/*
 * Contract of the shared rings
 * ----------------------------
 * A queue pair, a completion queue and a shared receive queue each have one mapping: control words
 * first, slots after them. Each control word has one writer. The words that the process writes and
 * those that the kernel writes lie on different cache lines. Counters are free-running u32. The
 * slot of count n is n & (entries - 1), and entries is a power of two.
 *
 * Work queues (struct xiw_queue_ctl). The process fills the slot, then stores @produced with
 * release; the kernel loads it with acquire. A slot that was counted cannot be taken back. The
 * kernel stores @consumed with release when a slot may be filled again; the process loads it with
 * acquire. After it has stored @produced, the process executes a full barrier and reads @flags. If
 * XIW_NEED_DOORBELL is set, it must ring the doorbell (post_send or post_recv of no work requests).
 * Before the kernel stops looking at the ring, it sets that flag, executes a full barrier, and
 * looks at @produced once more. If XIW_DOORBELL_LATER is set, the kernel will look soon, at a time
 * that it chooses. The process should then go on posting what it has, and ring when it finds a
 * completion queue of the queue pair empty. The process may also find the flag set after a
 * doorbell. If XIW_DOORBELL_GATHER is set as well, the doorbell has sent what was posted before it,
 * and the kernel looks only if the process does not ring for long. So the process then also rings
 * when it has filled half of the ring, and for each request while it waits for an event of one of
 * these completion queues.
 *
 * A send request is complete for the process once its completion, or a later one of the same queue,
 * has been polled. From then on its slot may be counted as free (xiw_cqe.sq_count): the kernel has
 * returned the slot before that. A receive request is complete once its completion has been polled.
 * Each receive request has one completion, in the order of the queue.
 *
 * Completion queues (struct xiw_cq_ctl). The kernel fills an entry and stores its @gen last, with
 * release; the process loads @gen with acquire. The entry of count n is valid when @gen equals
 * xiw_cqe_gen(n, entries). The process stores @consumed with release after it has read entries. To
 * be notified, the process stores a new value in @arm, executes a full barrier, and polls again.
 * The kernel executes a full barrier between its store of @gen and its load of @arm, and notifies
 * once for each value of @arm. Entries that have not been consumed belong to the process. When a
 * queue pair is destroyed or reset, the kernel stops writing entries for it, and the process then
 * removes those that are left.
 *
 * The kernel trusts nothing that it reads here. An index out of range, a bad opcode or a bad length
 * ends the queue pair of the process that wrote it.
 */

#define XIW_ABI_VERSION		1

/* "XIW"; outside of enum rdma_driver_id, so no other provider can match it. */
#define XIW_DRIVER_ID		0x584957

#define XIW_MAX_SGE		16	/* SGEs of a Send, a Write or a receive */
#define XIW_MAX_INLINE		512	/* bytes */
#define XIW_SLOT_MIN		64	/* bytes of the smallest send slot */
#define XIW_SLOT_HEADER		32	/* bytes before xiw_send_slot.data */

/* xiw_queue_ctl.flags */
#define XIW_NEED_DOORBELL	(1u << 0)
#define XIW_DOORBELL_LATER	(1u << 1)	/* send queues only */
#define XIW_DOORBELL_GATHER	(1u << 2)	/* only with XIW_DOORBELL_LATER */

struct xiw_queue_ctl {
	/* written by the process */
	__u32	produced;	/* number of slots ever filled */
	__u32	reserved1[15];
	/* written by the kernel */
	__u32	consumed;	/* number of slots ever given back */
	__u32	flags;
	__u32	reserved2[14];
};

struct xiw_qp_ctl {
	struct xiw_queue_ctl	sq;
	struct xiw_queue_ctl	rq;
};

/* xiw_cq_ctl.arm: the bits above XIW_ARM_SOLICITED are a sequence number */
#define XIW_ARM_SOLICITED	(1u << 0)	/* solicited completions and errors only */
#define XIW_ARM_STEP		(1u << 1)

struct xiw_cq_ctl {
	/* written by the process */
	__u32	consumed;	/* number of entries ever read */
	__u32	arm;		/* a new value asks for one notification */
	__u32	reserved1[14];
	/* written by the kernel */
	__u32	fired;		/* value of arm that was notified last */
	__u32	reserved2[15];
};

struct xiw_sge {
	__aligned_u64	addr;
	__u32		length;
	__u32		lkey;
};

/* xiw_send_slot.opcode: the numbers of enum ib_uverbs_wr_opcode */
enum xiw_opcode {
	XIW_OP_WRITE		= 0,
	XIW_OP_WRITE_IMM	= 1,
	XIW_OP_SEND		= 2,
	XIW_OP_READ		= 4,
	XIW_OP_CMP_SWP		= 5,
	XIW_OP_FETCH_ADD	= 6,
	XIW_OP_LOCAL_INV	= 7,
	XIW_OP_BIND_MW		= 8,
	XIW_OP_SEND_INV		= 9,
	XIW_OP_READ_INV		= 11,
	XIW_OP_REG_MR		= 32,	/* kernel consumers only */
};

/* xiw_send_slot.flags: the numbers of enum ibv_send_flags */
#define XIW_SEND_FENCE		(1u << 0)
#define XIW_SEND_SIGNALED	(1u << 1)
#define XIW_SEND_SOLICITED	(1u << 2)
#define XIW_SEND_INLINE		(1u << 3)

struct xiw_atomic_operands {
	__aligned_u64	compare_add;
	__aligned_u64	swap;
};

/* Range that a memory window is bound to, and its rights from enum ibv_access_flags. */
struct xiw_bind {
	__aligned_u64	addr;
	__aligned_u64	length;
	__u32		lkey;
	__u32		access;
};

/*
 * One send work request. @data continues to the end of the slot, whose size is a power of two that
 * the kernel chose. It holds SGEs; or bytes if XIW_SEND_INLINE is set; or, for atomics, the
 * operands followed by one SGE; or a struct xiw_bind.
 */
struct xiw_send_slot {
	__aligned_u64	wr_id;
	__u8		opcode;		/* enum xiw_opcode */
	__u8		flags;		/* XIW_SEND_* */
	__u8		num_sge;	/* 0 if inline */
	__u8		reserved;
	__u32		inline_len;	/* bytes, 0 unless inline */
	__aligned_u64	remote_addr;
	/* of the remote memory; or to be invalidated locally; or the new one of a window */
	__u32		rkey;
	/* immediate data, big-endian, or rkey that the peer must invalidate */
	__u32		imm_inv;
	union {
		struct xiw_sge			sge[2];
		struct xiw_atomic_operands	atomic;
		struct xiw_bind			bind;
		__u8				data[32];
	};
};

/* One receive work request. num_sge SGEs follow, at most as many as the slot has room for. */
struct xiw_recv_slot {
	__aligned_u64	wr_id;
	__u32		num_sge;
	__u32		reserved;
	struct xiw_sge	sge[1];
};

/* xiw_cqe.opcode: the numbers of enum ibv_wc_opcode */
enum xiw_wc_opcode {
	XIW_WC_SEND		= 0,
	XIW_WC_WRITE		= 1,
	XIW_WC_READ		= 2,
	XIW_WC_CMP_SWP		= 3,
	XIW_WC_FETCH_ADD	= 4,
	XIW_WC_BIND_MW		= 5,
	XIW_WC_LOCAL_INV	= 6,
	XIW_WC_REG_MR		= 9,	/* kernel consumers only */
	XIW_WC_RECV		= 128,
	XIW_WC_RECV_IMM		= 129,	/* receive of a Write with immediate */
};

/* xiw_cqe.flags: the numbers of enum ibv_wc_flags */
#define XIW_WC_WITH_IMM		(1u << 1)
#define XIW_WC_WITH_INV		(1u << 3)

/* One completion; @status has the numbers of enum ibv_wc_status. */
struct xiw_cqe {
	__aligned_u64	wr_id;
	__aligned_u64	timestamp;	/* nanoseconds, CLOCK_MONOTONIC_RAW */
	__u32		qpn;
	__u32		byte_len;
	/* immediate data, big-endian, or rkey that the peer invalidated */
	__u32		imm_inv;
	__u32		vendor_err;	/* enum xiw_cause of the kernel, 0 if good */
	__u16		status;
	__u16		opcode;		/* enum xiw_wc_opcode */
	__u16		flags;		/* XIW_WC_WITH_* */
	__u16		solicited;
	/* of a send request: its count in the send queue plus 1; all up to this one are complete */
	__u32		sq_count;
	__u32		reserved[4];
	__u32		gen;
};

/**
 * xiw_cqe_gen - value of xiw_cqe.gen that makes an entry valid
 * @count: count of the entry, from 0 over the life of the queue
 * @entries: number of entries in the queue, a power of two
 *
 * Return: 1 or 2; never 0, which new memory holds.
 */
static inline __u32 xiw_cqe_gen(__u32 count, __u32 entries)
{
	return (count & entries) ? 2 : 1;
}

/* Responses to the commands of the verbs. A map_key is an offset for mmap(). */
struct xiw_alloc_ucontext_resp {
	__u32		abi_version;
	__u32		max_sge;
	__u32		max_inline;
	__u32		reserved;
};

struct xiw_create_cq_resp {
	__aligned_u64	map_key;
	__u32		map_len;
	__u32		entries;
	__u32		slots_offset;
	__u32		reserved;
};

/* The responses to create and to resize have the same layout. */
#define xiw_resize_cq_resp xiw_create_cq_resp

struct xiw_create_srq_resp {
	__aligned_u64	map_key;
	__u32		map_len;
	__u32		entries;
	__u32		slots_offset;
	__u32		slot_size;
};

/*
 * Request to modify a shared receive queue. A resize writes a struct xiw_create_srq_resp to the
 * address in @response.
 */
struct xiw_modify_srq {
	__aligned_u64	response;
};

struct xiw_create_qp_resp {
	__aligned_u64	map_key;
	__u32		map_len;
	__u32		qpn;
	__u32		sq_offset;
	__u32		sq_entries;
	__u32		sq_slot_size;
	__u32		max_inline;
	__u32		rq_offset;
	__u32		rq_entries;	/* 0 with a shared receive queue */
	__u32		rq_slot_size;
	__u32		reserved;
};

/* Reports how to map device memory: a method of UVERBS_OBJECT_DM, which takes its handle. */
enum xiw_dm_methods {
	XIW_METHOD_DM_QUERY	= 1u << UVERBS_ID_NS_SHIFT,
};

enum xiw_dm_query_attrs {
	XIW_ATTR_DM_QUERY_HANDLE = 1u << UVERBS_ID_NS_SHIFT,
	XIW_ATTR_DM_QUERY_RESP,
};

struct xiw_query_dm_resp {
	__aligned_u64	map_key;
	__aligned_u64	length;
};

/* The kernel compiles each header for programs in older dialects, too, which cannot assert. */
#if __STDC_VERSION__ >= 201112L || __cplusplus >= 201103L
static_assert(sizeof(struct xiw_queue_ctl) == 128, "two cache lines");
static_assert(sizeof(struct xiw_qp_ctl) == 256, "two queues");
static_assert(sizeof(struct xiw_cq_ctl) == 128, "two cache lines");
static_assert(sizeof(struct xiw_sge) == 16, "as struct ibv_sge");
static_assert(sizeof(struct xiw_send_slot) == XIW_SLOT_MIN, "one cache line");
static_assert(__builtin_offsetof(struct xiw_send_slot, data) == XIW_SLOT_HEADER,
	      "header of a send slot");
static_assert(sizeof(struct xiw_recv_slot) == 32, "half a cache line");
static_assert(sizeof(struct xiw_cqe) == 64, "one cache line");
static_assert(__builtin_offsetof(struct xiw_cqe, gen) == 60, "gen is last");
static_assert(sizeof(struct xiw_alloc_ucontext_resp) == 16, "no padding");
static_assert(sizeof(struct xiw_create_cq_resp) == 24, "no padding");
static_assert(sizeof(struct xiw_create_srq_resp) == 24, "no padding");
static_assert(sizeof(struct xiw_modify_srq) == 8, "no padding");
static_assert(sizeof(struct xiw_create_qp_resp) == 48, "no padding");
static_assert(sizeof(struct xiw_query_dm_resp) == 16, "no padding");
#endif

#endif /* XIW_ABI_H */
