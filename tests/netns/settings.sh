#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The settings of a device are as USING.md says: range, default, effect.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
need socat ss tcpdump setpriv rping

using=$here/../../USING.md
client_dev=x$$v1
server_dev=x$$v2
port=7800

# dir: prints where the settings of the server's device are.
dir() { echo "/sys/class/infiniband/$server_dev/xiw"; }

# table: prints name, smallest value, largest value and default of each row of USING.md.
table() {
	# shellcheck disable=SC2016 # a regular expression
	sed -nE 's/^\| `([a-z_]+)` \| ([0-9]+) to ([0-9]+) \| ([0-9]+) \| .*/\1 \2 \3 \4/p' "$using"
}

# claim TEXT COMMAND...: runs a stage; then both devices get their defaults again, and meet.
claim() {
	local name least most usual dev
	stage "$@"
	while read -r name least most usual; do
		for dev in "$client_dev" "$server_dev"; do
			set_setting "$dev" "$name" "$usual"
		done
	done < <(table)
	for dev in "$client_dev" "$server_dev"; do
		set_setting "$dev" congestion ""
	done
	ip2 link set veth2 up
	meet_neighbours
}

# all_in_table: the files are those of the table, and "congestion".
all_in_table() {
	local names
	names=$(table | cut -d " " -f 1)
	(($(wc -l <<<"$names") > 10))
	expect_equal "$(ls "$(dir)")" "$( (echo congestion; echo "$names") | sort)" "files"
}

have_defaults() {
	local name least most usual
	while read -r name least most usual; do
		expect_equal "$(<"$(dir)/$name")" "$usual" "$name"
	done < <(table)
	expect_equal "$(<"$(dir)/congestion")" "" "congestion"
}

# refuses FILE VALUE BEFORE
refuses() {
	expect_fail "Invalid argument|out of range" write_to "$1" "$2"
	expect_equal "$(<"$1")" "$3" "$1 after \"$2\""
}

have_ranges() {
	local name least most usual value
	while read -r name least most usual; do
		for value in "$least" "$most"; do
			write_to "$(dir)/$name" "$value"
			expect_equal "$(<"$(dir)/$name")" "$value" "$name"
		done
		for value in $((least - 1)) $((most + 1)) on 0x1 1,0 "" 99999999999999999999; do
			refuses "$(dir)/$name" "$value" "$most"
		done
	done < <(table)
}

# connect_two: makes a connection that sends all the time. The caller's program is run by "${without[@]}".
without=()
connect_two() {
	port=$((port + 1))
	serve "$ns2" $port "$programs/peer" --endless --patience 60 listen 10.77.0.2 $port >"$scratch/server"
	start "$ns1" "${without[@]}" "$programs/peer" --endless --patience 60 connect 10.77.0.2 $port >"$scratch/client"
	client=$!
	wait_until 20 grep -q '^data' "$scratch/client"
}

# tcp_of NS: prints what ss tells of the connection of connect_two() at that end.
tcp_of() { ip netns exec "$1" ss -tinmoH state established "( sport = :$port or dport = :$port )"; }

# shows NS REGEX: what ss tells matches.
shows() { tcp_of "$1" | tr '\n' ' ' | tee -a "$scratch/ss" | grep -E "$2" >/dev/null; }

# another_congestion: prints one that is not the default.
another_congestion() {
	[[ $(</proc/sys/net/ipv4/tcp_congestion_control) == reno ]] && echo cubic || echo reno
}

congestion_is_used() {
	local ns other
	other=$(another_congestion)
	set_setting "$client_dev" congestion "$other"
	set_setting "$server_dev" congestion "$other"
	expect_equal "$(<"$(dir)/congestion")" "$other" congestion
	connect_two
	for ns in "$ns1" "$ns2"; do
		expect_ok shows "$ns" " $other "
	done
	set_setting "$client_dev" congestion ""
	connect_two
	expect_ok shows "$ns1" " $(</proc/sys/net/ipv4/tcp_congestion_control) "
	expect_ok shows "$ns2" " $other "
}

