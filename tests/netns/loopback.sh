#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The verbs keep their promises within one host, where no TCP carries what they send: as verbs.sh.

loopback=1
# shellcheck source=tests/netns/verbs.sh
. "$(dirname "$0")/verbs.sh"
