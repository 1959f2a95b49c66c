# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# shellcheck shell=bash
# Runs checks in parts, each with a time limit and a log, and prints the totals at the end. Two parts
# run at a time, because a guest often waits where a compiler computes.
#
# A part has failed if it prints no results or fewer than planned, or if it had to be killed. Lines
# "not ok - ..." report such failures, which are not results of a check.

# shellcheck source=tools/guest/lib.sh
. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/guest/lib.sh"

# begin_parts NAME: empties build/NAME, where the logs go.
begin_parts() {
	need_root
	cd "$tree"
	logs=build/$1
	rm -rf "$logs"
	mkdir -p "$logs"
	passed=0 failed=0 skipped=0 times=()
	declare -gA running=()	# process id: what judge_part needs to know
	trap kill_parts EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	say "the logs of the parts are in $logs/"
}

# kill_parts: ends the parts that run. timeout is the leader of its process group, so this reaches
# what ignores SIGTERM, too, as unshare does.
# shellcheck disable=SC2317 # called by the trap
kill_parts() {
	local groups=("${!running[@]}")
	[[ ${#groups[@]} -gt 0 ]] || return 0
	kill -- "${groups[@]/#/-}" || true
	sleep 1
	kill -KILL -- "${groups[@]/#/-}" 2>/dev/null || true
}

# part NAME SECONDS COUNT COMMAND...: starts COMMAND, when fewer than two parts run. COUNT is "ctest"
# for the output of ctest; for KTAP it is the name of the vehicle in tests/skips.
part() {
	local name=$1 seconds=$2 count=$3
	shift 3
	[[ ${#running[@]} -lt 2 ]] || await_part
	say "=== $name"
	timeout -k 10 "$seconds" "$@" >"$logs/$name.log" 2>&1 </dev/null &
	running[$!]="$name $seconds $count $SECONDS"
}

# await_part: waits until a part has ended, and counts its results.
await_part() {
	local pid name seconds count start status
	# "wait -n" misses a process that ends before it is called.
	while true; do
		for pid in "${!running[@]}"; do
			! kill -0 "$pid" 2>/dev/null || continue
			status=0
			wait "$pid" || status=$?
			kill -KILL -- "-$pid" 2>/dev/null || true	# what it has left
			read -r name seconds count start <<<"${running[$pid]}"
			unset "running[$pid]"
			judge_part "$name" "$seconds" "$count" "$status" $((SECONDS - start))
			return
		done
		sleep 0.2
	done
}

await_parts() {
	while [[ ${#running[@]} -gt 0 ]]; do
		await_part
	done
}

# judge_part NAME SECONDS COUNT STATUS TOOK: counts the results in the log of a part that has ended.
judge_part() {
	local name=$1 seconds=$2 count=$3 status=$4 took=$5 ok=0 bad=1 left=0
	local counter=(count_tap "$name" "$count")
	[[ $count != ctest ]] || counter=(count_ctest)
	read -r ok bad left < <("${counter[@]}" <"$logs/$name.log") || true
	if [[ $bad -eq 0 && $status -ne 0 ]]; then
		bad=1
		echo "not ok - all passed, but the exit status is $status" >>"$logs/$name.faults"
	fi
	[[ $status -ne 124 ]] || echo "not ok - stopped after $seconds s" >>"$logs/$name.faults"
	passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + left))
	times+=("$name $took")
	say "=== $name: $ok passed, $bad failed, $left skipped, status $status, $took s"
}

count_tap() { tools/tally "$2" "$logs/$1.faults" "${only:-}"; }

# count_ctest: reads "98% tests passed, 1 tests failed out of 50". Without it the part failed.
count_ctest() {
	sed -n 's/.* tests passed, \([0-9]*\) tests failed out of \([0-9]*\).*/\1 \2/p' |
		awk '{ bad = $1; all = $2 } END { print all - bad, all ? bad : 1, 0 }'
}

# tell_failures: prints each failure again, with the lines before it.
tell_failures() {
	local log
	for log in "$logs"/*.log; do
		grep -E -B 8 '^(# )*not ok |\*\*\*(Failed|Timeout)|(vm|xiw): .*(hung|died|complained|said)' \
			"$log" | sed "s/^/$(basename "$log" .log): /" || true
	done
	for log in "$logs"/*.faults; do
		[[ ! -s $log ]] || sed "s/^/$(basename "$log" .faults): /" "$log"
	done
}

# end_parts: waits for all parts and prints the totals. Fails if anything failed or nothing passed.
end_parts() {
	await_parts
	[[ $failed -eq 0 ]] || tell_failures
	[[ ${#times[@]} -eq 0 ]] || printf 'took %s s\n' "${times[@]}"
	echo "$passed passed, $failed failed, $skipped skipped"
	[[ $failed -eq 0 && $passed -gt 0 ]]
}

# rotate PARTS: prints which part this run takes, as PART/PARTS. It changes with each commit, and
# PARTS commits in a row run all of them.
rotate() {
	local number
	number=$(git rev-list --count HEAD) || die "git cannot count the commits; set SAMPLE=1/$1"
	# In a clone of the last commit only, the count is always 1. Use the hash instead.
	[[ $(git rev-parse --is-shallow-repository) == false ]] ||
		number=$((16#$(git rev-parse HEAD | cut -c 1-8)))
	echo "$((number % $1 + 1))/$1"
}
