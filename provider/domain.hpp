/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* domain.hpp - protection domains, thread domains, and parent domains, which combine the two */
#ifndef XIW_DOMAIN_HPP
#define XIW_DOMAIN_HPP

#include <atomic>
#include <cstdint>
#include <utility>

#include "rdma_core.hpp"

namespace xiw
{

/*
 * With a thread domain the program promises that only one thread at a time uses the objects in
 * it.
 */
class ThreadDomain
{
public:
	static ThreadDomain &from(ibv_td *td) noexcept
	{
		return *reinterpret_cast<ThreadDomain *>(td);
	}

	static ibv_td *create(ibv_context *context, ibv_td_init_attr *attr) noexcept;
	static int destroy(ibv_td *td) noexcept;

private:
	friend class ProtectionDomain;

	ibv_td td_ = {};
	std::atomic<unsigned int> num_parents_ = 0; /* parent domains that contain it */
};

/*
 * ProtectionDomain - a protection domain or a parent domain; libibverbs has one type for both
 *
 * The kernel knows nothing of parent domains: it sees the protection domain that a parent domain
 * contains. So the provider counts the objects in a parent domain, and refuses to destroy it while
 * there are any. The kernel does that for the objects in a protection domain.
 */
class ProtectionDomain
{
public:
	static ProtectionDomain &from(ibv_pd *pd) noexcept
	{
		return *reinterpret_cast<ProtectionDomain *>(pd);
	}

	static ibv_pd *create(ibv_context *context) noexcept;
	static ibv_pd *create_parent(ibv_context *context,
				     ibv_parent_domain_init_attr *attr) noexcept;
	static int destroy(ibv_pd *pd) noexcept;

	/* Another context of the same device file has made it, and will destroy it. */
	static ibv_pd *import(ibv_context *context, std::uint32_t handle) noexcept;
	static void unimport(ibv_pd *pd) noexcept;

	/* Returns whether the queues in it need no locks. */
	bool is_single_threaded() const noexcept { return contained_td_; }

private:
	friend class ParentDomainRef;

	ibv_pd pd_ = {};
	std::atomic<unsigned int> num_parents_ = 0; /* parent domains that contain it */
	/* used by parent domains only */
	ProtectionDomain *contained_pd_ = nullptr;
	ThreadDomain *contained_td_ = nullptr; /* nullptr if it was made without one */
	std::atomic<unsigned int> num_objects_ = 0;
};

/*
 * ParentDomainRef - counts one object in its parent domain for as long as the object lives
 *
 * It does nothing for an object that was made in a protection domain.
 */
class ParentDomainRef
{
public:
	ParentDomainRef() = default;

	explicit ParentDomainRef(ibv_pd *pd) noexcept
		: parent_(ProtectionDomain::from(pd).contained_pd_ ? &ProtectionDomain::from(pd)
								   : nullptr)
	{
		if (parent_)
			parent_->num_objects_++;
	}

	ParentDomainRef &operator=(ParentDomainRef &&other) noexcept
	{
		std::swap(parent_, other.parent_);
		return *this;
	}

	~ParentDomainRef()
	{
		if (parent_)
			parent_->num_objects_--;
	}

private:
	ProtectionDomain *parent_ = nullptr;
};

static_assert(std::is_standard_layout_v<ThreadDomain>, "starts with its ibv_td");
static_assert(std::is_standard_layout_v<ProtectionDomain>, "starts with its ibv_pd");

} /* namespace xiw */

#endif /* XIW_DOMAIN_HPP */
