#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The command xiw makes and removes links, with the settings of /etc/xiw, and refuses what is wrong.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
need xiw setpriv

dev=x$$d
etc=/etc/xiw
marks=/run/xiw	# one for each unit that is active
locks=/run/xiw-locks
sysfs=/sys/class/infiniband

# claim TEXT COMMAND...: runs a lone_stage and removes the settings, the marks and the stand-ins.
claim() {
	lone_stage "$@"
	rm -rf "$etc"/*.conf "${marks:?}"/* "${scratch:?}/bin"
	ip -n "$ns1" link add dummy type dummy 2>/dev/null
}

# conf FILE LINE...: writes settings.
conf() {
	local file=$1
	shift
	mkdir -p "$etc"
	printf '%s\n' "$@" >"$etc/$file.conf"
}

# has_settings LINK NAME=VALUE...
has_settings() {
	local link=$1 wanted
	shift
	for wanted; do
		expect_equal "$(<"$sysfs/$link/xiw/${wanted%=*}")" "${wanted#*=}" "${wanted%=*}"
	done
}

settings_are_applied() {
	conf default crc=0 loopback=0
	conf dummy '# ours' '' "name=$dev" loopback=1 large_fpdus=0
	n1 xiw up dummy
	has_settings "$dev" crc=0 loopback=1 large_fpdus=0 responder_hold=1
	n1 rdma link show "$dev/1" | grep -w 'netdev dummy'
}

# table: prints NAME=VALUE for each number in the table of settings, VALUE being the largest.
# shellcheck disable=SC2016 # a regular expression
table() { sed -nE 's/^\| `([a-z_]+)` \| [0-9]+ to ([0-9]+) \| .*/\1=\2/p' "$here/../../USING.md"; }

every_setting_is_applied() {
	local settings
	mapfile -t settings < <(table)
	((${#settings[@]} > 10))
	conf dummy "name=$dev" "${settings[@]}" congestion=reno
	n1 xiw up dummy
	has_settings "$dev" "${settings[@]}" congestion=reno
	conf dummy "name=$dev" congestion=
	n1 xiw up dummy
	has_settings "$dev" congestion=
}

changes_are_applied() {
	conf dummy "name=$dev"
	n1 xiw up dummy
	conf dummy "name=$dev" responder_hold=0
	n1 xiw up dummy
	has_settings "$dev" crc=1 responder_hold=0
}

link_has_a_name() {
	rm -f "$etc"/*.conf
	n1 xiw up dummy
	has_link xiw-dummy
	n1 xiw down dummy
	has_no_link xiw-dummy
}

wrong_settings_leave_no_link() {
	local line
	for line in crc=2 crc=on crc= large_fpdus=-1 congestion=nosuch; do
		conf dummy "name=$dev" "$line"
		expect_fail "dummy.conf:2: ${line%=*} does not take the value \"${line#*=}\"" n1 xiw up dummy
		has_no_link "$dev"
	done
	conf dummy "name=$dev" colour=1
	expect_fail "dummy.conf:2: there is no setting colour, but these: .*crc .*loopback" n1 xiw up dummy
	has_no_link "$dev"
}

# A link that was there before stays.
wrong_change_leaves_the_link() {
	conf dummy "name=$dev"
	n1 xiw up dummy
	conf dummy "name=$dev" crc=2
	expect_fail 'does not take the value "2"' n1 xiw up dummy
	has_settings "$dev" crc=1
}

taken_names_are_refused() {
	conf lo "name=$dev"
	n1 xiw up lo
	conf dummy "name=$dev"
	expect_fail "there is a device $dev already, maybe in another network namespace: put another name" n1 xiw up dummy
	conf lo "name=${dev}2"
	expect_fail "lo has a device already, $dev, which is not ${dev}2" n1 xiw up lo
	n1 rdma link show "$dev/1" | grep -w 'netdev lo'
}

unfit_interface_is_refused() {
	ip1 link add of_stage type bridge || skip "cannot make a netdev of type bridge"
	ip1 link set dummy master of_stage
	conf dummy "name=$dev"
	expect_fail "no device can be made on dummy: .*kernel has logged: .*use the bond or bridge" \
		n1 xiw up dummy
	ip1 link set dummy nomaster
}

links_are_removed() {
	conf dummy "name=$dev"
	n1 xiw up dummy
	n1 xiw down dummy
	has_no_link "$dev"
	n1 xiw down dummy
	n1 xiw down nosuch
}

# stand_in NAME TEXT: a script that is called instead of a program.
stand_in() {
	mkdir -p "$scratch/bin"
	printf '#!/bin/bash\n%s\n' "$2" >"$scratch/bin/$1"
	chmod +x "$scratch/bin/$1"
}

# The interface goes after the command has seen its link.
interface_may_vanish() {
	conf dummy "name=$dev"
	n1 xiw up dummy
	stand_in rdma "[[ \$2 != del ]] || { ip link del dummy; while [[ -e $sysfs/$dev ]]; do :; done; }
		exec $(command -v rdma) \"\$@\""
	n1 env "PATH=$scratch/bin:$PATH" xiw down dummy
	has_no_link "$dev"
	ip1 link add dummy type dummy
}

# mark NETDEV: as if its unit was active.
mark() { (umask 077 && mkdir -p "$marks" && : >"$marks/$1"); }

# renew NETDEV: removes the netdev and makes a new one of that name.
renew() {
	ip1 link del "$1"
	ip1 link add "$1" type dummy
}

new_interface_is_served() {
	conf dummy "name=$dev" crc=0
	n1 xiw follow dummy
	for _ in {1..5}; do
		renew dummy
		n1 xiw again dummy
		n1 rdma link show "$dev/1" | grep -w 'netdev dummy'
		has_settings "$dev" crc=0
	done
	n1 xiw unfollow dummy
	has_no_link "$dev"
	renew dummy
	n1 xiw again dummy
	has_no_link "$dev"
}

# An event that is repeated must not end connections, so the link has to be the same one.
served_once() {
	local before
	conf dummy "name=$dev"
	n1 xiw follow dummy
	before=$(stat -L -c %i "$sysfs/$dev")
	n1 xiw again dummy
	expect_equal "$(stat -L -c %i "$sysfs/$dev")" "$before" "the inode of the link"
}

interface_may_come_later() {
	conf of_stage "name=$dev"
	n1 xiw follow of_stage
	has_no_link "$dev"
	n1 xiw status | grep -Fx 'no device on of_stage: there is no such interface at present'
	ip1 link add of_stage type dummy
	n1 xiw status | grep -F 'no device on of_stage: "xiw up of_stage" makes it'
	n1 xiw again of_stage
	has_link "$dev"
	n1 xiw unfollow of_stage
}

# The interface goes after the command has looked for it.
interface_may_go_meanwhile() {
	conf dummy "name=$dev"
	stand_in rdma "[[ \$2 != add ]] || ip link del dummy; exec $(command -v rdma) \"\$@\""
	n1 env "PATH=$scratch/bin:$PATH" xiw follow dummy
	has_no_link "$dev"
	ip1 link add dummy type dummy
	n1 xiw again dummy
	has_link "$dev"
	ip1 link del dummy
	ip1 link add dummy type dummy
	wait_until 10 has_no_link "$dev"
	expect_fail "no device can be made on dummy: .*No such device" n1 env "PATH=$scratch/bin:$PATH" xiw up dummy
}

# A link keeps its name for a moment after it has gone.
name_may_be_free_later() {
	conf dummy "name=$dev"
	stand_in rdma "if [[ \$2 == add && ! -e $scratch/asked ]]; then
		touch $scratch/asked; echo 'error: Too many open files in system' >&2; exit 1
		fi; exec $(command -v rdma) \"\$@\""
	n1 env "PATH=$scratch/bin:$PATH" xiw up dummy
	[[ -e $scratch/asked ]]
	has_link "$dev"
}

calls_may_meet() {
	local callers=() caller
	conf dummy "name=$dev"
	mark dummy
	for _ in {1..3}; do
		n1 xiw up dummy &
		callers+=($!)
		n1 xiw again dummy &
		callers+=($!)
	done
	for caller in "${callers[@]}"; do
		wait "$caller"
	done
	has_link "$dev"
	expect_fail "Permission denied" setpriv --reuid 65534 --clear-groups flock -n "$locks/dummy" true
}

# A program can hold up the end of the device that it uses for as long as it likes. The command may be
# killed meanwhile, but not its child.
stuck_call_holds_up_nobody() {
	local caller
	conf dummy "name=$dev"
	n1 xiw up dummy
	mkfifo "$scratch/stuck"
	stand_in rdma "[[ \$2 != del ]] || read -r <>'$scratch/stuck'; exec $(command -v rdma) \"\$@\""
	n1 env "PATH=$scratch/bin:$PATH" xiw down dummy &
	caller=$!
	sleep 1
	conf lo "name=${dev}2"
	limit=10 n1 xiw up lo
	has_link "${dev}2"
	echo >"$scratch/stuck"
	wait "$caller"
	has_no_link "$dev"
}

paths_are_no_interfaces() {
	touch /run/victim
	expect_fail "no interface is called ../victim" n1 xiw forget ../victim
	[[ -e /run/victim ]]
	rm /run/victim
}

# udev shows nobody what the command says.
again_logs() {
	conf dummy "name=$dev" crc=2
	mark dummy
	stand_in logger "echo \"\$*\" >$scratch/logged"
	expect_fail "" n1 env "PATH=$scratch/bin:$PATH" xiw again dummy
	cat "$scratch/logged"
	grep 'dummy.conf:2: crc does not take the value "2"' "$scratch/logged"
	[[ -e $marks/dummy ]]
	rm "$marks/dummy"
	expect_fail 'does not take the value' n1 xiw follow dummy
	[[ ! -e $marks/dummy ]]
}

odd_names_work() {
	local name
	for name in -x 'a@b' eth0.10 'st*r' abcdefghijklmno; do
		ip1 link add name "$name" type dummy
		n1 xiw follow "$name"
		n1 rdma link show "xiw-$name/1" | grep -F " netdev $name"
		n1 xiw unfollow "$name"
		has_no_link "xiw-$name"
		ip1 link del dev "$name"
	done
	conf dummy name=-x
	n1 xiw up dummy
	has_link -x
	n1 xiw down dummy
	has_no_link -x
}

status_tells() {
	local file told
	conf dummy "name=$dev" crc=0
	n1 xiw up dummy
	n1 xiw status >"$scratch/status"
	cat "$scratch/status"
	grep -Fx "module: version $(</sys/module/xiw/version) is loaded" "$scratch/status"
	grep -E "^$dev on dummy: [A-Z]+\$" "$scratch/status"
	read -rd '' -a told < <(sed '1,/ on dummy: /d' "$scratch/status") || true
	for file in "$sysfs/$dev/xiw"/*; do
		[[ " ${told[*]} " == *" ${file##*/}=$(<"$file") "* ]]
	done
	[[ " ${told[*]} " == *" crc=0 "* ]]
}

plan 21
setup make_namespaces
setup make_dummy
setup load xiw
claim "a link is made with the settings of its files"	settings_are_applied
claim "every setting can be in a file"			every_setting_is_applied
claim "xiw up applies changed settings"			changes_are_applied
claim "a link without a name is called after its netdev" link_has_a_name
claim "a wrong setting leaves no link"			wrong_settings_leave_no_link
claim "a wrong change leaves the link there"		wrong_change_leaves_the_link
claim "a name or netdev that is taken is refused"	taken_names_are_refused
claim "a name is waited for if its link is going"	name_may_be_free_later
claim "a port of a bridge is refused with the kernel's reason" unfit_interface_is_refused
claim "netdevs and links may have odd names"		odd_names_work
claim "xiw down removes the link, if there is one"	links_are_removed
claim "a netdev may vanish during xiw down"		interface_may_vanish
claim "a netdev that is made anew gets a link again"	new_interface_is_served
claim "xiw again leaves a link that is there"		served_once
claim "a netdev may come later than xiw follow"		interface_may_come_later
claim "a netdev may vanish during xiw follow"		interface_may_go_meanwhile
claim "calls of xiw may meet, and no user can stop them" calls_may_meet
claim "a call that stands still holds up no other interface" stuck_call_holds_up_nobody
claim "a path is not taken for an interface"		paths_are_no_interfaces
claim "xiw again logs what is wrong"			again_logs
claim "xiw status tells the module and each link"	status_tells
finish
