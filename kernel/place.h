/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* place.h - from an FPDU to memory or to a receive request */
#ifndef XIW_PLACE_H
#define XIW_PLACE_H

#include "mem.h"
#include "rx.h"

/* place.c APIs */

/**
 * xiw_place - act on one FPDU
 * @qp: queue pair; its socket lock is held
 * @hdr: headers of the FPDU
 * @ulpdu_len: length of the ULPDU in octets
 * @payload: the first octet behind the DDP header
 *
 * Judges the segment, places its payload, completes what it completes (RFC 5040 section 5,
 * RFC 5041 sections 5 and 7).
 *
 * Return: XIW_OK, or why the stream has to end; XIW_NOT_YET if nothing has happened, because pages
 * have to be fetched before it is tried again.
 */
enum xiw_cause xiw_place(struct xiw_qp *qp, const struct xiw_headers *hdr, u32 ulpdu_len,
			 struct xiw_cursor *payload);

/* What a fault of the source of a Read is called (RFC 5040 section 7.2). */
enum xiw_cause xiw_source_fault(enum xiw_mem_fault fault);

#endif /* XIW_PLACE_H */
