#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# Between two machines: programs run as they do for users, and traffic goes on after one machine stood
# still. Both guests of "tools/vm --two" run this theme at the same time. Each claim has a part in
# each: the second one serves, the first one calls and prints the result.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
need rping ib_write_bw

if [[ ! ${XIW_GUEST:-} ]]; then
	ktap_skip_all "this needs two guests: tools/vm --two"
	exit "$KSFT_SKIP"
fi
meeting=/run/meeting
device=x$$v1
client_dev=$device	# segments() counts those of this one
port=7900
number=0

# together CLAIM FUNCTION ARG...: both machines run FUNCTION, and the claim holds if it succeeds in both.
together() {
	number=$((number + 1))
	port=$((port + 1))
	stage "$1" do_together "${@:2}"
}

# A function that is called in a condition is not stopped by its first failure, so call it in a
# subshell that is none.
do_together() {
	local status other=$meeting/$number-status.$((3 - XIW_GUEST))
	"$here/../../tools/guest/meet" "$number-begins"
	set +e
	(set -e; "$@")
	status=$?
	set -e
	tell "$number-status.$XIW_GUEST" "$status"
	wait_until $((limit + 30)) [ -e "$other" ]
	expect_equal "$(cat "$other")" 0 "status of the other machine"
	expect_equal "$status" 0 "status of this machine"
}

is_server() { [[ $XIW_GUEST -eq 2 ]]; }

# here_run COMMAND...: as n1, on this machine itself.
here_run() {
	say "[machine $XIW_GUEST] $*"
	if [[ $(type -t "$1") == function ]]; then
		"$@"
	else
		timeout -k 5 "$limit" "$@"
	fi
}

# tell FILE TEXT: writes a file for the other machine, all at once.
tell() {
	echo "$2" >"$meeting/.$1"
	mv "$meeting/.$1" "$meeting/$1"
}

here_listens() {
	cat /proc/net/tcp /proc/net/tcp6 |
		grep -E "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$port") [0-9A-F:]+ 0A " >/dev/null
}

# converse FUNCTION ARG...: FUNCTION sets the arrays "serves" and "calls". The second machine runs the
# first of these commands, and the first machine runs the second one. A client of perftest that was
# refused because its server was between two listeners is called again; see perftest_retried.
converse() {
	for try in 1 2 3; do
		"$@"
		if is_server; then
			serve_once || return
		else
			call_once || return
		fi
		[[ $(cat "$meeting/$number.$try-outcome") == again ]] || return 0
		port=$((port + 1000))
	done
	return 1
}

serve_once() {
	here_run "${serves[@]}" &
	server=$!
	wait_until 20 here_listens || return
	tell "$number.$try-listens" yes
	wait_until $((limit + 20)) [ -e "$meeting/$number.$try-outcome" ] || return
	if [[ $(cat "$meeting/$number.$try-outcome") == again ]]; then
		kill "$server" 2>/dev/null || true
		served || true
	else
		served
	fi
}

call_once() {
	local outcome="done"
	wait_until 60 [ -e "$meeting/$number.$try-listens" ] || return
	if ! here_run "${calls[@]}" 2>&1 | tee "$scratch/client"; then
		outcome=failed
		! was_refused || outcome=again
	fi
	tell "$number.$try-outcome" "$outcome"
	[[ $outcome != failed ]] || return
	[[ $outcome != again ]] || once_more "perftest was refused between its server's two listeners"
}

# rping_verifies FAMILY
rping_verifies() {
	local addr=10.76.0.2 options=(-p "$port" -C 50 -S 60000 -V)
	[[ $1 == 4 ]] || addr=fd76::2
	serves=(rping -s -a "$addr" "${options[@]}")
	calls=(rping -c -a "$addr" "${options[@]}")
}

# perftest TOOL OPTION...
perftest() {
	local options=(-d "$device" -R -F -p "$port" "${@:2}")
	serves=("$1" "${options[@]}")
	calls=("$1" "${options[@]}" 10.76.0.2)
}

# verified: random programs of all kinds do what the model says, for VERIFY_SECONDS.
verified() {
	local seed=()
	[[ ! ${XIW_SEED:-} ]] || seed=(--seed "$XIW_SEED" --programs 1000000000)
	[[ ! ${VERIFY_SEED:-} ]] || seed=(--seed "$VERIFY_SEED")
	serves=("$programs/verify" 10.76.0.2 --serve "$port")
	calls=("$programs/verify" 10.76.0.2 --with "$port" "${seed[@]}" --seconds "${VERIFY_SECONDS:-20}")
}

endless_traffic() {
	local options=(--connections 4 --size 262144)
	limit=$((limit + 2 * $1))
	serves=("$programs/peer" "${options[@]}" listen 10.76.0.2 "$port")
	calls=(goes_on_after "$1" "$programs/peer" "${options[@]}" --endless
		--patience $((10 + 2 * $1)) connect 10.76.0.2 "$port")
}

# goes_on_after SECONDS COMMAND...: runs a client, stops the second machine for a while, and waits for
# more traffic.
goes_on_after() {
	local before
	"${@:2}" >"$scratch/caller" &
	client=$!
	wait_until 20 grep -q '^data' "$scratch/caller" || return
	tell freeze "2 $1"
	wait_until $(($1 + 30)) [ ! -e "$meeting/freeze" ] || return
	before=$(segments)
	wait_until $((30 + $1)) more_segments_than $((before + 1000)) || return
	! grep -Ev '^(data$|open|\[)' "$scratch/caller" || return
	kill -KILL "$client"
}

device_comes() {
	load xiw
	rdma link add "$device" type xiw netdev eth0
	wait_until 20 has_state "$device" ACTIVE
}

plan 15
together "each machine gets its device" device_comes
together "rping compares what it reads, over IPv4" converse rping_verifies 4
together "rping compares what it reads, over IPv6" converse rping_verifies 6
together "ib_write_bw -a" converse perftest ib_write_bw -n 5 -a
together "ib_write_bw -q 8 -b" converse perftest ib_write_bw -n 200 -q 8 -b
together "ib_write_lat" converse perftest ib_write_lat -n 500
together "ib_read_bw -a" converse perftest ib_read_bw -n 5 -a
together "ib_read_lat -e" converse perftest ib_read_lat -n 200 -e
together "ib_send_bw -a" converse perftest ib_send_bw -n 5 -a
together "ib_send_bw --use-srq" converse perftest ib_send_bw -n 500 --use-srq -r 64
together "ib_send_lat" converse perftest ib_send_lat -n 500
together "ib_atomic_bw" converse perftest ib_atomic_bw -n 200
together "random programs do what the model says" converse verified
together "traffic goes on after a machine stood still for five seconds" converse endless_traffic 5
together "traffic goes on after a machine stood still for half a minute" converse endless_traffic 30
finish
