# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# shellcheck shell=bash disable=SC2034 # the themes use what is set here
# What all themes share: namespaces, waiting, expectations, KTAP, the final gate.
#
#        ns1                                       ns2
#   veth1 10.77.0.1 fd77::1  ---------------  veth2 10.77.0.2 fd77::2
#   dummy 10.78.0.1 fd78::1
#   lo    127.0.0.1 ::1
#
# A theme is a list of claims. It reads:
#
#	. "$(dirname "$0")/lib.sh"
#	plan 1
#	stage "what is claimed"	function that proves it
#	finish
#
# A stage runs in a subshell under "set -e". The first command that fails or exceeds its time limit
# ends the stage. Processes that it leaves running in the namespaces are killed, and a CPU that it
# leaves offline comes back. ONLY=REGEX runs only stages whose claim matches it (grep -E).

set -uo pipefail

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
programs=${XIW_PROGRAMS:-$here/../verbs}	# where the C++ programs were built
link_type=${LINK_TYPE:-xiw}
limit=${LIMIT:-60}	# seconds that one command may take
patience=10		# seconds that traffic may stand still
theme=$(basename "$0" .sh)
ns1=xiw-$$-1
ns2=xiw-$$-2
scratch=$(mktemp -d "/tmp/xiw-$theme-XXXXXX")
export XIW_SKIPPED=$scratch/skipped	# a claim that skips itself writes the reason there
repeated=$scratch/repeated		# the reasons of once_more

KSELFTEST_DIR=${KSELFTEST_DIR:-$here/../..}	# where this is in the kernel's tree
if [[ ! -e $KSELFTEST_DIR/kselftest/ktap_helpers.sh ]]; then
	echo "1..0 # SKIP KSELFTEST_DIR does not name the kernel's tools/testing/selftests"
	exit 4
fi
# shellcheck source=/dev/null
. "$KSELFTEST_DIR/kselftest/ktap_helpers.sh"

say() { printf '%s\n' "$*"; }

# --- KTAP ---

# plan N: the theme has N stages of its own; the gate adds three.
plan() {
	ktap_print_header
	ktap_set_plan $(($1 + 3))
	echo "xiw-test $$ begins $theme" >/dev/kmsg
}

# keep_counters CLAIM SECONDS: for tools/coverage --claims, keeps what was run of the module. What a claim
# has begun may end a moment later.
keep_counters() {
	[[ ${KEEP_CLAIMS:-} ]] || return 0
	[[ ! $1 ]] || sleep 0.3
	"$here/../coverage/keep" "$theme" "$@"
}

# stage CLAIM COMMAND...: proves one claim. Status 4 is a skip only if COMMAND has also written the
# reason to XIW_SKIPPED. Programs fail with all kinds of status, iscsiadm for example with 4.
stage() {
	local claim=$1 status start=$SECONDS
	shift
	if [[ ${ONLY:-} && ! $claim =~ $ONLY ]]; then
		ktap_test_skip "$claim"
		return
	fi
	rm -f "$XIW_SKIPPED"
	keep_counters "" 0
	(
		set -eE
		trap 'say "line $LINENO: status $?: $BASH_COMMAND"' ERR
		trap 'kill_in "$ns1"; kill_in "$ns2"; cpu1_is_back' EXIT
		"$@"
	) 2>&1 </dev/null | sed -u 's/^/# /'
	status=${PIPESTATUS[0]}
	say "# took $((SECONDS - start)) s"
	keep_counters "$claim" $((SECONDS - start))
	if [[ $status -eq 0 ]]; then
		ktap_test_pass "$claim"
	elif [[ $status -eq 4 && -s $XIW_SKIPPED ]]; then
		ktap_test_skip "$claim"
	else
		ktap_test_fail "$claim"
	fi
}

# claims_of DIR PROGRAM...: prints the claims of programs of cases, each as "PROGRAM: CLAIM". A
# program that cannot run gets a claim, too, which fails.
claims_of() {
	local dir=$1 program
	shift
	for program; do
		"$dir/$program" --list | sed "s/^/$program: /" || echo "$program: lists its claims"
	done
}

# skip REASON: ends the stage as skipped. tests/skips lists the skips that are expected.
skip() {
	say "skipped: $*"
	echo "$*" >"$XIW_SKIPPED"
	exit 4
}

