#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# tools/bench fails if the guest's kernel warns or if measuring ends early, and tells what has failed.

# shellcheck source=tests/gates/lib.sh
. "$(dirname "$0")/lib.sh"

# bench_with LINE...: runs tools/bench in an overlay of this tree in which tests/bench/measure
# consists of these lines. Changes in the overlay are thrown away.
bench_with() {
	# shellcheck disable=SC2016 # the inner shell's words
	unshare --mount bash -euc '
		tree=$1 layers=$2
		shift 2
		mount -t tmpfs layers "$layers"
		mkdir "$layers"/{upper,work}
		mount -t overlay -o "lowerdir=$tree,upperdir=$layers/upper,workdir=$layers/work" \
			overlay "$tree"
		rm -rf "$tree/build/bench"
		printf "%s\n" "#!/bin/bash" "$@" >"$tree/tests/bench/measure"
		exec "$tree/tools/bench" --vehicle uml --rounds 1' - "$tree" "$scratch/layers" "$@"
}
row='echo "{\"round\":1,\"row\":\"planted\",\"stack\":\"xiw\",\"bw\":1.0,\"rate\":2.0}"'

failed_row='echo "{\"round\":1,\"row\":\"planted\",\"stack\":\"siw\",\"failed\":1}"'

# shows TEXT LINE...: the table of such a run has this text.
shows() { bench_with "${@:2}" | tee "$scratch/table" && grep -F "$1" "$scratch/table"; }

mkdir "$scratch/layers"
plan 5
claim "a run without a fault passes"		bench_with "$row"
claim "a round that fails is in the table"	shows 'siw 1/1' "$row" "$failed_row"
claim "a run fails if the kernel warns"		fails 1 'status 125' bench_with "$row" 'modprobe xiw_plant fault=warn'
claim "a run fails if measuring ends early"	fails 1 'status 3' bench_with "$row" 'exit 3'
claim "a run that measures nothing fails"	fails 1 'nothing was measured' bench_with true
finish
