// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider.cpp - the entry points that libibverbs calls, and how it finds this provider */

#include <cstddef>
#include <cstdint>

#include "completion_queue.hpp"
#include "context.hpp"
#include "device_memory.hpp"
#include "domain.hpp"
#include "memory_region.hpp"
#include "memory_window.hpp"
#include "object.hpp"
#include "queue_pair.hpp"
#include "shared_receive_queue.hpp"

using namespace xiw;

extern "C" {

/*
 * Each entry point has the name of its field in verbs_context_ops and only forwards its
 * arguments: to a member function of the object that it acts on, or to a static function if it
 * makes an object, ends one, or acts on none. The functions that libibverbs calls through an
 * object (ibv_cq_ex, ibv_qp_ex, ibv_dm) are set where the object is made.
 */

static int advise_mr(ibv_pd *pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge *list,
		     std::uint32_t num) noexcept
{
	return MemoryRegion::advise(pd, advice, flags, list, num);
}

static ibv_dm *alloc_dm(ibv_context *context, ibv_alloc_dm_attr *attr) noexcept
{
	return DeviceMemory::create(context, attr);
}

static ibv_mw *alloc_mw(ibv_pd *pd, ibv_mw_type type) noexcept
{
	return MemoryWindow::create(pd, type);
}

static ibv_pd *alloc_parent_domain(ibv_context *context, ibv_parent_domain_init_attr *attr) noexcept
{
	return ProtectionDomain::create_parent(context, attr);
}

static ibv_pd *alloc_pd(ibv_context *context) noexcept
{
	return ProtectionDomain::create(context);
}

static ibv_td *alloc_td(ibv_context *context, ibv_td_init_attr *attr) noexcept
{
	return ThreadDomain::create(context, attr);
}

static int bind_mw(ibv_qp *qp, ibv_mw *mw, ibv_mw_bind *bind) noexcept
{
	return MemoryWindow::from(mw).bind(qp, bind);
}

static ibv_cq *create_cq(ibv_context *context, int cqe, ibv_comp_channel *channel,
			 int comp_vector) noexcept
{
	return CompletionQueue::create(context, cqe, channel, comp_vector);
}

static ibv_cq_ex *create_cq_ex(ibv_context *context, ibv_cq_init_attr_ex *attr) noexcept
{
	return CompletionQueue::create_extended(context, attr);
}

static ibv_qp *create_qp(ibv_pd *pd, ibv_qp_init_attr *attr) noexcept
{
	return QueuePair::create(pd, attr);
}

static ibv_qp *create_qp_ex(ibv_context *context, ibv_qp_init_attr_ex *attr) noexcept
{
	return QueuePair::create_extended(context, attr);
}

static ibv_srq *create_srq(ibv_pd *pd, ibv_srq_init_attr *attr) noexcept
{
	return SharedReceiveQueue::create(pd, attr);
}

static int dealloc_mw(ibv_mw *mw) noexcept
{
	return MemoryWindow::destroy(mw);
}

static int dealloc_pd(ibv_pd *pd) noexcept
{
	return ProtectionDomain::destroy(pd);
}

static int dealloc_td(ibv_td *td) noexcept
{
	return ThreadDomain::destroy(td);
}

static int dereg_mr(verbs_mr *vmr) noexcept
{
	return MemoryRegion::destroy(vmr);
}

static int destroy_cq(ibv_cq *cq) noexcept
{
	return CompletionQueue::destroy(cq);
}

static int destroy_qp(ibv_qp *qp) noexcept
{
	return QueuePair::destroy(qp);
}

static int destroy_srq(ibv_srq *srq) noexcept
{
	return SharedReceiveQueue::destroy(srq);
}

static void free_context(ibv_context *context) noexcept
{
	Context::close(context);
}

static int free_dm(ibv_dm *dm) noexcept
{
	return DeviceMemory::destroy(dm);
}

static ibv_dm *import_dm(ibv_context *context, std::uint32_t handle) noexcept
{
	return DeviceMemory::import(context, handle);
}

static ibv_mr *import_mr(ibv_pd *pd, std::uint32_t handle) noexcept
{
	return MemoryRegion::import(pd, handle);
}

static ibv_pd *import_pd(ibv_context *context, std::uint32_t handle) noexcept
{
	return ProtectionDomain::import(context, handle);
}

static int modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask) noexcept
{
	return QueuePair::from(qp).modify(attr, mask);
}

static int modify_srq(ibv_srq *srq, ibv_srq_attr *attr, int mask) noexcept
{
	return SharedReceiveQueue::from(srq).modify(attr, mask);
}

static int poll_cq(ibv_cq *cq, int max, ibv_wc *wc) noexcept
{
	return CompletionQueue::from(cq).poll(max, wc);
}

static int post_recv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad) noexcept
{
	return QueuePair::from(qp).post_recv(wr, bad);
}

static int post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad) noexcept
{
	return QueuePair::from(qp).post_send(wr, bad);
}

static int post_srq_recv(ibv_srq *srq, ibv_recv_wr *wr, ibv_recv_wr **bad) noexcept
{
	return SharedReceiveQueue::from(srq).post_recv(wr, bad);
}

static int query_device_ex(ibv_context *context, const ibv_query_device_ex_input *input,
			   ibv_device_attr_ex *attr, std::size_t attr_size) noexcept
{
	return Context::query_device_ex(context, input, attr, attr_size);
}

