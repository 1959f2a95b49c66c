#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# rdma-core's own tests pass, except those that pyverbs/skips lists with a reason.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
need python3
if [[ ! -e ${RDMA_CORE_SOURCE_DIR:-}/tests/run_tests.py ]]; then
	ktap_skip_all "RDMA_CORE_SOURCE_DIR does not name rdma-core's source"
	exit "$KSFT_SKIP"
fi

run=$here/../pyverbs/run
results=$scratch/results

# Runs all tests in one process, because Python takes longer to start than most tests to run.
run_all() {
	limit=300 n1 "$run" "$client_dev" >"$results" 2>&1 || { cat "$results"; return 1; }
}

passes() {
	awk -v name="$1" '/^(running|unable) / { told = $2 == name } told' "$results"
	grep -qx "passed $1" "$results"
}

# A listed test that passes must leave the list.
listed_cannot_run() {
	local others
	grep '^unable ' "$results"
	others=$(grep -E '^(passed|crashed) ' "$results" |
		grep -vwFf <(printf '%s\n' "${claims[@]}") || true)
	expect_equal "$others" "" "listed tests that pass or crash"
}

list=$("$run" --list) || ktap_exit_fail_msg "there is no list of the tests"
mapfile -t claims <<<"$list"
plan $((${#claims[@]} + 1))
setup make_path dummy
use_path dummy 4
setup run_all
for claim in "${claims[@]}"; do
	stage "${claim#tests.}" passes "$claim"
done
stage "the listed tests cannot run" listed_cannot_run
finish
