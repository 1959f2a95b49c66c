#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# A theme that fails, hangs, skips or prints nothing does not pass. Runs planted.sh in a native
# guest and counts its results as tools/check does.

# shellcheck source=tests/gates/lib.sh
. "$(dirname "$0")/lib.sh"

plants=(fine failure status_4 skip no_end warning no_result early_end silence wrong_shell)

# Runs all of them in one guest. The output of each begins with "=== PLANT".
run_planted() {
	local status=0
	"$tree/tests/vm/uml" --native --name themes --timeout 240 -- "
		for plant in ${plants[*]}; do
			echo \"=== \$plant\"
			PLANT=\$plant make -s -C tests OUTPUT=/xiw/build/guests/tests TEST_PROGS=gates/planted.sh \
				kselftest_override_timeout=10 run_tests
		done" >"$scratch/all" || status=$?
	cat "$scratch/all"
	[[ $status -eq 125 ]]
	grep -q 'xiw[-_]plant' "$tree/build/uml/native-themes/dmesg"
}

# counted PLANT PASSED FAILED SKIPPED [WORDS]: tools/tally counts these results, and WORDS are in
# the output or in the details.
counted() {
	local counts
	sed -n "/^=== $1\$/,/^=== /{/^=== /!p}" "$scratch/all" >"$scratch/one"
	cat "$scratch/one"
	: >"$scratch/details"
	counts=$("$tree/tools/tally" native "$scratch/details" <"$scratch/one")
	cat "$scratch/details"
	[[ $counts == "$2 $3 $4" ]] || { say "counted $counts, wanted $2 $3 $4"; return 1; }
	[[ ! ${5:-} ]] || prints "$5" cat "$scratch/one" "$scratch/details"
}

# not_counted TEXT WORDS: a run that printed only TEXT has failed, and WORDS are in the details.
not_counted() {
	local passed failed skipped
	printf '%b' "$1" >"$scratch/one"
	read -r passed failed skipped < <("$tree/tools/tally" native "$scratch/details" <"$scratch/one")
	say "$passed passed, $failed failed, $skipped skipped"
	((failed > 0))
	prints "$2" cat "$scratch/details"
}

# wrong_table SED WORDS: tools/themes refuses the table after this edit, and prints WORDS.
wrong_table() {
	sed "$1" "$tree/tests/themes" >"$scratch/themes"
	fails 1 "$2" env XIW_THEMES="$scratch/themes" "$tree/tools/themes" native
}

plan 19
claim "the planted themes run"				run_planted
claim "a theme without a fault passes"			counted fine 4 0 0
claim "a claim that fails is a failure"			counted failure 3 1 0
claim "a program's status 4 is not a skip"		counted status_4 3 1 0 'status 4: bash'
claim "a skip that is not listed is a failure"		counted skip 3 1 1 'tests/skips does not expect it'
claim "a theme that runs into its time limit has failed" counted no_end 0 1 0 '0 results of 4'
claim "a theme whose kernel warns has failed"		counted warning 3 1 0 'WARNING'
claim "a claim without a result is a failure"		counted no_result 3 1 0 '3 results of 4'
claim "a theme that ends early has failed"		counted early_end 0 1 0 '0 results of 4'
claim "a theme that prints nothing has failed"		counted silence 0 1 0 'no plan'
claim "a theme that ends as an expected failure has failed" counted wrong_shell 0 1 0 'no plan'
claim "a run that prints nothing has failed"		not_counted '' 'no check has begun'
claim "a run that is cut off has failed" \
	not_counted 'TAP version 13\n1..2\n# selftests: tests: a.sh\n# 1..1\n# ok 1 x\nok 1 selftests: tests: a.sh\n' \
	'1 results of 2'
claim "a run that is cut off within a theme has failed" \
	not_counted 'TAP version 13\n1..1\n# selftests: tests: a.sh\n# 1..2\n# ok 1 x\n' 'it has no end'
claim "a theme that skips itself has failed" \
	not_counted '1..1\n# selftests: tests: a.sh\n# 1..0 # SKIP no\nok 1 selftests: tests: a.sh # SKIP\n' \
	'does not expect it'
claim "a listed skip that is not skipped is a failure" \
	not_counted '1..1\n# selftests: tests: wire.sh\n# 1..1\n# ok 1 SEC-26 a stream runs inside of IPsec \nok 1 selftests: tests: wire.sh\n' \
	'was not skipped'
claim "a theme that is not in the table is found"	wrong_table '/^verbs/d' 'netns/verbs.sh'
claim "a theme without a file is found"		wrong_table '1i nosuch native' 'netns/nosuch.sh'
claim "a theme that no vehicle runs is found"		wrong_table 's/^\(storage\).*/\1/' 'no vehicle runs storage'
finish
