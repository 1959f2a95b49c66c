// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* odp.c - on-demand paging: regions whose pages are fetched when needed, and are not pinned */

#include <linux/kref.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/overflow.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "device.h"
#include "mem/mem.h"
#include "mem/odp.h"
#include "pause.h"

/*
 * Number of pages that are fetched or invalidated at a time, with softirqs off meanwhile. Pointers
 * to that many take 512 bytes of the stack.
 */
#define ODP_BATCH	64UL

/* How often a fetch is repeated if the process loses the pages meanwhile. */
#define ODP_TRIES	16

/**
 * struct xiw_odp - the pages of an on-demand region
 * @notifier: called before the process loses pages, or the right to write them
 * @ref: one for the region and one for each fetch under way
 * @lock: see Locking in qp.h; guards the entries of @blocks
 * @writable: pages are fetched for writing, and are known only while they can be written
 * @start: address of the first page in the process
 * @num: number of pages
 * @blocks: kernel address of each page; 0 if it is not known
 */
struct xiw_odp {
	struct mmu_interval_notifier	notifier;
	struct kref			ref;
	rwlock_t			lock;
	bool				writable;
	unsigned long			start;
	unsigned long			num;
	u64				*blocks;
};

/**
 * struct xiw_fetch - fetches pages for one direction of a queue pair
 * @work: fetches the pages. For pages of a file the owner of the file decides how long this
 *	takes: the queue pair may end meanwhile
 * @ref: one for the accessor and one while @work is under way
 * @busy: @work is under way, and owns @odp, @offset and @len
 * @odp: the pages of the region, with a reference
 * @offset: offset of the first byte from the first page of @odp
 * @len: number of bytes
 * @lock: guards the fields below, and the clearing of @busy; leaf, any context
 * @by: accessor to be resumed; NULL once its queue pair ends
 * @orphan: the fetch was under way when its queue pair ended, and counts in odp_orphans
 */
struct xiw_fetch {
	struct work_struct	work;
	struct kref		ref;
	bool			busy;
	struct xiw_odp		*odp;
	u64			offset;
	u64			len;
	spinlock_t		lock;
	struct xiw_accessor	*by;
	bool			orphan;
};

/*
 * Value of xiw_accessor.failed after a failed fetch. Misses of other accesses count it down, so the
 * first one is put off and the second one starts a fetch.
 */
#define ODP_PUT_OFF	2

/*
 * Fetches whose queue pairs have ended no longer count against any limit, yet take places in the
 * workqueue that other fetches need. If there are more than ODP_ORPHANS, a queue pair that ends
 * waits for its own fetch.
 */
#define ODP_ORPHANS	64

static atomic_t odp_orphans = ATOMIC_INIT(0);
static struct workqueue_struct *odp_wq;

/*
 * The process loses pages
 */

/*
 * Fetching a page for writing makes it dirty, and the mm calls this notifier before it cleans the
 * page. Therefore no page has to be marked dirty after it was written.
 */
static bool odp_invalidate(struct mmu_interval_notifier *notifier,
			   const struct mmu_notifier_range *range, unsigned long seq)
{
	struct xiw_odp *odp = container_of(notifier, struct xiw_odp, notifier);
	unsigned long at = max(range->start, odp->start);
	unsigned long end = min(range->end, odp->start + (odp->num << PAGE_SHIFT));
	unsigned long n;

	write_lock_bh(&odp->lock);	/* waits for accesses under way */
	mmu_interval_set_seq(notifier, seq);
	write_unlock_bh(&odp->lock);
	for (; at < end; at += n << PAGE_SHIFT) {
		n = min(PFN_UP(end - at), ODP_BATCH);
		write_lock_bh(&odp->lock);
		memset(&odp->blocks[(at - odp->start) >> PAGE_SHIFT], 0, n * sizeof(u64));
		write_unlock_bh(&odp->lock);
	}
	return true;
}

static const struct mmu_interval_notifier_ops odp_notifier_ops = {
	.invalidate = odp_invalidate,
};

