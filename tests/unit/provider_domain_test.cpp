// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_domain_test.cpp - protection, thread and parent domains, and their lifetimes */

#include <cerrno>

#include <gtest/gtest.h>

#include "domain.hpp"

using xiw::ProtectionDomain;
using xiw::ThreadDomain;

static int kernel_domains;

int ibv_cmd_alloc_pd(ibv_context *context, ibv_pd *pd, struct ibv_alloc_pd *, size_t,
		     ib_uverbs_alloc_pd_resp *, size_t)
{
	pd->context = context;
	pd->handle = 42;
	kernel_domains++;
	return 0;
}

int ibv_cmd_dealloc_pd(ibv_pd *)
{
	kernel_domains--;
	return 0;
}

namespace
{

struct DomainTest : testing::Test {
	DomainTest()
		: pd(ProtectionDomain::create(&context)),
		  td(ThreadDomain::create(&context, &td_attr))
	{
	}

	~DomainTest() override
	{
		EXPECT_EQ(ThreadDomain::destroy(td), 0);
		EXPECT_EQ(ProtectionDomain::destroy(pd), 0);
		EXPECT_EQ(kernel_domains, 0);
	}

	ibv_pd *create_parent(ibv_td *with)
	{
		ibv_parent_domain_init_attr attr = { .pd = pd, .td = with };

		return ProtectionDomain::create_parent(&context, &attr);
	}

	ibv_context context = {};
	ibv_td_init_attr td_attr = {};
	ibv_pd *pd;
	ibv_td *td;
};

TEST_F(DomainTest, create_parent__makes_no_domain_in_the_kernel)
{
	ibv_pd *parent = create_parent(nullptr);

	ASSERT_NE(parent, nullptr);
	EXPECT_EQ(parent->context, &context);
	EXPECT_EQ(parent->handle, 42u);
	EXPECT_EQ(kernel_domains, 1);
	EXPECT_EQ(ProtectionDomain::destroy(parent), 0);
	EXPECT_EQ(kernel_domains, 1);
}

TEST_F(DomainTest, create_parent__with_a_thread_domain_is_single_threaded)
{
	ibv_pd *plain = create_parent(nullptr), *threaded = create_parent(td);

	EXPECT_FALSE(ProtectionDomain::from(pd).is_single_threaded());
	EXPECT_FALSE(ProtectionDomain::from(plain).is_single_threaded());
	EXPECT_TRUE(ProtectionDomain::from(threaded).is_single_threaded());
	EXPECT_EQ(ProtectionDomain::destroy(plain), 0);
	EXPECT_EQ(ProtectionDomain::destroy(threaded), 0);
}

TEST_F(DomainTest, destroy__is_refused_while_a_parent_contains_it)
{
	ibv_pd *first = create_parent(td), *second = create_parent(td);

	EXPECT_EQ(ProtectionDomain::destroy(pd), EBUSY);
	EXPECT_EQ(ThreadDomain::destroy(td), EBUSY);
	EXPECT_EQ(ProtectionDomain::destroy(first), 0);
	EXPECT_EQ(ProtectionDomain::destroy(pd), EBUSY);
	EXPECT_EQ(ThreadDomain::destroy(td), EBUSY);
	EXPECT_EQ(ProtectionDomain::destroy(second), 0);
}

TEST_F(DomainTest, destroy__is_refused_while_an_object_is_in_it)
{
	ibv_pd *parent = create_parent(td);
	{
		xiw::ParentDomainRef first(parent), none(pd);
		xiw::ParentDomainRef moved;

		EXPECT_EQ(ProtectionDomain::destroy(parent), EBUSY);
		moved = xiw::ParentDomainRef(parent);
		first = xiw::ParentDomainRef();
		EXPECT_EQ(ProtectionDomain::destroy(parent), EBUSY);
	}
	EXPECT_EQ(ProtectionDomain::destroy(parent), 0);
}

TEST_F(DomainTest, unimport__does_not_deallocate_the_domain)
{
	ibv_pd *imported = ProtectionDomain::import(&context, 42);

	ASSERT_NE(imported, nullptr);
	EXPECT_EQ(imported->context, &context);
	EXPECT_EQ(imported->handle, 42u);
	ProtectionDomain::unimport(imported);
	EXPECT_EQ(kernel_domains, 1);
}

TEST_F(DomainTest, create_parent__refuses_bad_attributes)
{
	ibv_parent_domain_init_attr attr = {};

	EXPECT_EQ(ProtectionDomain::create_parent(&context, &attr), nullptr)
		<< "no protection domain";
	EXPECT_EQ(errno, EINVAL);
	attr.pd = pd;
	attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	EXPECT_EQ(ProtectionDomain::create_parent(&context, &attr), nullptr) << "allocators";
	EXPECT_EQ(errno, EOPNOTSUPP);
	attr.comp_mask = 1 << 20;
	EXPECT_EQ(ProtectionDomain::create_parent(&context, &attr), nullptr) << "unknown bit";
	EXPECT_EQ(errno, EINVAL);
	td_attr.comp_mask = 1;
	EXPECT_EQ(ThreadDomain::create(&context, &td_attr), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

} /* namespace */
