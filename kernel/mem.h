/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* mem.h - STags, registered regions, memory windows, and who may touch which octets */
#ifndef XIW_MEM_H
#define XIW_MEM_H

#include <linux/completion.h>
#include <linux/iosys-map.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/xiw-abi.h>

#include "device.h"

struct xiw_accessor;
struct xiw_odp;

/**
 * struct xiw_mr - registered memory, or a window on it
 * @ibmr: what the core sees; lkey and rkey are the STag, or are to be with the next registration.
 *	Of a window device and domain only
 * @ref: one for the registration, one for each access under way
 * @accesses: with PREEMPT_RT: read held by each access under way, so that one can wait for its end
 * @unused: completed by the last put
 * @rcu: lookups may still see it for a grace period
 * @stag: random sparse index in the upper 24 bits, key octet below (RFC 5040 section 8.1.1)
 * @valid: accesses are allowed, and all below holds; false before a fast registration and after an
 *	invalidation
 * @access: enum ib_access_flags
 * @iova: first address
 * @offset: where it is, in octets from the start of the first block
 * @length: octets
 * @all_memory: a DMA region: any kernel address, no bounds
 * @umem: pinned memory of a user region, or NULL
 * @odp: pages of a user region that are there on demand, or NULL
 * @dmabuf: memory of a user region that another driver has exported, or NULL
 * @mapping: where it is in the kernel's space
 * @block_shift: log2 of the size of a block
 * @blocks: kernel addresses of blocks; a window shares those of its region, with @odp, whose they
 *	are if there is one
 * @staged: fast registration: blocks that xiw_mr_map_sg() got; accesses see them only when a
 *	registration request has made them @blocks
 * @num_staged: used ones of @staged
 * @max_blocks: room in @blocks and @staged
 * @windows: how many are bound to this region; XIW_MR_CLOSED while none may be
 * @window: type of a window; 0 of a region
 * @lock: guards what follows, of a window, and its binding; a leaf, in process context or softirq
 * @region: to which it is bound, or NULL
 * @qpn: queue pair to which a window of type 2 is bound
 */
struct xiw_mr {
	struct ib_mr		ibmr;
	refcount_t		ref;
	rwlock_t		accesses;
	struct completion	unused;
	struct rcu_head		rcu;

	u32			stag;
	bool			valid;
	int			access;
	u64			iova;
	u64			offset;
	u64			length;
	bool			all_memory;

	struct ib_umem		*umem;
	struct xiw_odp		*odp;
	struct dma_buf		*dmabuf;
	struct iosys_map	mapping;
	u8			block_shift;
	u64			*blocks;
	u64			*staged;
	u32			num_staged;
	u32			max_blocks;

	atomic_t		windows;
	enum ib_mw_type		window;
	spinlock_t		lock;
	struct xiw_mr		*region;
	u32			qpn;
};

#define XIW_MR_CLOSED		INT_MIN
#define XIW_STAG_KEY_BITS	8	/* of an STag; the rest is the index */

/* More rights do no harm, but those that we do not know may be meant to restrict. */
#define XIW_MEM_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
			 IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_MW_BIND | IB_ACCESS_HUGETLB | \
			 IB_ACCESS_OPTIONAL)

/**
 * struct xiw_mw - memory window as the core sees it
 * @ibmw: its part
 * @mr: our part, which lookups may still see when the core has freed this
 */
struct xiw_mw {
	struct ib_mw	ibmw;
	struct xiw_mr	*mr;
};

static inline struct xiw_mw *to_xiw_mw(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct xiw_mw, ibmw);
}

static inline struct xiw_mr *to_xiw_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct xiw_mr, ibmr);
}

/* Why an access is refused; the caller turns it into its operation's enum xiw_cause. */
enum xiw_mem_fault {
	XIW_MEM_OK = 0,
	XIW_MEM_BAD_STAG,
	XIW_MEM_BAD_PD,
	XIW_MEM_NO_RIGHT,
	XIW_MEM_BAD_BOUNDS,
	XIW_MEM_BAD_WRAP,
	XIW_MEM_ABSENT,		/* not refused: try again when the pages are there */
	XIW_NUM_MEM_FAULTS
};

/* mem.c APIs */

/**
 * xiw_mr_judge - judge an access
 * @ibqp: queue pair for which it is
 * @stag: index and key octet
 * @addr: first octet
 * @len: octets; more than 0
 * @access: rights that the access needs, enum ib_access_flags; 0 for a local read
 *
 * Checks in this order: index, key and validity; domain; rights; wrap of @addr + @len at 2^64;
 * bounds (RFC 5040 sections 5.2.1 and 7.2, RFC 5041 section 7.1).
 *
 * Context: process or softirq.
 * Return: XIW_MEM_OK or what is wrong.
 */