/*
 * Fetching them
 */

/*
 * Return: the number of pages, starting at @first, that are known now; -EAGAIN if the process lost
 * them meanwhile; or another negative errno.
 */
static long odp_fetch_some(struct xiw_odp *odp, unsigned long first, unsigned long num,
			   unsigned int flags)
{
	struct mm_struct *mm = odp->notifier.mm;
	struct page *pages[ODP_BATCH];
	unsigned long seq;
	bool stale;
	long got, i;

	if (odp->writable)
		flags |= FOLL_WRITE;
	seq = mmu_interval_read_begin(&odp->notifier);
	mmap_read_lock(mm);
	got = get_user_pages_remote(mm, odp->start + (first << PAGE_SHIFT), min(num, ODP_BATCH),
				    flags, pages, NULL);
	mmap_read_unlock(mm);
	if (got <= 0)
		return got ?: -EFAULT;

	write_lock_bh(&odp->lock);
	stale = mmu_interval_read_retry(&odp->notifier, seq);
	for (i = 0; i < got && !stale; i++)
		odp->blocks[first + i] = (uintptr_t)page_address(pages[i]);
	write_unlock_bh(&odp->lock);
	/* No references are needed from here on: the notifier is called before a page goes away. */
	release_pages(pages, got);
	return stale ? -EAGAIN : got;
}

/* Kernel-doc of the functions that other files call is in odp.h. */
int xiw_odp_fetch(struct xiw_odp *odp, u64 offset, u64 len, unsigned int flags)
{
	unsigned long at = offset >> PAGE_SHIFT;
	unsigned long end = ((offset + len - 1) >> PAGE_SHIFT) + 1;
	unsigned int tries = 0;
	long ret = 0;

	if (!mmget_not_zero(odp->notifier.mm))
		return -EFAULT;		/* the process has exited */
	while (at < end && !fatal_signal_pending(current)) {
		ret = odp_fetch_some(odp, at, end - at, flags);
		if (ret > 0) {
			at += ret;
			tries = 0;
		} else if (ret != -EAGAIN && (flags & FOLL_NOFAULT)) {
			at++;
		} else if (ret != -EAGAIN || ++tries == ODP_TRIES) {
			break;
		}
		cond_resched();
	}
	mmput_async(odp->notifier.mm);
	if (at == end)
		return 0;
	return ret < 0 ? ret : -EINTR;
}

/* The next pages are likely to be accessed next. Fetches those that are present in the process. */
static void odp_fetch_ahead(struct xiw_odp *odp, u64 offset)
{
	unsigned long next = PFN_UP(offset);

	if (next == odp->num || !mmget_not_zero(odp->notifier.mm))
		return;
	odp_fetch_some(odp, next, odp->num - next, FOLL_NOFAULT);
	mmput_async(odp->notifier.mm);
}

/*
 * Access
 */

static void fetch_free(struct kref *ref)
{
	kfree(container_of(ref, struct xiw_fetch, ref));
}

static void fetch_put(struct xiw_fetch *fetch)
{
	kref_put(&fetch->ref, fetch_free);
}

/*
 * Ends a fetch. Return: the accessor that waits for it, with a reference to its queue pair, or
 * NULL.
 */
static struct xiw_accessor *fetch_end(struct xiw_fetch *fetch, bool failed)
{
	struct xiw_accessor *by;
	unsigned long flags;

	spin_lock_irqsave(&fetch->lock, flags);
	by = fetch->by;
	if (by) {
		by->ops->get(by);
		WRITE_ONCE(by->failed, failed ? ODP_PUT_OFF : 0);
	}
	if (fetch->orphan)
		atomic_dec(&odp_orphans);
	smp_store_release(&fetch->busy, false);		/* pairs with odp_miss() */
	spin_unlock_irqrestore(&fetch->lock, flags);
	return by;
}

