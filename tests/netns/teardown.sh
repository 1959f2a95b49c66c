#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# When a process, link, netdev, module or CPU goes away during traffic, both ends are told and
# nothing hangs.
#
# LOOPS=50 does everything 50 times. Over veth TCP carries the traffic; over dummy both ends are on
# one host and do not use TCP.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

loops=${LOOPS:-3}
port=7400

# repeat PATH FUNCTION: runs FUNCTION several times, each time with new links and new traffic.
repeat() {
	local i path=$1
	use_path "$path" 4
	for ((i = 1; i <= loops; i++)); do
		say "--- $2, time $i of $loops"
		{ has_link "$client_dev" && has_link "$server_dev"; } || remake_path
		start_traffic
		"$2"
	done
}

one_time() { loops=1 repeat "$@"; }

netdev() { [[ $path == dummy ]] && echo dummy || echo veth1; }

remake_path() {
	ip -n "$ns1" link show "$(netdev)" >/dev/null 2>&1 && ip1 link del "$(netdev)"
	wait_until 20 has_no_link "$server_dev"
	make_path "$path"
}

link_deleted() {
	limit_time del_link "$client_dev"
	both_end_with DISCONNECTED DEVICE_REMOVAL
	has_no_link "$client_dev"
}

peer_link_deleted() {
	limit_time del_link "$server_dev"
	both_end_with DISCONNECTED DEVICE_REMOVAL
	has_no_link "$server_dev"
}

netdev_deleted() {
	limit_time ip1 link del "$(netdev)"
	both_end_with DISCONNECTED DEVICE_REMOVAL
	wait_until 20 has_no_link "$client_dev"
	wait_until 20 has_no_link "$server_dev"
}

listener_killed() {
	kill_below "$server"
	wait "$client" || { cat "$scratch/client"; return 1; }
	told client DISCONNECTED
}

# without_farewell FUNCTION: runs FUNCTION while FIN and RST are dropped. The loop itself must tell
# each end that the other has gone.
without_farewell() {
	local status=0
	n1 nft -f - <<-'EOT'
		table inet silence {
			chain out {
				type filter hook output priority 0;
				tcp flags & (fin | rst) != 0 counter drop
			}
		}
	EOT
	"$1" || status=$?
	n1 nft list table inet silence >"$scratch/dropped"
	grep -E 'packets [1-9]' "$scratch/dropped" || { say "nothing was dropped"; status=1; }
	n1 nft delete table inet silence
	return "$status"
}

caller_vanishes() { without_farewell caller_killed; }
listener_vanishes() { without_farewell listener_killed; }

# Programs that have a device open do not hold the module, because the kernel can disconnect them
# from the device.
module_removed() {
	limit_time rmmod "$link_type"
	both_end_with DISCONNECTED DEVICE_REMOVAL
	has_no_link "$client_dev"
	has_no_link "$server_dev"
}

# cpu_is 0|1: takes CPU 1 offline or online. The traffic must go on, and its worker goes and comes.
cpu_is() {
	local before
	echo "$1" >/sys/devices/system/cpu/cpu1/online
	before=$(segments)
	wait_until 20 more_segments_than $((before + 1000)) || {
		say "no traffic after writing $1 to cpu1/online"
		return 1
	}
	if (($1)); then
		wait_until 5 has_thread 1
	else
		wait_until 5 has_no_thread 1
	fi
}

# Another CPU's worker takes over the queue pairs of the worker of a CPU that goes offline.
cpu_gone() {
	cpu_is 0
	cpu_is 1
	caller_killed
}

cpu_goes() {
	[[ -e /sys/devices/system/cpu/cpu1/online ]] || skip "no CPU can be taken offline here"
	repeat "$1" cpu_gone
}

# limit_time COMMAND...: runs a shell function and fails if it took longer than the time limit.
limit_time() {
	local begin=$SECONDS
	"$@" || return
	((SECONDS - begin < limit)) || { say "it took $((SECONDS - begin)) s"; return 1; }
}

need pkill nft
plan 15
setup make_path veth-1500
setup make_path dummy
stage "kill -9 of the caller, $loops times"		repeat veth-1500 caller_killed
stage "kill -9 of the listener, $loops times"		repeat veth-1500 listener_killed
stage "rdma link del at the caller, $loops times"	repeat veth-1500 link_deleted
stage "rdma link del at the listener, $loops times"	repeat veth-1500 peer_link_deleted
stage "ip link del of the netdev, $loops times"		repeat veth-1500 netdev_deleted
stage "rmmod, $loops times"				repeat veth-1500 module_removed
stage "a CPU goes offline and online under traffic"	cpu_goes veth-1500
stage "one host: kill -9 of the caller, $loops times"	repeat dummy caller_killed
stage "one host: kill -9 of the listener, $loops times"	repeat dummy listener_killed
stage "one host: kill -9 of the caller with FIN and RST filtered"	one_time dummy caller_vanishes
stage "one host: kill -9 of the listener with FIN and RST filtered"	one_time dummy listener_vanishes
stage "one host: rdma link del, $loops times"		repeat dummy link_deleted
stage "one host: ip link del, $loops times"		repeat dummy netdev_deleted
stage "one host: rmmod, $loops times"			repeat dummy module_removed
stage "one host: a CPU goes offline and online under traffic"	cpu_goes dummy
finish
