#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# Each command of each document works, and prints what the document shows.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
need python3 rdma jq rping ib_write_bw ib_read_lat tshark tcpdump

run=$here/../docs/run

# User Mode Linux lacks the drivers of storage. A document that needs them runs on Debian's kernels, and
# all others run here, where a command takes less time.
chosen() {
	if [[ ${XIW_KERNEL:-} =~ ^[0-9] ]]; then
		"$run" --list | grep -x 'docs/storage.md'
	else
		"$run" --list | grep -vx 'docs/storage.md'
	fi
}

mapfile -t documents < <(chosen)
plan "${#documents[@]}"
for document in "${documents[@]}"; do
	stage "$document does what it shows" "$run" "$document"
done
finish
