/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* marker.h - inserts markers into FPDUs for a peer that asked for them */
#ifndef XIW_MARKER_H
#define XIW_MARKER_H

#include "wire/wire.h"

/* Octets of payload, headers and pad between two markers. */
#define MARKER_GAP	(MPA_MARKER_SPACING - sizeof(struct xiw_mpa_marker))

/* Maximum number of marker octets in an FPDU of @len octets. */
static inline __u32 xiw_markers_max(__u32 len)
{
	return (1 + len / MARKER_GAP) * sizeof(struct xiw_mpa_marker);
}

/**
 * xiw_markers_insert - insert markers into an FPDU (RFC 5044 section 4.3)
 * @fpdu: the FPDU without its CRC, followed by room for xiw_markers_max(@len) octets
 * @len: octets from ULPDU_Length to the last octet of the pad: a multiple of 4
 * @sent: octets sent on the stream before this FPDU, with their markers and CRCs, mod 2^32
 *
 * A marker right before ULPDU_Length belongs to this FPDU, and so does a marker right before its
 * CRC. The CRC covers both.
 *
 * Return: length of the FPDU in octets with its markers, still without its CRC.
 */
__u32 xiw_markers_insert(void *fpdu, __u32 len, __u32 sent);

#endif /* XIW_MARKER_H */
