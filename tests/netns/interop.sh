#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# xiw and the kernel's siw understand each other, whoever calls and whoever moves the data.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
if ! modinfo siw >/dev/null 2>&1 && [[ ! -e /sys/module/siw ]]; then
	ktap_skip_all "there is no siw"
	exit "$KSFT_SKIP"
fi

port=7600

# make_mixed_path: xiw in ns1, siw in ns2. siw as the caller waits in silence for a listener that
# has something to say first (ib_write_lat), and does not know the peer-to-peer model.
make_mixed_path() {
	load "$link_type"
	load siw
	make_namespaces
	make_veth 1500
	add_link "$ns1" "x$$v1" veth1
	add_link "$ns2" "x$$v2" veth2 siw
	set_xiw responder_hold 0
}

# set_xiw SETTING VALUE: if ns1 has an xiw device at all.
set_xiw() {
	[[ $link_type != xiw ]] || write_to "/sys/class/infiniband/x$$v1/xiw/$1" "$2"
}

# between SERVER FUNCTION...: SERVER, xiw or siw, is the one that listens.
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

# Two drivers cannot both listen on the wildcard address of one port: the server is told its own.
perftest() {
	local options=(-R -F -p "$port" "${@:2}")
	serve "$server_ns" "$port" "$1" -d "$server_dev" --bind_source_ip="$addr4" "${options[@]}"
	in_ns "$client_ns" "$1" -d "$client_dev" "${options[@]}" "$addr4"
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

# siw has no atomics. The request that it does not know is the one that completes in error.
atomic_refused() {
	serve "$server_ns" "$port" "$programs/peer" listen "$addr4" "$port"
	in_ns "$client_ns" "$programs/peer" --no-atomics connect "$addr4" "$port"
	served
}

# perftest's server does nothing in one-sided tests; -b makes it move data, too.
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
# Off at both ends, as siw has it by default: xiw then asks for none, either.
setup set_xiw crc 0
for claim in "${claims[@]}"; do
	claim "$claim" siw off
done
finish
