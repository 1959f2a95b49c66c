#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The administrator can count what chosen queue pairs do ("rdma statistic qp"), and the device counts the
# rest.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
need setpriv

dev=x$$v1
port=7900

# claim TEXT COMMAND...: runs a stage; then no rule binds queue pairs any more.
claim() {
	stage "$@"
	automatic off 2>/dev/null || true	# it fails if a queue pair was bound by hand until now
}

# talk [OPTION...]: makes connections that send all the time.
talk() {
	port=$((port + 1))
	serve "$ns2" $port "$programs/peer" --endless "$@" listen 10.77.0.2 $port >"$scratch/server"
	start "$ns1" "$programs/peer" --endless --patience 60 "$@" connect 10.77.0.2 $port >"$scratch/client"
	client=$!
	wait_until 60 grep -q '^data' "$scratch/client"
}

hang_up() {
	kill_below "$client"
	served || true
	wait_until 20 has_counters 0
}

pause_client() { pkill -STOP -P "$client"; }

qps() { rdma -j resource show qp link "$dev" | jq '.[].lqpn'; }
counters() { rdma -j statistic qp show link "$dev/1"; }
has_counters() { [[ $(counters | jq length) == "$1" ]]; }

# counter_number: prints the number of the only counter.
counter_number() { counters | jq '.[0].cntn'; }

# of_counters NAME: prints the sum of all counters. of_device NAME: prints what the device shows.
of_counters() { counters | jq "[.[].$1] | add"; }
of_device() { rdma -j statistic show link "$dev/1" | jq ".[0].$1"; }

has_counted() { [[ $(of_counters "$1") -gt $2 ]]; }

bind_qp() { rdma statistic qp bind link "$dev/1" lqpn "$@"; }
unbind_qp() { rdma statistic qp unbind link "$dev/1" cntn "$1" lqpn "$2"; }
automatic() { rdma statistic qp set link "$dev/1" auto "$@"; }

counts_for_itself() {
	local qpn name
	talk
	qpn=$(qps | head -n 1)
	bind_qp "$qpn"
	for name in tx_wrs tx_bytes tx_fpdus rx_bytes rx_fpdus; do
		wait_until 10 has_counted $name 10
	done
	counters
	expect_equal "$(counters | jq -c '[.[] | [.lqpn[]]]')" "[[$qpn]]" "queue pairs of the counters"
	expect_equal "$(counters | jq '.[0] | has("accepts")')" false "a counter has accepts"
	hang_up
}

# transfer: sends the same number of requests each time, in 20 connections.
transfer() {
	port=$((port + 1))
	serve "$ns2" $port "$programs/peer" --size 20000 --connections 20 listen 10.77.0.2 $port
	n1 "$programs/peer" --size 20000 --times 20 connect 10.77.0.2 $port
	served
}

# watched COMMAND...: runs it, and fills $scratch/watched with the counters that are there meanwhile.
watched() {
	local stage=$BASHPID watcher
	watch_counters "$stage" >"$scratch/watched" &
	watcher=$!
	"$@"
	kill "$watcher"
	wait "$watcher" || true
}

# watch_counters PID: until the process has gone.
watch_counters() { while kill -0 "$1" 2>/dev/null && counters; do :; done; }

# requests_of COMMAND...: sets $requests to how many the device has counted.
requests_of() {
	local before
	before=$(of_device tx_wrs)
	"$@" >"$scratch/out"
	requests=$(($(of_device tx_wrs) - before))
}

loses_nothing() {
	local usual
	requests_of transfer
	usual=$requests
	((usual >= 200))
	automatic type on
	requests_of watched transfer
	expect_ok grep -q lqpn "$scratch/watched"
	expect_equal "$requests" "$usual" "requests"
}

# stand_still: stops the client, and waits until its device has sent all that was posted.
stand_still() {
	pause_client
	wait_until 30 keeps_its_bytes
}
keeps_its_bytes() {
	local before
	before=$(of_device tx_bytes)
	sleep 0.5
	[[ $before == [0-9]* && $(of_device tx_bytes) == "$before" ]]
}

