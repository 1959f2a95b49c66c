#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The verbs keep their promises over a network, where messages are cut into segments of 1500 octets: as
# verbs.sh, over IPv6, from one namespace and device to another.
#
# Only the programs that move data: what the others show (queues, notifications, rights, limits) does not
# depend on the path. IPv4 has 20 octets more in a segment, and nothing else is different here. It takes
# about half a minute on a kernel at native speed.

# Thousands of segments are enough.
export FETCH_ADDS=${FETCH_ADDS:-1000} MESSAGE_BYTES=${MESSAGE_BYTES:-4194305}
path=veth-1500 family=6
only_names=(data atomics immediate length odp srq)
# shellcheck source=tests/netns/verbs.sh
. "$(dirname "$0")/verbs.sh"
