#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# A link belongs to the network namespace of its netdev, and other namespaces cannot use it.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
need jq python3 rping tcpdump tshark ucmatose

dev1=x$$v1
dev2=x$$v2
short=$ns1-short

# claim TEXT COMMAND...: runs a lone_stage and removes its namespace $short.
claim() {
	lone_stage "$@"
	kill_in "$short"
	ip netns del "$short" 2>/dev/null
}

# --- the exclusive mode, which can only be set while there is a single namespace ---

set_netns_mode() { rdma system set netns "$1" 2>/dev/null; }

# shows_link NS NAME: succeeds if a process in the namespace sees the link.
shows_link() { ip netns exec "$1" rdma dev show | grep -w "$2" >/dev/null; }

belongs_to_its_namespace() {
	wait_until 30 set_netns_mode exclusive
	make_namespaces
	make_dummy
	add_link "$ns1" "$dev1" dummy
	shows_link "$ns1" "$dev1"
	expect_fail "does.*not exist|Wrong device name|No such device" rdma dev show "$dev1"
	expect_fail "does.*not exist|Wrong device name|No such device" n2 rdma dev show "$dev1"
	rpings "$ns1" 10.78.0.1 7300 "$ns1"
	n1 rdma link del "$dev1"
}

back_to_shared_mode() {
	local ns
	for ns in "$ns1" "$ns2"; do
		kill_in "$ns"
		ip netns del "$ns" 2>/dev/null || true
	done
	wait_until 30 set_netns_mode shared
}

# --- seeing ---

# peers_seen NS: prints how many queue pairs of the link show their peer to a process in the namespace.
peers_seen() {
	ip netns exec "$1" rdma -dd -j resource show qp link "$dev2" |
		jq '[.[] | select(.drv_peer or .drv_tx_bytes)] | length'
}

# completions_seen NS: prints how many completion queues of the link tell it how much they were used.
completions_seen() {
	ip netns exec "$1" rdma -dd -j resource show cq |
		jq "[.[] | select(.ifname == \"$dev2\") | select(.drv_completions)] | length"
}

# In shared mode all namespaces see the link and the numbers of its queue pairs.
tells_no_others() {
	add_link "$ns1" "$dev1" veth1
	add_link "$ns2" "$dev2" veth2
	serve "$ns2" 7301 "$programs/peer" --endless listen 10.77.0.2 7301
	start "$ns1" "$programs/peer" --endless connect 10.77.0.2 7301
	wait_until 10 sees_peers "$ns2" 1
	expect_ok test "$(ip netns exec "$ns1" rdma -j resource show qp link "$dev2" | jq length)" -ge 1
	expect_equal "$(peers_seen "$ns1")" 0 "queue pairs that tell another namespace of their peer"
	expect_ok test "$(completions_seen "$ns2")" -ge 1
	expect_equal "$(completions_seen "$ns1")" 0 "completion queues that tell another namespace"
}
sees_peers() { [[ $(peers_seen "$1") -ge $2 ]]; }

# --- listeners ---

# rpings SERVER_NS ADDRESS PORT CLIENT_NS [OPTION...]: runs rping, which compares the data.
rpings() {
	local server_ns=$1 addr=$2 port=$3 client_ns=$4
	shift 4
	serve "$server_ns" "$port" rping -s -a "$addr" -p "$port" -C 2 -V
	in_ns "$client_ns" rping -c -a "$addr" -p "$port" -C 2 -V "$@"
	served
}

# When the second link is added, the RDMA core makes the listener of ns1 listen on it, too.
takes_no_port_elsewhere() {
	add_link "$ns1" "$dev1" veth1
	serve "$ns1" 7301 rping -s -p 7301
	add_link "$ns2" "$dev2" veth2
	expect_fail "" listens "$ns2" 7301
	rpings "$ns2" 10.77.0.2 7301 "$ns1"
}

# listens_on_link NAME PORT: succeeds if an rdma_cm_id listens, whether it got the TCP port or not.
listens_on_link() { rdma resource show cm_id link "$1" | grep ":$2 " >/dev/null; }

keeps_its_rdma_cm() {
	start "$ns2" python3 -c 'import socket, time
s = socket.create_server(("", 7302))
time.sleep(60)'
	wait_until 20 listens "$ns2" 7302
	add_link "$ns1" "$dev1" veth1
	start "$ns2" rping -s -p 7302
	wait_until 20 listens_on_link "$dev1" 7302
	add_link "$ns2" "$dev2" veth2
	dmesg | tail -n 50 | grep "port in use: .*:7302 does not get this link"
	rpings "$ns2" 10.77.0.2 7303 "$ns1"
}

# --- callers ---