enum xiw_mem_fault xiw_mr_judge(const struct ib_qp *ibqp, u32 stag, u64 addr, u64 len, int access);

/**
 * xiw_mr_get - judge an access and begin it
 * @mr: result, with a reference that the caller must put; untouched on a fault
 * @by: who accesses
 * @stag: see xiw_mr_judge(), for this and what follows
 * @addr: the range has to be a small one: all its pages have to be there at a time
 * @len: octets
 * @access: rights
 *
 * Context: process or softirq. Between get and put the pages stay; softirqs are off, so that who
 * ends the validity of an STag, or takes the pages, can wait for it.
 * Return: XIW_MEM_OK or what is wrong; XIW_MEM_ABSENT if @by will be resumed.
 */
enum xiw_mem_fault xiw_mr_get(struct xiw_mr **mr, struct xiw_accessor *by, u32 stag, u64 addr,
			      u64 len, int access);

void xiw_mr_put(struct xiw_mr *mr);

/**
 * struct xiw_found - what somebody has found under an STag, who looks for the same most of the time
 * @mr: it may be gone, or NULL
 * @ended: how many STags of the device had ended then: @mr is there if none has since
 */
struct xiw_found {
	struct xiw_mr	*mr;
	u64		ended;
};

/*
 * Finds what an index stands for, or NULL; at once if it is what was @found before, unless that is
 * NULL. Judges nothing; softirqs are off until the drop.
 */
struct xiw_mr *xiw_mr_hold(struct ib_device *ibdev, u32 stag, struct xiw_found *found);
void xiw_mr_drop(struct xiw_mr *mr);

/* Whether all octets are inside: XIW_MEM_OK, XIW_MEM_BAD_WRAP or XIW_MEM_BAD_BOUNDS. */
enum xiw_mem_fault xiw_mr_judge_range(const struct xiw_mr *mr, u64 addr, u64 len);

/* Where @addr of a region is, in octets from the start of its first block. */
static inline u64 xiw_mr_place(const struct xiw_mr *mr, u64 addr)
{
	return addr - mr->iova + mr->offset;
}

/**
 * xiw_mr_span - longest run of registered memory that lies in a row in the kernel's space
 * @mr: from xiw_mr_get()
 * @addr: first octet, inside what xiw_mr_get() allowed
 * @len: in: octets wanted; out: octets of the run, at least 1 and at most what was wanted
 *
 * Return: kernel address of the run.
 */
void *xiw_mr_span(const struct xiw_mr *mr, u64 addr, size_t *len);

/* Copies @len octets from @addr of @mr to @to, or the other way. */
void xiw_mr_read(const struct xiw_mr *mr, u64 addr, void *to, size_t len);
void xiw_mr_write(const struct xiw_mr *mr, u64 addr, const void *from, size_t len);

/**
 * xiw_mem_alloc - make what an STag will stand for; it is not valid yet
 * @pd: protection domain
 * @type: kind of region
 * @access: enum ib_access_flags
 *
 * Return: the object, or ERR_PTR(-EOPNOTSUPP) for rights that are unknown, or ERR_PTR(-ENOMEM).
 */
struct xiw_mr *xiw_mem_alloc(struct ib_pd *pd, enum ib_mr_type type, int access);

/**
 * xiw_mem_use_row - let @mr stand for memory that lies in a row in the kernel's space
 * @mr: not published yet; its addresses begin at 0 unless the caller has them begin elsewhere
 * @start: of that memory, which is the caller's to keep as long as there is @mr
 * @offset: of the first octet
 * @len: octets
 *
 * Return: 0 or -ENOMEM.
 */
int xiw_mem_use_row(struct xiw_mr *mr, void *start, u64 offset, u64 len);

/* Frees what no lookup has ever seen, or none can see any more. */
void xiw_mem_free(struct xiw_mr *mr);

/*
 * Gives an STag to @mr, under which it can be found at once. Return: 0; or a negative errno, and
 * @mr is freed.
 */
int xiw_mem_publish(struct xiw_mr *mr);

/* Ends an STag: when it returns nobody can touch the memory, and @mr is gone. Sleeps. */
void xiw_mem_retire(struct xiw_mr *mr);

/* What an index stands for, or NULL; under RCU, and the key octet is the caller's to compare. */
struct xiw_mr *xiw_mem_find(struct ib_device *ibdev, u32 stag);

/**
 * xiw_mem_disable - end the validity of an STag
 * @mr: what it stands for; the caller holds no reference that xiw_mr_get() gave
 *
 * When it returns no access starts, and none is under way. Accesses run with softirqs off, on other
 * CPUs, so the wait is no longer than one of them. With PREEMPT_RT one may be preempted: there it
 * is a lock that is waited for.
 */
