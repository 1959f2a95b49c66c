// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* domain.cpp - protection domains, thread domains, and parent domains, which join one of each */

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
	if (from(td).parents_)
		return EBUSY;
	delete &from(td);
	return 0;
}

ibv_pd *Domain::create(ibv_context *context) noexcept
{
	Request<struct ibv_alloc_pd, ib_uverbs_alloc_pd> request;
	ib_uverbs_alloc_pd_resp answer;

	auto domain = make_object<Domain>();
	if (!domain)
		return nullptr;
	if (int err = ibv_cmd_alloc_pd(context, &domain->pd_, request.get(), sizeof(request),
				       &answer, sizeof(answer)))
		return fail(err);
	return &domain.release()->pd_;
}

/* No errors: the kernel sees the handle when it is first used. */
ibv_pd *Domain::import(ibv_context *context, std::uint32_t handle) noexcept
{
	auto domain = make_object<Domain>();
	if (!domain)
		return nullptr;
	domain->pd_.context = context;
	domain->pd_.handle = handle;
	return &domain.release()->pd_;
}

void Domain::unimport(ibv_pd *pd) noexcept
{
	delete &from(pd);
}

/*
 * The program's own allocators cannot be used: the memory of queues comes from
 * the kernel. What they would be told (pd_context) does not matter then.
 */
ibv_pd *Domain::create_parent(ibv_context *, ibv_parent_domain_init_attr *attr) noexcept
{
	constexpr std::uint32_t allocators = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	constexpr std::uint32_t known = allocators | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;

	if (ibv_check_alloc_parent_domain(attr))
		return nullptr;
	if (attr->comp_mask & ~known)
		return fail(EINVAL);
	if (attr->comp_mask & allocators)
		return fail(EOPNOTSUPP);

	auto domain = make_object<Domain>();
	if (!domain)
		return nullptr;
	ibv_initialize_parent_domain(&domain->pd_, attr->pd);
	domain->contained_ = &from(attr->pd);
	domain->contained_->parents_++;
	if (attr->td) {
		domain->thread_ = &ThreadDomain::from(attr->td);
		domain->thread_->parents_++;
	}
	return &domain.release()->pd_;
}

int Domain::destroy(ibv_pd *pd) noexcept
{
	Domain &domain = from(pd);

	if (domain.parents_ || domain.users_)
		return EBUSY;
	if (domain.contained_) {
		domain.contained_->parents_--;
		if (domain.thread_)
			domain.thread_->parents_--;
	} else if (int err = ibv_cmd_dealloc_pd(pd)) {
		return err;
	}
	delete &domain;
	return 0;
}

} /* namespace xiw */
