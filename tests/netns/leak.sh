#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# Hundreds of connections, opened, used and closed ten times over, leave nothing behind, and neither
# does the module when it is unloaded.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

connections=${CONNECTIONS:-1000}
port=7700

# open_and_close TIMES: opens all connections together, transfers data over each and closes them.
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

# TCP keeps each closed connection in TIME_WAIT for a minute, which would look like growth.
no_time_wait() {
	local ns
	for ns in "$ns1" "$ns2"; do
		ip netns exec "$ns" sysctl -qw net.ipv4.tcp_max_tw_buckets=0
	done
}

# release: frees memory that is only cached, because only memory in use is to be counted. Caches
# keep slabs, and CPUs keep free objects and pages.
release() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
	shrink_slabs '*'
}

# objects: prints the number of objects in each slab cache. It leaves out those for vmalloc's areas,
# because the kernel frees these late and many at once; a leaked area shows up as leaked pages.
objects() { awk 'NR > 2 && $1 != "vmap_area" { print "slab:" $1, $2 }' /proc/slabinfo; }

# pages: prints the number of pages that belong to no process, file or slab, such as those of
# vmalloc and page tables. MemFree does not count the free pages in the per-CPU lists, so subtract
# them.
pages() {
	cat /proc/zoneinfo /proc/meminfo | awk '
		$1 == "count:" { at_hand += $2 }
		/^(MemTotal|MemFree|AnonPages|Cached|Buffers|Slab):/ { of[$1] = $2 / 4 }
		END {
			known = of["AnonPages:"] + of["Cached:"] + of["Buffers:"] + of["Slab:"]
			print "pages", of["MemTotal:"] - of["MemFree:"] - at_hand - known
		}'
}

# pinned: prints the number of pinned pages, which devices may write to.
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

# grown BEFORE AFTER LIMIT: prints each count that grew by LIMIT or more; any growth of pinned pages
# counts. Succeeds if there is one.
grown() {
	join "$1" "$2" | awk -v limit="$3" '
		{ more = $3 - $2 }
		more >= ($1 == "pinned" ? 1 : limit) { print $1 " grew by " more; grew = 1 }
		END { exit !grew }'
}

# settled LIMIT: succeeds when no count falls by LIMIT any more. Memory that waits for RCU is freed
# late. The limit has to be larger than two slabs: the slab that a CPU takes objects from counts as
# full, and reading the counts makes inodes, of which lsm_inode_cache has 73 in a slab.
settled() {
	in_use >"$scratch/before"
	sleep 1
	in_use >"$scratch/after"
	! grown "$scratch/after" "$scratch/before" "$1" >"$scratch/grown"
}

not_grown() {
	in_use >"$scratch/after"
	! grown "$scratch/before" "$scratch/after" "$1" >"$scratch/grown"
}

# no_growth ROUND COUNT TIMES: runs ROUND, which makes COUNT connections or as much else, once to
# fill the caches and then TIMES times. No count may grow by one per ten of these, or more.
no_growth() {
	local round=$1 limit=$(($2 * $3 / 10))
	"$round" 1
	wait_until 30 settled $((limit / 2)) || { say "the counts still fall:"; cat "$scratch/grown"; return 1; }
	"$round" "$3"
	wait_until 20 not_grown "$limit" || { cat "$scratch/grown"; return 1; }
	say "no count grew by $limit in $3 rounds of $2; these grew by a twentieth of that:"
	grown "$scratch/before" "$scratch/after" $((limit / 20)) || true
}

# refuse TIMES: sends TIMES times 300 wrong Requests, and 20 that the application rejects.
refuse() {
	local i
	for ((i = 0; i < $1; i++)); do
		n2 "$programs/../wire/startup" 10.77.0.2 \
			"MPA-20 refused and rejected connections leave nothing behind"
	done
	no_objects_left
}

# reload TIMES: moves data over two connections, unloads the module and loads it again. The module
# keeps at least 8 pages for data on each CPU that has sent some, so a round counts for 80
# connections.
reload() {
	local i connections=2
	for ((i = 0; i < $1; i++)); do
		open_and_close 1
		all_removed
		load "$link_type"
		add_link "$ns1" "x$$v1" veth1
		add_link "$ns2" "x$$v2" veth2
	done
}

plan 3
setup make_path veth-1500
setup no_time_wait
limit=500
stage "$connections connections, ten times over, leave nothing behind" \
	no_growth open_and_close "$connections" 10
stage "MPA-20 refused and rejected connections leave nothing behind" no_growth refuse 320 10
stage "a module that is unloaded leaves nothing behind"	no_growth reload 80 40
finish