static void fetch_work(struct work_struct *work)
{
	struct xiw_fetch *fetch = container_of(work, struct xiw_fetch, work);
	struct xiw_odp *odp = fetch->odp;
	struct xiw_accessor *by;
	int ret;

	xiw_pause("odp_fetch");
	ret = xiw_odp_fetch(odp, fetch->offset, fetch->len, 0);
	if (!ret)
		odp_fetch_ahead(odp, fetch->offset + fetch->len);
	by = fetch_end(fetch, ret && ret != -EAGAIN);	/* on -EAGAIN the access tries again */
	if (by) {
		by->ops->resume(by);
		by->ops->put(by);
	}
	xiw_odp_put(odp);
	fetch_put(fetch);
}

int xiw_odp_prepare(struct xiw_accessor *by)
{
	struct xiw_fetch *fetch = kzalloc_obj(*fetch, XIW_GFP_PROCESS);

	if (!fetch)
		return -ENOMEM;
	INIT_WORK(&fetch->work, fetch_work);
	kref_init(&fetch->ref);
	spin_lock_init(&fetch->lock);
	fetch->by = by;
	by->fetch = fetch;
	return 0;
}

/* Detaches @fetch from its accessor. Return: whether it may continue without one. */
static bool fetch_forget(struct xiw_fetch *fetch)
{
	unsigned long flags;
	bool may = true;

	spin_lock_irqsave(&fetch->lock, flags);
	fetch->by = NULL;
	if (fetch->busy) {
		may = atomic_inc_return(&odp_orphans) <= ODP_ORPHANS;
		fetch->orphan = true;
	}
	spin_unlock_irqrestore(&fetch->lock, flags);
	return may;
}

void xiw_odp_leave_alone(struct xiw_accessor *by)
{
	struct xiw_fetch *fetch = by->fetch;
	bool may;

	if (!fetch)
		return;
	may = fetch_forget(fetch);
	if (cancel_work(&fetch->work)) {
		fetch_end(fetch, true);
		xiw_odp_put(fetch->odp);
		fetch_put(fetch);
	} else if (!may) {
		flush_work(&fetch->work);
	}
	fetch_put(fetch);
}

/* Whether this is the access whose pages could not be fetched. */
static bool odp_has_failed(const struct xiw_accessor *by, const struct xiw_mr *mr, u64 addr)
{
	return READ_ONCE(by->failed) && by->stag == mr->stag && by->addr == addr;
}

/*
 * If this access missed pages earlier, they are present now, and the result of its fetch must be
 * ignored. The length is compared because a shorter access may begin at the same byte.
 */
static void odp_found(struct xiw_accessor *by, const struct xiw_mr *mr, u64 addr, u64 len)
{
	if (unlikely(by->stag == mr->stag && by->addr == addr && len >= by->fetch->len))
		by->stag = 0;
}

/*
 * A failed fetch is reported to the access that asked for it, when that access tries again. Two
 * accesses alternate in each direction. If the other one misses pages first, it is put off once:
 * otherwise each could replace the other's fetch over and over. At its second miss it may fetch,
 * because the first access may have found its pages meanwhile and never try again.
 */
static enum xiw_mem_fault odp_miss(struct xiw_mr *mr, struct xiw_accessor *by, u64 addr,
				   u64 offset, u64 len)
{
	struct xiw_fetch *fetch = by->fetch;

	if (smp_load_acquire(&fetch->busy))	/* pairs with fetch_end() */
		return XIW_MEM_ABSENT;
	if (odp_has_failed(by, mr, addr)) {
		by->failed = 0;
		return XIW_MEM_BAD_BOUNDS;
	}
	if (!by->stag)		/* that access has ended */
		by->failed = 0;
	if (by->failed && --by->failed) {
		by->ops->retry(by);
		return XIW_MEM_ABSENT;
	}
	by->stag = mr->stag;
	by->addr = addr;
	xiw_odp_get(mr->odp);
	kref_get(&fetch->ref);
	fetch->odp = mr->odp;
	fetch->offset = offset;
	fetch->len = len;
	fetch->busy = true;
	xiw_stat_inc(to_xiw_device(by->ibqp->device), XIW_STAT_PAGE_FETCHES);
	queue_work(odp_wq, &fetch->work);
	return XIW_MEM_ABSENT;
}

