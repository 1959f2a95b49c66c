#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The demo, inside of the guest: two network namespaces with an RDMA device in each, and unmodified
# RDMA programs that talk between them: demo.sh [LINK-TYPE]

set -euo pipefail
type=${1:-xiw}

step() { printf '\n=== %s\n' "$*"; }
run() { printf '\n# %s\n' "$*"; "$@"; }
left() { run ip netns exec left "$@"; }
right() { run ip netns exec right "$@"; }

# listens PORT: succeeds if "right" has a listening socket (state 0A) at this port.
listens() {
	ip netns exec right cat /proc/net/tcp{,6} |
		grep -q "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") [0-9A-F]*:0000 0A"
}

# pair PORT SERVER -- CLIENT: runs the server in "right" and, as soon as it listens, the client in
# "left".
pair() {
	local port=$1 server=() pid
	shift
	while [[ $1 != -- ]]; do
		server+=("$1")
		shift
	done
	shift
	printf '\n# %s &\n' "ip netns exec right ${server[*]}"
	ip netns exec right timeout 60 "${server[@]}" >/tmp/server.log 2>&1 &
	pid=$!
	while ! listens "$port"; do
		kill -0 "$pid" || { cat /tmp/server.log; return 1; }
	done
	left timeout 60 "$@" || { cat /tmp/server.log; return 1; }
	wait "$pid" || { cat /tmp/server.log; return 1; }
}

step "Two network namespaces, joined by a virtual Ethernet cable"
run ip netns add left
run ip netns add right
run ip link add eth0 index 11 netns left type veth peer name eth0 index 12 netns right
left ip addr add 10.0.0.1/24 dev eth0
right ip addr add 10.0.0.2/24 dev eth0
left ip link set eth0 up
right ip link set eth0 up

step "An RDMA device on each Ethernet device; this loads the module"
left rdma link add xiw-left type "$type" netdev eth0
right rdma link add xiw-right type "$type" netdev eth0
run lsmod | head -n 8
run rdma link
left ibv_devinfo -d xiw-left

step "Bandwidth of RDMA writes (perftest)"
pair 18515 ib_write_bw -R -F -d xiw-right -s 65536 -D 3 -- \
	ib_write_bw -R -F -d xiw-left -s 65536 -D 3 10.0.0.2

step "Latency of RDMA reads (perftest)"
pair 18515 ib_read_lat -R -F -d xiw-right -n 1000 -- \
	ib_read_lat -R -F -d xiw-left -n 1000 10.0.0.2

step "Ping-pong by RDMA, data verified (librdmacm)"
pair 7174 rping -s -a 10.0.0.2 -C 10 -S 64 -V -- \
	rping -c -a 10.0.0.2 -C 10 -S 64 -V -v

step "The devices are deleted, and the module is unloaded"
left rdma link del xiw-left
right rdma link del xiw-right
run modprobe -r "$type"
printf '\nThe demo is complete: every command above succeeded.\n'
