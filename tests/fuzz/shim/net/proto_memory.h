/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* net/proto_memory.h - everything of it is in net/tcp.h */
#ifndef XIW_FUZZ_NET_PROTO_MEMORY_H
#define XIW_FUZZ_NET_PROTO_MEMORY_H

#include <net/tcp.h>

#endif /* XIW_FUZZ_NET_PROTO_MEMORY_H */
