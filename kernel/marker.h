/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* marker.h - markers in the FPDUs for a peer that wants them */
#ifndef XIW_MARKER_H
#define XIW_MARKER_H

#include "wire.h"

/* Octets of payload, headers and pad between two markers. */
#define MARKER_GAP	(MPA_MARKER_SPACING - sizeof(struct xiw_mpa_marker))

/* Octets of markers that an FPDU of @len octets can need at most. */
static inline __u32 xiw_markers_max(__u32 len)
{
	return (1 + len / MARKER_GAP) * sizeof(struct xiw_mpa_marker);
}

/**
 * xiw_markers_insert - put the markers into an FPDU (RFC 5044 section 4.3)
 * @fpdu: the FPDU without its CRC; behind it room for xiw_markers_max(@len) octets
 * @len: its octets, from ULPDU_Length to the last one of the pad: a multiple of 4
 * @sent: octets of the stream that come before, with their markers and CRCs, mod 2^32
 *
 * A marker before ULPDU_Length belongs to this FPDU, as does one that comes right before its CRC:
 * all are covered by the CRC.
 *
 * Return: octets of the FPDU with its markers, still without its CRC.
 */
__u32 xiw_markers_insert(void *fpdu, __u32 len, __u32 sent);

#endif /* XIW_MARKER_H */
