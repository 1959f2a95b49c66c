#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# xiw and the kernel's siw work with each other, in both directions.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
if ! modinfo siw >/dev/null 2>&1 && [[ ! -e /sys/module/siw ]]; then
	ktap_skip_all "there is no siw"
	exit "$KSFT_SKIP"
fi

port=7600

# make_mixed_path: puts xiw into ns1 and siw into ns2. siw does not know the peer-to-peer model. In
# ib_write_lat the listener sends first, and siw as the caller sends nothing before that, so xiw
# must not wait for the caller's first FPDU.
make_mixed_path() {
	load "$link_type"
	load siw
	make_namespaces
	make_veth 1500
	add_link "$ns1" "x$$v1" veth1
	add_link "$ns2" "x$$v2" veth2 siw
	set_xiw responder_hold 0
}

# set_xiw SETTING VALUE: changes a setting if ns1 has an xiw device.
set_xiw() {
	[[ $link_type != xiw ]] || write_to "/sys/class/infiniband/x$$v1/xiw/$1" "$2"
}

# between SERVER FUNCTION...: runs FUNCTION with SERVER, xiw or siw, as the listener.
between() {
	if [[ $1 == siw ]]; then
		server_ns=$ns2 server_dev=x$$v2 client_ns=$ns1 client_dev=x$$v1
		addr4=10.77.0.2 addr6=fd77::2
	else
		server_ns=$ns1 server_dev=x$$v1 client_ns=$ns2 client_dev=x$$v2
		addr4=10.77.0.1 addr6=fd77::1
	fi
	"${@:2}"
}

# Two drivers cannot listen on the same port of the wildcard address, so bind the server to its own
# address.
perftest() { perftest_retried run_perftest "$@"; }

run_perftest() {
	local options=(-R -F -p "$port" "${@:2}")
	serve "$server_ns" "$port" "$1" -d "$server_dev" --bind_source_ip="$addr4" \
		"${options[@]}" || return
	in_ns "$client_ns" "$1" -d "$client_dev" "${options[@]}" "$addr4" 2>&1 |
		tee "$scratch/client" || return
	served
}

rping_verifies() {
	local addr=$1
	serve "$server_ns" "$port" rping -s -a "$addr" -p "$port" -C 30 -S 60000 -V
	in_ns "$client_ns" rping -c -a "$addr" -p "$port" -C 30 -S 60000 -V
	served
}
rping_ipv4() { rping_verifies "$addr4"; }
rping_ipv6() { rping_verifies "$addr6"; }

# The peers write, read back, send and compare.
data_compared() {
	serve "$server_ns" "$port" "$programs/peer" --size 262144 --connections 3 \
		listen "$addr4" "$port"
	in_ns "$client_ns" "$programs/peer" --size 262144 --times 3 \
		connect "$addr4" "$port"
	served
}

# siw has no atomics. The atomic request must be the one that completes in error.
atomic_refused() {
	serve "$server_ns" "$port" "$programs/peer" listen "$addr4" "$port"
	in_ns "$client_ns" "$programs/peer" --no-atomics connect "$addr4" "$port"
	served
}

# In one-sided tests perftest's server is idle; -b makes it move data, too.
claims=(
	"perftest ib_write_bw -n 200"
	"perftest ib_write_bw -n 200 -b"
	"perftest ib_write_lat -n 200"
	"perftest ib_read_bw -n 200"
	"perftest ib_read_bw -n 200 -b"
	"perftest ib_read_lat -n 200"
	"perftest ib_send_bw -n 200"
	"perftest ib_send_bw -n 200 -b"
	"perftest ib_send_lat -n 200"
	"rping_ipv4"
	"rping_ipv6"
	"data_compared"
)

# claim CLAIM SERVER CRC
claim() {
	port=$((port + 1))
	# shellcheck disable=SC2086 # words
	stage "${1//_/ }, $2 listens, CRC $3" between "$2" $1
}

plan $((3 * ${#claims[@]} + 1))
setup make_mixed_path
for claim in "${claims[@]}"; do
	claim "$claim" siw on
	claim "$claim" xiw on
done
claim "atomic_refused" siw on
# Without CRCs at both ends. That is siw's default, so only xiw must be told.
setup set_xiw crc 0
for claim in "${claims[@]}"; do
	claim "$claim" siw off
done
finish
