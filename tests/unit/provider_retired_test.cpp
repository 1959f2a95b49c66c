// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_retired_test.cpp - which send queue a completion retires requests of, and how many */

#include <deque>

#include <gtest/gtest.h>

#include "retired.hpp"

using xiw::RetiredCount;
using xiw::RetiredCounts;

namespace
{

uint32_t value(RetiredCount &retired)
{
	return retired.word().load(std::memory_order_relaxed);
}

TEST(RetiredCount, advance__never_back)
{
	RetiredCount retired;

	retired.advance(7);
	retired.advance(3);
	EXPECT_EQ(value(retired), 7u);
}

TEST(RetiredCount, advance__where_the_count_wraps)
{
	RetiredCount retired;

	for (uint32_t count : { 0x70000000u, 0xe0000000u, 0xffffffffu, 0u, 2u })
		retired.advance(count);
	EXPECT_EQ(value(retired), 2u);
	retired.advance(0xffffffff);
	EXPECT_EQ(value(retired), 2u);
}

struct Counts : testing::Test {
	RetiredCount &add(uint32_t qpn)
	{
		all.emplace_back().open(qpn);
		counts.add(all.back());
		return all.back();
	}

	std::deque<RetiredCount> all;
	RetiredCounts counts;
};

TEST_F(Counts, advance__of_nobody)
{
	counts.advance(2, 1);
	RetiredCount &one = add(2);
	counts.advance(3, 5);
	EXPECT_EQ(value(one), 0u);
}

TEST_F(Counts, advance__to_and_fro_between_two)
{
	RetiredCount &one = add(2);
	RetiredCount &other = add(3);

	counts.advance(2, 1);
	counts.advance(3, 10);
	counts.advance(2, 2);
	EXPECT_EQ(value(one), 2u);
	EXPECT_EQ(value(other), 10u);
}

TEST_F(Counts, advance__each_of_many)
{
	constexpr uint32_t many = 300;

	for (uint32_t i = 0; i < many; i++)
		add(2 + i * i); /* some share their low bits */
	for (uint32_t i = 0; i < many; i++)
		counts.advance(2 + i * i, 1 + i);
	for (uint32_t i = 0; i < many; i++)
		EXPECT_EQ(value(all[i]), 1 + i);
}

TEST_F(Counts, remove__leaves_the_others_of_the_chain)
{
	for (uint32_t i = 0; i < 6; i++)
		add(2 + (i << 20));
	for (uint32_t gone : { 3, 5, 0 })
		counts.remove(all[gone]);
	for (uint32_t i = 0; i < 6; i++)
		counts.advance(2 + (i << 20), 9);

	for (uint32_t there : { 1, 2, 4 })
		EXPECT_EQ(value(all[there]), 9u);
	for (uint32_t gone : { 0, 3, 5 })
		EXPECT_EQ(value(all[gone]), 0u);
}

TEST_F(Counts, remove__whom_the_last_completion_belonged_to)
{
	RetiredCount &one = add(2);

	counts.advance(2, 1);
	counts.remove(one);
	counts.advance(2, 5);
	EXPECT_EQ(value(one), 1u);
}

TEST_F(Counts, add__a_number_that_came_back)
{
	RetiredCount &before = add(2);
	counts.advance(2, 1);
	counts.remove(before);
	RetiredCount &now = add(2);

	counts.advance(2, 5);
	EXPECT_EQ(value(before), 1u);
	EXPECT_EQ(value(now), 5u);
}

} /* namespace */
