#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# Data is whole over a network that loses, delays, repeats or corrupts packets, and traffic goes on
# after the network or a process was away for some seconds.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

port=7800
outage_s=3

# goes_on: the traffic goes on, and each end has reported nothing but connections and data.
goes_on() {
	local before
	before=$(segments)
	wait_until 30 more_segments_than $((before + 1000)) || return
	! grep -Ev '^(data$|open|\[)' "$scratch/client" "$scratch/server"
}

# impaired COUNTER NETEM...: traffic goes on while tc-netem(8) impairs both directions. TCP must have
# counted that.
impaired() {
	local counter=$1 before
	shift
	use_path veth-1500 4
	tc -n "$ns1" qdisc replace dev veth1 root netem "$@"
	tc -n "$ns2" qdisc replace dev veth2 root netem "$@"
	before=$(tcp_counter "$counter" "$ns1" "$ns2")
	start_traffic
	goes_on
	caller_killed
	tc -n "$ns1" qdisc del dev veth1 root
	tc -n "$ns2" qdisc del dev veth2 root
	say "$counter: $(($(tcp_counter "$counter" "$ns1" "$ns2") - before))"
	(($(tcp_counter "$counter" "$ns1" "$ns2") > before))
}

# outlives FUNCTION: traffic goes on after FUNCTION.
outlives() {
	use_path veth-1500 4
	start_traffic
	"$1"
	goes_on
	caller_killed
}

link_goes_down() {
	ip1 link set veth1 down
	sleep "$outage_s"
	ip1 link set veth1 up
}

mtu_changes() {
	local mtu
	for mtu in 1280 9000 1500; do
		ip1 link set veth1 mtu "$mtu"
		ip2 link set veth2 mtu "$mtu"
		goes_on
	done
}

# The connection keeps its address, but no packet to it is taken meanwhile.
address_goes() {
	ip1 addr del 10.77.0.1/24 dev veth1
	sleep "$outage_s"
	ip1 addr add 10.77.0.1/24 dev veth1
}

route_goes() {
	ip1 route add blackhole 10.77.0.2/32
	sleep "$outage_s"
	ip1 route del blackhole 10.77.0.2/32
}

name_changes() {
	ip1 link set veth1 down
	ip1 link set veth1 name of_stage
	ip1 link set of_stage up
	goes_on
	ip1 link set of_stage down
	ip1 link set of_stage name veth1
	ip1 link set veth1 up
}

# stops PID: stops the program that "timeout" runs.
stops() {
	pkill -STOP -P "$1"
	sleep "$outage_s"
	pkill -CONT -P "$1"
}

caller_stops() { stops "$client"; }
listener_stops() { stops "$server"; }

# What the caller says to its peer no longer gets there, so only the caller is told.
netdev_moves_away() {
	use_path veth-1500 4
	start_traffic
	ip1 link set veth1 netns "$ns2"
	wait "$client" || { cat "$scratch/client"; return 1; }
	told client DISCONNECTED DEVICE_REMOVAL
	wait_until 20 has_no_link "$client_dev"
	kill_below "$server"
}

need pkill tc
plan 15
setup make_path veth-1500
stage "data is whole if 1 % of the packets are lost"	impaired TcpRetransSegs loss 1%
stage "data is whole if 10 % of the packets are lost"	impaired TcpRetransSegs loss 10%
stage "data is whole if packets overtake others"	impaired TcpExtTCPOFOQueue delay 2ms reorder 30%
stage "data is whole if packets come twice"		impaired TcpExtTCPDSACKRecv duplicate 10%
stage "data is whole if packets are corrupted"		impaired TcpInCsumErrors corrupt 2%
stage "data is whole if packets take 50 ms"		impaired TcpOutSegs delay 50ms
stage "data is whole if the network is slow"		impaired TcpOutSegs rate 50mbit
stage "traffic outlives its interface being down"	outlives link_goes_down
stage "traffic outlives changes of the MTU"		outlives mtu_changes
stage "traffic outlives its address being away"		outlives address_goes
stage "traffic outlives its route being away"		outlives route_goes
stage "traffic outlives a new name of its interface"	outlives name_changes
stage "traffic outlives a caller that is stopped"	outlives caller_stops
stage "traffic outlives a listener that is stopped"	outlives listener_stops
stage "a caller is told if its interface moves away"	netdev_moves_away
finish
