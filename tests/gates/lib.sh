# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# shellcheck shell=bash disable=SC2034 # the lists use what is set here
# Functions for tests of the checks themselves, in flat TAP: plan N, claim TEXT COMMAND..., finish.

set -uo pipefail

gates=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
tree=$(realpath "$gates/../..")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
copy=$scratch/tree
number=0 failed=0

say() { printf '%s\n' "$*"; }

plan() { say "TAP version 13"; say "1..$1"; }

# claim TEXT COMMAND...: runs COMMAND in a subshell under "set -e". Its output is shown if it fails.
claim() {
	local text=$1 start=$SECONDS status
	shift
	number=$((number + 1))
	(set -e; "$@") >"$scratch/output" 2>&1 </dev/null
	status=$?
	if [[ $status -eq 0 ]]; then
		say "ok $number $text"
	else
		sed 's/^/# /' "$scratch/output"
		say "not ok $number $text"
		failed=$((failed + 1))
	fi
	say "# took $((SECONDS - start)) s"
}

finish() { [[ $failed -eq 0 ]]; }

# make_copy: copies the tree, with what is not committed, to $copy, where faults can be planted.
make_copy() {
	git clone -q "$tree" "$copy"
	(cd "$tree" && git ls-files -co --exclude-standard | while read -r file; do
		[[ ! -f $file ]] || echo "$file"
	done | tar -c -T -) | tar -x -C "$copy"
}

# prints TEXT COMMAND...: succeeds if the output of COMMAND matches the regular expression.
prints() {
	local text=$1 output
	shift
	output=$("$@" 2>&1) || true
	say "$output"
	grep -qE "$text" <<<"$output" || { say "nothing there matches \"$text\""; return 1; }
}

# fails STATUS TEXT COMMAND...: succeeds if COMMAND fails with STATUS (any if "") and its output
# matches the regular expression.
fails() {
	local wanted=$1 text=$2 output status=0
	shift 2
	output=$("$@" 2>&1) || status=$?
	say "$output"
	say "status $status, wanted ${wanted:-any but 0}"
	[[ $status -ne 0 && (! $wanted || $status -eq $wanted) ]] || return 1
	grep -qE "$text" <<<"$output" || { say "nothing there matches \"$text\""; return 1; }
}

# within_seconds N COMMAND...: COMMAND succeeds within that time.
within_seconds() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < end)) || { say "not within the time: $*"; return 1; }
		sleep 0.1
	done
}

# A process that has ended and was not waited for is gone, too.
gone() { ! grep -sq '^State:[^Z]*$' "/proc/$1/status"; }

# is_closed FILE: no process has the file open.
is_closed() { [[ ! $(find /proc/[0-9]*/fd -lname "$1" 2>/dev/null) ]]; }
