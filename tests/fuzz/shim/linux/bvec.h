/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* linux/bvec.h - a run of pages */
#ifndef XIW_FUZZ_LINUX_BVEC_H
#define XIW_FUZZ_LINUX_BVEC_H

#include <linux/types.h>

struct bio_vec {
	void	*bv_page;
	u32	bv_len;
	u32	bv_offset;
};

#endif /* XIW_FUZZ_LINUX_BVEC_H */