# lone_stage TEXT COMMAND...: runs a stage, then removes all links and the netdev of_stage.
lone_stage() {
	local link ns
	stage "$@"
	for link in $(link_names); do
		rdma link del "$link"
	done
	for ns in "$ns1" "$ns2"; do
		ip -n "$ns" link del of_stage 2>/dev/null
	done
}

# once_more REASON: call this before running a program again that failed because of a bug of its
# own. The end of the theme says how often that happened.
once_more() {
	say "--- running again: $*"
	echo "$*" >>"$repeated"
}

# was_refused: succeeds if the client of perftest that wrote $scratch/client was refused.
was_refused() {
	grep -Eq 'RDMA_CM_EVENT_REJECTED; error: -111|^ERRNO: Connection refused' "$scratch/client"
}

# perftest_retried COMMAND...: runs COMMAND, which starts a server and a client of perftest that use
# $port and puts the client's output into $scratch/client. The server closes its first listener and
# opens another one on the same port. A client that connects in between is refused, and its own
# retry fails; then run both again, on another port. With xiw an event tells the client, with siw
# rdma_connect() fails.
perftest_retried() {
	for _ in 1 2 3; do
		"$@" && return
		was_refused || return
		once_more "perftest was refused between its server's two listeners"
		kill "$server" 2>/dev/null || true
		served || true
		port=$((port + 1000))
	done
	return 1
}