# While nothing is sent, binding and unbinding change no number of the device.
changes_hands() {
	local qpn before
	talk
	qpn=$(qps | head -n 1)
	for _ in 1 2 3; do
		bind_qp "$qpn"
		wait_until 10 has_counted tx_bytes 0
		stand_still
		before=$(of_device tx_bytes)
		unbind_qp "$(counter_number)" "$qpn"
		expect_equal "$(of_device tx_bytes)" "$before" "bytes after unbinding"
		bind_qp "$qpn"
		expect_equal "$(of_counters tx_bytes)" 0 "bytes of a new counter"
		expect_equal "$(of_device tx_bytes)" "$before" "bytes after binding"
		unbind_qp "$(counter_number)" "$qpn"
		pkill -CONT -P "$client"
	done
	has_counters 0
	hang_up
}

automatic_by_type() {
	automatic type on
	talk --connections 3
	expect_equal "$(counters | jq -c '[.[] | .lqpn | length]')" "[$(qps | wc -l)]" "queue pairs"
	wait_until 10 has_counted tx_wrs 10
	hang_up
}

# The server's queue pairs are on the other device. All of the client's are made by one thread.
automatic_by_program() {
	local first
	automatic pid on
	talk
	first=$client
	talk
	expect_equal "$(counters | jq length)" 2 counters
	kill_below "$first"
	hang_up
}

two_share_one() {
	local qpns
	talk --connections 2
	mapfile -t qpns < <(qps)
	bind_qp "${qpns[0]}"
	bind_qp "${qpns[1]}" cntn "$(counter_number)"
	expect_equal "$(counters | jq -c '[.[] | .lqpn | length]')" "[2]" "queue pairs"
	hang_up
}

# All queue pairs of a counter have to fit into one message. The others count for the device.
has_a_limit() {
	automatic type on
	talk --connections 210
	pause_client
	(($(qps | wc -l) >= 210))
	expect_equal "$(counters | jq -c '[.[] | .lqpn | length]')" "[200]" "queue pairs"
	hang_up
}

# The reader looks at the counters of all queue pairs, while one loses its counter again and again. The
# moment in which that could go wrong is short, so this shows little more than that nothing hangs.
ends_while_it_is_read() {
	local qpns
	talk --connections 2
	mapfile -t qpns < <(qps)
	pause_client
	bind_qp "${qpns[0]}"
	watched bind_often "${qpns[1]}" "$(counter_number)"
	(($(grep -c lqpn "$scratch/watched") > 10))
	hang_up
	automatic type on
	for _ in 1 2 3 4 5; do
		talk --connections 3
		watched hang_up
	done
}

# bind_often QPN OTHER: for ten seconds. OTHER is the number of a counter that stays.
bind_often() {
	local end=$((SECONDS + 10))
	while ((SECONDS < end)); do
		bind_qp "$1"
		unbind_qp "$(counters | jq ".[].cntn | select(. != $2)")" "$1"
	done
}

refuses() {
	local qpn
	talk
	qpn=$(qps | head -n 1)
	expect_fail "No such file" bind_qp 999999
	expect_fail "not permitted" setpriv --bounding-set=-net_admin --inh-caps=-net_admin \
		rdma statistic qp bind link "$dev/1" lqpn "$qpn"
	bind_qp "$qpn"
	expect_fail "Cannot allocate memory" bind_qp "$qpn"	# as the core puts it
	expect_fail "Invalid argument" bind_qp "$qpn" cntn "$(counter_number)"
	expect_equal "$(counters | jq length)" 1 counters
	hang_up
}

plan 9
setup make_path veth-1500
claim "a queue pair counts for the counter to which it is bound" counts_for_itself
claim "what it counts is not lost when it goes"		loses_nothing
claim "binding and unbinding change no sum"		changes_hands
claim "a rule binds the queue pairs of all programs"	automatic_by_type
claim "a rule gives each program a counter"		automatic_by_program
claim "two queue pairs share a counter"			two_share_one
LIMIT=300 claim "a counter takes 200 queue pairs"		has_a_limit
claim "counters go while they are read"			ends_while_it_is_read
claim "a queue pair has one counter, from the administrator" refuses
finish
