#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# Applications of other projects run unmodified, and compare data where they can.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
need fi_pingpong fio qperf

# "-c" compares the data.
fi_pingpong_verifies() {
	local options=(-p verbs -e msg -c -I 10 -S "$3")
	use_path "$1" "$2"
	[[ $2 == 4 ]] || options+=(-6)
	serve "$server_ns" 47592 fi_pingpong "${options[@]}"
	n1 fi_pingpong "${options[@]}" "$addr"
	served
}

# fio_job FILE LINE...: one job for fio's rdma engine.
fio_job() {
	local file=$1
	shift
	printf '%s\n' "[job]" ioengine=rdma port=17400 bs=64k size=8m "$@" >"$file"
}

# The rdma_cm connects (-cm1). A server serves until it is told to quit.
qperf_measures() {
	use_path veth-1500 4
	serve "$server_ns" 17500 qperf -lp 17500
	n1 qperf -lp 17500 "$addr" -cm1 -t 1 "$@"
	n1 qperf -lp 17500 "$addr" quit
	served
}

# Of the two ends of fio's rdma engine the one with rw=write calls, whatever its verb. With the
# verb send the listener checks each block that arrives; with the others its memory is used without
# its knowledge, and the caller alone sees errors. iWARP has no retry for a message that finds no
# receive, so the listener posts one for each block before it begins.
fio_transfers() {
	use_path veth-1500 4
	fio_job "$scratch/server.fio" rw=read verify=crc32c iodepth=128
	fio_job "$scratch/client.fio" rw=write iodepth=8 verify=crc32c "hostname=$addr" "verb=$1"
	serve "$server_ns" 17400 fio "$scratch/server.fio"
	n1 fio "$scratch/client.fio"
	served
}

# The check of the check: blocks without a checksum are found out.
fio_finds_damage() {
	use_path veth-1500 4
	fio_job "$scratch/server.fio" rw=read verify=crc32c iodepth=128
	fio_job "$scratch/client.fio" rw=write iodepth=8 "hostname=$addr" verb=send
	serve "$server_ns" 17400 fio "$scratch/server.fio"
	start "$ns1" fio "$scratch/client.fio"
	expect_fail "" served
}

qperf_tests=(rc_lat rc_bw rc_rdma_write_bw rc_rdma_read_bw rc_compare_swap_mr rc_fetch_add_mr)

plan $((8 + ${#qperf_tests[@]}))
setup make_path veth-1500
stage "fi_pingpong, msg, 4 KiB, IPv4"	fi_pingpong_verifies veth-1500 4 4096
stage "fi_pingpong, msg, 1 MiB, IPv6"		fi_pingpong_verifies veth-1500 6 1048576
stage "fi_pingpong, msg, 64 octets, IPv6"	fi_pingpong_verifies veth-1500 6 64
stage "fio writes, with verify"			fio_transfers write
stage "fio reads, with verify"			fio_transfers read
stage "fio sends, verified by the receiver"	fio_transfers send
stage "fio would find damage"			fio_finds_damage
for test in "${qperf_tests[@]}"; do
	stage "qperf $test"			qperf_measures "$test"
done
setup remove_path veth-1500
setup make_path dummy
stage "fi_pingpong, msg, on one host"		fi_pingpong_verifies dummy 4 65536
finish
