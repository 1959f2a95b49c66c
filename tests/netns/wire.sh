#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The packets on the wire are what tshark expects from the RFCs, and tracepoints show them, and why a
# connection ended.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
need ib_read_bw ib_send_bw ib_write_bw rping socat tcpdump tshark

pcap=$scratch/capture.pcap
tracing=/sys/kernel/tracing
trace=$scratch/trace

# capture COMMAND...: runs COMMAND and writes its packets to $pcap.
capture() {
	start "$ns1" tcpdump -i veth1 -s 0 -B 65536 -U -w "$pcap" tcp 2>"$scratch/tcpdump"
	wait_until 20 grep -q 'listening on' "$scratch/tcpdump"
	"$@"
	wait_until 20 has_end
	kill_in "$ns1"
	cat "$scratch/tcpdump"
}

# has_end: succeeds if the capture has the FINs of both directions.
has_end() { [[ $(read_capture -Y 'tcp.flags.fin == 1' 2>/dev/null | wc -l) -ge 2 ]]; }

# The dissectors rpcordma and smb_direct would try to decode the payload. Two CPUs may send segments
# of one stream, so segments may come in another order.
read_capture() {
	tshark -r "$pcap" -o tcp.reassemble_out_of_order:TRUE \
		--disable-protocol rpcordma --disable-protocol smb_direct "$@"
}

transfer() {
	serve "$ns2" 7800 "$programs/peer" --size 200000 listen "$1" 7800
	n1 "$programs/peer" --size 200000 connect "$1" 7800
	served
}

rping_verifies() {
	serve "$ns2" 7801 rping -s -a "$1" -p 7801 -C 5 -S 60000 -V
	n1 rping -c -a "$1" -p 7801 -C 5 -S 60000 -V
	served
}

# all_decoded COMMAND...: every octet of the stream after the handshake is in an FPDU that tshark
# decoded, and each CRC is good. To check that, compare the sum of the FPDUs with the octets that
# TCP carried.
all_decoded() {
	local text fpdus good bad
	capture "$@"
	read_capture -V >"$scratch/text" 2>/dev/null
	text=$scratch/text
	fpdus=$(grep -c 'ULPDU length:' "$text" || true)
	good=$(grep -c 'Good CRC32' "$text" || true)
	bad=$(grep -c 'Bad CRC32' "$text" || true)
	say "$fpdus FPDUs, $good good CRCs, $bad bad ones"
	((fpdus > 10))
	expect_equal "$good" "$fpdus" "good CRCs"
	expect_equal "$bad" 0 "bad CRCs"
	nothing_is_malformed
	expect_equal "$(octets_of_fpdus)" "$(octets_of_streams)" "octets in FPDUs"
}

nothing_is_malformed() { ! read_capture -Y _ws.malformed 2>/dev/null | grep .; }

# octets_of_fpdus: an FPDU consists of a length, the ULPDU, a pad and a CRC.
octets_of_fpdus() {
	read_capture -T fields -e iwarp_mpa.ulpdulength -Y iwarp_mpa.fpdu 2>/dev/null |
		tr ',' '\n' | awk '{ sum += int(($1 + 2 + 3) / 4) * 4 + 4 } END { print sum }'
}

# octets_of_streams: counts both directions, except the frames of the handshake. Sequence numbers
# tell the octets of a direction, even if the capture lacks a segment: the first octet is number 1,
# and the FIN has the number behind the last one.
octets_of_streams() {
	read_capture -T fields -e tcp.stream -e tcp.srcport -e tcp.seq -e tcp.len \
		-e iwarp_mpa.pdlength \
		-Y '(tcp.len > 0 || tcp.flags.fin == 1) && !tcp.analysis.retransmission' 2>/dev/null |
		awk '{
			end = $3 + $4 - 1
			if (end > octets[$1, $2])
				octets[$1, $2] = end
			if (NF > 4)
				handshake += 20 + $5
		}
		END {
			for (direction in octets)
				sum += octets[direction]
			print sum - handshake
		}'
}

# count_whole: reads lines of payload in hex. Prints their number, and how many are whole FPDUs.
count_whole() {
	awk '
		function hex(digits, i, n) {
			for (i = 1; i <= length(digits); i++)
				n = n * 16 + index("0123456789abcdef", substr(digits, i, 1)) - 1
			return n
		}
		{
			all++
			at = 1
			while (at <= length($1))
				at += 2 * (int((2 + hex(substr($1, at, 4)) + 3) / 4) * 4 + 4)
			whole += at == length($1) + 1
		}
		END { print all + 0, whole + 0 }'
}

