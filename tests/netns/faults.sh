#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# If memory is short anywhere, the caller is told, nothing is left behind, and once there is memory
# again everything works.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

debugfs=/sys/kernel/debug
kinds=(failslab fail_page_alloc)
many=1000000000	# the kernel counts down from here what it makes fail

mapfile -t claims < <(claims_of "$programs" faults faults_sites faults_connect)
mapfile -t connecting < <(claims_of "$programs" faults_connect)

# Two devices on this host. Over the second one no TCP carries the data.
make_devices() {
	make_path dummy
	set_loopback "$client_dev" 0
	ip1 link add loop type dummy
	ip1 addr add 10.79.0.1/24 dev loop
	ip1 link set loop up
	add_link "$ns1" "x$$o" loop
	mountpoint -q "$debugfs" || mount -t debugfs none "$debugfs"
	[[ -e $debugfs/failslab/require-start ]]
	keep_settings >"$scratch/settings"
}

# prove ADDRESS CLAIM: runs the program, which has both ends of each connection.
prove() {
	LIMIT=100 n1 env LOOP_ADDRESS=10.79.0.1 "$programs/${2%%: *}" "$1" "${2#*: }"
}

# code_of PATTERN: prints the first and the last address of the functions whose lines in
# /proc/kallsyms match the pattern.
code_of() {
	awk -v "pattern=$1" '$2 ~ /^[tT]$/ && $0 ~ pattern { print "0x" $1 }' /proc/kallsyms |
		sort | sed -n '1p;$p'
}

# only_in BEGIN END: allocations fail only in functions that this code calls.
only_in() {
	local kind
	for kind in "${kinds[@]}" fail_usercopy; do
		echo 0 >"$debugfs/$kind/probability"
		echo 0 >"$debugfs/$kind/verbose"
		echo 0 >"$debugfs/$kind/task-filter"
		echo "$many" >"$debugfs/$kind/times"
		echo "$1" >"$debugfs/$kind/require-start"
		echo "$2" >"$debugfs/$kind/require-end"
	done
	for kind in "${kinds[@]}"; do
		echo 0 >"$debugfs/$kind/ignore-gfp-wait"
	done
	echo 0 >"$debugfs/fail_page_alloc/min-order"
	echo 0 >"$debugfs/fail_page_alloc/ignore-gfp-highmem"
}

# keep_settings: prints the kernel's settings, for restore_settings. Later themes have failures of
# their own, which rely on them.
keep_settings() { (cd "$debugfs" && grep -H . fail{slab,_page_alloc,_usercopy}/*); }

restore_settings() {
	local file value
	starve 0
	while IFS=: read -r file value; do
		echo "$value" >"$debugfs/$file"
	done
}

# starve PERCENT [N]: from now on these allocations fail at random, or with 100 percent each Nth one.
# starve 0 ends that.
starve() {
	local kind
	for kind in "${kinds[@]}"; do
		echo "${2:-1}" >"$debugfs/$kind/interval"
		echo "$1" >"$debugfs/$kind/probability"
	done
}

# injected: prints how much has failed since only_in.
injected() {
	local kind left sum=0
	for kind in "${kinds[@]}"; do
		read -r left <"$debugfs/$kind/times"
		sum=$((sum + many - left))
	done
	echo "$sum"
}

only_in_module() {
	local code
	mapfile -t code < <(code_of '\\[xiw\\]$')
	only_in "${code[@]}"
}

# Each Nth allocation fails while a link is added and its netdev deleted, for ever larger N. A link
# that could not be added leaves nothing, and the next one can be added.
links_at_random() {
	local n added=0 refused=0
	only_in_module
	for ((n = 4; n < 4000; n += n / 5 + 1)); do
		ip -n "$ns1" link add of_stage type dummy
		starve 100 "$n"
		if ip netns exec "$ns1" rdma link add "x$$r" type xiw netdev of_stage 2>/dev/null; then
			added=$((added + 1))
		else
			refused=$((refused + 1))
			has_no_link "x$$r"
		fi
		ip -n "$ns1" link del of_stage
		wait_until 20 has_no_link "x$$r"
		starve 0
	done
	say "$(injected) failures: $added links were added, $refused were not"
	((added && refused))
}

# A namespace ends while its connections are busy.
namespace_at_random() {
	local i ns=xiw-$$-3
	only_in_module
	for ((i = 0; i < 2; i++)); do
		ip netns add "$ns"
		ip -n "$ns" link set lo up
		ip -n "$ns" link add dummy type dummy
		ip -n "$ns" addr add 10.80.0.1/24 dev dummy
		ip -n "$ns" link set dummy up
		add_link "$ns" "x$$n" dummy
		serve "$ns" 7500 "$programs/peer" --connections 4 --size 65536 listen 10.80.0.1 7500
		start "$ns" "$programs/peer" --connections 4 --size 65536 --endless \
			connect 10.80.0.1 7500 >"$scratch/client"
		wait_until 20 grep -q '^data' "$scratch/client" || { cat "$scratch/client"; return 1; }
		starve $((5 * (i + 1)))
		kill_in "$ns"
		ip netns del "$ns"
		wait_until 20 has_no_link "x$$n"
		starve 0
	done
	say "$(injected) failures"
	(($(injected)))
}

# The nth allocation of the module's own start fails, for each n.
module_at_each() {
	local code nth before
	all_removed
	mapfile -t code < <(grep -A 1 ' do_init_module$' /proc/kallsyms | awk '{ print "0x" $1 }')
	[[ ${#code[@]} -eq 2 ]]
	only_in "${code[@]}"
	for ((nth = 1; nth < 500; nth++)); do
		before=$(injected)
		if bash -c "echo $nth >/proc/self/fail-nth; exec modprobe xiw" 2>/dev/null; then
			[[ -e /sys/module/xiw ]]
			wait_until 20 unload xiw >/dev/null
		fi
		[[ ! -e /sys/module/xiw ]]
		wait_until 20 has_no_threads
		(($(injected) > before)) || break
	done
	say "$(injected) failures"
	((nth > 15 && nth < 500))
}

plan $((${#claims[@]} + ${#connecting[@]} + 3))
use_path dummy 4
setup make_devices
for claim in "${claims[@]}"; do
	stage "$claim" prove "$addr" "$claim"
done
for claim in "${connecting[@]}"; do
	stage "one host: $claim" prove 10.79.0.1 "$claim"
done
stage "a link is added or not, and leaves nothing" links_at_random
starve 0	# if the stage has failed
stage "a namespace ends, with failures at random" namespace_at_random
starve 0
stage "the module is loaded or not, with a failure at each step" module_at_each
restore_settings <"$scratch/settings"
finish
