#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# A theme with a fault, which the environment variable PLANT names. It is not one of the themes:
# tests/gates/themes.sh runs it in a guest to check that a theme with such a fault does not pass.

case ${PLANT:?} in
silence) exit 0 ;;
wrong_shell) exit 2 ;;	# bash's status after a syntax error; kselftest's of an expected failure
esac
# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/../netns/lib.sh"

status_of_iscsiadm() { bash -c 'exit 4'; }
own_skip() { skip "this skip is planted"; }
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
