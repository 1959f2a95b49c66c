// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* marker.c - inserts markers into FPDUs for a peer that asked for them */

#include <linux/minmax.h>
#include <linux/string.h>
#include <asm/byteorder.h>

#include "wire/marker.h"

__u32 xiw_markers_insert(void *fpdu, __u32 len, __u32 sent)
{
	__u32 first = -sent & (MPA_MARKER_SPACING - 1);	/* octets before the first marker */
	__u32 num = len < first ? 0 : 1 + (len - first) / MARKER_GAP;
	__u32 start = first ? 0 : sizeof(struct xiw_mpa_marker);	/* offset of ULPDU_Length */
	struct xiw_mpa_marker *marker;
	__u32 i, from, at;

	/*
	 * Goes from the last marker to the first. Each piece then moves once, past all markers
	 * before it.
	 */
	for (i = num; i--;) {
		from = first + i * MARKER_GAP;
		at = from + i * sizeof(*marker);
		marker = fpdu + at;
		memmove(marker + 1, fpdu + from, min(len - from, MARKER_GAP));
		*marker = (struct xiw_mpa_marker){
			.fpduptr = cpu_to_be16(at ? at - start : 0),
		};
	}
	return len + num * sizeof(*marker);
}
