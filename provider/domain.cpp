// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* domain.cpp - protection domains, thread domains, and parent domains, which combine the two */

#include "domain.hpp"

#include "object.hpp"

namespace xiw
{

ibv_td *ThreadDomain::create(ibv_context *context, ibv_td_init_attr *attr) noexcept
{
	if (attr->comp_mask)
		return fail(EINVAL);

	auto domain = make_object<ThreadDomain>();
	if (!domain)
		return nullptr;
	domain->td_.context = context;
	return &domain.release()->td_;
}

int ThreadDomain::destroy(ibv_td *td) noexcept
{
	if (from(td).num_parents_)
		return EBUSY;
	delete &from(td);
	return 0;
}

ibv_pd *ProtectionDomain::create(ibv_context *context) noexcept
{
	Request<struct ibv_alloc_pd, ib_uverbs_alloc_pd> request;
	ib_uverbs_alloc_pd_resp response;

	auto domain = make_object<ProtectionDomain>();
	if (!domain)
		return nullptr;
	if (int err = ibv_cmd_alloc_pd(context, &domain->pd_, request.get(), sizeof(request),
				       &response, sizeof(response)))
		return fail(err);
	return &domain.release()->pd_;
}

/* Does not ask the kernel: a wrong handle fails when it is first used. */
ibv_pd *ProtectionDomain::import(ibv_context *context, std::uint32_t handle) noexcept
{
	auto domain = make_object<ProtectionDomain>();
	if (!domain)
		return nullptr;
	domain->pd_.context = context;
	domain->pd_.handle = handle;
	return &domain.release()->pd_;
}

void ProtectionDomain::unimport(ibv_pd *pd) noexcept
{
	delete &from(pd);
}

/*
 * Allocators of the program are refused, because the memory of the queues comes from the kernel.
 * pd_context is an argument for the allocators, so it is accepted and ignored.
 */
ibv_pd *ProtectionDomain::create_parent(ibv_context *, ibv_parent_domain_init_attr *attr) noexcept
{
	constexpr std::uint32_t allocators = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	constexpr std::uint32_t known = allocators | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

	if (ibv_check_alloc_parent_domain(attr))
		return nullptr;
	if (attr->comp_mask & ~known)
		return fail(EINVAL);
	if (attr->comp_mask & allocators)
		return fail(EOPNOTSUPP);

	auto domain = make_object<ProtectionDomain>();
	if (!domain)
		return nullptr;
	ibv_initialize_parent_domain(&domain->pd_, attr->pd);
	domain->contained_pd_ = &from(attr->pd);
	domain->contained_pd_->num_parents_++;
	if (attr->td) {
		domain->contained_td_ = &ThreadDomain::from(attr->td);
		domain->contained_td_->num_parents_++;
	}
	return &domain.release()->pd_;
}

int ProtectionDomain::destroy(ibv_pd *pd) noexcept
{
	ProtectionDomain &domain = from(pd);

	if (domain.num_parents_ || domain.num_objects_)
		return EBUSY;
	if (domain.contained_pd_) {
		domain.contained_pd_->num_parents_--;
		if (domain.contained_td_)
			domain.contained_td_->num_parents_--;
	} else if (int err = ibv_cmd_dealloc_pd(pd)) {
		return err;
	}
	delete &domain;
	return 0;
}

} /* namespace xiw */
