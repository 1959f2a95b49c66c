#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The device follows the RFCs: at least one stage for each requirement of CONFORMANCE.md.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

# The programs are raw peers of the device, which compose and parse each frame themselves.
names=(golden startup framing large markers enhanced ddp rdmap reads completeness terminate atomics
	atomic_requests immediate windows semantics security)
wire=$programs/../wire
document=$here/../../CONFORMANCE.md
mapfile -t claims < <(claims_of "$wire" "${names[@]}")

# Each claim has a line in CONFORMANCE.md, each line that names a program has a claim in that
# program, and no number is left out. The claims of golden have no lines: they are examples for
# other claims.
all_documented() {
	printf '%s\n' "${claims[@]}" >"$scratch/claims"
	expect_equal "$(awk '
		NR == FNR {
			sub(":", "", $1)
			if ($1 != "golden") {
				program[$1]
				id[$2]
				claim[$1, $2]
			}
			next
		}
		$1 == "|" && $2 ~ /^[A-Z]+-[0-9]+$/ {
			line[$2]
			split($2, part, "-")
			if (part[2] != ++number[part[1]])
				print $2 " is out of line"
			split($0, column, "|")
			for (n = split(column[4], word, "[ ,]+"); n; n--)
				if (word[n] in program && !((word[n], $2) in claim))
					print $2 " has no claim in " word[n]
		}
		END {
			for (one in id)
				if (!(one in line))
					print one " has no line"
		}' "$scratch/claims" "$document")" "" "errors in CONFORMANCE.md"
}

chosen=("${claims[@]}")
sample chosen
plan $((${#chosen[@]} + 1))
setup make_path dummy
use_path dummy 4
for claim in "${chosen[@]}"; do
	stage "${claim#*: }" n1 "$wire/${claim%%: *}" "$addr" "${claim#*: }"
done
stage "each requirement has its line in CONFORMANCE.md" all_documented
finish
