#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The verbs keep their promises: every claim of the programs in tests/verbs, one stage each.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"

# The programs have both ends in one process, over one device.
names=(connect data atomics immediate flush notify requests srq bad_peer scribble shares)
mapfile -t claims < <(claims_of "$programs" "${names[@]}")

plan ${#claims[@]}
setup make_path dummy
use_path dummy 4
for claim in "${claims[@]}"; do
	stage "$claim" n1 "$programs/${claim%%: *}" "$addr" "${claim#*: }"
done
finish
