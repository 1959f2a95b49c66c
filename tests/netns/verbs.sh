#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The verbs keep their promises: every claim of the programs in tests/verbs, one stage each. TCP
# carries them; loopback.sh proves the same without.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
loopback=${loopback:-0}	# both ends are on this host, and no TCP carries the data
path=${path:-dummy}
family=${family:-4}
[[ -v once ]] || once=()

# The programs have both ends in one process, over one device.
names=(connect data dm dmabuf atomics immediate extended flush length notify odp rejected
	requests rereg resize rings srq window bad_peer scribble shares bounded destroyed pieces
	ended outstanding threads manual callers disconnect "${once[@]}")
# Debian's kernels have control groups, and a build for tests can be told to promise little.
! grep -qw cgroup2 /proc/filesystems || names+=(charge)
! modinfo xiw 2>/dev/null | grep -qE ': +limits:' || names+=(limits)
[[ ! ${only_names[*]:-} ]] || names=("${only_names[@]}")
mapfile -t claims < <(claims_of "$programs" "${names[@]}")
sample claims

# The module posts while it is loaded; what it says of a fault is in the log.
kernel_consumer() {
	modinfo xiw_consumer >/dev/null || skip "the test module is not built"
	n1 modprobe xiw_consumer "address=$addr" || { dmesg | grep xiw_consumer; return 1; }
	rmmod xiw_consumer
}

# prove PROGRAM CLAIM: where the server's device is. Over a path of two namespaces the program calls from
# the other one.
prove() {
	local -a caller=()
	[[ $server_ns == "$ns1" ]] || caller=(env "CALLER_NETNS=$ns1")
	in_ns "$server_ns" "${caller[@]}" "$programs/$1" "$addr" "$2"
}

# The handshake is TCP's in any case; what it sends is not counted.
carried_as_set() {
	local any fpdus segments
	read -r any < <("$programs/data" --list)
	fpdus=$(counter "$client_dev" tx_fpdus) segments=$(counter "$client_dev" tx_loop)
	prove data "$any"
	fpdus=$(($(counter "$client_dev" tx_fpdus) - fpdus))
	segments=$(($(counter "$client_dev" tx_loop) - segments))
	say "$fpdus FPDUs, $segments segments without TCP"
	((loopback ? !fpdus && segments : fpdus && !segments))
}

# received FIGURE: of the server's end of the veth, like packets.
received() { ip netns exec "$ns2" cat "/sys/class/net/veth2/statistics/rx_$1"; }

# What crosses the network is cut as TCP cuts it for a card that does nothing by itself.
cut_into_segments() {
	local packets octets
	packets=$(received packets) octets=$(received bytes)
	MESSAGE_BYTES=1000000 prove length "a long message is written"
	packets=$(($(received packets) - packets)) octets=$(($(received bytes) - octets))
	say "$octets octets in $packets packets"
	((octets > 1000000 && octets <= 1514 * packets))
}

prove_all() {
	for claim in "${claims[@]}"; do
		stage "$claim" prove "${claim%%: *}" "${claim#*: }"
	done
	stage "the setting says whether TCP carries the stream" carried_as_set
}

plan $((${#claims[@]} + 2))
setup make_path "$path"
use_path "$path" "$family"
setup set_loopback "$client_dev" "$loopback"
setup set_loopback "$server_dev" "$loopback"
if [[ $path == dummy ]]; then
	prove_all
	stage "kernel: a consumer there posts all kinds of requests" kernel_consumer
else
	setup ip1 link set veth1 gso_max_segs 1
	setup ip2 link set veth2 gso_max_segs 1
	prove_all
	stage "what they send crosses the network in segments of 1500 octets" cut_into_segments
fi
finish
