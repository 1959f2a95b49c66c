// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* dmabuf.c - registers memory that another driver has exported */

#include <linux/dma-buf.h>
#include <linux/module.h>
#include <linux/overflow.h>

#include "mem/mem.h"

MODULE_IMPORT_NS("DMA_BUF");

/*
 * The device has no DMA, so the exporter is asked for a kernel mapping, which stays at the same
 * address until it is released. CPU access begins and ends with the mapping.
 */
static int dmabuf_map(struct xiw_mr *mr, struct dma_buf *dmabuf)
{
	int ret;

	ret = dma_buf_begin_cpu_access(dmabuf, DMA_BIDIRECTIONAL);
	if (ret)
		return ret;
	ret = dma_buf_vmap_unlocked(dmabuf, &mr->mapping);
	if (ret)
		goto unmapped;
	if (mr->mapping.is_iomem) {	/* memcpy() must not be used on it */
		ret = -EOPNOTSUPP;
		goto unfit;
	}
	return 0;

unfit:
	dma_buf_vunmap_unlocked(dmabuf, &mr->mapping);
unmapped:
	dma_buf_end_cpu_access(dmabuf, DMA_BIDIRECTIONAL);
	return ret;
}

/* A file that was opened read-only grants no right to write. */
static int dmabuf_judge(const struct dma_buf *dmabuf, u64 offset, u64 len, int access)
{
	u64 end;

	if (!len || check_add_overflow(offset, len, &end) || end > dmabuf->size)
		return -EINVAL;
	return ib_access_writable(access) && !(dmabuf->file->f_mode & FMODE_WRITE) ? -EACCES : 0;
}

/* On success @mr owns the mapping and the reference to the exported memory. */
static int dmabuf_import(struct xiw_mr *mr, int fd, u64 offset, u64 len)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);
	int ret;

	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	ret = dmabuf_judge(dmabuf, offset, len, mr->access);
	if (!ret)
		ret = dmabuf_map(mr, dmabuf);
	if (ret)
		dma_buf_put(dmabuf);
	else
		mr->dmabuf = dmabuf;
	return ret;
}

/**
 * xiw_mr_reg_dmabuf - ibv_reg_dmabuf_mr()
 * @pd: protection domain
 * @offset: offset of the first byte in the exported memory
 * @len: length in bytes
 * @iova: address of the first byte, for work requests and the peer
 * @fd: file descriptor of the memory in this process
 * @access: enum ib_access_flags
 * @dmah: NULL, because this device creates no DMA handles
 * @attrs: unused
 *
 * Return: the region or an ERR_PTR(); -EACCES if @access asks for more than the file allows;
 * -EOPNOTSUPP if the CPU cannot map the memory.
 */
struct ib_mr *xiw_mr_reg_dmabuf(struct ib_pd *pd, u64 offset, u64 len, u64 iova, int fd,
				int access, struct ib_dmah *dmah, struct uverbs_attr_bundle *attrs)
{
	struct xiw_mr *mr = xiw_mem_alloc(pd, IB_MR_TYPE_USER, access);
	int ret;

	if (IS_ERR(mr))
		return ERR_CAST(mr);
	ret = dmabuf_import(mr, fd, offset, len);
	if (!ret)
		ret = xiw_mem_use_row(mr, mr->mapping.vaddr, offset, len);
	if (ret) {
		xiw_mem_free(mr);
		return ERR_PTR(ret);
	}
	mr->iova = iova;
	mr->valid = true;
	ret = xiw_mem_publish(mr);
	return ret ? ERR_PTR(ret) : &mr->ibmr;
}
