// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* odp.c - on-demand paging: regions that know their pages only while the process has them */

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
#include "ep.h"
#include "mem.h"
#include "odp.h"
#include "pause.h"
#include "qp.h"
#include "worker.h"

/* Pages that are fetched or forgotten at a time. */
#define ODP_BATCH	64UL

/* How often pages are fetched again that the process has lost meanwhile. */
#define ODP_TRIES	16

/**
 * struct xiw_odp - the pages of a region on demand
 * @notifier: hears when the process is about to lose pages, or the right to write them
 * @ref: one for the region, one for each fetch under way
 * @lock: see Locking in qp.h; guards the entries of @blocks
 * @writable: a page is known only while it can be written
 * @start: address of the first page in the process
 * @num: pages
 * @blocks: where they are in the kernel's space, 0 for what is not known
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
 * struct xiw_fetch - gets pages for one direction of a queue pair
 * @work: does so. Pages of a file come when its owner likes: the queue pair may end meanwhile
 * @ref: one for the accessor, one for @work under way
 * @busy: @work is under way, and has what follows, but for @by
 * @odp: whose pages, with a reference
 * @place: where they are, in octets from the first page of @odp
 * @len: octets
 * @lock: guards what follows, and the end of @busy; leaf, any context
 * @by: who is resumed; NULL if its queue pair ends
 * @orphan: it was under way then, and counts as one of odp_orphans
 */
struct xiw_fetch {
	struct work_struct	work;
	struct kref		ref;
	bool			busy;
	struct xiw_odp		*odp;
	u64			place;
	u64			len;
	spinlock_t		lock;
	struct xiw_accessor	*by;
	bool			orphan;
};

/* A failed fetch has the misses of others put off, by so much, until the second one. */
#define ODP_PUT_OFF	2
#define ODP_PAUSE_MS	10

/*
 * Fetches whose queue pairs have ended. They count against nobody any more, and take places in the
 * workqueue that others want; so if there are too many, a queue pair waits for its own.
 */
#define ODP_ORPHANS	64

static atomic_t odp_orphans = ATOMIC_INIT(0);
static struct workqueue_struct *odp_wq;

/*
 * The process loses pages
 */

/*
 * A page that is fetched to be written is dirty by that, and before the mm makes it clean again it
 * says so here: there is nothing to be done for a page that was written.
 */
static bool odp_invalidate(struct mmu_interval_notifier *notifier,
			   const struct mmu_notifier_range *range, unsigned long seq)
{
	struct xiw_odp *odp = container_of(notifier, struct xiw_odp, notifier);
	unsigned long at = max(range->start, odp->start);
	unsigned long end = min(range->end, odp->start + (odp->num << PAGE_SHIFT));
	unsigned long n;

	write_lock_bh(&odp->lock);	/* accesses under way are over */
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

/* Return: how many pages from the first one on are known now; -EAGAIN; or another errno. */
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
	/* From here on it is the notifier that keeps them. */
	release_pages(pages, got);
	return stale ? -EAGAIN : got;
}

/*
 * Fetches all pages in which @len octets from @place on are. With FOLL_NOFAULT those that the
 * process has, without an error for those that it has not. Pages may be lost again at once: -EAGAIN
 * if that happens over and over.
 */
