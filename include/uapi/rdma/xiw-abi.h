/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause */
/* xiw-abi.h - all that kernel and provider share; both include it, neither copies it */
#ifndef XIW_ABI_H
#define XIW_ABI_H

#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>

#ifdef __KERNEL__
#include <linux/build_bug.h>
#else
#include <assert.h>
#endif

/*
 * Contract of the shared rings
 * ----------------------------
 * A queue pair, a completion queue and a shared receive queue each have one
 * mapping: control words first, slots after them. A control word has one
 * writer; the words of the process and those of the kernel lie on different
 * cache lines. Counters are free-running u32, the slot of count n is
 * n & (entries - 1), and entries is a power of two.
 *
 * Work queues (struct xiw_queue_ctl). The process fills the slot, then stores
 * @produced with release; the kernel loads it with acquire. The kernel stores
 * @consumed with release when a slot may be filled again; the process loads it
 * with acquire. After it stored @produced the process executes a full barrier
 * and reads @flags: with XIW_NEED_DOORBELL set it must ring (post_send or
 * post_recv of no work requests). The kernel sets that flag, executes a full
 * barrier, and looks at @produced once more before it stops looking. With
 * XIW_DOORBELL_LATER set the kernel will look soon, at a time of its own; the
 * process had better post what it has, and ring when it finds a completion queue of
 * the queue pair empty. It may find the flag set after a doorbell, too.
 *
 * A send request is over, for the process, when its completion or a later one of
 * the same queue has been polled: then its place may be counted as free
 * (xiw_cqe.sq_count). The kernel has returned the slot by then. A receive request is over when
 * its completion has been polled: each has one, in the order of the queue.
 *
 * Completion queues (struct xiw_cq_ctl). The kernel fills an entry and stores
 * its @gen last, with release. The entry of count n is there when @gen equals
 * xiw_cqe_gen(n, entries). The process stores @consumed with release after it
 * read entries. To be notified it stores a new value in @arm, executes a full
 * barrier, and polls again; the kernel executes a full barrier between @gen and
 * its look at @arm, and notifies once for each value of @arm. Entries that have not been
 * consumed are the process's: when a queue pair is destroyed or reset, and the kernel writes
 * no more of it, the process takes those of it out.
 *
 * The kernel believes nothing that it reads here: an index out of range, a bad
 * opcode or length ends the queue pair of the process that wrote it.
 */

#define XIW_ABI_VERSION		1

/* Outside of enum rdma_driver_id, so no other provider can match it: "XIW". */
#define XIW_DRIVER_ID		0x584957

#define XIW_MAX_SGE		16	/* SGEs of a Send, a Write or a receive */
#define XIW_MAX_INLINE		512	/* octets */
#define XIW_SLOT_MIN		64	/* octets of the smallest send slot */
#define XIW_SLOT_HEADER		32	/* octets before xiw_send_slot.data */

/* xiw_queue_ctl.flags */
#define XIW_NEED_DOORBELL	(1u << 0)
#define XIW_DOORBELL_LATER	(1u << 1)	/* send queues only */

struct xiw_queue_ctl {
	/* written by the process */
	__u32	produced;	/* slots ever filled */
	__u32	reserved1[15];
	/* written by the kernel */
	__u32	consumed;	/* slots ever given back */
	__u32	flags;
	__u32	reserved2[14];
};

struct xiw_qp_ctl {
	struct xiw_queue_ctl	sq;
	struct xiw_queue_ctl	rq;
};

/* xiw_cq_ctl.arm: a sequence number above this bit */
#define XIW_ARM_SOLICITED	(1u << 0)	/* only solicited ones and errors */
#define XIW_ARM_STEP		(1u << 1)

struct xiw_cq_ctl {
	/* written by the process */
	__u32	consumed;	/* entries ever read */
	__u32	arm;		/* changed to ask for one notification */
	__u32	reserved1[14];
	/* written by the kernel */
	__u32	fired;		/* the value of arm that was notified last */
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
	XIW_OP_SEND_IMM		= 3,
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

/* What a memory window is bound to: part of a region, with rights of enum ibv_access_flags. */
struct xiw_bind {
	__aligned_u64	addr;
	__aligned_u64	length;
	__u32		lkey;
	__u32		access;
};

/*
 * One send work request. @data goes on to the end of the slot, whose size is
 * a power of two that the kernel chose: SGEs; or octets if XIW_SEND_INLINE is
 * set; or, for atomics, the operands followed by one SGE; or how to bind.
 */
struct xiw_send_slot {
	__aligned_u64	wr_id;
	__u8		opcode;		/* enum xiw_opcode */
	__u8		flags;		/* XIW_SEND_* */
	__u8		num_sge;	/* 0 if inline */
	__u8		reserved;
	__u32		inline_len;	/* octets, 0 unless inline */
	__aligned_u64	remote_addr;
	__u32		rkey;		/* remote; or to be invalidated locally, or
					 * what a window gets
					 */
	__u32		imm_inv;	/* immediate data, big-endian, or rkey to
					 * be invalidated by the peer
					 */
	union {
		struct xiw_sge			sge[2];
		struct xiw_atomic_operands	atomic;
		struct xiw_bind			bind;
		__u8				data[32];
	};
};

/* One receive work request; num_sge SGEs follow, as the slot's size allows. */
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
	__u32		imm_inv;	/* immediate data, big-endian, or the
					 * rkey that the peer invalidated
					 */
	__u32		vendor_err;	/* enum xiw_cause of the kernel, 0 if good */
	__u16		status;
	__u16		opcode;		/* enum xiw_wc_opcode */
	__u16		flags;		/* XIW_WC_WITH_* */
	__u16		solicited;
	__u32		sq_count;	/* of a send request: its count in the send
					 * queue, plus 1: up to there all are over
					 */
	__u32		reserved[4];
	__u32		gen;
};

/**
 * xiw_cqe_gen - value of xiw_cqe.gen that makes an entry valid
 * @count: number of the entry, counted from 0 over the life of the queue
 * @entries: entries of the queue, a power of two
 *
 * Return: 1 or 2, never the 0 of fresh memory.
 */
static inline __u32 xiw_cqe_gen(__u32 count, __u32 entries)
{
	return (count & entries) ? 2 : 1;
}

/* Answers to the verbs' commands; a map_key is an offset for mmap(). */
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

/* The answer to create and to resize have the same form. */
#define xiw_resize_cq_resp xiw_create_cq_resp

struct xiw_create_srq_resp {
	__aligned_u64	map_key;
	__u32		map_len;
	__u32		entries;
	__u32		slots_offset;
	__u32		slot_size;
};

/* To modify a shared receive queue: where the answer goes if it is resized, as from create. */
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

/* How to map device memory, asked of its handle: a method of UVERBS_OBJECT_DM. */
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

#endif /* XIW_ABI_H */
