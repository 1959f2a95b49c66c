/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* mem.h - STags, registered regions, memory windows, and checks of each access to them */
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
 * @ibmr: what the core sees. lkey and rkey are the STag, or what the STag becomes with the next
 *	registration. In a window only the device and the protection domain are set
 * @ref: one for the registration and one for each access under way
 * @accesses: with PREEMPT_RT: held for reading by each access under way, so that a thread can
 *	wait for the accesses to end
 * @unused: completed when the last reference is dropped
 * @rcu: delays the free for a grace period, as lookups may still see the object
 * @stag: random sparse index in the upper 24 bits, key octet in the lower 8 (RFC 5040 section
 *	8.1.1)
 * @valid: accesses are allowed, and all fields below are set. It is false before a fast
 *	registration and after an invalidation
 * @access: enum ib_access_flags
 * @iova: address of the first byte, for work requests and the peer
 * @offset: offset of the first byte from the start of the first block
 * @length: length in bytes
 * @umem: pinned memory of a user region, or NULL
 * @odp: pages of an on-demand user region, or NULL
 * @dmabuf: exported memory of a dma-buf region, or NULL
 * @mapping: kernel mapping of @dmabuf
 * @block_shift: log2 of the size of a block
 * @blocks: kernel addresses of the blocks. If @odp is set, the array belongs to it. A window
 *	shares @blocks and @odp with its region
 * @staged: fast registration: blocks from xiw_mr_map_sg(). Accesses do not see them until a
 *	registration request turns them into @blocks
 * @num_staged: number of entries of @staged in use
 * @max_blocks: capacity of @blocks and @staged
 * @windows: number of windows bound to this region; XIW_MR_CLOSED while no window may be bound
 * @window: type of the window; 0 for a region
 * @lock: guards the binding of a window and the fields below, fast registration, and invalidation,
 *	whose wait for accesses takes only @accesses inside it. Process context or softirq
 * @region: region that the window is bound to, or NULL
 * @qpn: queue pair that a type 2 window is bound to
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
#define XIW_STAG_KEY_BITS	8	/* low bits of an STag; the rest is the index */

/*
 * Access flags that may be requested. Unknown flags are refused, because they may be meant to
 * restrict access. Granting more rights than needed would do no harm.
 */
#define XIW_MEM_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
			 IB_ACCESS_REMOTE_ATOMIC | IB_ACCESS_MW_BIND | IB_ACCESS_HUGETLB | \
			 IB_ACCESS_OPTIONAL)

/**
 * struct xiw_mw - memory window as the core sees it
 * @ibmw: the core's part
 * @mr: our part; it is separate because lookups may still see it after the core has freed this
 */
struct xiw_mw {
	struct ib_mw	ibmw;
	struct xiw_mr	*mr;
};

/* Whether @mr is a DMA region: any kernel address is allowed, without bounds. */
static inline bool xiw_mr_all_memory(const struct xiw_mr *mr)
{
	return mr->ibmr.type == IB_MR_TYPE_DMA;
}

static inline struct xiw_mw *to_xiw_mw(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct xiw_mw, ibmw);
}

static inline struct xiw_mr *to_xiw_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct xiw_mr, ibmr);
}

/* Why an access is refused. The caller turns this into the enum xiw_cause of its operation. */
enum xiw_mem_fault {
	XIW_MEM_OK = 0,
	XIW_MEM_BAD_STAG,
	XIW_MEM_BAD_PD,
	XIW_MEM_NO_RIGHT,
	XIW_MEM_BAD_BOUNDS,
	XIW_MEM_BAD_WRAP,
	XIW_MEM_ABSENT,		/* not refused: retry once the pages are present */
	XIW_NUM_MEM_FAULTS
};

/* mem.c APIs */

/**
 * xiw_mr_judge - check whether an access is allowed
 * @ibqp: queue pair that accesses
 * @stag: index and key octet
 * @addr: address of the first byte
 * @len: number of bytes, more than 0
 * @access: rights that the access needs, enum ib_access_flags; 0 for a local read
 *
 * The checks are made in this order: index, key and validity; protection domain; rights; wrap of
 * @addr + @len at 2^64; bounds (RFC 5040 sections 5.2.1 and 7.2, RFC 5041 section 7.1).
 *
 * Context: process or softirq.
 * Return: XIW_MEM_OK, or the first check that failed.
 */
