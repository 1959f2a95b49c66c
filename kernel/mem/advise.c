// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* advise.c - ibv_advise_mr(): fetches pages of an on-demand region before they are needed */

#include "mem/mem.h"
#include "mem/odp.h"

/* Return: the pages of the region that @sge names, with a reference, or an ERR_PTR(). */
static struct xiw_odp *advise_find(struct ib_pd *pd, const struct ib_sge *sge, bool write,
				   u64 *offset)
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
	} else if (mr->ibmr.pd != pd || (write && !ib_access_writable(mr->access))) {
		odp = ERR_PTR(-EPERM);
	} else if (sge->length && xiw_mr_judge_range(mr, sge->addr, sge->length)) {
		odp = ERR_PTR(-EFAULT);
	} else {
		xiw_odp_get(odp);
		*offset = xiw_mr_offset(mr, sge->addr);
	}
	xiw_mr_drop(mr);
	return odp;
}

static int advise_sge(struct ib_pd *pd, const struct ib_sge *sge, bool write,
			  unsigned int flags)
{
	struct xiw_odp *odp;
	int ret = 0;
	u64 offset;

	odp = advise_find(pd, sge, write, &offset);
	if (IS_ERR(odp))
		return PTR_ERR(odp);
	if (sge->length)
		ret = xiw_odp_fetch(odp, offset, sge->length, flags);
	xiw_odp_put(odp);
	return ret;
}

/**
 * xiw_advise_mr - ibv_advise_mr(): fetch pages before they are needed
 * @pd: protection domain
 * @advice: IB_UVERBS_ADVISE_MR_ADVICE_*
 * @flags: ignored; the call always waits until the pages have been fetched
 * @sg_list: the memory to be fetched
 * @num_sge: number of entries in @sg_list
 * @attrs: unused
 *
 * If the region grants any right to write, pages are fetched for writing, whatever the advice.
 *
 * Return: 0; -EOPNOTSUPP for unknown advice; -ENOENT for a bad lkey; -EINVAL if the lkey belongs to
 * a window or to a region whose pages are pinned; -EPERM for another protection domain, or if the
 * advice is to write and the region grants no right to write; -EFAULT for bytes outside of the
 * region or without pages; -EAGAIN if the process loses pages as fast as they are fetched; -EINTR.
 */
int xiw_advise_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
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
		ret = advise_sge(pd, &sg_list[i], write, gup_flags);
	return ret;
}
