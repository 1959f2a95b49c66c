/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* stream/worker.h - everything of it is in stream/qp.h */
#ifndef XIW_FUZZ_STREAM_WORKER_H
#define XIW_FUZZ_STREAM_WORKER_H

#include "stream/qp.h"

#endif /* XIW_FUZZ_STREAM_WORKER_H */
