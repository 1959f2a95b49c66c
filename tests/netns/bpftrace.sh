#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The scripts in trace/ count each request, name the program that sends small FPDUs, and tell why a
# connection ended. What they print is compared with what the text of the tracepoints says.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
need bpftrace ib_read_lat ib_send_bw ib_write_bw

scripts=$(realpath "$here/../../trace")
tracing=/sys/kernel/tracing
trace=$scratch/trace
shown=$scratch/shown	# by the script
port=8000

# Scripts.

# watched "SCRIPT [ARGUMENT]" COMMAND...: runs COMMAND while the script does. $shown is then what the
# script has printed, and $trace what the tracepoints say. The script needs the host's /sys, so it is
# not started by ip netns; but it is in $ns1, so the end of the stage kills it.
watched() {
	local words script
	say "$1 &"
	read -ra words <<<"$1"
	shift
	nsenter "--net=/run/netns/$ns1" timeout -k 5 $((4 * limit)) "$scripts/${words[0]}" \
		"${words[@]:1}" >"$shown" 2>&1 &
	script=$!
	wait_until "$limit" grep -qE 'Ctrl-C ends|^TIME ' "$shown" || { cat "$shown"; return 1; }
	echo >"$tracing/trace"
	echo 1 >"$tracing/events/xiw/enable"
	"$@"
	echo 0 >"$tracing/events/xiw/enable"
	kill -INT "$script"
	wait "$script"
	cat "$shown"
	grep -oE 'xiw_[a-z_]+: .*' "$tracing/trace" >"$trace"
	! grep -E 'ERROR|WARNING|[Ll]ost' "$shown"
}