# sample NAME: reduces the array NAME to one of its parts if SAMPLE=PART/PARTS is set. All parts
# have about the same size.
sample() {
	local -n sampled=$1
	local part parts i all
	[[ ${SAMPLE:-} ]] || return 0
	part=${SAMPLE%/*} parts=${SAMPLE#*/}
	all=("${sampled[@]}")
	sampled=()
	for ((i = part - 1; i < ${#all[@]}; i += parts)); do
		sampled+=("${all[i]}")
	done
}

# setup COMMAND...: runs a command that must succeed before any claim can be tested.
setup() {
	(set -e; "$@") 2>&1 | sed -u 's/^/# /'
	[[ ${PIPESTATUS[0]} -eq 0 ]] || ktap_exit_fail_msg "cannot set up: $*"
}

# need PROGRAM...: skips the whole theme if a program is missing.
need() {
	local program
	for program; do
		command -v "$program" >/dev/null && continue
		ktap_skip_all "$program is not installed"
		exit "$KSFT_SKIP"
	done
}

# --- commands in namespaces ---

in_ns() {
	local ns=$1
	shift
	say "[${ns##*-}] $*"
	ip netns exec "$ns" timeout -k 5 "$limit" "$@"
}
n1() { in_ns "$ns1" "$@"; }
n2() { in_ns "$ns2" "$@"; }
ip1() { say "[1] ip $*"; ip -n "$ns1" "$@"; }
ip2() { say "[2] ip $*"; ip -n "$ns2" "$@"; }

# start NS COMMAND...: runs COMMAND in the background; $! is its process.
start() {
	local ns=$1
	shift
	say "[${ns##*-}] $* &"
	ip netns exec "$ns" timeout -k 5 "$limit" "$@" &
}

# serve NS PORT COMMAND...: starts a server and returns when it listens; see served.
serve() {
	local ns=$1 port=$2
	shift 2
	start "$ns" "$@"
	server=$!
	wait_listening "$ns" "$port" "$server"
}

# served: waits for the process that serve started and returns its status.
served() { wait "$server"; }

# kill_in NS: kills all processes in a namespace.
kill_in() {
	local pids
	pids=$(ip netns pids "$1" 2>/dev/null) || return 0
	# shellcheck disable=SC2086 # a list of numbers
	[[ ! $pids ]] || kill -KILL $pids 2>/dev/null || true
}

# cpu1_is_back: puts the second CPU online. A program that took it offline may have been killed.
cpu1_is_back() {
	local online=/sys/devices/system/cpu/cpu1/online
	[[ ! -e $online || $(<"$online") == 1 ]] || echo 1 >"$online"
}

# --- expectations ---

expect_ok() {
	say "expect success: $*"
	"$@" || { say "failed with status $?"; return 1; }
}

# expect_fail TEXT COMMAND...: COMMAND must fail, and its output must match the regular expression.
expect_fail() {
	local text=$1 output
	shift
	say "expect failure with \"$text\": $*"
	if output=$("$@" 2>&1); then
		say "$output"
		say "it succeeded"
		return 1
	fi
	say "$output"
	grep -Eq "$text" <<<"$output" || { say "it failed for another reason"; return 1; }
}

# expect_equal A B WHAT
expect_equal() {
	[[ $1 == "$2" ]] || { say "$3: expected \"$2\", got \"$1\""; return 1; }
}

# --- waiting: for a state, with a deadline ---

# wait_until SECONDS COMMAND...: polls until COMMAND succeeds.
wait_until() {
	local deadline=$((SECONDS + $1))
	shift
	until "$@"; do
		if ((SECONDS >= deadline)); then
			say "time is over, still waiting for: $*"
			return 1
		fi
		sleep 0.05
	done
}

gone() { ! kill -0 "$1" 2>/dev/null; }

# Do not use "grep -q" after a pipe: it ends at the first match, and the writer dies of SIGPIPE.
listens() {
	ip netns exec "$1" cat /proc/net/tcp /proc/net/tcp6 |
		grep -E "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$2") [0-9A-F:]+ 0A " >/dev/null
}

listens_or_gone() { listens "$1" "$2" || gone "$3"; }

# wait_listening NS PORT PID: waits until a socket of NS listens on PORT, or fails if PID ends.
wait_listening() {
	wait_until 20 listens_or_gone "$@"
	listens "$1" "$2" && return
	wait "$3"
	say "the server ended with status $?"
	return 1
}

# wait_gone PID [SECONDS]: waits until a process has ended. It need not be a child of this shell.
wait_gone() { wait_until "${2:-20}" gone "$1"; }

# --- modules and links ---

# load TYPE: loads the module of a link type. ib_uverbs and rdma_ucm make the device files.
load() {
	modprobe -q -a ib_uverbs rdma_ucm || true # they may be built in
	[[ -e /sys/module/$1 ]] || modprobe "$1"
}

# unload TYPE: unloads the module of a link type unless it is built in.
unload() {
	[[ -e /sys/module/$1/refcnt ]] || return 0
	say "rmmod $1"
	rmmod "$1"
}

# add_link NS NAME NETDEV [TYPE]
add_link() {
	say "[${1##*-}] rdma link add $2 type ${4:-$link_type} netdev $3"
	ip netns exec "$1" rdma link add "$2" type "${4:-$link_type}" netdev "$3"
}

del_link() { say "rdma link del $1"; rdma link del "$1"; }

# link_names: prints the RDMA devices of this theme. Their names begin with x and the shell's PID.
link_names() { rdma -j link | jq -r --arg begin "x$$" '.[].ifname | select(startswith($begin))'; }

has_link() { [[ -e /sys/class/infiniband/$1 ]]; }
has_no_link() { ! has_link "$1"; }

# write_to FILE VALUE: writes to sysfs. Uses dd because it prints the reason if the kernel refuses.
write_to() { printf '%s\n' "$2" | dd of="$1" status=none; }

# set_setting NAME SETTING 0|1: has no effect on links of another type.
set_setting() { [[ $link_type != xiw ]] || write_to "/sys/class/infiniband/$1/xiw/$2" "$3"; }

# set_loopback NAME 0|1: with 1, data between two ends on this host does not go through TCP.
set_loopback() { set_setting "$1" loopback "$2"; }

# counter NAME COUNTER: prints a counter of a link, as "rdma statistic" does.
counter() { cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"; }

# has_state NAME STATE: succeeds if the port has this state, for example ACTIVE.
has_state() { rdma link show "$1/1" | grep -E "state $2( |\$)" >/dev/null; }

# --- networks ---

make_namespaces() {
	local ns
	for ns in "$ns1" "$ns2"; do
		ip netns add "$ns"
		ip -n "$ns" link set lo up
	done
}

# make_veth MTU: makes the veth pair between the namespaces. Each end gets an index that no netdev
# of the other namespace has, because siw identifies a netdev by its index only.
make_veth() {
	ip1 link add veth1 index 101 mtu "$1" type veth \
		peer name veth2 index 102 mtu "$1" netns "$ns2"
	ip1 addr add 10.77.0.1/24 dev veth1
	ip2 addr add 10.77.0.2/24 dev veth2
	ip1 addr add fd77::1/64 dev veth1 nodad
	ip2 addr add fd77::2/64 dev veth2 nodad
	ip1 link set veth1 up
	ip2 link set veth2 up
	meet_neighbours
}

# The kernel's rdma_resolve_addr() misses a neighbour's answer that comes at once, and then waits 5
# s until its timeout. To avoid that, resolve the neighbours here.
meet_neighbours() {
	local addr
	for addr in 10.77.0.2 fd77::2; do
		n1 bash -c "exec 3<>/dev/tcp/$addr/9" 2>/dev/null || true
	done
}

make_dummy() {
	ip1 link add dummy type dummy
	ip1 addr add 10.78.0.1/24 dev dummy
	ip1 addr add fd78::1/64 dev dummy nodad
	ip1 link set dummy up
}

# make_path PATH: makes the namespaces, netdev and links of a path, and loads the module.
make_path() {
	load "$link_type"
	[[ -e /run/netns/$ns1 ]] || make_namespaces
	case $1 in
	veth-*)
		make_veth "${1#veth-}"
		add_link "$ns1" "x$$v1" veth1
		add_link "$ns2" "x$$v2" veth2
		;;
	dummy)
		make_dummy
		add_link "$ns1" "x$$d" dummy
		;;
	lo)
		add_link "$ns1" "x$$l" lo
		;;
	esac
}

