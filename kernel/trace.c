// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* trace.c - defines the tracepoints of trace.h */

#define CREATE_TRACE_POINTS
#include "trace.h"
