// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* fault.c - maps a memory fault to the cause that ends the stream */

#include "stream/fault.h"

/* Kernel-doc of the functions that other files call is in fault.h. */
enum xiw_cause xiw_fault_tagged(enum xiw_mem_fault fault)
{
	static const enum xiw_cause causes[XIW_NUM_MEM_FAULTS] = {
		[XIW_MEM_BAD_STAG]	= XIW_BAD_STAG,
		[XIW_MEM_BAD_PD]	= XIW_BAD_PD,
		[XIW_MEM_NO_RIGHT]	= XIW_NO_REMOTE_WRITE,
		[XIW_MEM_BAD_BOUNDS]	= XIW_BAD_BOUNDS,
		[XIW_MEM_BAD_WRAP]	= XIW_BAD_WRAP,
		[XIW_MEM_ABSENT]	= XIW_NOT_YET,
	};

	return causes[fault];
}

enum xiw_cause xiw_fault_source(enum xiw_mem_fault fault)
{
	static const enum xiw_cause causes[XIW_NUM_MEM_FAULTS] = {
		[XIW_MEM_BAD_STAG]	= XIW_READ_BAD_STAG,
		[XIW_MEM_BAD_PD]	= XIW_READ_BAD_PD,
		[XIW_MEM_NO_RIGHT]	= XIW_READ_NO_RIGHT,
		[XIW_MEM_BAD_BOUNDS]	= XIW_READ_BAD_BOUNDS,
		[XIW_MEM_BAD_WRAP]	= XIW_READ_BAD_WRAP,
		[XIW_MEM_ABSENT]	= XIW_NOT_YET,
	};

	return causes[fault];
}
