# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# What reads otherwise in the trees of Linux and rdma-core than here (tools/export-patches).

# There the driver has a number of its own.
/^\/\* "XIW"; outside of enum rdma_driver_id/d
/^#define XIW_DRIVER_ID\t/,/^$/d
s/\bXIW_DRIVER_ID\b/RDMA_DRIVER_XIW/g

# kernel/compat is not there. Only these two names have no other meaning than in kernel/compat.
s/\bxiw_sk_bypass_prot_mem(sk)/sk->sk_bypass_prot_mem/
s/^\tXIW_COUNTER_OBJECT$/\t.counter_init = xiw_counter_init,\n\tINIT_RDMA_OBJ_SIZE(rdma_counter, xiw_counter, counter),/

# Kbuild
s/^obj-m := xiw\.o$/obj-$(CONFIG_RDMA_XIW) += xiw.o/
/^# Shadow headers must come before/d
/^LINUXINCLUDE := /d
s/\bXIW_TEST\b/CONFIG_RDMA_XIW_TEST/g

# Files that are not there
s| (USING\.md)\.|.|
s|^ \* USING\.md\. A change| * Documentation/ABI/testing/sysfs-class-infiniband-xiw.\n * A change|
s|: USING\.md has them, and programs look for them\.|: programs look for them.|
/^\/\* USING\.md has the same numbers, and tests\//d
/^\/\* This file must compile in user space, too, with tests\//d
s|; kernel/queue/ring\.h is the kernel's side\.|.|

# Selftests: their folder has no programs in C++, and nothing counts what was run.
s|^# shellcheck source=tests/netns/lib\.sh|# shellcheck source=lib.sh|
s| tests/skips lists the skips that are expected\.||
/^# The limits are those of USING\.md\.$/d
/^programs=/d
/^# keep_counters CLAIM/,/^$/d
/^\tkeep_counters /d
/^# --- traffic: /,/^# --- the final gate/{/^# --- the final gate/!d}
/^# cmtime does each step/,/^rdma_client_server/{/^rdma_client_server/!d}
/cmtime_200_connections$/d
s/^need rping ucmatose cmtime /need rping ucmatose /
