#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# perftest's programs run unmodified: each with each of its options, over each path and family.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

port=18515

# perftest TOOL OPTION...: runs server and client over the path in use. -F ignores that the guest's
# CPU frequency varies.
perftest() { perftest_retried run_perftest "$@"; }

run_perftest() {
	local tool=$1 options=(-R -F -p "$port" "${@:2}")
	[[ $family == 4 ]] || options+=(--ipv6-addr)
	serve "$server_ns" "$port" "$tool" -d "$server_dev" "${options[@]}" || return
	n1 "$tool" -d "$client_dev" "${options[@]}" "$addr" 2>&1 | tee "$scratch/client" || return
	served
}

# Each end processes received data at once, so TCP's receive window must never close.
window_stays_open() {
	local before
	set_loopback "$client_dev" 0 || return
	before=$(tcp_counter TcpExtTCPWantZeroWindowAdv "$ns1") || return
	perftest "$@" || return
	expect_equal "$(tcp_counter TcpExtTCPWantZeroWindowAdv "$ns1")" "$before" "closed windows"
}

# claim PATH FAMILY TOOL OPTION...
claim() {
	use_path "$1" "$2"
	port=$((port + 1))
	stage "${*:3} over $1, IPv$2" perftest "${@:3}"
}

# Each line is a path, a family, a program and its options. -a runs all sizes from 2 to 8388608.
#
# ib_send_bw sends as many messages as there are receives (-r, 512 unless told), and then needs
# credits. The receiver writes one into the sender's memory after each third of the receives, which
# causes no event. With -e, a sender without credits waits for an event all the same. If the
# receiver is behind by two thirds of the receives, no event comes any more: both stand still. So
# with -e the messages are large and the receives are many, and no receiver gets that far behind.
claims=$(cat <<-'END'
	veth-1500	4	ib_write_bw	-n 5 -a
	veth-1500	4	ib_write_bw	-n 500 --use_old_post_send
	veth-1500	4	ib_send_bw	-n 5 -a
	veth-1500	4	ib_send_bw	-n 500 -q 4 --use_old_post_send
	veth-1500	4	ib_read_bw	-n 200
	veth-1500	4	ib_read_lat	-n 200
	veth-1500	4	ib_send_bw	-n 500 --use-srq -r 64
	veth-1500	4	ib_atomic_bw	-n 500
	veth-1500	4	ib_write_bw	-n 500 --odp
	veth-1500	4	ib_read_bw	-n 100 --odp
	veth-1500	6	ib_write_bw	-n 500 -q 8
	veth-1500	6	ib_read_bw	-n 200 -q 8
	veth-1500	6	ib_send_bw	-n 200 -q 8
	veth-1500	6	ib_write_lat	-n 1000
	veth-1500	6	ib_send_lat	-n 1000 --use-srq -r 64
	veth-9000	4	ib_write_bw	-n 500 -b
	veth-9000	4	ib_write_bw	-n 500 --write_with_imm
	veth-9000	4	ib_read_lat	-n 5 -a
	veth-9000	4	ib_read_bw	-n 200 --use_old_post_send
	veth-9000	4	ib_read_bw	-n 200 -b
	veth-9000	4	ib_send_bw	-n 200 -b
	veth-9000	4	ib_read_bw	-n 5 -a
	veth-9000	6	ib_write_bw	-n 500
	veth-9000	6	ib_atomic_lat	-n 200
	veth-9000	6	ib_read_bw	-n 200 -e
	veth-9000	6	ib_send_bw	-n 500 -r 500 -s 1048576 -e
	veth-9000	6	ib_read_lat	-n 200 -e
	veth-9000	6	ib_send_lat	-n 200 -e
	dummy		4	ib_write_bw	-n 500
	dummy		4	ib_atomic_bw	-n 200 -A CMP_AND_SWAP -b -q 4
	dummy		4	ib_read_bw	-n 500 -q 8
	dummy		4	ib_write_bw	-n 500 -q 4 --no_lock
	dummy		4	ib_send_bw	-n 200 -b --use-srq -r 64 --odp
	dummy		4	ib_atomic_lat	-n 200 --odp
	dummy		4	ib_send_lat	-n 200 --no_lock
	dummy		4	ib_atomic_lat	-n 200 --use_old_post_send
	dummy		4	ib_write_lat	-n 5 -a
	dummy		6	ib_write_bw	-n 500 -b -q 8
	dummy		6	ib_read_lat	-n 500
	dummy		6	ib_send_bw	-n 1000 -r 1000 -s 1048576 -b -e
	lo		4	ib_write_bw	-n 500
	lo		4	ib_write_bw	-n 200 -s 8 -b -q 4 --write_with_imm
	lo		4	ib_read_bw	-n 500
	lo		4	ib_send_bw	-n 500
	lo		4	ib_send_lat	-n 5 -a
	lo		4	ib_write_lat	-n 500
	lo		4	ib_read_lat	-n 500 -e
	lo		4	ib_send_lat	-n 500 --use-srq -r 64
	lo		4	ib_atomic_lat	-n 200 -e
	lo		6	ib_write_bw	-n 500
	lo		6	ib_read_bw	-n 500 -e
	lo		6	ib_send_bw	-n 500 --use-srq -r 64
	END
)

# FULL runs each program with each option over each path and family.
full_claims() {
	local path family
	for path in veth-1500 veth-9000 dummy lo; do
		for family in 4 6; do
			sed "s/^/$path $family /" <<-'END'
				ib_write_bw	-n 200
				ib_write_bw	-n 5 -a
				ib_write_bw	-n 200 -b
				ib_write_bw	-n 200 -q 8
				ib_write_lat	-n 200
				ib_write_lat	-n 5 -a
				ib_read_bw	-n 200
				ib_read_bw	-n 5 -a
				ib_read_bw	-n 200 -b
				ib_read_bw	-n 200 -q 8
				ib_read_bw	-n 200 -e
				ib_read_lat	-n 200
				ib_read_lat	-n 5 -a
				ib_read_lat	-n 200 -e
				ib_send_bw	-n 200
				ib_send_bw	-n 5 -a
				ib_send_bw	-n 200 -b
				ib_send_bw	-n 200 -q 8
				ib_send_bw	-n 1000 -r 1000 -s 1048576 -e
				ib_send_bw	-n 200 --use-srq -r 64
				ib_send_lat	-n 200
				ib_send_lat	-n 5 -a
				ib_send_lat	-n 200 -e
				ib_send_lat	-n 200 --use-srq -r 64
			END
		done
	done
}

need ib_{write,read,send,atomic}_{bw,lat}
[[ ! ${FULL:-} ]] || claims=$(full_claims)
mapfile -t chosen <<<"$claims"
sample chosen
plan $((${#chosen[@]} + 1))
claims_over_paths claim < <(printf '%s\n' "${chosen[@]}")
use_path lo 4
stage "a stream of Reads closes no TCP window" window_stays_open ib_read_bw -s 64 -t 1024 \
	-n $((100000 / ${FEWER:-1}))
finish
