/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The places in the module's code that call something which allocates memory. */
#pragma once

#include "injection.hpp"

#include <string>
#include <vector>

namespace injection
{

struct Site {
	std::string caller; /* the function of the module */
	std::string callee; /* what it calls */
	Code after;	    /* where that call returns to: part of its call chain */
};

/* All places in the code of the module that is loaded, by its file. */
std::vector<Site> sites();

} /* namespace injection */
