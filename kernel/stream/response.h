/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* response.h - answers a Read or Atomic of the peer with the segments of its Response */
#ifndef XIW_RESPONSE_H
#define XIW_RESPONSE_H

#include "carrier/carrier.h"

/* response.c APIs */

/**
 * xiw_response_stage - stage the next segment of the oldest Response that waits to be sent
 * @run: this run
 *
 * Return: what became of it.
 */
enum xiw_segment_result xiw_response_stage(struct xiw_run *run);

#endif /* XIW_RESPONSE_H */
