#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# A guest whose kernel has a fault does not pass. Each fault is planted in a guest of its own, and
# the vehicle must report it: guests.sh native | debug | races | debian

# shellcheck source=tests/gates/lib.sh
. "$(dirname "$0")/lib.sh"
vehicle=${1:?which vehicle}
case $vehicle in
native) guest=("$tree/tests/vm/uml" --native --name gates) ;;
debug) guest=("$tree/tests/vm/uml" --leaks --name gates) ;;
races) guest=("$tree/tests/vm/uml" --races --name gates) ;;
debian) guest=("$tree/tools/vm") ;;
esac

# in_guest SECONDS COMMAND
in_guest() { "${guest[@]}" --no-build --timeout "$1" -- "$2"; }

build() { "${guest[@]}" --timeout 600 -- true; }

# found FAULT TEXT [BEFORE [AFTER]]: the guest ends with status 125 and output that matches TEXT if
# the command BEFORE runs, then the fault is planted, then the command AFTER runs.
found() { fails 125 "$2" in_guest 120 "${3:-:}; modprobe xiw_plant fault=$1; ${4:-true}"; }

status_passed_on() { fails 7 "" in_guest 60 "exit 7"; }

# The time limit includes the guest's boot.
hang_found() { fails 124 "the guest hung" in_guest 20 "sleep 1000"; }

death_found() { fails 125 "the guest died" in_guest 60 "echo o >/proc/sysrq-trigger; sleep 50"; }

leak_named() {
	prints "2000 plant_[a-z_]+" "$tree/tests/vm/uml" --no-build --name gates --timeout 60 -- \
		"modprobe xiw_plant fault=leak; . tests/netns/lib.sh; memory_of xiw_plant"
}

case $vehicle in
native)
	plan 6
	claim "native: a guest without a fault passes"		build
	claim "native: a command's status is the run's"		status_passed_on
	claim "native: a guest that hangs is found"		hang_found
	claim "native: a guest that dies is found"		death_found
	claim "native: a WARN is found"				found warn "complained:.*WARNING:"
	claim "native: an Oops is found"			found oops "complained:.*Kernel panic"
	;;
debug)
	plan 9
	claim "debug: a guest without a fault passes"		build
	claim "debug: a WARN is found"				found warn "complained:.*WARNING:"
	claim "debug: a write past an object is found"	found out_of_bounds "KASAN:.*out-of-bounds"
	claim "debug: a write to a freed object is found"	found use_after_free "KASAN:.*use-after-free"
	claim "debug: a leaked object is found"			found leak "unreferenced object"
	claim "debug: the place of a leak is found"		leak_named
	claim "debug: locks in two orders are found"		found inversion "possible circular locking"
	claim "debug: sleep under a spinlock is found"		found sleep_in_atomic "BUG: "
	claim "debug: a task that hangs is found"		found hung_task "INFO: task xiw_hung" \
		"echo 5 >/proc/sys/kernel/hung_task_timeout_secs" "sleep 15"
	;;
races)
	plan 2
	claim "races: a guest without a fault passes"		build
	claim "races: a data race is found"			found data_race "KCSAN: data-race in count" "" "sleep 3"
	;;
debian)
	plan 3
	claim "debian: a guest without a fault passes"		build
	claim "debian: a WARN is found"				found warn "the kernel said:.*WARNING:"
	claim "debian: an Oops is found"			found oops "the guest died:.*(BUG|Oops)"
	;;
esac
finish