remove_path() {
	case $1 in
	veth-*) ip1 link del veth1 ;;
	dummy) ip1 link del dummy ;;
	lo) del_link "x$$l" ;;
	esac
}

# tcp_counter NAME NAMESPACE...: prints a counter of TCP, of these namespaces together. Fails if one
# of them does not count it.
tcp_counter() {
	local name=$1 ns
	shift
	for ns; do
		ip netns exec "$ns" nstat -asz "$name"
	done | awk -v name="$name" -v all=$# '
		$1 == name { sum += $2; n++ }
		END { print sum; exit n != all }'
}

# use_path PATH FAMILY: sets the server's namespace (server_ns), its address (addr), both devices.
use_path() {
	path=$1 family=$2 server_ns=$ns1
	case $1-$2 in
	veth-*-4) addr=10.77.0.2 ;;
	veth-*-6) addr=fd77::2 ;;
	dummy-4) addr=10.78.0.1 ;;
	dummy-6) addr=fd78::1 ;;
	lo-4) addr=127.0.0.1 ;;
	lo-6) addr=::1 ;;
	esac
	case $1 in
	veth-*) server_ns=$ns2 client_dev=x$$v1 server_dev=x$$v2 ;;
	dummy) client_dev=x$$d server_dev=x$$d ;;
	lo) client_dev=x$$l server_dev=x$$l ;;
	esac
}

# claims_over_paths FUNCTION: calls FUNCTION for each line of stdin, PATH FAMILY WORD..., after
# making the path.
claims_over_paths() {
	local path family words last=
	while read -r path family words; do
		if [[ $path != "$last" ]]; then
			[[ ! $last ]] || setup remove_path "$last"
			setup make_path "$path"
			last=$path
		fi
		# shellcheck disable=SC2086 # words
		"$1" "$path" "$family" $words
	done
}

# --- traffic: connections that write, read and send all the time, and compare what they read ---