enum xiw_mem_fault xiw_mr_judge(const struct ib_qp *ibqp, u32 stag, u64 addr, u64 len, int access);

/**
 * xiw_mr_get - check whether an access is allowed, and begin it
 * @mr: result, with a reference that the caller must put; unchanged on a fault
 * @by: the direction of a queue pair that accesses
 * @stag: this and the arguments below are as for xiw_mr_judge()
 * @addr: the range must be small, because all of its pages must be present at the same time
 * @len: number of bytes
 * @access: rights
 *
 * Context: process or softirq. The pages stay in place until xiw_mr_put(). Softirqs are off until
 * then, so a thread that ends the validity of the STag or takes the pages can wait for the access.
 * Return: XIW_MEM_OK, or what is wrong; XIW_MEM_ABSENT if @by will be resumed later.
 */
enum xiw_mem_fault xiw_mr_get(struct xiw_mr **mr, struct xiw_accessor *by, u32 stag, u64 addr,
			      u64 len, int access);

void xiw_mr_put(struct xiw_mr *mr);

/**
 * struct xiw_found - cached result of the last STag lookup
 * @mr: the object that was found, which may no longer exist, or NULL
 * @ended: number of STags of the device that had been retired by then. @mr still exists if the
 *	number has not changed
 *
 * Most lookups are for the same STag as the one before.
 */
struct xiw_found {
	struct xiw_mr	*mr;
	u64		ended;
};

/*
 * Returns the object of an STag's index with a reference, or NULL. @found, unless NULL, caches the
 * last lookup. Checks neither the key nor any right. If an object is returned, softirqs stay off
 * until xiw_mr_drop().
 */
struct xiw_mr *xiw_mr_hold(struct ib_device *ibdev, u32 stag, struct xiw_found *found);
void xiw_mr_drop(struct xiw_mr *mr);

/* Whether all bytes are in @mr: XIW_MEM_OK, XIW_MEM_BAD_WRAP or XIW_MEM_BAD_BOUNDS. */
enum xiw_mem_fault xiw_mr_judge_range(const struct xiw_mr *mr, u64 addr, u64 len);

/* Offset of @addr in bytes from the start of the region's first block. */
static inline u64 xiw_mr_offset(const struct xiw_mr *mr, u64 addr)
{
	return addr - mr->iova + mr->offset;
}

/**
 * xiw_mr_span - find the longest run of registered memory that is contiguous in kernel addresses
 * @mr: from xiw_mr_get()
 * @addr: address of the first byte, inside the range that xiw_mr_get() allowed
 * @len: in: bytes wanted; out: bytes in the run, at least 1 and at most the number wanted
 *
 * Return: kernel address of the run.
 */
void *xiw_mr_span(const struct xiw_mr *mr, u64 addr, size_t *len);

/* Copy @len bytes from @addr of @mr to @to, or from @from to @addr of @mr. */
void xiw_mr_read(const struct xiw_mr *mr, u64 addr, void *to, size_t len);
void xiw_mr_write(const struct xiw_mr *mr, u64 addr, const void *from, size_t len);

/**
 * xiw_mem_alloc - allocate the object of an STag; it is not valid yet
 * @pd: protection domain
 * @type: kind of region
 * @access: enum ib_access_flags
 *
 * Return: the object, or ERR_PTR(-EOPNOTSUPP) for unknown rights, or ERR_PTR(-ENOMEM).
 */
struct xiw_mr *xiw_mem_alloc(struct ib_pd *pd, enum ib_mr_type type, int access);

/**
 * xiw_mem_use_row - make @mr stand for memory that is contiguous in kernel addresses
 * @mr: an object that is not published yet; its addresses start at 0 unless the caller sets iova
 * @start: start of the memory; the caller must keep it as long as @mr exists
 * @offset: offset of the first byte
 * @len: length in bytes
 *
 * Return: 0 or -ENOMEM.
 */
int xiw_mem_use_row(struct xiw_mr *mr, void *start, u64 offset, u64 len);

/* Frees an object that no lookup can have seen, or that none can see any more. */
void xiw_mem_free(struct xiw_mr *mr);

/*
 * Gives @mr an STag, by which lookups find it from then on. Return: 0; or a negative errno, with
 * @mr freed.
 */
