#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# Data is whole over a network that loses, delays, repeats or corrupts packets, and traffic goes on
# after the network or a process was away for some seconds (OUTAGE_SECONDS).

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

port=7800
outage_s=${OUTAGE_SECONDS:-3}
# After an outage TCP's next attempt may come as late as the outage was long. On a slow machine TCP
# waits for seconds after one packet is lost, and twice as long after each further one.
patience=$((40 + 2 * outage_s))
between_cuts_s=$((limit / 20))
limit=$((limit + 5 * patience))
counters=(TcpRetransSegs TcpExtTCPOFOQueue TcpExtTCPDSACKRecv TcpInCsumErrors)

# goes_on: the traffic goes on, and each end has reported nothing but connections and data.
goes_on() {
	local before
	before=$(segments)
	wait_until $((20 + patience)) more_segments_than $((before + 1000)) || return
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

# A stateful firewall of the listener forgets its connections, and takes them up in the middle.
conntrack_forgets() {
	local status=0
	n2 nft -f - <<-EOT
		table inet stateful {
			chain in {
				type filter hook input priority 0; policy drop;
				ct state established accept
				meta l4proto tcp tcp dport $port ct state new counter accept
				meta l4proto { icmp, icmpv6 } accept
			}
		}
	EOT
	flushes_thrice || status=$?
	n2 nft delete table inet stateful
	return "$status"
}

# four_are_tracked: the firewall knows all connections, whichever end it heard first.
four_are_tracked() {
	ip netns exec "$ns2" conntrack -L -p tcp >"$scratch/tracked" 2>/dev/null || return
	[[ $(grep -c "port=$port " "$scratch/tracked") -eq 4 ]]
}

flushes_thrice() {
	for _ in 1 2 3; do
		goes_on || return
		wait_until 20 four_are_tracked || return
		n2 conntrack -F || return
	done
	goes_on || return
	n2 nft list table inet stateful >"$scratch/stateful"
	grep -E 'packets ([4-9]|[1-9][0-9])' "$scratch/stateful" || { cat "$scratch/stateful"; return 1; }
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

# unimpaired: removes what a stage that has failed may have left.
unimpaired() {
	tc -n "$ns1" qdisc del dev veth1 root 2>/dev/null || true
	tc -n "$ns2" qdisc del dev veth2 root 2>/dev/null || true
}

# verified [OPTION...]: random programs of all kinds do what the model says, for VERIFY_SECONDS. The
# listening end is in the second namespace, the calling end in the first one.
verified() {
	local seconds=${VERIFY_SECONDS:-2} limit=$limit seed=()
	((limit > seconds + 90)) || limit=$((seconds + 90))
	[[ ! ${XIW_SEED:-} ]] || seed=(--seed "$XIW_SEED" --programs 1000000000)
	[[ ! ${VERIFY_SEED:-} ]] || seed=(--seed "$VERIFY_SEED")
	n2 env "CALLER_NETNS=$ns1" "$programs/verify" "$addr" "${seed[@]}" --seconds "$seconds" "$@"
}

# strained NETEM...: random programs do what the model says while tc-netem(8) impairs both directions.
strained() {
	local counter total=0
	use_path veth-1500 4
	tc -n "$ns1" qdisc replace dev veth1 root netem "$@"
	tc -n "$ns2" qdisc replace dev veth2 root netem "$@"
	for counter in "${counters[@]}"; do
		total=$((total - $(tcp_counter "$counter" "$ns1" "$ns2")))
	done
	verified
	unimpaired
	for counter in "${counters[@]}"; do
		total=$((total + $(tcp_counter "$counter" "$ns1" "$ns2")))
	done
	say "$total faults were seen by TCP"
	((total))
}

# cut_off NS NETDEV: takes the interface down for a moment, again and again. It takes up to a second
# until the port is up again, and the debug kernel needs more time to connect in between.
cut_off() {
	local n=0
	sleep 1
	while ip -n "$1" link set "$2" down; do
		sleep 0.3
		ip -n "$1" link set "$2" up
		n=$((n + 1))
		echo "$n faults: the interface was down" >"$scratch/cuts"
		sleep "$between_cuts_s"
	done
}

cut_again_and_again() {
	local cutter status=0
	use_path veth-1500 4
	unimpaired
	rm -f "$scratch/cuts"
	cut_off "$ns1" veth1 &
	cutter=$!
	# On a busy machine all programs may be done before the first cut.
	until [[ $status -ne 0 || -s $scratch/cuts ]] || ! kill -0 "$cutter"; do
		verified --cut 1 || status=$?
	done
	kill "$cutter"
	wait "$cutter" || true
	ip1 link set veth1 up
	cat "$scratch/cuts"
	return "$status"
}

random="random programs do what the model says"
mapfile -t claims <<-END
	impaired TcpRetransSegs loss 1%		| data is whole if 1 % of the packets are lost
	impaired TcpRetransSegs loss 10%	| data is whole if 10 % of the packets are lost
	impaired TcpExtTCPOFOQueue delay 2ms reorder 30%	| data is whole if packets overtake others
	impaired TcpExtTCPDSACKRecv duplicate 10%	| data is whole if packets come twice
	impaired TcpInCsumErrors corrupt 2%	| data is whole if packets are corrupted
	impaired TcpOutSegs delay 50ms		| data is whole if packets take 50 ms
	impaired TcpOutSegs rate 50mbit		| data is whole if the network is slow
	outlives link_goes_down			| traffic outlives its interface being down
	outlives mtu_changes			| traffic outlives changes of the MTU
	outlives address_goes			| traffic outlives its address being away
	outlives route_goes			| traffic outlives its route being away
	outlives conntrack_forgets		| traffic outlives a firewall that forgets its connections
	outlives name_changes			| traffic outlives a new name of its interface
	outlives caller_stops			| traffic outlives a caller that is stopped
	outlives listener_stops			| traffic outlives a listener that is stopped
	strained loss 1%			| verify: $random if packets are lost
	strained delay 2ms reorder 30%		| verify: $random if packets overtake others
	strained duplicate 10%			| verify: $random if packets come twice
	strained corrupt 1%			| verify: $random if packets are corrupted
	cut_again_and_again			| verify: $random if the interface is down now and then
	netdev_moves_away			| a caller is told if its interface moves away
END

need pkill tc nft conntrack
sample claims
plan "${#claims[@]}"
setup make_path veth-1500
for claim in "${claims[@]}"; do
	# shellcheck disable=SC2086 # words
	stage "${claim#*| }" ${claim%%|*}
done
finish
