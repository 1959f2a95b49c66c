#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# tools/mutate says rightly what becomes of a mutant. It runs in a copy of the tree whose only theme
# is link.sh, so a mutant of an Atomic survives.

# shellcheck source=tests/gates/lib.sh
. "$(dirname "$0")/lib.sh"

# mutate OPTION...
mutate() { XIW_THEMES=$scratch/themes "$copy/tools/mutate" --suites "$scratch/suites" "$@"; }

# Appends functions that have mutants of which the outcome is sure.
plant() {
	cat >>"$copy/kernel/limit.c" <<-'EOT'

		static inline int planted_unused(int number)
		{
			if (number)
				return number;
			return sizeof(_Generic((char (*)[8])NULL, char (*)[8]: number));
		}
	EOT
}

# make_lists: makes the copy, and a list of its mutants with one line for each.
make_lists() {
	make_copy
	plant
	sed -E 's/^(link)\t.*/\1 native/; t; s/^([a-z]+)\t.*/\1 siw/' "$tree/tests/themes" >"$scratch/themes"
	echo 'kernel/mem/ native/link:^ibv_devinfo' >"$scratch/suites"
	mkdir -p "$copy/build"	# what the tree has built for its guests is not built again
	[[ ! -e $tree/build/guests/lock ]] ||
		flock "$tree/build/guests/lock" cp -a "$tree/build/guests" "$copy/build/"
	mutate --list --count 100000 | awk '
		/^[0-9]+\. kernel/ { printf "%s%s", end, $0; end = "\n"; next }
		{ gsub(/[ \t]+/, " "); printf "%s", $0 }
		END { print "" }' >"$scratch/list"
	[[ $(wc -l <"$scratch/list") -gt 1000 ]]
}

# number_of REGEX: prints the number of the one mutant whose line matches.
number_of() {
	local found
	found=$(grep -E "$1" "$scratch/list" | cut -d. -f1)
	[[ $found =~ ^[0-9]+$ ]] || { say "not one mutant matches \"$1\": $found" >&2; return 1; }
	echo "$found"
}

# The files of the copy, and what is in them.
state() { (cd "$copy" && git status --porcelain && git diff) | sha256sum; }

# comes_to OUTCOME MUTANT: this is the outcome of the mutant, and no file of the tree changes.
comes_to() {
	local number before
	number=$(number_of "$2")
	before=$(state)
	prints "^    $1" mutate --only "$number"
	[[ $(state) == "$before" ]]
}

refuses_failing_tree() {
	local theme=$copy/tests/netns/link.sh number
	number=$(number_of "$survivor")
	sed -i.good 's/^link_on() {/&\n\tfalse/' "$theme"
	fails 1 'native/link fails without a mutant: ' mutate --only "$number"
	mv "$theme.good" "$theme"
}

refuses_wrong_table() {
	local number
	number=$(number_of "$survivor")
	echo 'kernel/ native/link:^nothing' >"$scratch/wrong"
	fails 1 'no claim of native/link:.nothing holds' mutate --suites "$scratch/wrong" --only "$number"
	echo 'kernel/ native/nosuch' >"$scratch/wrong"
	fails 1 'there is no suite native/nosuch' mutate --suites "$scratch/wrong" --list
	fails 2 'there is no file ' mutate --suites "$scratch/nosuch"
}

refuses_wrong_list() {
	local list=$copy/tests/mutation/equivalent
	cp "$list" "$scratch/equivalent"
	printf '%s\n' '' 'kernel/wire/atomic.c xiw_atomic_compute' ' {' '-	no such line;' '+	;' why \
		>>"$list"
	fails 1 'kernel/wire/atomic.c has no line no such line;' mutate --list
	sed -i '$d' "$list"
	fails 1 'and a reason; wrong is: ' mutate --list
	cp "$scratch/equivalent" "$list"
	printf '%s\n' '' 'kernel/conn/cm.c any' ' 	if (ret)' '-		return ret;' '+		;' why >>"$list"
	fails 1 'has more than one line return ret; behind if .ret.' mutate --list
	cp "$scratch/equivalent" "$list"
}

