#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# tools/parts.sh runs two parts at a time, and counts each that fails, hangs or prints nothing. Cheap
# stand-ins replace the parts.

# shellcheck source=tests/gates/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$tree" || exit
out=build/gates-parts
trap 'rm -rf "$scratch" "$out"' EXIT

# A part: stand_in KIND.
cat >"$scratch/stand_in" <<'EOT'
#!/bin/bash
cd "$(dirname "$0")"
until_there() { until [[ -e $1 ]]; do sleep 0.05; done; }
echo 1..1
case $1 in
first)	touch first; until_there second ;;
second)	until_there first; sleep 0.5; touch second ;;
third)	[[ -e second ]] || exit 7 ;;
fails)	echo "not ok 1 a"; exit ;;
hangs)	(trap '' TERM; sleep 1000) & sleep 1000 ;;
silent)	exit ;;
dies)	echo "ok 1 a"; exit 7 ;;
esac
echo "ok 1 a"
EOT
chmod +x "$scratch/stand_in"

# parts KIND...: prints a script that runs these parts.
parts() {
	local kind
	echo ". '$tree/tools/parts.sh'; begin_parts gates-parts"
	for kind; do
		echo "part $kind 3 gates '$scratch/stand_in' $kind"
	done
	echo end_parts
}

# come_to STATUS TOTALS KIND...: a run of these parts ends with this status and prints the totals.
come_to() {
	local status=0
	bash -c "$(parts "${@:3}")" >"$scratch/printed" 2>&1 || status=$?
	cat "$scratch/printed"
	[[ $status -eq $1 && $(tail -n 1 "$scratch/printed") == "$2" ]]
}

two_at_a_time() {
	rm -f "$scratch"/{first,second}
	come_to 0 '3 passed, 0 failed, 0 skipped' first second third
}

# told KIND PASSED TEXT: this part fails, and the end of the output says why. The others are counted.
told() {
	come_to 1 "$((2 + $2)) passed, 1 failed, 0 skipped" fine "$1" fine_too
	grep -E "^$1: .*$3" "$scratch/printed"
	within_seconds 2 is_closed "$(realpath "$out/$1.log")"
}

# ended SIGNAL STATUS: a run that gets the signal ends with this status and leaves no process.
ended() {
	local status=0 pid
	rm -rf "$out" "$scratch/printed"	# what the last run printed must not count
	env --default-signal=INT bash -c "$(parts hangs fine)" >"$scratch/printed" 2>&1 &
	pid=$!
	within_seconds 3 grep -q 'fine: 1 passed' "$scratch/printed"
	kill "-$1" "$pid"
	within_seconds 3 gone "$pid"
	wait "$pid" || status=$?
	[[ $status -eq $2 ]]
	within_seconds 2 is_closed "$(realpath "$out/hangs.log")"
}

plan 7
claim "two parts run at a time, and the next one when one has ended"	two_at_a_time
claim "a part that fails does not stop the others"	told fails 0 'not ok 1 a'
claim "a part that hangs is stopped, and has failed"	told hangs 0 'stopped after 3 s'
claim "a part that prints no results has failed"	told silent 0 '0 results of 1 planned'
claim "a part that ends with a wrong status has failed"	told dies 1 'exit status is 7'
claim "an interrupt ends the parts"	ended INT 130
claim "so does a termination"		ended TERM 143
finish
