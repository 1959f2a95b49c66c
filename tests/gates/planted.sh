#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# A theme that is not as it should be: planted.sh, with PLANT=... in its environment. Not one of the
# themes; tests/gates/themes.sh runs it in a guest, to see that nothing of this passes.

case ${PLANT:?} in
silence) exit 0 ;;
wrong_shell) exit 2 ;;	# as bash ends after an error of syntax; kselftest takes it for an expected failure
esac
# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/../netns/lib.sh"

status_of_iscsiadm() { bash -c 'exit 4'; }
own_skip() { skip "so that there is one"; }
no_end() { sleep 1000; }
warning() { modprobe xiw_plant fault=warn; }
left_object() { start "$ns1" "$programs/queue_pairs" "x$$d" 1000 20; sleep 2; }

plan 1
case $PLANT in
fine)		stage "planted" true ;;
failure)	stage "planted" false ;;
status_4)	stage "planted" status_of_iscsiadm ;;
skip)		stage "planted" own_skip ;;
no_end)		stage "planted" no_end ;;
warning)	stage "planted" warning ;;
no_result)	;;
early_end)	exit 0 ;;
esac
finish
