#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The programs of librdmacm run. Those that can compare data do.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
need rping ucmatose cmtime rdma_server rdma_client rdma_xserver rdma_xclient rstream riostream rcopy

port=7200	# each stage uses another port

# on PATH FAMILY FUNCTION: runs FUNCTION on one path.
on() {
	use_path "$1" "$2"
	"$3"
}

# When rping is done it closes its event channel. Its own thread may still read from the channel,
# and then ends the program as failed.
rping_verifies() {
	for _ in 1 2 3; do
		serve "$server_ns" "$port" rping -s -a "$addr" -p "$port" -C 100 -S 60000 -V
		if n1 rping -c -a "$addr" -p "$port" -C 100 -S 60000 -V 2>&1 |
			tee "$scratch/rping"; then
			served
			return
		fi
		tail -n 1 "$scratch/rping" | grep -x 'rdma_get_cm_event: Bad file descriptor'
		once_more "rping failed when it closed its own event channel"
		served
	done
	return 1
}

ucmatose_ten_connections() {
	serve "$server_ns" "$port" ucmatose -b "$addr" -p "$port" -c 10
	n1 ucmatose -s "$addr" -p "$port" -c 10
	served
}

# cmtime does each step for all connections at once: resolve, connect, disconnect. Its two ends also
# talk over a plain TCP connection with IPv4, using the same name and port as for RDMA. An iWARP
# listener cannot share its port with TCP, so the name has a second address for it. Then cmtime
# makes as many connections with queue pair numbers from 1000 on, without creating these queue
# pairs. iWARP needs them to exist.
cmtime_200_connections() {
	# shellcheck disable=SC2016 # the inner shell's words
	local with_hosts=(bash -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$scratch/hosts")
	printf '%s cmtime\n' fd77::2 10.77.0.2 >"$scratch/hosts"
	own_queue_pairs "$ns1" "$client_dev"
	own_queue_pairs "$ns2" "$server_dev"
	serve "$ns2" "$port" "${with_hosts[@]}" cmtime -b cmtime -p "$port" -c 200
	wait_until 20 listens_to_ipv4
	n1 "${with_hosts[@]}" cmtime -s cmtime -p "$port" -c 200
	served
}

# own_queue_pairs NS DEVICE: creates queue pairs 1000 to 1199, which exist until the stage ends.
own_queue_pairs() {
	start "$1" "$programs/queue_pairs" "$2" 1000 200 >"$scratch/queue_pairs-$2"
	wait_until 60 grep -qx ready "$scratch/queue_pairs-$2"
}

listens_to_ipv4() { [[ $(ip netns exec "$server_ns" ss -4ltnH "sport = :$port") ]]; }

rdma_client_server() {
	serve "$server_ns" "$port" rdma_server -s "$addr" -p "$port"
	n1 rdma_client -s "$addr" -p "$port"
	served
}

rdma_xclient_xserver() {
	serve "$server_ns" "$port" rdma_xserver -p "$port" -c r
	n1 rdma_xclient -s "$addr" -p "$port" -c r
	served
}

# stream PROGRAM SIZE TRANSFERS: "-T v" compares the data, in both directions.
stream() {
	local options=(-p "$port" -S "$2" -C "$3" -I 10 -T v)
	serve "$server_ns" "$port" "$1" -b "$addr" "${options[@]}"
	n1 "$1" -s "$addr" "${options[@]}"
	served
}

rstream_verifies() {
	stream rstream 64 1
	stream rstream 65536 10
	stream rstream 1000000 1
}

riostream_verifies() {
	stream riostream 64 1
	stream riostream 65536 10
	stream riostream 1000000 1
}

# The server does not end by itself; the end of the stage kills it.
rcopy_compares() {
	head -c 64M /dev/urandom >"$scratch/sent"
	serve "$server_ns" "$port" rcopy -p "$port"
	n1 rcopy "$scratch/sent" "$addr:$scratch/copied" -p "$port"
	cmp "$scratch/sent" "$scratch/copied"
	rm "$scratch/sent" "$scratch/copied"
}

all=(rping_verifies ucmatose_ten_connections rdma_client_server rstream_verifies
	riostream_verifies)
ipv4_only=(rdma_xclient_xserver rcopy_compares) # their servers do not listen on IPv6
few=(rping_verifies ucmatose_ten_connections)

# functions_over PATH FAMILY: prints the functions to run over a path: all over two of the paths,
# and all over each path if FULL is set.
functions_over() {
	if [[ ! ${FULL:-} && $1 =~ veth-9000|dummy ]]; then
		echo "${few[@]}"
		return
	fi
	echo "${all[@]}"
	[[ $2 == 6 ]] || echo "${ipv4_only[@]}"
	[[ $1-$2 != veth-1500-6 ]] || echo cmtime_200_connections
}

# claim PATH FAMILY FUNCTION
claim() {
	port=$((port + 1))
	stage "${3//_/ } over $1, IPv$2" on "$1" "$2" "$3"
}

for path in veth-1500 veth-9000 dummy lo; do
	for family in 4 6; do
		for function in $(functions_over "$path" "$family"); do
			echo "$path $family $function"
		done
	done
done >"$scratch/claims"
mapfile -t chosen <"$scratch/claims"
sample chosen
plan "${#chosen[@]}"
claims_over_paths claim < <(printf '%s\n' "${chosen[@]}")
finish
