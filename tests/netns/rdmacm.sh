#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The programs of librdmacm run, and what can compare data does.

. "$(dirname "$0")/lib.sh"
need rping ucmatose rdma_server rdma_client rdma_xserver rdma_xclient rstream riostream rcopy

port=7200	# each stage takes its own

# on PATH FAMILY PORT FUNCTION: one stage on one path.
on() {
	use_path "$1" "$2"
	port=$3
	"$4"
}

rping_verifies() {
	serve "$server_ns" "$port" rping -s -a "$addr" -p "$port" -C 100 -S 60000 -V
	n1 rping -c -a "$addr" -p "$port" -C 100 -S 60000 -V
	served
}

ucmatose_ten_connections() {
	serve "$server_ns" "$port" ucmatose -b "$addr" -p "$port" -c 10
	n1 ucmatose -s "$addr" -p "$port" -c 10
	served
}

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

rstream_verifies() {
	serve "$server_ns" "$port" rstream -b "$addr" -p "$port" -S all -T v
	n1 rstream -s "$addr" -p "$port" -S all -T v
	served
}

riostream_verifies() {
	serve "$server_ns" "$port" riostream -b "$addr" -p "$port" -S all -T v
	n1 riostream -s "$addr" -p "$port" -S all -T v
	served
}

rcopy_compares() {
	head -c 64M /dev/urandom >"$scratch/sent"
	serve "$server_ns" "$port" rcopy -p "$port"
	n1 rcopy -p "$port" "$scratch/sent" "$addr:$scratch/copied"
	cmp "$scratch/sent" "$scratch/copied"
	rm "$scratch/sent" "$scratch/copied"
}

stages=0
# claims PATH FAMILY FUNCTION...
claims() {
	local path=$1 family=$2 function
	shift 2
	for function; do
		stages=$((stages + 1))
		stage "${function//_/ } over $path, IPv$family" \
			on "$path" "$family" $((7200 + stages)) "$function"
	done
}

all=(rping_verifies ucmatose_ten_connections rdma_client_server rdma_xclient_xserver
	rstream_verifies riostream_verifies rcopy_compares)

plan $((4 * ${#all[@]} + 6))
for path in veth-1500 dummy lo; do
	setup make_path "$path"
done
claims veth-1500 4 "${all[@]}"
claims veth-1500 6 "${all[@]}"
claims dummy 4 rping_verifies ucmatose_ten_connections
claims dummy 6 rping_verifies ucmatose_ten_connections
claims lo 4 "${all[@]}"
claims lo 6 "${all[@]}"
setup remove_path veth-1500
setup make_path veth-9000
claims veth-9000 4 rping_verifies
claims veth-9000 6 rping_verifies
finish