static int query_port(ibv_context *context, std::uint8_t port, ibv_port_attr *attr) noexcept
{
	return Context::query_port(context, port, attr);
}

static int query_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask, ibv_qp_init_attr *init_attr) noexcept
{
	return QueuePair::from(qp).query(attr, mask, init_attr);
}

static int query_rt_values(ibv_context *context, ibv_values_ex *values) noexcept
{
	return Context::query_rt_values(context, values);
}

static int query_srq(ibv_srq *srq, ibv_srq_attr *attr) noexcept
{
	return SharedReceiveQueue::from(srq).query(attr);
}

static ibv_mr *reg_dm_mr(ibv_pd *pd, ibv_dm *dm, std::uint64_t offset, std::size_t length,
			 unsigned int access) noexcept
{
	return MemoryRegion::create_dm(pd, dm, offset, length, access);
}

static ibv_mr *reg_dmabuf_mr(ibv_pd *pd, std::uint64_t offset, std::size_t length,
			     std::uint64_t iova, int fd, int access) noexcept
{
	return MemoryRegion::create_dmabuf(pd, offset, length, iova, fd, access);
}

static ibv_mr *reg_mr(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova,
		      int access) noexcept
{
	return MemoryRegion::create(pd, addr, length, iova, access);
}

static int req_notify_cq(ibv_cq *cq, int solicited_only) noexcept
{
	return CompletionQueue::from(cq).request_notification(solicited_only);
}

static int resize_cq(ibv_cq *cq, int cqe) noexcept
{
	return CompletionQueue::from(cq).resize(cqe);
}

static int rereg_mr(verbs_mr *vmr, int flags, ibv_pd *pd, void *addr, std::size_t length,
		    int access) noexcept
{
	return MemoryRegion::from(vmr).modify(flags, pd, addr, length, access);
}

static void unimport_dm(ibv_dm *dm) noexcept
{
	DeviceMemory::unimport(dm);
}

static void unimport_mr(ibv_mr *mr) noexcept
{
	MemoryRegion::unimport(mr);
}

static void unimport_pd(ibv_pd *pd) noexcept
{
	ProtectionDomain::unimport(pd);
}

static const verbs_context_ops context_ops = {
	.advise_mr = advise_mr,
	.alloc_dm = alloc_dm,
	.alloc_mw = alloc_mw,
	.alloc_parent_domain = alloc_parent_domain,
	.alloc_pd = alloc_pd,
	.alloc_td = alloc_td,
	.bind_mw = bind_mw,
	.create_cq = create_cq,
	.create_cq_ex = create_cq_ex,
	.create_qp = create_qp,
	.create_qp_ex = create_qp_ex,
	.create_srq = create_srq,
	.dealloc_mw = dealloc_mw,
	.dealloc_pd = dealloc_pd,
	.dealloc_td = dealloc_td,
	.dereg_mr = dereg_mr,
	.destroy_cq = destroy_cq,
	.destroy_qp = destroy_qp,
	.destroy_srq = destroy_srq,
	.free_context = free_context,
	.free_dm = free_dm,
	.import_dm = import_dm,
	.import_mr = import_mr,
	.import_pd = import_pd,
	.modify_qp = modify_qp,
	.modify_srq = modify_srq,
	.poll_cq = poll_cq,
	.post_recv = post_recv,
	.post_send = post_send,
	.post_srq_recv = post_srq_recv,
	.query_device_ex = query_device_ex,
	.query_port = query_port,
	.query_qp = query_qp,
	.query_rt_values = query_rt_values,
	.query_srq = query_srq,
	.reg_dm_mr = reg_dm_mr,
	.reg_dmabuf_mr = reg_dmabuf_mr,
	.reg_mr = reg_mr,
	.req_notify_cq = req_notify_cq,
	.rereg_mr = rereg_mr,
	.resize_cq = resize_cq,
	.unimport_dm = unimport_dm,
	.unimport_mr = unimport_mr,
	.unimport_pd = unimport_pd,
};

static verbs_context *alloc_context(ibv_device *device, int cmd_fd, void *) noexcept
{
	return Context::open(device, cmd_fd, context_ops);
}

static verbs_context *import_context(ibv_device *device, int cmd_fd) noexcept
{
	return Context::import(device, cmd_fd, context_ops);
}

static verbs_device *alloc_device(verbs_sysfs_dev *) noexcept
{
	return make_object<verbs_device>().release();
}

static void uninit_device(verbs_device *device) noexcept
{
	delete device;
}

} /* extern "C" */

/* Matches the driver's number, because the administrator may give a device any name. */
static const verbs_match_ent match_table[] = {
	{ .u = { .driver_id = XIW_DRIVER_ID }, .kind = VERBS_MATCH_DRIVER_ID },
	{ .kind = VERBS_MATCH_SENTINEL },
};

static const verbs_device_ops device_ops = {
	.name = "xiw",
	.match_min_abi_version = XIW_ABI_VERSION,
	.match_max_abi_version = XIW_ABI_VERSION,
	.match_table = match_table,
	.alloc_context = alloc_context,
	.import_context = import_context,
	.alloc_device = alloc_device,
	.uninit_device = uninit_device,
};

[[gnu::constructor]] static void register_driver()
{
	verbs_register_driver(&device_ops);
}