# set_sack 0|1: for the streams that begin from now on.
set_sack() {
	local ns
	for ns in "$ns1" "$ns2"; do
		ip netns exec "$ns" sysctl -qw "net.ipv4.tcp_sack=$1"
	done
}

# fpdus_fill_segments COMMAND...: COMMAND sends many full segments, of 1448 octets, and each
# consists of whole FPDUs. GSO is off so that the capture shows the segments that TCP made. SACK is
# off because two CPUs may reorder segments, and segments with SACK blocks have less room: TCP cuts
# what was made for full ones.
fpdus_fill_segments() {
	local full whole
	set_setting "x$$v1" large_fpdus 0
	set_sack 0
	ip1 link set veth1 gso_max_segs 1
	ip2 link set veth2 gso_max_segs 1
	capture "$@"
	read -r full whole < <(read_capture -Y 'tcp.len == 1448' -T fields -e tcp.payload 2>/dev/null |
		count_whole)
	set_sack 1
	say "$full full segments, $whole of whole FPDUs"
	((full > 100))
	expect_equal "$whole" "$full" "segments of whole FPDUs"
}

# stream_of_short_messages PROGRAM: sends messages of 600 octets; two do not fill a segment.
stream_of_short_messages() { perftest_retried run_perftest "$1" -s 600 -n 500; }

run_perftest() {
	local options=(-R -F -p "$port" "${@:2}")
	serve "$ns2" "$port" "$1" "${options[@]}" || return
	n1 "$1" "${options[@]}" 10.77.0.2 2>&1 | tee "$scratch/client" || return
	served
}

# protect FROM TO SPI: puts the packets from FROM to TO into IPsec.
protect() {
	local ns direction
	for ns in "$ns1" "$ns2"; do
		direction=in
		[[ $(ip -n "$ns" -o addr show to "$1") == "" ]] || direction=out
		ip -n "$ns" xfrm state add src "$1" dst "$2" proto esp spi "$3" mode transport \
			aead 'rfc4106(gcm(aes))' 0x000102030405060708090a0b0c0d0e0f10111213 128
		ip -n "$ns" xfrm policy add src "$1" dst "$2" dir "$direction" \
			tmpl src "$1" dst "$2" proto esp mode transport
	done
}

inside_of_ipsec() {
	ip -n "$ns1" xfrm state list || skip "the kernel has no IPsec (CONFIG_XFRM_USER)"
	protect 10.77.0.1 10.77.0.2 0x101
	protect 10.77.0.2 10.77.0.1 0x102
	transfer 10.77.0.2
	ip -n "$ns1" -s xfrm state | tee "$scratch/states"
	! grep -E '^ +0\(bytes\)' "$scratch/states"
}

# traced COMMAND...: runs COMMAND and writes what the tracepoints say to $trace.
traced() {
	mountpoint -q "$tracing" || mount -t tracefs none "$tracing"
	echo >"$tracing/trace"
	echo 1 >"$tracing/events/xiw/enable"
	"$@"
	echo 0 >"$tracing/events/xiw/enable"
	grep xiw_ "$tracing/trace" >"$trace"
}

# lines REGEX: prints how many lines of the trace match.
lines() { grep -cE "$1" "$trace" || true; }

# both COUNTER: prints the sum of a counter of both devices.
both() { echo $(($(counter "x$$v1" "$1") + $(counter "x$$v2" "$1"))); }

# The programs run on both devices, whose queue pairs have the same numbers. Each line tells the device.
qp="dev=x$$v[12] qpn=[0-9]+"
header='stag=0x[0-9a-f]+ to=0x[0-9a-f]+ qn=[0-3] msn=[0-9]+ mo=[0-9]+ ulpdu=[0-9]+ len=[0-9]+'

# An FPDU that waits for a receive request is looked at more than once.
traces_each_fpdu() {
	local sent received ends fpdu
	set_setting "x$$v1" large_fpdus 0
	sent=$(both tx_fpdus) received=$(both rx_fpdus)
	traced transfer 10.77.0.2
	sent=$(($(both tx_fpdus) - sent)) received=$(($(both rx_fpdus) - received))
	say "$sent FPDUs sent, $received received"
	ends=$(lines "xiw_qp_move: $qp IDLE -> RTS$")
	((sent > 100 && ends >= 2 && ends % 2 == 0))
	fpdu="fpdu: $qp owner=peer pid=[0-9]+ opcode=[A-Z_]+( last)? $header$"
	expect_equal "$(lines "xiw_tx_$fpdu")" "$sent" "FPDUs sent"
	(($(lines "xiw_rx_$fpdu") >= received))
	expect_equal "$(lines "xiw_qp_move: $qp RTS -> ERROR$")" "$ends" "queue pairs that ended"
	(($(lines "xiw_ep_move: $qp id=[0-9]+ [A-Z_]+ -> [A-Z_]+$") > 2 * ends))
}


