/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* mem/mem.h - memory of a local peer, which no FPDU is in */
#ifndef XIW_FUZZ_MEM_MEM_H
#define XIW_FUZZ_MEM_MEM_H

#include <stdlib.h>
#include <linux/types.h>

struct xiw_mr;

static inline void xiw_mr_read(struct xiw_mr *mr, u64 addr, void *to, size_t len)
{
	abort();
}

#endif /* XIW_FUZZ_MEM_MEM_H */