# The rdma_cm finds the device of a netdev by the netdev's index only, and a netdev of another
# namespace may have the same index.
reaches_nobody_elsewhere() {
	local ns
	for ns in "$ns1" "$ns2"; do
		ip -n "$ns" link add of_stage index 177 type dummy
		ip -n "$ns" addr add 10.79.0.1/24 dev of_stage
		ip -n "$ns" link set of_stage up
	done
	add_link "$ns1" "$dev1" of_stage
	rpings "$ns1" 10.79.0.1 7307 "$ns1"
	serve "$ns1" 7308 rping -s -a 10.79.0.1 -p 7308 -C 2
	expect_fail "" n2 rping -c -a 10.79.0.1 -p 7308 -C 2
}

# --- the end of a namespace ---

make_short_namespace() {
	ip netns add "$short"
	ip -n "$short" link set lo up
	ip -n "$short" link add of_stage type veth peer name of_stage netns "$ns2"
	ip -n "$short" addr add 10.79.0.1/24 dev of_stage
	ip2 addr add 10.79.0.2/24 dev of_stage
	ip -n "$short" link set of_stage up
	ip2 link set of_stage up
}

has_data() { grep -qx data "$scratch/client"; }
is_in_ns2() { ip -n "$ns2" link show "$1" >/dev/null 2>&1; }
is_not_in_ns2() { ! is_in_ns2 "$1"; }

# The link between the ends is down, so the closing connection waits until its deadline and keeps
# the namespace. When the namespace goes, so does its netdev, and with it the other end of the veth.
is_kept_for_a_farewell() {
	local client end
	make_short_namespace
	add_link "$short" "$dev1" of_stage
	add_link "$ns2" "$dev2" of_stage
	serve "$ns2" 7310 "$programs/peer" --endless listen 10.79.0.2 7310
	start "$short" "$programs/peer" --endless connect 10.79.0.2 7310 >"$scratch/client"
	client=$!
	wait_until 20 has_data
	ip2 link set of_stage down
	pkill -KILL -P "$client"
	wait "$client" || true
	ip netns del "$short"
	end=$((SECONDS + 2))
	while ((SECONDS < end)); do
		is_in_ns2 of_stage || { say "the namespace went too early"; return 1; }
	done
	wait_until 30 is_not_in_ns2 of_stage
	wait_until 20 has_no_link "$dev1"
}

# --- IP ---

pcap=$scratch/capture.pcap

# packets FILTER: counts packets that match the filter and have TCP payload.
packets() { tshark -r "$pcap" -Y "tcp.len > 0 && $1" 2>/dev/null | wc -l; }

has_packets() { [[ $(packets "$1") -gt 0 ]]; }

# is_on_the_wire FAMILY: all packets of the client have DSCP 46, expedited forwarding. The type of
# service 184 is 46 << 2.
is_on_the_wire() {
	local to=10.77.0.2 from=10.77.0.1 is_from=ip.src class=ip.dsfield.dscp
	[[ $1 == 4 ]] || { to=fd77::2 from=fd77::1 is_from=ipv6.src class=ipv6.tclass.dscp; }
	add_link "$ns1" "$dev1" veth1
	add_link "$ns2" "$dev2" veth2
	rm -f "$pcap"
	start "$ns1" tcpdump -i veth1 -U -w "$pcap" tcp 2>"$scratch/tcpdump"
	wait_until 20 grep -q 'listening on' "$scratch/tcpdump"
	serve "$ns2" 7471 ucmatose -b "$to" -C 2 -c 1
	n1 ucmatose -s "$to" -b "$from" -t 184 -C 2 -c 1
	served
	wait_until 20 has_packets "$is_from == $from"
	expect_equal "$(packets "$is_from == $from && $class != 46")" 0 "packets with another class"
}

works_in_vrf() {
	ip2 link add of_stage type vrf table 77 || skip "cannot make a VRF"
	ip2 link set of_stage up
	ip2 link set veth2 master of_stage
	add_link "$ns1" "$dev1" veth1
	add_link "$ns2" "$dev2" veth2
	rpings "$ns2" 10.77.0.2 7304 "$ns1"
	rpings "$ns2" 0.0.0.0 7305 "$ns1" -a 10.77.0.2
	rpings "$ns1" 10.77.0.1 7306 "$ns2" -I 10.77.0.2
}

need pkill
plan 9
setup load "$link_type"
stage "in exclusive mode a link belongs where it was added"	belongs_to_its_namespace
setup back_to_shared_mode
setup make_namespaces
setup make_veth 1500
claim "a listener takes no port of a link in another namespace"	takes_no_port_elsewhere
claim "a port in use does not cost a new link its rdma_cm"	keeps_its_rdma_cm
claim "a call does not go through a link in another namespace"	reaches_nobody_elsewhere
claim "other namespaces see nothing of its connections"	tells_no_others
claim "a namespace stays until its connections have ended"	is_kept_for_a_farewell
claim "the type of service is on the wire with IPv4"	is_on_the_wire 4
claim "the type of service is on the wire with IPv6"	is_on_the_wire 6
claim "a link works in a VRF"				works_in_vrf
finish
