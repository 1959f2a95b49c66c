#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# Applications of other projects run unmodified. Where they can, they compare the data.

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

# The rdma_cm connects (-cm1). A server runs until it is told to quit. It announces its RDMA port
# before it listens there, so a client that connects at once may be rejected; then try again.
qperf_measures() {
	local calls=0
	use_path "$1" "$2"
	serve "$server_ns" 17500 qperf -lp 17500
	until n1 qperf -lp 17500 "$addr" -cm1 -t 1 "$3" >"$scratch/qperf" 2>&1; do
		cat "$scratch/qperf"
		grep 'Event rejected' "$scratch/qperf" >/dev/null
		((++calls < 5))
		once_more "qperf called before its server listened"
		kill_in "$server_ns"
		serve "$server_ns" 17500 qperf -lp 17500
	done
	cat "$scratch/qperf"
	n1 qperf -lp 17500 "$addr" quit
	served
}

# With fio's rdma engine the end with rw=write connects, whatever the verb. With the verb send, the
# listener checks each block that arrives. The other verbs access its memory without telling it, and
# only the caller sees errors. iWARP does not retry a message that finds no receive, so iodepth
# makes the listener post a receive for each block before it begins. fio listens on IPv4 only.
fio_transfers() {
	use_path "$1" "$2"
	fio_job "$scratch/server.fio" rw=read verify=crc32c iodepth=128
	fio_job "$scratch/client.fio" rw=write iodepth=8 verify=crc32c "hostname=$addr" "verb=$3"
	serve "$server_ns" 17400 fio "$scratch/server.fio"
	n1 fio "$scratch/client.fio"
	served
}

# Tests fio's own check: it must reject blocks without a checksum.
fio_finds_damage() {
	use_path "$1" "$2"
	fio_job "$scratch/server.fio" rw=read verify=crc32c iodepth=128
	fio_job "$scratch/client.fio" rw=write iodepth=8 "hostname=$addr" verb=send
	serve "$server_ns" 17400 fio "$scratch/server.fio"
	start "$ns1" fio "$scratch/client.fio"
	expect_fail "" served
}

# claim PATH FAMILY FUNCTION WORD...
claim() {
	local words=${*:3}
	stage "${words//_/ } over $1, IPv$2" "$3" "$1" "$2" "${@:4}"
}

claims=$(cat <<-'END'
	veth-1500	4	fi_pingpong_verifies	4096
	veth-1500	6	fi_pingpong_verifies	1048576
	veth-1500	6	fi_pingpong_verifies	64
	veth-1500	4	fio_transfers		write
	veth-1500	4	fio_transfers		read
	veth-1500	4	fio_transfers		send
	veth-1500	4	fio_finds_damage
	veth-1500	4	qperf_measures		rc_lat
	veth-1500	4	qperf_measures		rc_bw
	veth-1500	4	qperf_measures		rc_rdma_write_bw
	veth-1500	4	qperf_measures		rc_rdma_read_bw
	veth-1500	4	qperf_measures		rc_compare_swap_mr
	veth-1500	4	qperf_measures		rc_fetch_add_mr
	veth-9000	4	fio_transfers		write
	dummy		4	fi_pingpong_verifies	65536
	lo		4	fio_transfers		read
	END
)

# FULL runs each program over each path and family. libfabric ignores the interface lo.
full_claims() {
	local path verb
	for path in veth-1500 veth-9000 dummy lo; do
		if [[ $path != lo ]]; then
			echo "$path 4 fi_pingpong_verifies 65536"
			echo "$path 6 fi_pingpong_verifies 65536"
		fi
		for verb in write read send; do
			echo "$path 4 fio_transfers $verb"
		done
	done
}

[[ ! ${FULL:-} ]] || claims=$(full_claims)
mapfile -t chosen <<<"$claims"
sample chosen
plan "${#chosen[@]}"
claims_over_paths claim < <(printf '%s\n' "${chosen[@]}")
finish