# table NUMBERS: writes a table in which the line that decides on max_mr_size is run by these claims:
# 0 is the one that notices a mutant of it.
table() {
	local line version
	line=$(grep -n 'attr->max_mr_size = ' "$copy/kernel/device.c" | cut -d: -f1)
	version=$(PYTHONPATH=$copy/tests/mutation python3 -B -c \
		'import points, sys; print(points.version_of(sys.argv[1]))' "$copy")
	jq -n --arg line "$line" --arg version "$version" --argjson numbers "$1" '{
		kernel: $version,
		claims: [["link", "ibv_devinfo shows an active iWARP port", 1], ["link", "another", 1]],
		lines: { "kernel/device.c": { ($line): $numbers } },
		starts: { "kernel/device.c": [1] }
	}' >"$scratch/table"
}

# The same mutant is not noticed if the table says that other claims run the line.
uses_table() {
	local number
	number=$(number_of "$noticed")
	table '[1]'
	prints 'SURVIVED 1 suites' mutate --claims "$scratch/table" --only "$number"
	table '[0, 1]'
	prints 'caught after .* by native/link:covering: ibv_devinfo' \
		mutate --claims "$scratch/table" --only "$number"
	sed -i 's/"kernel": "/&x/' "$scratch/table"
	fails 1 'kernel/ has changed since .*/table was written' \
		mutate --claims "$scratch/table" --only "$number"
	fails 2 'there is no file ' mutate --claims "$scratch/nosuch"
}

# has_mutant: the built copy differs from the tree.
has_mutant() { ! cmp -s "$copy/$1" "$copy/build/mutate/tree/$1"; }

# The run is stopped when the mutant is in its place.
stops() {
	local number before status=0 i
	number=$(number_of "$survivor")
	before=$(state)
	XIW_THEMES=$scratch/themes "$copy/tools/mutate" --suites "$scratch/suites" --only "$number" \
		>"$scratch/stopped" 2>&1 &	# $! is not a subshell
	for ((i = 0; i < 600; i++)); do
		! has_mutant kernel/wire/atomic.c || break
		sleep 0.1
	done
	sleep 1
	kill -INT $!
	wait $! || status=$?
	expect_equal "$status" 130
	prints 'go on with: tools/mutate --seed 1 --resume' cat "$scratch/stopped"
	[[ $(state) == "$before" ]]
	! has_mutant kernel/wire/atomic.c
}
expect_equal() { [[ $1 == "$2" ]] || { say "got $1, wanted $2"; return 1; }; }

# Six mutants have an outcome already; four of them count.
goes_on() {
	mutate --resume --count 5 >"$scratch/report" || true
	prints '^5 mutants of kernel/ with seed 1: . caught, . survived, 0 not finished$' cat "$scratch/report"
	prints '^not counted: [1-9].* code, [1-9].* .* compile' cat "$scratch/report"
	prints "^    again: tools/mutate --seed 1 --only $(number_of "$survivor")\$" mutate --report
	jq -e '[.mutants[] | select(.result == "survived" and .function == "xiw_atomic_compute")] |
		length == 1 and .[0].kind == "removed statement"' "$copy/build/mutate/seed-1.json"
}

noticed='device_query\(\): removed statement - attr->max_mr_size ='
survivor='xiw_atomic_compute\(\): removed statement - \*new_value = \(old'

plan 13
claim "mutants are listed"				make_lists
claim "a tree that fails without a mutant is refused"	refuses_failing_tree
claim "a suite without a claim is refused"		refuses_wrong_table
claim "a wrong list of mutants that make no difference is refused"	refuses_wrong_list
claim "a mutant that a claim notices is caught" \
	comes_to 'caught after .* by native/link: ibv_devinfo' \
	"$noticed"
claim "only the claims that run a line judge its mutant, if that is known"	uses_table
claim "a mutant of a barrier is caught by the models of memory" \
	comes_to 'caught after .* by litmus: not ok ' 'xiw_post_recv\(\): missing release - smp_mb\(\)'
claim "a mutant that hangs is caught" \
	comes_to 'caught after .* by native/link: ' 'device_check_netdev\(\): missing release - rtnl_unlock'
claim "a run that is stopped says how to go on"		stops
claim "a mutant that nothing notices survives"		comes_to 'SURVIVED 1 suites' "$survivor"
claim "a mutant that changes no code does not count" \
	comes_to 'does not count: it changes no code' 'planted_unused\(\): dropped check'
claim "a mutant that does not compile does not count" \
	comes_to 'does not count: it does not compile' 'planted_unused\(\): changed constant .*\[9\]\)NULL'
claim "a run goes on, and its report is right"		goes_on
finish
