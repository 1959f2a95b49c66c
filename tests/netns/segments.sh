#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The claims of verbs.sh over a network with an MTU of 1500, with IPv6, between two namespaces and
# two devices.
#
# Only the programs that move data run here. The claims of the others (queues, notifications,
# rights, limits) do not depend on the path. IPv4 would only make each segment's payload 20 octets
# longer. The theme takes about half a minute on a kernel at native speed.

# Use shorter runs: some thousand segments are enough.
export FETCH_ADDS=${FETCH_ADDS:-1000} MESSAGE_BYTES=${MESSAGE_BYTES:-4194305}
path=veth-1500 family=6
only_names=(data atomics immediate length odp odp_holes srq verify)
# shellcheck source=tests/netns/verbs.sh
. "$(dirname "$0")/verbs.sh"
