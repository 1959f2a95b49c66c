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

# What TCP keeps for a minute of each connection that was closed would look like growth.
no_time_wait() {
	local ns
	for ns in "$ns1" "$ns2"; do
		ip netns exec "$ns" sysctl -qw net.ipv4.tcp_max_tw_buckets=0
	done
}

# release: frees what is kept only because nobody wants it, so that what is in use can be counted:
# caches keep slabs, and CPUs keep objects and pages.
release() {
	local shrink
	sync
	echo 3 >/proc/sys/vm/drop_caches
	for shrink in /sys/kernel/slab/*/shrink; do
		[[ -L ${shrink%/shrink} ]] || echo 1 >"$shrink"
	done
}

# objects: of each slab cache, by name. Not those for vmalloc's areas, of which the kernel frees
# many at once; what is leaked with them are pages.
objects() { awk 'NR > 2 && $1 != "vmap_area" { print "slab:" $1, $2 }' /proc/slabinfo; }

# pages: that belong to neither processes, files nor slabs; vmalloc and page tables are among them.
# Free ones that a CPU keeps at hand are not in MemFree.
pages() {
	cat /proc/zoneinfo /proc/meminfo | awk '
		$1 == "count:" { at_hand += $2 }
		/^(MemTotal|MemFree|AnonPages|Cached|Buffers|Slab):/ { of[$1] = $2 / 4 }
		END {
			known = of["AnonPages:"] + of["Cached:"] + of["Buffers:"] + of["Slab:"]
			print "pages", of["MemTotal:"] - of["MemFree:"] - at_hand - known
		}'
}

# pinned: pages that a device may write to.
pinned() {
	awk '
		$1 == "nr_foll_pin_acquired" { pinned += $2 }
		$1 == "nr_foll_pin_released" { pinned -= $2 }
		END { print "pinned", pinned }' /proc/vmstat
}

in_use() {
	release
	{ objects; pages; pinned; } | sort -k 1,1
}

# grown BEFORE AFTER LIMIT: what there is more of than before: by the limit; of pinned pages, any.
grown() {
	join "$1" "$2" | awk -v limit="$3" '
		{ more = $3 - $2 }
		more >= ($1 == "pinned" ? 1 : limit) { print $1 " grew by " more; grew = 1 }
		END { exit !grew }'
}

# settled: nothing is on its way out any more, like what waits for RCU.
settled() {
	in_use >"$scratch/before"
	sleep 1
	in_use >"$scratch/after"
	! grown "$scratch/after" "$scratch/before" 50 >"$scratch/grown"
}

not_grown() {
	in_use >"$scratch/after"
	! grown "$scratch/before" "$scratch/after" "$1" >"$scratch/grown"
}

# no_growth ROUND COUNT TIMES: after a first round, which fills the caches, so many more of them
# leave less of everything than one for each ten of their connections, each of COUNT.
no_growth() {
	local round=$1 limit=$(($2 * $3 / 10))
	"$round" 1
	wait_until 30 settled || { say "of what was there before:"; cat "$scratch/grown"; return 1; }
	"$round" "$3"
	wait_until 20 not_grown "$limit" || { cat "$scratch/grown"; return 1; }
	say "$(($2 * $3)) connections, of nothing $limit more:"
	grown "$scratch/before" "$scratch/after" $((limit / 20)) || true
}

# refuse TIMES: each time 300 wrong Requests, and 20 that the application rejects.
refuse() {
	local i
	for ((i = 0; i < $1; i++)); do
		n2 "$programs/../wire/startup" 10.77.0.2 \
			"MPA-20 refused and rejected connections leave nothing behind"
	done
	no_objects_left
}

plan 2
setup make_path veth-1500
setup no_time_wait
limit=500
stage "$connections connections, ten times over, leave nothing" \
	no_growth open_and_close "$connections" 10
stage "MPA-20 refused and rejected connections leave nothing" no_growth refuse 320 10
finish