# The administrator has chosen it, so a program that may not choose it gets it.
congestion_is_chosen_by_root() {
	local allowed=/proc/sys/net/ipv4/tcp_allowed_congestion_control before
	before=$(<$allowed)
	set_setting "$client_dev" congestion "$(another_congestion)"
	cat /proc/sys/net/ipv4/tcp_congestion_control >$allowed
	without=(setpriv --bounding-set=-net_admin --inh-caps=-net_admin)
	connect_two
	echo "$before" >$allowed
	expect_ok shows "$ns1" " $(another_congestion) "
}

congestion_is_checked() {
	local long other
	other=$(another_congestion)
	printf -v long '%016d' 0
	set_setting "$server_dev" congestion "$other"
	expect_fail "No such file" write_to "$(dir)/congestion" nosuch
	expect_fail "Invalid argument" write_to "$(dir)/congestion" "$long"
	expect_equal "$(<"$(dir)/congestion")" "$other" congestion
}

# In shared mode the files of a device are in each namespace; other stages write those of the host.
only_its_administrators() {
	local name value
	for name in crc congestion; do
		value=$(<"$(dir)/$name")
		expect_fail "not permitted" n2 setpriv --bounding-set=-net_admin --inh-caps=-net_admin \
			bash -c "echo 0 | dd of=$(dir)/$name status=none"
		expect_fail "not permitted" n1 bash -c "echo 0 | dd of=$(dir)/$name status=none"
		expect_equal "$(<"$(dir)/$name")" "$value" "$name"
	done
	n2 bash -c "echo 0 >$(dir)/crc"
	expect_equal "$(<"$(dir)/crc")" 0 crc
}

# packets: prints what tcpdump tells of each packet, on one line. The first line of the file is that of
# start().
packets() { tail -n +2 "$scratch/dump" | paste -d ' ' - -; }

dscp_is_on_the_wire() {
	set_setting "$client_dev" dscp 10
	set_setting "$server_dev" dscp 12
	port=$((port + 1))
	start "$ns1" tcpdump -i veth1 -n -v -l "tcp port $port" >"$scratch/dump" 2>"$scratch/tcpdump"
	wait_until 20 grep -q 'listening on' "$scratch/tcpdump"
	serve "$ns2" $port rping -s -a 10.77.0.2 -p $port -C 3
	n1 rping -c -a 10.77.0.2 -p $port -C 3
	served
	wait_until 10 packets_show 'tos 0x28.* Flags \[S\]'
	wait_until 10 packets_show 'tos 0x28.* Flags \[P'
	wait_until 10 packets_show "tos 0x30.* 10\.77\.0\.2\.$port > .* Flags \[P"
	! packets_show 'tos 0x0[, ].* Flags \[P'
}
packets_show() { packets | grep -E "$1" >/dev/null; }

# buffer NS: prints the size of TCP's receive buffer.
buffer() { tcp_of "$1" | sed -nE 's/.*,rb([0-9]+),.*/\1/p' | head -n 1; }

rcvbuf_is_used() {
	set_setting "$client_dev" rcvbuf 8000000
	set_setting "$server_dev" rcvbuf 8000000
	connect_two
	expect_ok test "$(buffer "$ns1")" -ge 8000000
	expect_ok test "$(buffer "$ns2")" -ge 8000000
}

keepalive_is_used() {
	local ns
	set_setting "$client_dev" keepalive_s 30
	set_setting "$server_dev" keepalive_s 30
	connect_two
	pkill -STOP -P "$client"
	for ns in "$ns1" "$ns2"; do
		wait_until 10 shows "$ns" 'timer:\(keepalive,([0-9]|[12][0-9]|30)(\.[0-9]+)?sec'
	done
}

# Only the end that has sent something without an answer finds out.
user_timeout_is_used() {
	set_setting "$client_dev" user_timeout_ms 1000
	set_setting "$server_dev" user_timeout_ms 1000
	connect_two
	ip2 link set veth2 down
	wait_until 20 one_is_told
}
one_is_told() { grep DISCONNECTED "$scratch/client" "$scratch/server"; }

