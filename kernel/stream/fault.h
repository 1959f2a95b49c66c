/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* fault.h - maps a memory fault to the cause that ends the stream */
#ifndef XIW_FAULT_H
#define XIW_FAULT_H

#include "mem/mem.h"
#include "wire/terminate.h"

/* fault.c APIs */

/* For the target of a tagged segment: a Write or a Read Response (RFC 5041 section 7.1). */
enum xiw_cause xiw_fault_tagged(enum xiw_mem_fault fault);

/* For the source of a Read, or the target of an Atomic (RFC 5040 section 7.2). */
enum xiw_cause xiw_fault_source(enum xiw_mem_fault fault);

#endif /* XIW_FAULT_H */
