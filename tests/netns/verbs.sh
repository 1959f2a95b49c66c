#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The verbs behave as documented: one stage for each claim of the programs in tests/verbs. TCP
# carries the data; loopback.sh proves the same without TCP.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
loopback=${loopback:-0}	# 1: both ends are on this host and do not use TCP
path=${path:-dummy}
family=${family:-4}
[[ -v once ]] || once=()

# In these programs both ends are in one process and use one device.
names=(connect crowd data dm dmabuf atomics immediate extended flush length notify odp odp_holes
	rejected requests rereg resize rings srq window bad_peer scribble shares bounded destroyed show
	gathered pieces ended outstanding threads manual unmapped callers disconnect mutated verify
	"${once[@]}")
# "charge" needs control groups of memory, "bpf" a kernel with BPF. "limits" needs a test build,
# which can be told to have only a few objects.
! grep -qw cgroup2 /proc/filesystems || names+=(charge)
! grep -qw tcp_bpf_update_proto /proc/kallsyms || names+=(bpf)
! modinfo xiw 2>/dev/null | grep -qE ': +limits:' || names+=(limits)
[[ ! ${only_names[*]:-} ]] || names=("${only_names[@]}")
mapfile -t claims < <(claims_of "$programs" "${names[@]}")
sample claims

# kernel_module NAME: the test runs while the module is being loaded. If it fails, the reason is in
# the kernel's log.
kernel_module() {
	modinfo "$1" >/dev/null || skip "the test module was not built"
	n1 modprobe "$1" "address=$addr" || { dmesg | grep "$1"; return 1; }
	rmmod "$1"
}

# prove PROGRAM CLAIM: runs the program in the server's namespace. If the path has two namespaces,
# the program calls from the other one.
prove() {
	local -a caller=()
	[[ $server_ns == "$ns1" ]] || caller=(env "CALLER_NETNS=$ns1")
	in_ns "$server_ns" "${caller[@]}" "$programs/$1" "$addr" "$2"
}

# The handshake always uses TCP, but tx_fpdus does not count it.
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

# received FIGURE: prints a counter of the server's end of the veth: packets or bytes.
received() { ip netns exec "$ns2" cat "/sys/class/net/veth2/statistics/rx_$1"; }

# TCP cuts the data into segments, as for a network card without segmentation offload.
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

# shows_ipv6 CLAIM: the program needs both ends on one device.
shows_ipv6() {
	local addr=fd78::1
	prove show "$1"
}

own=2
[[ $path != dummy ]] || own=4
plan $((${#claims[@]} + own))
setup make_path "$path"
use_path "$path" "$family"
setup set_loopback "$client_dev" "$loopback"
setup set_loopback "$server_dev" "$loopback"
if [[ $path == dummy ]]; then
	prove_all
	stage "IPv6 addresses are shown" shows_ipv6 "each of a hundred ends is shown as it is"
	stage "kernel: a consumer in the kernel posts all kinds of requests, and wrong ones" \
		kernel_module xiw_consumer
	stage "kernel: the queues of a consumer in the kernel are as large as they say, and call it" \
		kernel_module xiw_queues
else
	setup ip1 link set veth1 gso_max_segs 1
	setup ip2 link set veth2 gso_max_segs 1
	prove_all
	stage "data crosses the network in segments of 1500 octets" cut_into_segments
fi
finish
