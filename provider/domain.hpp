/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* domain.hpp - protection domains, thread domains, and parent domains, which join one of each */
#ifndef XIW_DOMAIN_HPP
#define XIW_DOMAIN_HPP

#include <atomic>
#include <utility>

#include "rdma_core.hpp"

namespace xiw
{

/* A promise of the program: what belongs to it is used by one thread at a time. */
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
	friend class Domain;

	ibv_td td_ = {};
	std::atomic<unsigned int> parents_ = 0;
};

/*
 * To the kernel a parent domain is the protection domain that it contains, so what was made in
 * it is counted here. What was made in a protection domain is counted by the kernel.
 */
class Domain
{
public:
	static Domain &from(ibv_pd *pd) noexcept { return *reinterpret_cast<Domain *>(pd); }

	static ibv_pd *create(ibv_context *context) noexcept;
	static ibv_pd *create_parent(ibv_context *context,
				     ibv_parent_domain_init_attr *attr) noexcept;
	static int destroy(ibv_pd *pd) noexcept;

	/* One that another context of the same device file made, and will destroy. */
	static ibv_pd *import(ibv_context *context, std::uint32_t handle) noexcept;
	static void unimport(ibv_pd *pd) noexcept;

	/* Whether what is made in it needs no locks. */
	bool is_single_threaded() const noexcept { return thread_; }

private:
	friend class DomainUse;

	ibv_pd pd_ = {};
	Domain *contained_ = nullptr;	 /* of a parent domain only */
	ThreadDomain *thread_ = nullptr; /* of a parent domain, if it has one */
	std::atomic<unsigned int> parents_ = 0;
	std::atomic<unsigned int> users_ = 0; /* of a parent domain only */
};

/* That one object was made in a parent domain, if it was, for as long as the object lives. */
class DomainUse
{
public:
	DomainUse() = default;

	explicit DomainUse(ibv_pd *pd) noexcept
		: parent_(Domain::from(pd).contained_ ? &Domain::from(pd) : nullptr)
	{
		if (parent_)
			parent_->users_++;
	}

	DomainUse &operator=(DomainUse &&other) noexcept
	{
		std::swap(parent_, other.parent_);
		return *this;
	}

	~DomainUse()
	{
		if (parent_)
			parent_->users_--;
	}

private:
	Domain *parent_ = nullptr;
};

static_assert(std::is_standard_layout_v<ThreadDomain>, "starts with its ibv_td");
static_assert(std::is_standard_layout_v<Domain>, "starts with its ibv_pd");

} /* namespace xiw */

#endif /* XIW_DOMAIN_HPP */
