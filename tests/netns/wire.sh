#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# What goes over the wire is what the RFCs say, in the eyes of tshark.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
need rping tcpdump tshark

pcap=$scratch/capture.pcap

# capture COMMAND...: with all of the packets of COMMAND in $pcap.
capture() {
	start "$ns1" tcpdump -i veth1 -s 0 -B 65536 -U -w "$pcap" tcp 2>"$scratch/tcpdump"
	wait_until 20 grep -q 'listening on' "$scratch/tcpdump"
	"$@"
	wait_until 20 has_end
	kill_in "$ns1"
	cat "$scratch/tcpdump"
}

# has_end: the capture has reached the end of the connection, in both directions.
has_end() { [[ $(read_capture -Y 'tcp.flags.fin == 1' 2>/dev/null | wc -l) -ge 2 ]]; }

# rpcordma and smb_direct would guess at the payload.
read_capture() { tshark -r "$pcap" --disable-protocol rpcordma --disable-protocol smb_direct "$@"; }

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

# all_decoded COMMAND...: every octet of the stream after the handshake is in an FPDU that tshark has
# decoded, and each CRC is good. Octets: those of the FPDUs against those of TCP.
all_decoded() {
	local text fpdus good bad
	capture "$@"
	read_capture -V >"$scratch/text" 2>/dev/null
	text=$scratch/text
	fpdus=$(grep -c 'ULPDU length:' "$text" || true)
	good=$(grep -c 'Good CRC32' "$text" || true)
	bad=$(grep -c 'Bad CRC32' "$text" || true)
	say "$fpdus FPDUs, $good good CRCs, $bad bad ones"
	((fpdus > 100))
	expect_equal "$good" "$fpdus" "good CRCs"
	expect_equal "$bad" 0 "bad CRCs"
	no_dissector_complains
	expect_equal "$(octets_of_fpdus)" "$(octets_of_streams)" "octets in FPDUs"
}

no_dissector_complains() {
	! read_capture -Y '_ws.malformed || tcp.analysis.lost_segment' 2>/dev/null | grep .
}

# ULPDU, its length, pad and CRC
octets_of_fpdus() {
	read_capture -T fields -e iwarp_mpa.ulpdulength -Y iwarp_mpa.fpdu 2>/dev/null |
		tr ',' '\n' | awk '{ sum += int(($1 + 2 + 3) / 4) * 4 + 4 } END { print sum }'
}

# Both directions, without retransmissions and without the two frames of the handshake.
octets_of_streams() {
	read_capture -T fields -e tcp.len -e iwarp_mpa.pdlength \
		-Y 'tcp.len > 0 && !tcp.analysis.retransmission' 2>/dev/null |
		awk '{ sum += $1; if (NF > 1) sum -= 20 + $2 } END { print sum }'
}

# A full FPDU fills a segment of 1448 octets, and begins with its length, 1442. Without GSO the
# capture has the segments as they are.
fpdus_fill_segments() {
	local full aligned
	ip1 link set veth1 gso_max_segs 1
	ip2 link set veth2 gso_max_segs 1
	capture transfer 10.77.0.2
	read -r full aligned < <(read_capture -Y 'tcp.len == 1448' -T fields -e tcp.payload 2>/dev/null |
		awk '{ full++ } /^05a2/ { aligned++ } END { print full, aligned + 0 }')
	say "$full full segments, $aligned of them begin with a full FPDU"
	((full > 100))
	expect_equal "$aligned" "$full" "segments that begin with an FPDU"
}

# protect FROM TO SPI: what goes from FROM to TO goes inside of IPsec.
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

plan 4
setup make_path veth-1500
stage "every FPDU is decoded, every CRC is good, IPv4"	all_decoded transfer 10.77.0.2
stage "every FPDU of rping is decoded, every CRC is good, IPv6" all_decoded rping_verifies fd77::2
stage "MPA-31 full FPDUs begin where segments begin"	fpdus_fill_segments
stage "SEC-26 a stream runs inside of IPsec"		inside_of_ipsec
finish
