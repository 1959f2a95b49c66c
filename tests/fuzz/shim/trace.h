/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* trace.h - everything of it is in stream/qp.h */
#ifndef XIW_FUZZ_TRACE_H
#define XIW_FUZZ_TRACE_H

#include "stream/qp.h"

#endif /* XIW_FUZZ_TRACE_H */
