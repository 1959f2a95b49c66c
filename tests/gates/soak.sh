#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# tools/soak reports a turn that fails, hangs, is slow or prints nothing, and still writes its report
# if it has too little time or is interrupted. Cheap stand-ins replace the turns.

# shellcheck source=tests/gates/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$tree" || exit
export SOAK_NAME=gates-soak XIW_TURNS=$scratch/turns
out=build/gates-soak
trap 'rm -rf "$scratch" "$out"' EXIT

# A turn: stand_in KIND SEED.
cat >"$scratch/stand_in" <<'EOT'
#!/bin/bash
echo "TAP version 13"
echo "# the seed is $2"
case $1 in
fine)		echo 1..2; echo "ok 1 a: 5 executions"; echo "ok 2 b: 6 executions" ;;
fails)		echo 1..2; echo "ok 1 a: 5 executions"; echo "not ok 2 b" ;;
hangs)		echo 1..2; echo "ok 1 a"; sleep 1000 ;;
stubborn)	echo 1..2; echo "ok 1 a"; (trap '' TERM; sleep 1000) & sleep 1000 ;;
slow)		echo 1..2; echo "ok 1 a"; echo "# took 3 s"; sleep 1000 ;;
slow_fails)	echo 1..3; echo "not ok 1 a"; echo "# took 3 s"; sleep 1000 ;;
silent)		;;
dies)		echo 1..1; echo "ok 1 a"; exit 7 ;;
idle)		echo 1..1; echo "ok 1 a" ;;
half)		echo 1..2; echo "ok 1 a" ;;
pause)		echo 1..1; echo "ok 1 a"; sleep 3 ;;
esac
EOT
chmod +x "$scratch/stand_in"

