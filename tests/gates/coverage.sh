#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# A coverage below its floor does not pass, nor does a list of what is not run that is wrong. The
# runs are made up.

# shellcheck source=tests/gates/lib.sh
. "$(dirname "$0")/lib.sh"
dir=build/gates-coverage	# in the tree, for the build root
cd "$tree" || exit
trap 'rm -rf "$scratch" "$dir"' EXIT

# file NAME FUNCTION COUNT...: one of gcovr's files, whose lines from 20 on were run so often. Each
# line has two branches, and only the first is taken.
file() {
	local name=$1 function=$2 line=20 lines=() count
	shift 2
	for count; do
		lines+=("{\"line_number\": $line, \"count\": $count, \"branches\": [
			{\"count\": $count, \"blockno\": 1, \"fallthrough\": true, \"throw\": false},
			{\"count\": 0, \"blockno\": 2, \"fallthrough\": false, \"throw\": false}]}")
		line=$((line + 1))
	done
	echo "{\"file\": \"$name\", \"lines\": [$(IFS=,; echo "${lines[*]}")],
		\"functions\": [{\"name\": \"$function\", \"lineno\": 20, \"execution_count\": 1,
			\"returned_count\": 1, \"blocks_percent\": 100}]}"
}

# run NAME FILE...: adds a run.
run() {
	local name=$1
	shift
	echo "{\"gcovr/format_version\": \"0.6\", \"files\": [$(IFS=,; echo "$*")]}" \
		>"$dir/runs/$name.json"
}

# lists FLOORS UNREACHED: starts afresh with these lists.
lists() {
	rm -rf "$dir"
	mkdir -p "$dir"/{runs,out}
	printf '%b\n' "$1" >"$dir/floors"
	printf '%b\n' "$2" >"$dir/unreached"
}

report() {
	tools/guest/in-build-root env "XIW_COVERAGE_LISTS=/xiw/$dir" \
		tests/coverage/report "$@" "$dir/runs" "$dir/out"
}

three_of_four() {
	run a "$(file kernel/limit.c f 1 1 1 0)"
	run b "$(file provider/poll.cpp g 1 1)"
}

passes_at() {
	lists 'kernel 75 37.5\nprovider 100 50' "${1:-}"
	three_of_four
	prints '^kernel +75.0 +3/4 +37.5 +3/8' report
	report
}

falls_below() {
	lists "$1" ''
	three_of_four
	fails 1 "$2" report
	report --part
}

joins() {
	lists 'kernel 100 0' ''
	three_of_four
	run c "$(file kernel/limit.c f 0 0 0 1)"
	report
}

wrong_list() {
	lists 'kernel 75 0' "$1"
	three_of_four
	fails 1 'which was run or does not exist' report
}

empty() {
	lists 'kernel 0 0' ''
	fails 1 'no run to report' report
	run a "$(file provider/poll.cpp g 1)"
	fails 1 'kernel: .* of lines' report
}

plan 8
claim "coverage at the floors passes"			passes_at
claim "so it does with a reason for what is not run"	passes_at 'kernel/limit.c f'
claim "lines below their floor fail, but not in a part"	falls_below 'kernel 76 0' 'kernel: 75.0 % of lines'
claim "branches below their floor fail"			falls_below 'kernel 0 38' 'kernel: 37.5 % of branches'
claim "what any run has run counts"			joins
claim "a reason for a function that was run fails"	wrong_list 'provider/poll.cpp g'
claim "a reason for what does not exist fails"		wrong_list 'kernel/limit.c f nothing like this'
claim "without a run there is no coverage"		empty
finish
