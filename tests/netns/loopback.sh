#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The claims of verbs.sh, within one host and without TCP.

loopback=1
# These do not depend on whether TCP carries the data, so only this theme runs them.
once=(neighbours races uverbs)
# shellcheck source=tests/netns/verbs.sh
. "$(dirname "$0")/verbs.sh"
