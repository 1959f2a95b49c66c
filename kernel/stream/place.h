/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* place.h - acts on one FPDU: places its payload in memory or in a receive request */
#ifndef XIW_PLACE_H
#define XIW_PLACE_H

#include "carrier/cursor.h"
#include "stream/qp.h"

/* place.c APIs */

/**
 * xiw_place - act on one FPDU
 * @qp: queue pair, locked (see Locking)
 * @hdr: headers of the FPDU
 * @ulpdu_len: length of the ULPDU in bytes
 * @payload: in: where the FPDU starts in the socket; if the peer is on this host, where the payload
 *	is in memory. Out: behind what was read
 *
 * Checks the segment, places its payload, and completes the work requests that it finishes (RFC
 * 5040 section 5, RFC 5041 sections 5 and 7).
 *
 * Return: XIW_OK; or the cause for which the stream has to end. XIW_NO_RECEIVE and XIW_NOT_YET mean
 * that the segment was not placed and may be tried again: XIW_NO_RECEIVE when a receive request is
 * posted, XIW_NOT_YET when the pages have been fetched.
 */
enum xiw_cause xiw_place(struct xiw_qp *qp, const struct xiw_headers *hdr, u32 ulpdu_len,
			 struct xiw_cursor *payload);

#endif /* XIW_PLACE_H */
