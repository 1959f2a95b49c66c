/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Takes away the room for new mappings. */
#pragma once

#include "rdma.hpp"

#include <fstream>
#include <sys/resource.h>

namespace rdma
{

/* While this object lives, the process cannot map more memory. */
class FullSpace
{
public:
	FullSpace()
	{
		std::ifstream statm("/proc/self/statm");
		rlim_t pages = 0;

		statm >> pages;
		require(!getrlimit(RLIMIT_AS, &before_), "getrlimit");
		rlimit full = before_;
		full.rlim_cur = pages * 4096;
		require(!setrlimit(RLIMIT_AS, &full), "setrlimit");
	}
	FullSpace(const FullSpace &) = delete;
	~FullSpace() { setrlimit(RLIMIT_AS, &before_); }

private:
	rlimit before_;
};

} /* namespace rdma */