static int odp_fetch(struct xiw_odp *odp, u64 place, u64 len, unsigned int flags)
{
	unsigned long at = place >> PAGE_SHIFT;
	unsigned long end = ((place + len - 1) >> PAGE_SHIFT) + 1;
	unsigned int tries = 0;
	long ret = 0;

	if (!mmget_not_zero(odp->notifier.mm))
		return -EFAULT;		/* the process has gone */
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

/* What follows will be accessed next, more often than not: as far as the process has it. */
static void odp_fetch_ahead(struct xiw_odp *odp, u64 place)
{
	unsigned long next = PFN_UP(place);

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

/* Return: the accessor that waits for @fetch, with a reference to its queue pair, or NULL. */
static struct xiw_accessor *fetch_end(struct xiw_fetch *fetch, bool failed)
{
	struct xiw_accessor *by;
	unsigned long flags;

	spin_lock_irqsave(&fetch->lock, flags);
	by = fetch->by;
	if (by) {
		xiw_qp_get(to_xiw_qp(by->ibqp));
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
	struct xiw_qp *qp;
	int ret;

	xiw_pause("odp_fetch");
	ret = odp_fetch(odp, fetch->place, fetch->len, 0);
	if (!ret)
		odp_fetch_ahead(odp, fetch->place + fetch->len);
	by = fetch_end(fetch, ret && ret != -EAGAIN);	/* the access has that tried again */
	if (by) {
		qp = to_xiw_qp(by->ibqp);
		by->resume(qp);
		xiw_qp_put(qp);
	}
	xiw_odp_put(odp);
	fetch_put(fetch);
}

/* Kernel-doc of what other files call is in odp.h. */
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

/* Return: whether @fetch may go on though nobody waits for it any more. */
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

static void odp_retry(struct xiw_accessor *by)
{
	struct xiw_qp *qp = to_xiw_qp(by->ibqp);

	if (by == &qp->tx_accessor || qp->loop)	/* there a run has the peer try again, too */
		xiw_worker_retry(qp);
	else if (!qp->rx.starved)	/* else it is tried again when that ends */
		xiw_ep_retry_rx(qp->ep, ODP_PAUSE_MS);
}

/* Whether this is the access that could not have its pages. */
static bool odp_has_failed(const struct xiw_accessor *by, const struct xiw_mr *mr, u64 addr)
{
	return READ_ONCE(by->failed) && by->stag == mr->stag && by->addr == addr;
}

/*
 * If this is the access that missed pages, they came all the same: what its fetch says is of no use
 * any more. A shorter one may begin at the same octet.
 */
static void odp_found(struct xiw_accessor *by, const struct xiw_mr *mr, u64 addr, u64 len)
{
	if (unlikely(by->stag == mr->stag && by->addr == addr && len >= by->fetch->len))
		by->stag = 0;
}

/*
 * The failure of a fetch is told to the access that asked for it, when that tries again. Two
 * accesses take turns in each direction: if the other one comes first it is put off, lest both ask
 * over and over. It goes on when it comes again, for the first may have found its pages after all.
 */
static enum xiw_mem_fault odp_miss(struct xiw_mr *mr, struct xiw_accessor *by, u64 addr, u64 place,
				   u64 len)
{
	struct xiw_fetch *fetch = by->fetch;

	if (smp_load_acquire(&fetch->busy))	/* pairs with fetch_end() */
		return XIW_MEM_ABSENT;
	if (odp_has_failed(by, mr, addr)) {
		by->failed = 0;
		return XIW_MEM_BAD_BOUNDS;
	}
	if (!by->stag)		/* an access that is over */
		by->failed = 0;
	if (by->failed && --by->failed) {
		odp_retry(by);
		return XIW_MEM_ABSENT;
	}
	by->stag = mr->stag;
	by->addr = addr;
	kref_get(&mr->odp->ref);
	kref_get(&fetch->ref);
	fetch->odp = mr->odp;
	fetch->place = place;
	fetch->len = len;
	fetch->busy = true;
	xiw_stat_inc(to_xiw_device(by->ibqp->device), XIW_STAT_PAGE_FETCHES);
	queue_work(odp_wq, &fetch->work);
	return XIW_MEM_ABSENT;
}

static bool odp_knows(const struct xiw_odp *odp, u64 place, u64 len)
{
	const u64 *block = &odp->blocks[place >> PAGE_SHIFT];
	const u64 *last = &odp->blocks[(place + len - 1) >> PAGE_SHIFT];

	lockdep_assert_held(&odp->lock);
	for (; block <= last; block++)
		if (!*block)
			return false;
	return true;
}

enum xiw_mem_fault xiw_odp_enter(struct xiw_mr *mr, struct xiw_accessor *by, u64 addr, u64 len)
{
	u64 place = xiw_mr_place(mr, addr);

	lockdep_assert(in_softirq());
	/*
	 * A writer is about to take pages away, or to tell of more of them: the access is put
	 * off as if they had gone. It must not wait here, as on one host the source may be held
	 * already when the sink is entered, and be of the same region: where locks are fair, as
	 * with PREEMPT_RT, a writer between the two would wait for the first, and the second for
	 * the writer.
	 */
	if (!read_trylock(&mr->odp->lock))
		return odp_miss(mr, by, addr, place, len);
	if (likely(odp_knows(mr->odp, place, len))) {
		odp_found(by, mr, addr, len);
		__release(&mr->odp->lock);	/* sparse: the leave is elsewhere */
		return XIW_MEM_OK;
	}
	read_unlock(&mr->odp->lock);
	return odp_miss(mr, by, addr, place, len);
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

void xiw_odp_put(struct xiw_odp *odp)
{
	kref_put(&odp->ref, odp_free);
}

/*
 * Advice
 */

/* Return: the pages that @sge names, with a reference, or an ERR_PTR(). */
static struct xiw_odp *odp_advised(struct ib_pd *pd, const struct ib_sge *sge, bool write,
				   u64 *place)
{
	struct xiw_mr *mr = xiw_mr_hold(pd->device, sge->lkey, NULL);
	struct xiw_odp *odp;

	if (!mr)
		return ERR_PTR(-ENOENT);
	odp = mr->odp;
	if (!READ_ONCE(mr->valid) || READ_ONCE(mr->stag) != sge->lkey) {
		odp = ERR_PTR(-ENOENT);
	} else if (!odp || mr->window) {
		odp = ERR_PTR(-EINVAL);
	} else if (mr->ibmr.pd != pd || (write && !odp->writable)) {
		odp = ERR_PTR(-EPERM);
	} else if (sge->length && xiw_mr_judge_range(mr, sge->addr, sge->length)) {
		odp = ERR_PTR(-EFAULT);
	} else {
		kref_get(&odp->ref);
		*place = xiw_mr_place(mr, sge->addr);
	}
	xiw_mr_drop(mr);
	return odp;
}

static int odp_advise_sge(struct ib_pd *pd, const struct ib_sge *sge, bool write,
			  unsigned int flags)
{
	struct xiw_odp *odp;
	int ret = 0;
	u64 place;

	odp = odp_advised(pd, sge, write, &place);
	if (IS_ERR(odp))
		return PTR_ERR(odp);
	if (sge->length)
		ret = odp_fetch(odp, place, sge->length, flags);
	xiw_odp_put(odp);
	return ret;
}

/**
 * xiw_odp_advise - ibv_advise_mr(): fetch pages before they are needed
 * @pd: protection domain
 * @advice: IB_UVERBS_ADVISE_MR_ADVICE_*
 * @flags: whether to wait for the end, which is done anyway
 * @sg_list: which octets
 * @num_sge: entries of it
 * @attrs: unused
 *
 * Pages of a region that grants a right to write are fetched to be written, whatever the advice.
 *
 * Return: 0; -EOPNOTSUPP for unknown advice; -ENOENT for a bad lkey; -EINVAL for one of a window or
 * of a region whose pages are pinned; -EPERM for another domain, or for a region without a right to
 * write if that is what the advice is about; -EFAULT for octets outside of the region or without
 * pages; -EAGAIN if the process loses them as fast as they are fetched; -EINTR.
 */
int xiw_odp_advise(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		   struct ib_sge *sg_list, u32 num_sge, struct uverbs_attr_bundle *attrs)
{
	unsigned int gup_flags = 0;
	bool write = false;
	int ret = 0;
	u32 i;

	switch (advice) {
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH:
		break;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE:
		write = true;
		break;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT:
		gup_flags = FOLL_NOFAULT;
		break;
	default:
		return -EOPNOTSUPP;
	}
	for (i = 0; i < num_sge && !ret; i++)
		ret = odp_advise_sge(pd, &sg_list[i], write, gup_flags);
	return ret;
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