int xiw_mem_publish(struct xiw_mr *mr);

/* Retires an STag and frees @mr. When it returns, no access to the memory is possible. Sleeps. */
void xiw_mem_retire(struct xiw_mr *mr);

/*
 * The object of an STag's index, or NULL. The caller is in an RCU read-side critical section and
 * must compare the key octet itself.
 */
struct xiw_mr *xiw_mem_find(struct ib_device *ibdev, u32 stag);

/**
 * xiw_mem_disable - end the validity of an STag
 * @mr: the object of the STag; the caller holds no reference from xiw_mr_get()
 *
 * When it returns, no access can start and none is under way. Accesses run with softirqs off, so
 * this waits for other CPUs no longer than one access takes. With PREEMPT_RT an access may be
 * preempted, and this waits for a lock instead.
 */
void xiw_mem_disable(struct xiw_mr *mr);

/*
 * Makes @mr valid with @stag as its STag. The caller has set all other fields; accesses may begin.
 */
void xiw_mem_enable(struct xiw_mr *mr, u32 stag);

/* Whether @mr is in the protection domain of a queue pair and, for a type 2 window, bound to it. */
static inline bool xiw_mem_belongs(const struct xiw_mr *mr, const struct ib_qp *ibqp)
{
	return READ_ONCE(mr->ibmr.pd) == ibqp->pd &&
	       (mr->window != IB_MW_TYPE_2 || mr->qpn == ibqp->qp_num);
}

/* region.c APIs: verbs for struct ib_device_ops; kernel-doc is in region.c. */
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

/* bind.c APIs */

/**
 * xiw_mr_validate - make a region valid with the blocks that xiw_mr_map_sg() has staged
 * @ibqp: queue pair that executes the request
 * @stag: index of the region, and its new key octet
 * @access: its new rights, enum ib_access_flags
 *
 * Context: process or softirq. The consumer, which is in the kernel, uses the region only after
 * this has returned, and never registers it twice at the same time.
 * Return: XIW_MEM_OK; XIW_MEM_BAD_STAG if there is no such region, or if it is not for fast
 * registration; XIW_MEM_BAD_PD; XIW_MEM_NO_RIGHT if it is already valid or the rights cannot be
 * granted; XIW_MEM_BAD_BOUNDS if it is empty.
 */
enum xiw_mem_fault xiw_mr_validate(const struct ib_qp *ibqp, u32 stag, int access);

/**
 * xiw_mw_bind - bind a memory window to a part of a region
 * @ibqp: queue pair that executes the request; only this one can use a type 2 window
 * @stag: index of the window, and its new key octet
 * @bind: region, range and rights. With a length of 0 a type 1 window is unbound
 *
 * A type 1 window is first unbound from its old region. A type 2 window must have been invalidated
 * before.
 *
 * Context: process or softirq; the caller has no access under way.
 * Return: XIW_MEM_OK; XIW_MEM_BAD_STAG; XIW_MEM_BAD_PD; XIW_MEM_NO_RIGHT if the window is already
 * bound, or if the region does not allow windows or these rights; XIW_MEM_BAD_BOUNDS.
 */
enum xiw_mem_fault xiw_mw_bind(const struct ib_qp *ibqp, u32 stag, const struct xiw_bind *bind);

/**
 * xiw_mr_invalidate - end the validity of an STag for a work request or for the peer
 * @ibqp: queue pair that executes the request
 * @stag: index and key octet
 * @remote: the peer asks: only fast-registered regions and type 2 windows may be invalidated (RFC
 *	5040 section 8.1.1 rule 7)
 *
 * An STag that is already invalid is no error. When this returns, no access can start and none is
 * under way.
 *
 * Context: process or softirq; the caller has no access under way.
 * Return: XIW_MEM_OK, XIW_MEM_BAD_STAG, XIW_MEM_BAD_PD, or XIW_MEM_NO_RIGHT.
 */
enum xiw_mem_fault xiw_mr_invalidate(const struct ib_qp *ibqp, u32 stag, bool remote);

/* Verbs for struct ib_device_ops; kernel-doc is in bind.c. */
int xiw_mw_alloc(struct ib_mw *ibmw, struct ib_udata *udata);
int xiw_mw_dealloc(struct ib_mw *ibmw);

#endif /* XIW_MEM_H */