# entries MAP: prints the keys of a map of histograms or counters, and how much is in each.
entries() {
	awk -v map="@$1[" '
		/^@/ { key = "" }
		index($0, map) == 1 {
			key = substr($0, length(map) + 1)
			sub(/\].*/, "", key)
			gsub(/, /, " ", key)
			if ($0 ~ /\]: [0-9]+$/)
				sum[key] = $NF
		}
		key != "" && /^[[(].*\|$/ {
			sub(/\|.*/, "")
			sum[key] += $NF
		}
		END { for (key in sum) print key, sum[key] }' "$shown"
}

# counted EVENT CONDITION NAME...: prints the values of these fields in the lines of an event for which
# a condition of awk holds, and the number of such lines.
counted() {
	local event=$1 condition=$2
	shift 2
	awk -v names="$*" "
		\$1 == \"$event:\" {
			delete field
			for (i = 2; i <= NF; i++)
				if (at = index(\$i, \"=\"))
					field[substr(\$i, 1, at - 1)] = substr(\$i, at + 1)
			if (!($condition))
				next
			n = split(names, name, \" \")
			key = \"\"
			for (i = 1; i <= n; i++)
				key = key field[name[i]] \" \"
			sum[key]++
		}
		END { for (key in sum) print key sum[key] }" "$trace"
}

# same WHAT SHOWN EXPECTED: both are the same lines in any order, and not none.
same() {
	[[ $3 ]] || { say "$1: nothing is expected"; return 1; }
	diff -u --label "expected: $1" --label "printed: $1" <(sort <<<"$3") <(sort <<<"$2")
}

# Traffic.

# run_perftest PROGRAM OPTION...: between the namespaces; the client's process is in $scratch/pid.
run_perftest() {
	local options=(-R -F -p "$port" "${@:2}")
	serve "$ns2" "$port" "$1" "${options[@]}" || return
	# shellcheck disable=SC2016 # the inner shell's words
	n1 bash -c 'echo $$ >"$0"; exec "$@"' "$scratch/pid" "$1" "${options[@]}" 10.77.0.2 2>&1 |
		tee "$scratch/client" || return
	served
}

perftest() {
	port=$((port + 1))
	perftest_retried run_perftest "$@"
}

transfer() {
	port=$((port + 1))
	serve "$ns2" "$port" "$programs/peer" --size 200000 listen 10.77.0.2 "$port"
	n1 "$programs/peer" --size 200000 connect 10.77.0.2 "$port"
	served
}

# Claims.

# The first program writes in both directions, mostly from queue pairs with one number on two devices.
several_programs() {
	perftest ib_write_bw -b -s 65536 -n 200
	perftest ib_read_lat -s 8 -n 500
	transfer
}

requests_are_timed() {
	local times
	watched xiw-latency.bt several_programs
	times=$(entries usecs)
	same requests "$(cut -d' ' -f 2- <<<"$times")" \
		"$(counted xiw_send_done 'field["status"] + 0 == 0' dev qpn opcode)"
	grep -E "^ib_read_lat x$$v1 [0-9]+ READ [0-9]+$" <<<"$times"
	grep -E "^peer x$$v1 [0-9]+ WRITE 8$" <<<"$times"
	grep -E "^peer x$$v1 [0-9]+ READ 1$" <<<"$times"
	grep -E "^peer x$$v2 [0-9]+ SEND 1$" <<<"$times"
	((500 <= $(grep -E "^ib_read_lat x$$v1 [0-9]+ READ" <<<"$times" | awk '{ print $NF }')))
}

# The network adds 20 ms to each Read, in one direction. A Write is done when TCP has its data.
times_are_microseconds() {
	n1 tc qdisc add dev veth1 root netem delay 20ms
	watched xiw-latency.bt read_and_write_a_little
	n1 tc qdisc del dev veth1 root
	sed -n '/^@usecs\[ib_read_lat, .*, READ\]/,/^$/p' "$shown" >"$scratch/reads"
	sed -n '/^@usecs\[ib_write_bw, .*, WRITE\]/,/^$/p' "$shown" >"$scratch/writes"
	grep -E '^\[(16|32)K, (32|64)K\)' "$scratch/reads"
	expect_equal "$(grep -cE '^\[[0-9]+, ' "$scratch/reads" || true)" 0 "Reads of less than a millisecond"
	grep -E '^\[[0-9]+, ' "$scratch/writes"
}

read_and_write_a_little() {
	perftest ib_read_lat -s 8 -n 10
	perftest ib_write_bw -s 8 -n 10 --tx-depth 10
}

failures_are_counted() {
	watched xiw-latency.bt n2 "$programs/requests" 10.77.0.2 "a read of an unknown STag fails"
	same failures "$(entries failed | cut -d' ' -f 2-)" \
		"$(counted xiw_send_done 'field["status"] + 0 != 0 && field["status"] + 0 != 5' dev qpn opcode)"
	grep -E "^requests x$$v2 [0-9]+ READ 1$" <<<"$(entries failed)"
}

send_small_and_large() {
	perftest ib_send_bw -s 64 -n 500
	cp "$scratch/pid" "$scratch/pid-of-small"
	perftest ib_write_bw -s 65536 -n 100
}

# sum_of MAP PROGRAM PID: prints how much is in a map for this process, which uses the first device only.
sum_of() {
	entries "$1" | awk -v name="$2" -v pid="$3" -v dev="x$$v1" '
		$1 == name && $2 == pid && $3 == dev { sum += $NF }
		END { print sum + 0 }'
}

# The program that writes 64 KiB sends small FPDUs as well: those of its first messages, and some that are
# the end of a Write.
small_fpdus_have_a_sender() {
	local small large all
	watched xiw-small-fpdus.bt send_small_and_large
	same "small FPDUs" "$(entries bytes)" "$(counted xiw_tx_fpdu 'field["len"] + 0 < 1024' owner pid dev qpn)"
	same FPDUs "$(entries fpdus)" "$(counted xiw_tx_fpdu 1 owner pid dev qpn)"
	same doorbells "$(entries doorbells)" "$(counted xiw_doorbell 1 dev qpn)"
	small=$(sum_of bytes ib_send_bw "$(cat "$scratch/pid-of-small")")
	large=$(sum_of bytes ib_write_bw "$(cat "$scratch/pid")")
	all=$(sum_of fpdus ib_write_bw "$(cat "$scratch/pid")")
	say "small FPDUs: $small of ib_send_bw, $large of ib_write_bw, which sent $all"
	((small >= 500 && all >= 100 && large < all / 3))
}

# With another limit, Sends of 64 octets (88 in an FPDU) are not small.
limit_can_be_set() {
	watched "xiw-small-fpdus.bt 80" perftest ib_send_bw -s 64 -n 100
	same "small FPDUs" "$(entries bytes)" "$(counted xiw_tx_fpdu 'field["len"] + 0 < 80' owner pid dev qpn)"
}

# ends: prints the fields of each line after "TIME ...": program, device, queue pair, state, Terminate,
# its numbers, why.
ends() { awk '$1 ~ /^[0-9]+:[0-9:]+$/ { print $4, $2, $3, $8, $9, $10, $11 }' "$shown"; }

# ended: prints what the tracepoint says of them, which is all but the Terminate.
ended() {
	sed -nE 's/^xiw_end: dev=(\S+) qpn=([0-9]+) owner=(\S+) .* state=(\S+) why=(\S+) .*/\3 \1 \2 \4 \5/p' \
		"$trace"
}

# there_are LINE...: these are the ends that the script has printed, without their queue pairs.
there_are() {
	same ends "$(ends | sed -E 's/ [0-9]+ ([A-Z])/ \1/')" "$(printf '%s\n' "$@")"
	same "queue pairs" "$(ends | cut -d' ' -f 1-4,7)" "$(ended)"
}

fault_is_told() {
	watched xiw-ends.bt n2 "$programs/requests" 10.77.0.2 "a write to an unknown STag ends the connection"
	there_are "requests x$$v2 OPEN sent 1/1/00 bad_stag" "requests x$$v2 OPEN received 1/1/00 peer_terminate"
	grep -E "^\S+ x$$v2 +$(sed -n 's/^xiw_qp_fail: .* qpn=\([0-9]*\) .*/\1/p' "$trace") .* bad_stag$" "$shown"
	grep -E ' 10\.77\.0\.2:[0-9]+ +10\.77\.0\.2:[0-9]+ ' "$shown"
}

close_is_told() {
	watched xiw-ends.bt transfer
	there_are "peer x$$v1 OPEN none 0/0/00 closed" "peer x$$v2 OPEN none 0/0/00 peer_closed"
	grep -E " 10\.77\.0\.1:[0-9]+ +10\.77\.0\.2:$port .* closed$" "$shown"
	grep -E " 10\.77\.0\.2:$port +10\.77\.0\.1:[0-9]+ .* peer_closed$" "$shown"
}

call_nobody() { expect_fail 'status -111' n1 "$programs/peer" connect 10.77.0.2 9; }

refusal_is_told() {
	watched xiw-ends.bt call_nobody
	there_are "peer x$$v1 CONNECTING none 0/0/00 tcp_refused"
}

kill_one() {
	port=$((port + 1))
	serve "$ns2" "$port" "$programs/peer" --endless listen 10.77.0.2 "$port"
	start "$ns1" "$programs/peer" --endless connect 10.77.0.2 "$port" >"$scratch/client"
	wait_until 20 grep -q ^data "$scratch/client"
	kill_in "$ns2"
	wait_until 20 grep -q DISCONNECTED "$scratch/client"
}

killing_is_told() {
	watched xiw-ends.bt kill_one
	there_are "peer x$$v2 OPEN sent 0/0/00 local_abort" "peer x$$v1 OPEN received 0/0/00 peer_terminate"
}

prepare() {
	mountpoint -q "$tracing" || mount -t tracefs none "$tracing"
	make_path veth-1500
}

plan 9
setup prepare
stage "each request is timed, by queue pair and kind"		requests_are_timed
stage "times are microseconds"					times_are_microseconds
stage "requests that fail are counted"				failures_are_counted
stage "a program that sends small FPDUs is named, with its queue pair" small_fpdus_have_a_sender
stage "what counts as small can be set"				limit_can_be_set
stage "why a connection ended: a fault, at both ends"		fault_is_told
stage "why a connection ended: a program has closed it"		close_is_told
stage "why a connection ended: nobody listens"			refusal_is_told
stage "why a connection ended: a program was killed"		killing_is_told
finish
