#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# Whatever is taken away during full traffic, both ends are told and nothing hangs.
#
# LOOPS=50 does each 50 times.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

loops=${LOOPS:-3}
port=7400

# Four connections write, read and send all the time, from ns1 to ns2. Each end's words go to a file.
start_traffic() {
	port=$((port + 1))
	serve "$ns2" "$port" "$programs/peer" --connections 4 --size 262144 \
		listen 10.77.0.2 "$port" >"$scratch/server" || { cat "$scratch/server"; return 1; }
	start "$ns1" "$programs/peer" --connections 4 --size 262144 --endless \
		connect 10.77.0.2 "$port" >"$scratch/client"
	client=$!
	wait_until 20 grep -q '^data' "$scratch/client" || { cat "$scratch"/*; return 1; }
}

# told FILE EVENT...: the end that wrote FILE names an event for each of its four connections.
told() {
	local file=$1 events
	shift
	printf -v events '|RDMA_CM_EVENT_%s' "$@"
	[[ $(grep -Ec "^(${events:1})$" "$scratch/$file") -eq 4 ]] && return
	cat "$scratch/$file"
	return 1
}

# Both ends finish by themselves, with status 0: each of their connections had its event.
both_end_with() {
	wait "$client" || { cat "$scratch/client"; return 1; }
	served || { cat "$scratch/server"; return 1; }
	told client "$@"
	told server "$@"
}

# repeat FUNCTION: with links and traffic made anew each time.
repeat() {
	local i
	for ((i = 1; i <= loops; i++)); do
		say "--- $1, time $i of $loops"
		{ has_link "x$$v1" && has_link "x$$v2"; } || remake_path
		start_traffic
		"$1"
	done
}

remake_path() {
	ip -n "$ns1" link show veth1 >/dev/null 2>&1 && ip1 link del veth1
	wait_until 20 has_no_link "x$$v2"
	make_path veth-1500
}

link_deleted() {
	limit_time del_link "x$$v1"
	both_end_with DISCONNECTED DEVICE_REMOVAL
	has_no_link "x$$v1"
}

peer_link_deleted() {
	limit_time del_link "x$$v2"
	both_end_with DISCONNECTED DEVICE_REMOVAL
	has_no_link "x$$v2"
}

netdev_deleted() {
	limit_time ip1 link del veth1
	both_end_with DISCONNECTED DEVICE_REMOVAL
	wait_until 20 has_no_link "x$$v1"
	wait_until 20 has_no_link "x$$v2"
}

caller_killed() {
	kill_in "$ns1"
	wait_gone "$client"
	served || { cat "$scratch/server"; return 1; }
	told server DISCONNECTED
}

listener_killed() {
	kill_in "$ns2"
	wait_gone "$server"
	wait "$client" || { cat "$scratch/client"; return 1; }
	told client DISCONNECTED
}

# Refused, the module changes nothing: the traffic goes on. Otherwise all of its links go.
module_removed() {
	if limit_time rmmod "$link_type"; then
		both_end_with DISCONNECTED DEVICE_REMOVAL
		return
	fi
	has_link "x$$v1"
	has_link "x$$v2"
	kill -0 "$client"
	kill -0 "$server"
	kill_in "$ns1"
	served
}

# limit_time COMMAND...: fails if a shell function takes longer than the time limit.
limit_time() {
	local begin=$SECONDS
	"$@" || return
	((SECONDS - begin < limit)) || { say "it took $((SECONDS - begin)) s"; return 1; }
}

plan 6
setup make_path veth-1500
stage "kill -9 of the caller, $loops times"		repeat caller_killed
stage "kill -9 of the listener, $loops times"		repeat listener_killed
stage "rdma link del at the caller, $loops times"	repeat link_deleted
stage "rdma link del at the listener, $loops times"	repeat peer_link_deleted
stage "ip link del of the netdev, $loops times"		repeat netdev_deleted
stage "rmmod, $loops times"				repeat module_removed
finish