# captured_headers: prints opcode, last, stag, to, qn, msn, mo and ulpdu of each FPDU in the capture.
captured_headers() {
	read_capture -V 2>/dev/null | awk '
		function plain(hex) {
			sub(/^0x0*/, "0x", hex)
			return hex == "0x" ? "0x0" : hex
		}
		function flush() {
			if (ulpdu)
				print opcode, last, stag, to, qn, msn, mo, ulpdu
		}
		/ULPDU length:/ {
			flush()
			ulpdu = $3
			last = "more"
			stag = to = "0x0"
			qn = msn = mo = 0
		}
		/= Last flag: True/ { last = "last" }
		/Steering Tag:/ { stag = plain($NF) }
		/Tagged offset:/ { to = plain($NF) }
		/Queue number:/ { qn = $NF }
		/Message sequence number:/ { msn = $NF }
		/Message offset:/ { mo = $NF }
		/= OpCode:/ { opcode = $NF }
		END { flush() }'
}

# traced_headers: prints the same of each FPDU that was sent, by the tracepoint.
traced_headers() {
	awk '
		/ xiw_tx_fpdu: / {
			sub(/.* opcode=/, "")
			last = $2 == "last" ? $2 : "more"
			sub(/ last/, "")
			gsub(/[a-z]+=/, "")
			$1 = $1 == "WRITE" ? 0 : $1 == "READ_REQ" ? 1 : $1 == "READ_RESP" ? 2 :
				$1 == "SEND" ? 3 : $1
			print "(0x" $1 ")", last, $2, $3, $4, $5, $6, $7
		}' "$trace"
}

# Sends, Writes, Read Requests and Responses, of one and of many FPDUs.
traces_each_header() {
	set_setting "x$$v1" large_fpdus 0
	traced capture transfer 10.77.0.2
	captured_headers | sort >"$scratch/captured"
	traced_headers | sort >"$scratch/traced"
	cut -d' ' -f 1,2 "$scratch/captured" | uniq -c
	(($(wc -l <"$scratch/captured") > 100))
	diff "$scratch/captured" "$scratch/traced"
}

# Each request is taken once and done once, and both ends tell what they agreed on.
traces_each_request() {
	local requests connections request
	set_setting "x$$v1" large_fpdus 0
	requests=$(both tx_wrs)
	traced transfer 10.77.0.2
	requests=$(($(both tx_wrs) - requests))
	connections=$(lines "xiw_connect: $qp initiator crc=1 tx_markers=0 tx_large_fpdus=0 ")
	say "$requests requests, $connections connections"
	((requests > 10 && connections > 0))
	expect_equal "$(lines "xiw_connect: $qp responder crc=1 ")" "$connections" "responders"
	request='seq=[0-9]+ wr_id=[0-9]+ opcode=[A-Z_]+'
	expect_equal "$(lines "xiw_request: $qp owner=peer pid=[0-9]+ $request len=[0-9]+$")" \
		"$requests" "requests taken"
	expect_equal "$(lines "xiw_send_done: $qp $request status=[0-9]+ len=[0-9]+$")" \
		"$requests" "requests done"
	expect_equal "$(requests_of xiw_send_done)" "$(requests_of xiw_request)" "requests done"
	(($(lines "xiw_recv_done: $qp wr_id=[0-9]+ status=0 len=[0-9]+$") > 0))
	(($(lines "xiw_doorbell: $qp by=(caller|worker)$") > 0))
}

# Requests of a consumer in the kernel, which has asked the rdma_cm for its queue pair. Its wr_ids are
# mostly pointers, and not told.
traces_the_kernel() {
	modinfo xiw_consumer >/dev/null || skip "the test module was not built"
	traced n2 modprobe xiw_consumer address=10.77.0.2
	rmmod xiw_consumer
	grep -m 5 xiw_request: "$trace"
	(($(lines "xiw_request: dev=x$$v2 qpn=[0-9]+ owner=rdma_cm pid=0 seq=[0-9]+ wr_id=0 ") > 5))
	expect_equal "$(requests_of xiw_send_done | wc -l)" "$(lines xiw_send_done:)" "requests done"
	expect_equal "$(lines 'xiw_(request|send_done|recv_done): .* wr_id=[^0]')" 0 "wr_ids"
}

