// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* provider_finished_count_test.cpp - how many requests of which queue a completion finishes */

#include <deque>

#include <gtest/gtest.h>

#include "finished_count.hpp"

using xiw::FinishedCount;
using xiw::FinishedCountTable;

namespace
{

uint32_t value(FinishedCount &finished)
{
	return finished.word().load(std::memory_order_relaxed);
}

TEST(FinishedCount, advance_to__never_goes_back)
{
	FinishedCount finished;

	finished.advance_to(7);
	finished.advance_to(3);
	EXPECT_EQ(value(finished), 7u);
}

TEST(FinishedCount, advance_to__works_where_the_count_wraps)
{
	FinishedCount finished;

	for (uint32_t count : { 0x70000000u, 0xe0000000u, 0xffffffffu, 0u, 2u })
		finished.advance_to(count);
	EXPECT_EQ(value(finished), 2u);
	finished.advance_to(0xffffffff);
	EXPECT_EQ(value(finished), 2u);
}

struct FinishedCountTableTest : testing::Test {
	FinishedCount &add(uint32_t qpn)
	{
		all.emplace_back().set_qpn(qpn);
		table.add(all.back());
		return all.back();
	}

	std::deque<FinishedCount> all;
	FinishedCountTable table;
};

TEST_F(FinishedCountTableTest, advance_to__ignores_unknown_queue_pairs)
{
	table.advance_to(2, 1);
	FinishedCount &one = add(2);
	table.advance_to(3, 5);
	EXPECT_EQ(value(one), 0u);
}

TEST_F(FinishedCountTableTest, advance_to__alternates_between_queue_pairs)
{
	FinishedCount &one = add(2);
	FinishedCount &other = add(3);

	table.advance_to(2, 1);
	table.advance_to(3, 10);
	table.advance_to(2, 2);
	EXPECT_EQ(value(one), 2u);
	EXPECT_EQ(value(other), 10u);
}

TEST_F(FinishedCountTableTest, advance_to__finds_each_of_many_queue_pairs)
{
	constexpr uint32_t many = 300;

	for (uint32_t i = 0; i < many; i++)
		add(2 + i * i); /* some of these numbers share their low bits */
	for (uint32_t i = 0; i < many; i++)
		table.advance_to(2 + i * i, 1 + i);
	for (uint32_t i = 0; i < many; i++)
		EXPECT_EQ(value(all[i]), 1 + i);
}

TEST_F(FinishedCountTableTest, remove__leaves_the_rest_of_the_chain)
{
	for (uint32_t i = 0; i < 6; i++)
		add(2 + (i << 20));
	for (uint32_t removed : { 3, 5, 0 })
		table.remove(all[removed]);
	for (uint32_t i = 0; i < 6; i++)
		table.advance_to(2 + (i << 20), 9);

	for (uint32_t there : { 1, 2, 4 })
		EXPECT_EQ(value(all[there]), 9u);
	for (uint32_t removed : { 0, 3, 5 })
		EXPECT_EQ(value(all[removed]), 0u);
}

TEST_F(FinishedCountTableTest, remove__forgets_the_cached_queue_pair)
{
	FinishedCount &one = add(2);

	table.advance_to(2, 1);
	table.remove(one);
	table.advance_to(2, 5);
	EXPECT_EQ(value(one), 1u);
}

TEST_F(FinishedCountTableTest, add__a_number_that_is_reused)
{
	FinishedCount &before = add(2);
	table.advance_to(2, 1);
	table.remove(before);
	FinishedCount &now = add(2);

	table.advance_to(2, 5);
	EXPECT_EQ(value(before), 1u);
	EXPECT_EQ(value(now), 5u);
}

} /* namespace */
