// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* finished_count.cpp - how many requests of a work queue have finished */

#include "finished_count.hpp"

#include <cstddef>
#include <new>
#include <utility>

namespace xiw
{

FinishedCountTable::~FinishedCountTable()
{
	if (chains_ != &first_chain_)
		delete[] chains_;
}

FinishedCount *FinishedCountTable::find(std::uint32_t qpn) noexcept
{
	FinishedCount *count = *chain(qpn);

	while (count && count->qpn_ != qpn)
		count = count->next_;
	return count;
}

void FinishedCountTable::insert(FinishedCount &count) noexcept
{
	FinishedCount **const first = chain(count.qpn_);

	count.next_ = std::exchange(*first, &count);
}

/* Doubles the number of chains. If there is no memory for that, the chains get longer instead. */
void FinishedCountTable::grow() noexcept
{
	const std::uint32_t old_number = mask_ + 1;
	auto **const more = new (std::nothrow) FinishedCount *[2 * std::size_t(old_number)]();
	if (!more)
		return;

	FinishedCount **const old = std::exchange(chains_, more);
	mask_ = 2 * old_number - 1;
	for (std::uint32_t i = 0; i < old_number; i++)
		for (FinishedCount *count = old[i]; count;)
			insert(*std::exchange(count, count->next_));
	if (old != &first_chain_)
		delete[] old;
}

void FinishedCountTable::add(FinishedCount &count) noexcept
{
	if (size_ > mask_)
		grow();
	insert(count);
	size_++;
}

void FinishedCountTable::remove(const FinishedCount &count) noexcept
{
	FinishedCount **link = chain(count.qpn_);

	while (*link != &count)
		link = &(*link)->next_;
	*link = count.next_;
	size_--;
	last_ = nullptr;
}

} /* namespace xiw */
