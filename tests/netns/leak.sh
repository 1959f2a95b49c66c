#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# Connections by the hundred, opened, used and closed ten times over, leave nothing behind.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

connections=${CONNECTIONS:-1000}
port=7700

# open_and_close TIMES: all connections are open at a time, each has carried data when it closes.
open_and_close() {
	port=$((port + 1))
	serve "$ns2" "$port" "$programs/peer" --connections $((connections * $1)) \
		listen 10.77.0.2 "$port" >"$scratch/server"
	n1 "$programs/peer" --connections "$connections" --times "$1" \
		connect 10.77.0.2 "$port"
	served
	expect_equal "$(grep -c '^open' "$scratch/server")" $((connections * $1)) "opened"
	expect_equal "$(grep -c '^RDMA_CM_EVENT_DISCONNECTED' "$scratch/server")" \
		$((connections * $1)) "closed"
	no_objects_left
}

# memory: unreclaimable slab and vmalloc in KiB, after what waits for RCU is gone and each cache
# has given back the slabs that it keeps empty: Linux 7 keeps more of them than a leak would be.
memory() {
	local shrink
	sync
	echo 3 >/proc/sys/vm/drop_caches
	for shrink in /sys/kernel/slab/*/shrink; do
		[[ -L ${shrink%/shrink} ]] || echo 1 >"$shrink"
	done
	awk '/^(SUnreclaim|VmallocUsed):/ { sum += $2 } END { print sum }' /proc/meminfo
}

settled() {
	local before now
	before=$(memory)
	now=$(memory)
	((now >= before - 64))
}

# Ten more rounds after a first one that fills the caches: no more than a page for each ten
# connections of a round, of which a leak of one object a connection would be a multiple.
# What TCP keeps for a minute of each connection that was closed would look like growth.
no_time_wait() {
	local ns
	for ns in "$ns1" "$ns2"; do
		ip netns exec "$ns" sysctl -qw net.ipv4.tcp_max_tw_buckets=0
	done
}

# slabs: name, KiB in use.
slabs() { awk 'NR > 2 { print $1, int($2 * $4 / 1024) }' /proc/slabinfo | sort; }

# grown FILE: which slabs grew since FILE was written.
grown() {
	slabs | join "$1" - | awk '$3 - $2 > 16 { print "grew by " $3 - $2 " KiB: " $1 }' | sort -k3nr
}

no_growth() {
	local before after
	open_and_close 1
	wait_until 30 settled
	before=$(memory)
	slabs >"$scratch/slabs"
	open_and_close 10
	wait_until 30 settled
	after=$(memory)
	say "slab and vmalloc: $before KiB before, $after KiB after"
	grown "$scratch/slabs"
	((after - before < connections * 10 * 64 / 1024))
}

plan 1
setup make_path veth-1500
setup no_time_wait
limit=500
stage "$connections connections, ten times over, leave nothing" no_growth
finish
