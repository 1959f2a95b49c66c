// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* area.c - memory that a process shares with the kernel */

#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "device.h"
#include "queue/area.h"

static void area_free_pages(struct page **pages, unsigned int num)
{
	while (num--)
		__free_page(pages[num]);
	kvfree(pages);
}

/* vmalloc() is not used because it logs a warning when a process may not have more memory. */
static struct page **area_alloc_pages(unsigned int num)
{
	struct page **pages = kvcalloc(num, sizeof(*pages), XIW_GFP_PROCESS);
	unsigned int i;

	for (i = 0; pages && i < num; i++) {
		pages[i] = alloc_page(XIW_GFP_PROCESS | __GFP_ZERO);
		if (!pages[i]) {
			area_free_pages(pages, i);
			return NULL;
		}
		cond_resched();
	}
	return pages;
}

/* Return: zeroed pages that are contiguous in kernel addresses, to be freed by vfree(); or NULL. */
static void *area_alloc(size_t len)
{
	unsigned int num = len >> PAGE_SHIFT;
	struct page **pages = area_alloc_pages(num);
	void *mem;

	if (!pages)
		return NULL;
	mem = vmap(pages, num, VM_MAP | VM_MAP_PUT_PAGES, PAGE_KERNEL);
	if (!mem)
		area_free_pages(pages, num);
	return mem;
}

/* Kernel-doc of the functions that other files call is in area.h. */
struct xiw_area *xiw_area_create(size_t len, struct ib_ucontext *uctx)
{
	struct xiw_area *area;
	int ret;

	area = kzalloc_obj(*area, XIW_GFP_PROCESS);
	if (!area)
		return ERR_PTR(-ENOMEM);

	area->len = PAGE_ALIGN(len);
	area->mem = area_alloc(area->len);
	if (!area->mem) {
		ret = -ENOMEM;
		goto no_memory;
	}

	if (uctx) {
		ret = rdma_user_mmap_entry_insert(uctx, &area->entry, area->len);
		if (ret)
			goto no_entry;
	}
	return area;

no_entry:
	vfree(area->mem);
no_memory:
	kfree(area);
	return ERR_PTR(ret);
}

static void area_free(struct xiw_area *area)
{
	vfree(area->mem);
	kfree(area);
}

void xiw_area_destroy(struct xiw_area *area, struct ib_ucontext *uctx)
{
	if (uctx)
		rdma_user_mmap_entry_remove(&area->entry);
	else
		area_free(area);
}

void xiw_area_mmap_free(struct rdma_user_mmap_entry *entry)
{
	area_free(container_of(entry, struct xiw_area, entry));
}

/* The mapping holds the pages themselves, so it outlives the area and even the device. */
int xiw_area_mmap(struct ib_ucontext *uctx, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry;
	struct xiw_area *area;
	int ret = 0;
	size_t at;

	entry = rdma_user_mmap_entry_get(uctx, vma);
	if (!entry)
		return -EINVAL;

	area = container_of(entry, struct xiw_area, entry);
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	for (at = 0; !ret && at < area->len; at += PAGE_SIZE) {
		ret = vm_insert_page(vma, vma->vm_start + at, vmalloc_to_page(area->mem + at));
		cond_resched();
	}
	rdma_user_mmap_entry_put(entry);
	return ret;
}
