// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* retired.cpp - up to where requests are over */

#include "retired.hpp"

#include <cstddef>
#include <new>
#include <utility>

namespace xiw
{

RetiredCounts::~RetiredCounts()
{
	if (chains_ != &one_)
		delete[] chains_;
}

RetiredCount *RetiredCounts::find(std::uint32_t qpn) noexcept
{
	RetiredCount *retired = *chain(qpn);

	while (retired && retired->qpn_ != qpn)
		retired = retired->next_;
	return retired;
}

void RetiredCounts::push(RetiredCount &retired) noexcept
{
	RetiredCount **const first = chain(retired.qpn_);

	retired.next_ = std::exchange(*first, &retired);
}

/* Twice as many chains. Without memory for them they stay, and get longer. */
void RetiredCounts::grow() noexcept
{
	const std::uint32_t old_number = mask_ + 1;
	auto **const more = new (std::nothrow) RetiredCount *[2 * std::size_t(old_number)]();
	if (!more)
		return;

	RetiredCount **const old = std::exchange(chains_, more);
	mask_ = 2 * old_number - 1;
	for (std::uint32_t i = 0; i < old_number; i++)
		for (RetiredCount *one = old[i]; one;)
			push(*std::exchange(one, one->next_));
	if (old != &one_)
		delete[] old;
}

void RetiredCounts::add(RetiredCount &retired) noexcept
{
	if (count_ > mask_)
		grow();
	push(retired);
	count_++;
}

void RetiredCounts::remove(const RetiredCount &retired) noexcept
{
	RetiredCount **link = chain(retired.qpn_);

	while (*link != &retired)
		link = &(*link)->next_;
	*link = retired.next_;
	count_--;
	last_ = nullptr;
}

} /* namespace xiw */
