#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# A fuzz target finds a fault in the code that it tests.

# shellcheck source=tests/gates/lib.sh
. "$(dirname "$0")/lib.sh"

# finds TARGET FILE OLD NEW: the target fails within a minute once NEW stands for OLD in FILE. The
# input is named, fails again, and passes without the fault.
finds() {
	local target=$1 old=$3 new=$4 input
	file=$copy/kernel/$2	# for the trap
	cp "$file" "$scratch/good"
	trap 'cp "$scratch/good" "$file"' EXIT
	OLD=$old NEW=$new awk '{
		at = index($0, ENVIRON["OLD"])
		if (at) {
			$0 = substr($0, 1, at - 1) ENVIRON["NEW"] substr($0, at + length(ENVIRON["OLD"]))
			found++
		}
		print
	} END { exit found != 1 }' "$scratch/good" >"$file"
	fails 1 "^not ok 1 $target: " "$copy/tools/fuzz" --time 60 "$target" | tee "$scratch/fuzz"
	input=$(sed -n 's/^# the input is \([^;]*\);.*/\1/p' "$scratch/fuzz")
	[[ -f $copy/$input ]]
	fails '' 'it is not true|ERROR: ' "$copy/tools/fuzz" --replay "$target" "$input" >/dev/null
	cp "$scratch/good" "$file"
	"$copy/tools/fuzz" --replay "$target" "$input"
}

all_pass() {
	make_copy
	"$copy/tools/fuzz" --time 10
}

plan 12
claim "all targets pass in a copy of the tree"	all_pass
claim "mpa finds a frame taken one octet too soon" \
	finds mpa wire/mpa.c 'if (len < sizeof(*hdr) + pd_len)' 'if (len + 1 < sizeof(*hdr) + pd_len)'
claim "negotiation finds an ORD one above the other end's IRD" \
	finds negotiation wire/mpa.c 'min(ord, request->ird)' 'min(ord, request->ird + 1)'
claim "segment finds a header one octet too short" \
	finds segment wire/opcode.c 'if (ulpdu_len < ddp_len)' 'if (ulpdu_len + 1 < ddp_len)'
claim "terminate finds a header repeated one octet too long" \
	finds terminate wire/terminate.c 'len <= ulpdu_len ?' 'len <= ulpdu_len + 1 ?'
claim "atomic finds a carry that leaves its field" \
	finds atomic wire/atomic.c '^ ((a ^ b) & highest)' '+ ((a ^ b) & highest)'
claim "fpdu_send finds a marker that is missing before a CRC" \
	finds fpdu_send wire/marker.c 'len < first ?' 'len <= first ?'
claim "fpdu_receive finds an FPDU read one octet too soon" \
	finds fpdu_receive stream/rx.c 'if (avail < fpdu_len)' 'if (avail + 1 < fpdu_len)'
claim "fpdu_receive finds a look one octet behind a segment of TCP" \
	finds fpdu_receive carrier/cursor.c 'cur->skb->len - offset)' 'cur->skb->len - offset + 1)'
claim "ring finds a count one too large" \
	finds ring queue/ring.h '> ring->entries -' '> ring->entries + 1 -'
claim "ring finds a slot that is judged before it is copied" \
	finds ring queue/slot.c 'result = xiw_slot_judge_send(cur,' 'result = xiw_slot_judge_send(slot,'
claim "ring finds a look that comes before the request for a doorbell" \
	finds ring queue/ring.h 'xiw_ring_ask(ring);' \
	'u32 n = xiw_ring_ready(ring); xiw_ring_ask(ring); if (!n) return 0;'
finish