# turns KIND[:WANTED]...: the table has these turns. Each is called by its kind.
turns() {
	local kind
	for kind; do
		echo "${kind%:*} host $([[ $kind != *:* ]] && echo - || echo "${kind#*:}")" \
			"$scratch/stand_in ${kind%:*} @seed"
	done >"$XIW_TURNS"
}

soak() { "$tree/tools/soak" "$@"; }

# reports STATUS TEXT OPTION...: a soak ends with this status, and the last line of its report is
# TEXT. Prints the report.
reports() {
	local wanted=$1 text=$2 status=0
	shift 2
	soak "$@" >"$scratch/printed" 2>"$scratch/errors" || status=$?
	cat "$scratch/errors" "$out/report.txt"
	[[ $status -eq $wanted ]] || { say "status $status, wanted $wanted"; return 1; }
	diff "$scratch/printed" "$out/report.txt"
	[[ $(tail -n 1 "$out/report.txt") == "$text" ]]
}

# has REGEX: the report has a line that matches.
has() { grep -E "$1" "$out/report.txt" >/dev/null || { say "nothing there matches \"$1\""; return 1; }; }

# row NAME TIMES PASSED FAILED SKIPPED PROGRAMS INPUTS FAULTS: the report has this row.
row() { has "^$1-host +$2 +[0-9.]+ +$3 +$4 +$5 +$6 +$7 +$8\$"; }

# With this time the turns run once, if the last of them is "pause".
one_round=(--minutes 0.05)

passes() {
	turns fine:inputs pause
	reports 0 '3 passed, 0 failed, 0 skipped' "${one_round[@]}"
	row fine 1 2 0 0 0 11 0
	row pause 1 1 0 0 0 0 0
}

goes_on() {
	turns fails fine pause
	reports 1 '4 passed, 1 failed, 0 skipped' "${one_round[@]}"
	row fails 1 1 1 0 0 5 0
	row fine 1 2 0 0 0 11 0
	has '^001-fails-host: not ok 2 b$'
}

replays() {
	local again
	turns fine fails pause
	reports 1 '4 passed, 1 failed, 0 skipped' "${one_round[@]}" --seed 41
	again=$(sed -n 's/^  tools\/soak //p' "$out/report.txt")
	grep -h 'the seed is' "$out"/002-fails-host.log >"$scratch/seed"
	# shellcheck disable=SC2086 # words
	reports 1 '1 passed, 1 failed, 0 skipped' $again
	diff "$scratch/seed" <(grep -h 'the seed is' "$out"/001-fails-host.log)
	! grep -x '# the seed is 41' "$scratch/seed"
}

# one KIND STATUS TOTALS [TEXT]: a single turn of this kind.
one() {
	turns "$1"
	reports "$2" "$3" --turn "${1%:*}-host" --limit 3 --length 1
	[[ ! ${4:-} ]] || has "$4"
}

leaves_nothing() {
	one stubborn 1 '1 passed, 1 failed, 0 skipped'
	within_seconds 3 is_closed "$(realpath "$out"/001-*.log)"
}

slow_turn() {
	one slow 1 '0 passed, 0 failed, 0 skipped' 'too slow: .*use --limit'
	has '^too little time for: slow-host$'
}

too_little_time() {
	turns pause fine
	reports 0 '3 passed, 0 failed, 0 skipped' --minutes 0.02
	row pause 1 1 0 0 0 0 0
	row fine 1 2 0 0 0 11 0
	has '^this machine is too slow: the time was over before: fine-host$'
}

# interrupted SIGNAL TABLE: a soak that gets the signal while a turn runs reports and leaves no process.
interrupted() {
	local status=0 pid
	printf '%s\n' "$2" >"$XIW_TURNS"
	rm -rf "$out"
	env --default-signal=INT "$tree/tools/soak" --limit 900 >"$scratch/printed" 2>&1 &
	pid=$!
	until grep -sqE '^(# )?ok 1 ' "$out"/001-*.log; do
		kill -0 "$pid" || { cat "$scratch/printed"; return 1; }
		sleep 0.2
	done
	kill "-$1" "$pid"
	within_seconds 15 gone "$pid" || { kill -KILL "$pid"; say "it goes on"; return 1; }
	wait "$pid" || status=$?
	cat "$out/report.txt"
	[[ $status -eq 130 ]]
	has 'it was interrupted before the end of: '
	has '^0 passed, 0 failed, 0 skipped$'
	within_seconds 3 is_closed "$(realpath "$out"/001-*.log)"
}

bad_options() {
	local words
	turns fine
	for words in --bogus --hours '--hours x' '--hours 0' '--minutes -1' '--seed 0' '--length 1.5' \
		'--limit' '--turn' '--turn nosuch' extra; do
		# shellcheck disable=SC2086 # words
		fails 2 '^usage: ' soak $words
	done
	fails 2 'no turn nosuch; the turns are: fine-host' soak --turn nosuch
	soak --help | grep '^usage: '
	[[ $(soak --list) == fine-host ]]
}

# only ONLY PASSED FAILED SKIPPED: how tools/tally counts one claim that ran and one that was skipped.
only() {
	printf '%s\n' 1..1 '# selftests: tests: a.sh' '# 1..2' '# ok 1 apple ' '# ok 2 pear # SKIP' \
		'ok 1 selftests: tests: a.sh' >"$scratch/one"
	[[ $("$tree/tools/tally" native "$scratch/details" "$1" <"$scratch/one") == "$2 $3 $4" ]]
}

plan 18
claim "turns that pass are counted, with what they tried"	passes
claim "a turn that fails does not stop the others"	goes_on
claim "a turn that failed runs again by the command in the report"	replays
claim "a turn that hangs is stopped, and has failed" \
	one hangs 1 '1 passed, 1 failed, 0 skipped' '^hangs-host +1 +[3-9] '
claim "what ignores the end of its turn is ended"	leaves_nothing
claim "a turn that is slow is called slow, and has not failed"	slow_turn
claim "a claim that fails in a slow turn is a failure"	one slow_fails 1 '0 passed, 2 failed, 0 skipped' 'not ok 1 a'
claim "a turn that prints nothing has failed"	one silent 1 '0 passed, 1 failed, 0 skipped' 'no plan was printed'
claim "a turn that ends with a wrong status has failed"	one dies 1 '1 passed, 1 failed, 0 skipped' 'exit status is 7'
claim "a turn that is cut off has failed"	one half 1 '1 passed, 1 failed, 0 skipped' '1 results of 2 planned'
claim "a turn that tries nothing has failed"	one idle:inputs 1 '1 passed, 1 failed, 0 skipped' 'no inputs were counted'
claim "with too little time each turn runs once, and the report says so"	too_little_time
claim "an interrupt ends the turn, and the report is written" \
	interrupted INT "hangs host - $scratch/stand_in hangs 1"
claim "so does a termination"	interrupted TERM "hangs host - $scratch/stand_in hangs 1"
claim "an interrupt ends a guest"	interrupted INT 'guest native - link*99'
claim "bad options print the usage"	bad_options
claim "a claim that ONLY leaves out is not counted"	only apple 1 0 0
claim "a claim that ONLY names may not be skipped"	only 'apple|pear' 1 1 1
finish