void xiw_mem_disable(struct xiw_mr *mr);

/* All of @mr is in place, and accesses may begin, by the name of @stag. */
void xiw_mem_enable(struct xiw_mr *mr, u32 stag);

/* Whether @mr is in the protection domain of a queue pair and, of a window, bound to that. */
static inline bool xiw_mem_belongs(const struct xiw_mr *mr, const struct ib_qp *ibqp)
{
	return mr->ibmr.pd == ibqp->pd &&
	       (mr->window != IB_MW_TYPE_2 || mr->qpn == ibqp->qp_num);
}

/* region.c APIs: verbs, as struct ib_device_ops wants them; kernel-doc is there. */
struct ib_mr *xiw_mr_reg_user(struct ib_pd *pd, u64 start, u64 len, u64 iova, int access,
			      struct ib_dmah *dmah, struct ib_udata *udata);
struct ib_mr *xiw_mr_rereg_user(struct ib_mr *ibmr, int flags, u64 start, u64 len, u64 iova,
				int access, struct ib_pd *pd, struct ib_udata *udata);
struct ib_mr *xiw_mr_get_dma(struct ib_pd *pd, int access);
struct ib_mr *xiw_mr_alloc(struct ib_pd *pd, enum ib_mr_type type, u32 max_num_sg);
int xiw_mr_map_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		  unsigned int *sg_offset);
int xiw_mr_dereg(struct ib_mr *ibmr, struct ib_udata *udata);

/* dmabuf.c APIs */

struct ib_mr *xiw_mr_reg_dmabuf(struct ib_pd *pd, u64 offset, u64 len, u64 iova, int fd,
				int access, struct ib_dmah *dmah,
				struct uverbs_attr_bundle *attrs);

/* Gives back what xiw_mr_reg_dmabuf() got from the exporter. */
void xiw_dmabuf_release(struct xiw_mr *mr);

/* bind.c APIs */

/**
 * xiw_mr_register - make valid what xiw_mr_map_sg() has put into a region
 * @ibqp: the queue pair that asks
 * @stag: index of the region, and the key octet that it gets
 * @access: rights that it gets, enum ib_access_flags
 *
 * Context: process or softirq. The consumer, who is the kernel, touches the region only when this
 * is over, and registers it one at a time.
 * Return: XIW_MEM_OK; XIW_MEM_BAD_STAG if there is no such region or it is not one for fast
 * registration; XIW_MEM_BAD_PD; XIW_MEM_NO_RIGHT if it is valid or the rights cannot be granted;
 * XIW_MEM_BAD_BOUNDS if it is empty.
 */
enum xiw_mem_fault xiw_mr_register(const struct ib_qp *ibqp, u32 stag, int access);

/**
 * xiw_mw_bind - bind a memory window to a part of a region
 * @ibqp: the queue pair that asks; a window of type 2 can be used by this one only
 * @stag: index of the window, and the key octet that it gets
 * @bind: region, part of it, and rights. No octets: a window of type 1 is bound to nothing
 *
 * A window of type 1 leaves what it was bound to; one of type 2 has to have been invalidated.
 *
 * Context: process or softirq; the caller has no access under way.
 * Return: XIW_MEM_OK; XIW_MEM_BAD_STAG; XIW_MEM_BAD_PD; XIW_MEM_NO_RIGHT if the window is bound, or
 * if the region does not let windows be bound or be given such rights; XIW_MEM_BAD_BOUNDS.
 */
enum xiw_mem_fault xiw_mw_bind(const struct ib_qp *ibqp, u32 stag, const struct xiw_bind *bind);

/**
 * xiw_mr_invalidate - a work request, or the peer, ends the validity of an STag
 * @ibqp: the queue pair by which it is asked for
 * @stag: index and key octet
 * @remote: the peer asks: only fast-registered memory and windows of type 2 may be hit (RFC 5040
 *	section 8.1.1 rule 7)
 *
 * An STag that is invalid already is fine. When it returns no access starts, and none is under way.
 *
 * Context: process or softirq; the caller has no access under way.
 * Return: XIW_MEM_OK, XIW_MEM_BAD_STAG, XIW_MEM_BAD_PD, or XIW_MEM_NO_RIGHT.
 */
enum xiw_mem_fault xiw_mr_invalidate(const struct ib_qp *ibqp, u32 stag, bool remote);

/* Verbs, as struct ib_device_ops wants them; kernel-doc is in bind.c. */
int xiw_mw_alloc(struct ib_mw *ibmw, struct ib_udata *udata);
int xiw_mw_dealloc(struct ib_mw *ibmw);

#endif /* XIW_MEM_H */