# silent: connects to the port and sends nothing. Adds the process to callers.
callers=()
silent() {
	start "$ns1" socat -u "TCP:10.77.0.2:$port" -
	callers+=($!)
}

# left N: N of the callers have not been hung up.
left() {
	local pid count=0
	for pid in "${callers[@]}"; do
		gone "$pid" || count=$((count + 1))
	done
	[[ $count -eq $1 ]]
}

established() { ip netns exec "$ns2" ss -tnH state established "sport = :$port" | wc -l; }
has_established() { [[ $(established) == "$1" ]]; }

# By default it has five seconds.
request_has_a_deadline() {
	set_setting "$server_dev" request_ms 60000
	port=$((port + 1))
	serve "$ns2" $port rping -s -a 10.77.0.2 -p $port -P
	silent
	wait_until 10 has_established 1
	sleep 7
	expect_ok left 1
	set_setting "$server_dev" request_ms 500
	silent
	wait_until 4 gone "${callers[1]}"
	expect_ok left 1
}

half_open_is_limited() {
	local i
	set_setting "$server_dev" half_open 3
	set_setting "$server_dev" request_ms 60000
	port=$((port + 1))
	serve "$ns2" $port rping -s -a 10.77.0.2 -p $port -P
	for i in 1 2 3 4 5; do
		silent
		wait_until 10 has_established $((i < 3 ? i : 3))
	done
	wait_until 10 left 3
	sleep 0.5
	expect_ok left 3
	expect_ok gone "${callers[0]}"
	expect_ok gone "${callers[1]}"
}

# A TCP server takes the connection and sends no Reply. By default it has ten seconds.
reply_has_a_deadline() {
	local began
	set_setting "$client_dev" connect_ms 1000
	port=$((port + 1))
	serve "$ns2" $port socat -u "TCP-LISTEN:$port,bind=10.77.0.2" -
	began=$(date +%s%N)
	expect_fail 'CONNECT_ERROR|UNREACHABLE|REJECTED' n1 "$programs/peer" connect 10.77.0.2 $port
	began=$((($(date +%s%N) - began) / 1000000))
	say "$began ms"
	((began >= 1000 && began < 8000))
}

# A claim of both roles, each of which has a Send without a receive. By default each waits one second.
receive_is_waited_for() {
	local began=$SECONDS
	set_setting "$server_dev" receive_wait_ms 3000
	n2 "$programs/../wire/ddp" 10.77.0.2 "DDP-08 a Send without a receive is answered with 1/2/2"
	((SECONDS - began >= 6))
}

# The peer does not answer, and the caller has been killed. By default TCP forgets it after three seconds.
close_has_a_deadline() {
	set_setting "$client_dev" close_ms 60000
	connect_two
	ip2 link set veth2 down
	kill_below "$client"
	sleep 6
	ip netns exec "$ns1" ss -tanH "dport = :$port" | grep ":$port"
}

plan 16
setup make_path veth-1500
stage "USING.md names all settings"			all_in_table
stage "each has the default of USING.md"		have_defaults
claim "each takes its range, and nothing else"		have_ranges
claim "only administrators of its namespace change a setting" only_its_administrators
claim "congestion is that of new connections"		congestion_is_used
claim "congestion applies to programs that may not choose it" congestion_is_chosen_by_root
claim "congestion takes what there is"			congestion_is_checked
claim "dscp is in what both ends send"			dscp_is_on_the_wire
claim "rcvbuf is the least that TCP's buffer has"	rcvbuf_is_used
claim "keepalive_s is the silence that TCP bears"	keepalive_is_used
claim "user_timeout_ms ends a connection without a peer" user_timeout_is_used
claim "request_ms is the time for a Request"		request_has_a_deadline
claim "half_open limits silent connections"		half_open_is_limited
claim "connect_ms is the time for a Reply"		reply_has_a_deadline
claim "receive_wait_ms is the time for a receive request" receive_is_waited_for
claim "close_ms is the time for the peer's farewell"	close_has_a_deadline
finish
