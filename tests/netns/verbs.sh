#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The verbs keep their promises: every claim of the programs in tests/verbs, one stage each. TCP
# carries them; loopback.sh proves the same without.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
loopback=${loopback:-0}

# The programs have both ends in one process, over one device.
names=(connect data dm dmabuf atomics immediate extended flush length notify odp requests rereg
	resize srq window charge bad_peer scribble shares)
mapfile -t claims < <(claims_of "$programs" "${names[@]}")

# The module posts while it is loaded; what it says of a fault is in the log.
kernel_consumer() {
	modinfo xiw_consumer >/dev/null || skip "the test module is not built"
	n1 modprobe xiw_consumer "address=$addr" || { dmesg | grep xiw_consumer; return 1; }
	rmmod xiw_consumer
}

# The handshake is TCP's in any case; what it sends is not counted.
carried_as_set() {
	local any fpdus segments
	read -r any < <("$programs/data" --list)
	fpdus=$(counter "$client_dev" tx_fpdus) segments=$(counter "$client_dev" tx_loop)
	n1 "$programs/data" "$addr" "$any"
	fpdus=$(($(counter "$client_dev" tx_fpdus) - fpdus))
	segments=$(($(counter "$client_dev" tx_loop) - segments))
	say "$fpdus FPDUs, $segments segments without TCP"
	((loopback ? !fpdus && segments : fpdus && !segments))
}

plan $((${#claims[@]} + 2))
setup make_path dummy
use_path dummy 4
setup set_loopback "$client_dev" "$loopback"
for claim in "${claims[@]}"; do
	stage "$claim" n1 "$programs/${claim%%: *}" "$addr" "${claim#*: }"
done
stage "the setting says whether TCP carries the stream" carried_as_set
stage "kernel: a consumer there posts all kinds of requests" kernel_consumer
finish