static bool odp_knows(const struct xiw_odp *odp, u64 offset, u64 len)
{
	const u64 *block = &odp->blocks[offset >> PAGE_SHIFT];
	const u64 *last = &odp->blocks[(offset + len - 1) >> PAGE_SHIFT];

	lockdep_assert_held(&odp->lock);
	for (; block <= last; block++)
		if (!*block)
			return false;
	return true;
}

enum xiw_mem_fault xiw_odp_enter(struct xiw_mr *mr, struct xiw_accessor *by, u64 addr, u64 len)
{
	u64 offset = xiw_mr_offset(mr, addr);

	lockdep_assert(in_softirq());
	/*
	 * A writer is about to remove pages or to add some, so the access is put off as if its
	 * pages were missing. It must not wait here. Within one host, this thread may already hold
	 * the lock for the source when it enters the sink, and both may be in one region. If locks
	 * are fair, as with PREEMPT_RT, a writer that comes in between would wait for the first
	 * hold, and the second attempt would wait for the writer.
	 */
	if (!read_trylock(&mr->odp->lock))
		return odp_miss(mr, by, addr, offset, len);
	if (likely(odp_knows(mr->odp, offset, len))) {
		odp_found(by, mr, addr, len);
		__release(&mr->odp->lock);	/* for sparse: xiw_odp_leave() unlocks it */
		return XIW_MEM_OK;
	}
	read_unlock(&mr->odp->lock);
	return odp_miss(mr, by, addr, offset, len);
}

void xiw_odp_leave(struct xiw_mr *mr)
{
	__acquire(&mr->odp->lock);
	read_unlock(&mr->odp->lock);
}

/*
 * Life
 */

int xiw_odp_attach(struct xiw_mr *mr, u64 start, u64 len)
{
	unsigned long end;
	struct xiw_odp *odp;
	int ret = -ENOMEM;

	if (!len || check_add_overflow((unsigned long)start, (unsigned long)len, &end) ||
	    PAGE_ALIGN(end) < end)
		return -EINVAL;
	odp = kzalloc_obj(*odp, XIW_GFP_PROCESS);
	if (!odp)
		return ret;
	kref_init(&odp->ref);
	rwlock_init(&odp->lock);
	odp->writable = ib_access_writable(mr->access);
	odp->start = PAGE_ALIGN_DOWN(start);
	odp->num = (PAGE_ALIGN(end) - odp->start) >> PAGE_SHIFT;
	odp->blocks = kvcalloc(odp->num, sizeof(*odp->blocks), XIW_GFP_PROCESS);
	if (odp->blocks)
		ret = mmu_interval_notifier_insert(&odp->notifier, current->mm, odp->start,
						   odp->num << PAGE_SHIFT, &odp_notifier_ops);
	if (ret) {
		kvfree(odp->blocks);
		kfree(odp);
		return ret;
	}
	mr->odp = odp;
	mr->blocks = odp->blocks;
	mr->block_shift = PAGE_SHIFT;
	mr->offset = start - odp->start;
	return 0;
}

static void odp_free(struct kref *ref)
{
	struct xiw_odp *odp = container_of(ref, struct xiw_odp, ref);

	mmu_interval_notifier_remove(&odp->notifier);
	kvfree(odp->blocks);
	kfree(odp);
}

void xiw_odp_get(struct xiw_odp *odp)
{
	kref_get(&odp->ref);
}

void xiw_odp_put(struct xiw_odp *odp)
{
	kref_put(&odp->ref, odp_free);
}

int xiw_odp_init(void)
{
	odp_wq = alloc_workqueue("xiw_odp", WQ_UNBOUND, 0);
	return odp_wq ? 0 : -ENOMEM;
}

void xiw_odp_exit(void)
{
	destroy_workqueue(odp_wq);
}