# requests_of EVENT: prints device, queue pair, number, wr_id and kind of each request, sorted. The number
# in its queue makes each one different.
requests_of() {
	sed -nE "s/.* $1: (dev=\\S+ qpn=\\S+) .*(seq=\\S+ wr_id=\\S+ opcode=\\S+) .*/\\1 \\2/p" "$trace" |
		sort -u
}

# What is told of the end of a connection, up to why it ended.
end="pid=[0-9]+ (initiator|responder) local=10.77.0.[12]:[0-9]+ peer=10.77.0.[12]:[0-9]+ state=OPEN"

traces_a_fault() {
	local numbers="layer=1 etype=1 code=0x00"
	traced n2 "$programs/requests" 10.77.0.2 "a write to an unknown STag ends the connection"
	expect_equal "$(lines "xiw_qp_fail: $qp cause=bad_stag$")" 1 "faults"
	expect_equal "$(lines "xiw_tx_terminate: $qp $numbers$")" 1 "Terminates sent"
	expect_equal "$(lines "xiw_rx_terminate: $qp $numbers$")" 1 "Terminates received"
	expect_equal "$(lines "xiw_end: $qp owner=requests $end why=bad_stag ")" 1 "ends with the fault"
	expect_equal "$(lines "xiw_end: $qp owner=requests $end why=peer_terminate ")" 1 \
		"ends by Terminate"
}

# nobody_answers: a listener that is no RDMA program accepts the call, and sends nothing.
nobody_answers() {
	set_setting "x$$v1" connect_ms 500
	serve "$ns2" 7790 socat -u TCP-LISTEN:7790 /dev/null
	expect_fail 'status -110' n1 "$programs/peer" connect 10.77.0.2 7790
	served
	set_setting "x$$v1" connect_ms 10000
}

call_in_vain() {
	expect_fail 'status -111' n1 "$programs/peer" connect 10.77.0.2 9
	nobody_answers
}

# ends_are STATE WHY...: one connection ended in this state, for each of these reasons.
ends_are() {
	local why
	for why in "${@:2}"; do
		expect_equal "$(lines "xiw_end: .* state=$1 why=$why err=-?[0-9]+$")" 1 "$1 $why"
	done
	expect_equal "$(lines "xiw_end: .* state=$1 ")" $(($# - 1)) "$1"
}

traces_each_end() {
	traced transfer 10.77.0.2
	ends_are OPEN closed peer_closed
	expect_equal "$(lines "xiw_end: $qp owner=peer $end ")" 2 "ends"
	traced transfer fd77::2
	expect_equal "$(lines 'xiw_end: .* local=\[fd77::[12]]:[0-9]+ peer=\[fd77::[12]]:[0-9]+ ')" 2 "ends"
	traced call_in_vain
	ends_are CONNECTING tcp_refused
	ends_are WAIT_REPLY deadline
}

# warnings: prints what the log says of streams with an unknown STag on the links of this theme.
warnings() { dmesg | grep -E "x$$v[12]: queue pair [0-9]+: the stream has ended, bad_stag: the peer has used" || true; }

warns_once() {
	local i
	for i in 1 2; do
		n2 "$programs/requests" 10.77.0.2 "a write to an unknown STag ends the connection"
	done
	warnings
	expect_equal "$(warnings | wc -l)" 1 "warnings"
}

plan 14
setup make_path veth-1500
stage "every FPDU is decoded, every CRC is good, IPv4"	all_decoded transfer 10.77.0.2
stage "every FPDU of rping is decoded, every CRC is good, IPv6" all_decoded rping_verifies fd77::2
stage "MPA-31 FPDUs fill segments: 200000 octets"	fpdus_fill_segments transfer 10.77.0.2
port=7810
for program in ib_write_bw ib_send_bw ib_read_bw; do
	port=$((port + 1))
	stage "MPA-31 FPDUs fill segments: $program of 600 octets" \
		fpdus_fill_segments stream_of_short_messages $program
done
stage "SEC-26 a stream runs inside of IPsec"		inside_of_ipsec
stage "the tracepoints show each FPDU and each state"	traces_each_fpdu
stage "the tracepoints show the header of each FPDU"	traces_each_header
stage "the tracepoints show each request"	traces_each_request
stage "the tracepoints show the requests of a consumer in the kernel" traces_the_kernel
stage "the tracepoints show a fault and its Terminate"	traces_a_fault
stage "the tracepoints show why a connection ended"	traces_each_end
stage "the log says what may help, but not each time"	warns_once
finish