# start_traffic: starts it over four connections of the path in use, from the port after $port. The
# output of each end goes to a file.
start_traffic() {
	port=$((port + 1))
	serve "$server_ns" "$port" "$programs/peer" --connections 4 --size 262144 \
		listen "$addr" "$port" >"$scratch/server" || { cat "$scratch/server"; return 1; }
	start "$ns1" "$programs/peer" --connections 4 --size 262144 --endless --patience "$patience" \
		connect "$addr" "$port" >"$scratch/client"
	client=$!
	# One connection after the other exchanges its first data.
	wait_until $((4 * patience)) grep -q '^data' "$scratch/client" ||
		{ cat "$scratch"/*; return 1; }
	[[ $link_type != xiw || $path != dummy ]] || carried_without_tcp
}

carried_without_tcp() { (($(counter "$client_dev" tx_loop))); }

# segments: prints how many segments the caller has sent.
segments() { echo $(($(counter "$client_dev" tx_fpdus) + $(counter "$client_dev" tx_loop))); }
more_segments_than() { (($(segments) > $1)); }

# told FILE EVENT...: the end that wrote FILE saw one of the events for each of four connections.
told() {
	local file=$1 events
	shift
	printf -v events '|RDMA_CM_EVENT_%s' "$@"
	[[ $(grep -Ec "^(${events:1})$" "$scratch/$file") -eq 4 ]] && return
	cat "$scratch/$file"
	return 1
}

# both_end_with EVENT...: both ends exit with status 0, and each connection saw one of the events.
both_end_with() {
	wait "$client" || { cat "$scratch/client"; return 1; }
	served || { cat "$scratch/server"; return 1; }
	told client "$@"
	told server "$@"
}

# kill_below PID: kills the program that "timeout" runs.
kill_below() {
	pkill -KILL -P "$1"
	wait_gone "$1"
}

# caller_killed: ends the traffic.
caller_killed() {
	kill_below "$client"
	served || { cat "$scratch/server"; return 1; }
	told server DISCONNECTED
}

# --- the final gate ---

# What the kernel logs when something is wrong with it.
bad_news='BUG[: ]|WARNING[: ]|Oops|KASAN|UBSAN|KCSAN|Call Trace|general protection fault[:,]'
bad_news+='|refcount_t|corruption|unreferenced object|suspicious RCU|possible .* (locking|deadlock)'
bad_news+='|inconsistent lock|blocked for more than|soft lockup|stall|atomic context'
bad_news+='|unregister_netdevice: waiting'

log_is_clean() {
	dmesg | sed -n "/xiw-test $$ begins/,\$p" >"$scratch/dmesg"
	[[ -s $scratch/dmesg ]] || { say "the log has lost the line \"begins\""; return 1; }
	! grep -E -A 30 "$bad_news" "$scratch/dmesg"
}

# no_objects: succeeds if the devices of this theme have no objects.
no_objects() {
	rdma -j resource show | jq -e --arg begin "x$$" '
		[.[] | select(.ifname | startswith($begin)) |
		 to_entries[] | select(.key | test("^(ifindex|ifname)$") | not) | .value] |
		add // 0 | . == 0' >/dev/null
}

no_objects_left() {
	wait_until 20 no_objects || { rdma resource show; return 1; }
}

# shrink_slabs PATTERN: frees the slabs of all caches with such names that are only kept. A link is
# another name of a cache.
shrink_slabs() {
	local shrink
	for shrink in /sys/kernel/slab/$1/shrink; do
		[[ -L ${shrink%/shrink} ]] || echo 1 >"$shrink"
	done
}

# memory_of MODULE: prints each place in MODULE whose memory is still allocated: pages that it has
# mapped and, in the debug guest (slab_debug=U), slab objects with their number. Shrinking a cache
# empties KASAN's quarantine. When the module has gone, its places have no names.
memory_of() {
	local slabs=/sys/kernel/debug/slab
	grep "\[$1\]" /proc/vmallocinfo || true
	[[ -e $slabs/kmalloc-64/alloc_traces ]] || return 0
	shrink_slabs 'kmalloc*'
	grep -hE "^ +[0-9]+ [^ ]+ \[$1\]" "$slabs"/kmalloc*/alloc_traces || true
}

has_no_memory() { [[ ! $(memory_of xiw) ]]; }

# has_thread PATTERN: a thread of the module has such a name. Starts no program: on a debug kernel
# each takes long.
has_thread() {
	local file name
	for file in /proc/[0-9]*/comm; do
		{ read -r name <"$file"; } 2>/dev/null || continue	# it has just ended
		# shellcheck disable=SC2053	# a pattern
		[[ $name != xiw/$1 ]] || return 0
	done
	return 1
}

has_no_thread() { ! has_thread "$1"; }
has_no_threads() { has_no_thread '*'; }

# all_removed: deletes the links and unloads the modules, which leave neither memory nor threads. A
# process that has just ended may still hold a reference, so try rmmod for a while.
all_removed() {
	local link
	for link in $(link_names); do
		del_link "$link"
	done
	[[ $(link_names) == "" ]]
	wait_until 20 has_no_memory || { memory_of xiw; return 1; }
	wait_until 20 unload "$link_type"
	wait_until 20 unload siw
	wait_until 20 has_no_threads
}

# finish: runs the gate, prints the totals and exits.
finish() {
	ONLY=
	stage "no object is left of programs that ended" no_objects_left
	stage "links go and the module unloads" all_removed
	stage "the kernel's log is clean" log_is_clean
	[[ ! -e $repeated ]] || sort "$repeated" | uniq -c | sed 's/^/# done again:/'
	ktap_finished
}

cleanup() {
	local link ns
	for ns in "$ns1" "$ns2"; do
		kill_in "$ns"
	done
	for link in $(link_names 2>/dev/null); do
		rdma link del "$link" 2>/dev/null
	done
	for ns in "$ns1" "$ns2"; do
		ip netns del "$ns" 2>/dev/null
	done
	rm -rf "$scratch"
}
trap cleanup EXIT
