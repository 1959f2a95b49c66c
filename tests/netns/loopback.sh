#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The verbs keep their promises within one host, where no TCP carries what they send: as verbs.sh.

loopback=1
# What is the same with and without TCP is proved once.
once=(neighbours races)
# shellcheck source=tests/netns/verbs.sh
. "$(dirname "$0")/verbs.sh"
