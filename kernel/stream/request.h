/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* request.h - turns a work request into segments, or executes it if it is local */
#ifndef XIW_REQUEST_H
#define XIW_REQUEST_H

#include "carrier/carrier.h"

/* request.c APIs */

/**
 * xiw_request_stage - continue the work request under way, or start the next one
 * @run: this run
 *
 * Stages one segment. A local request sends nothing and is executed at once.
 *
 * Return: what became of it.
 */
enum xiw_segment_result xiw_request_stage(struct xiw_run *run);

/**
 * xiw_request_stage_opening - stage the message that opens a peer-to-peer stream
 * @run: this run
 * @rtr: XIW_RTR_WRITE or XIW_RTR_READ
 *
 * Return: what became of it.
 */
enum xiw_segment_result xiw_request_stage_opening(struct xiw_run *run, u8 rtr);

#endif /* XIW_REQUEST_H */
