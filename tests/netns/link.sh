#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# Links follow their netdevs, and a wrong command is refused with a reason.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
need jq setpriv ibv_devinfo

dev=x$$d

# claim TEXT COMMAND...: runs a stage and restores the state before it.
claim() {
	lone_stage "$@"
	ip -n "$ns1" link set dummy up
}

# only_xiw: skips a stage for a feature that only xiw has. The other stages also run on other link
# types, to check the tests themselves.
only_xiw() { [[ $link_type == xiw ]] || skip "$link_type has no such thing"; }

link_add_loads_module() {
	modinfo "$link_type" >/dev/null 2>&1 || only_xiw || return
	unload "$link_type"
	ip link add "$dev" type dummy
	ip link set "$dev" up
	rdma link add "$dev" type "$link_type" netdev "$dev"
	[[ -e /sys/module/$link_type ]]
	del_link "$dev"
	ip link del "$dev"
}

link_on() {
	add_link "$ns1" "$dev" "$1"
	wait_until 5 has_state "$dev" ACTIVE
	del_link "$dev"
	has_no_link "$dev"
}

# A tun has no hardware address, so the link makes up its GID.
link_on_tun() {
	local gid
	[[ -e /dev/net/tun ]] || modprobe tun	# without udev, only the module makes the node
	ip1 tuntap add of_stage mode tun || skip "cannot make a netdev of type tun"
	add_link "$ns1" "$dev" of_stage
	gid=$(<"/sys/class/infiniband/$dev/ports/1/gids/0")
	[[ ${gid//[0:]/} ]]
}

# The IP addresses are those of the bridge.
port_of_bridge_refused() {
	ip1 link add of_stage type bridge || skip "cannot make a netdev of type bridge"
	ip1 link set dummy master of_stage
	expect_fail "Invalid argument|not supported" \
		n1 rdma link add "$dev" type "$link_type" netdev dummy
	has_no_link "$dev"
	reason_given dummy
	add_link "$ns1" "$dev" of_stage
	del_link "$dev"
	ip1 link set dummy nomaster
}

any_name() {
	local name longest
	printf -v longest "x$$%055d" 0
	for name in "x$$-with.dots_and-more" "x$$mlx5_0" "${longest:0:63}"; do
		add_link "$ns1" "$name" dummy
		n1 ibv_devinfo -d "$name" | grep -w "$name"
		del_link "$name"
	done
}

devinfo_tells_truth() {
	local info
	add_link "$ns1" "$dev" dummy
	wait_until 5 has_state "$dev" ACTIVE
	info=$(n1 ibv_devinfo -v -d "$dev")
	say "$info"
	grep -Eq 'transport:\s+iWARP \(1\)' <<<"$info"
	grep -Eq 'state:\s+PORT_ACTIVE' <<<"$info"
	grep -Eq 'phys_port_cnt:\s+1$' <<<"$info"
	grep -Eq 'max_mr_size:\s+0x[1-9a-f]' <<<"$info"
	[[ $link_type != xiw ]] ||
		expect_equal "$(<"/sys/class/infiniband/$dev/node_desc")" xiw "description"
}

# The limits are those of USING.md.
limits_are_told() {
	local info limit
	only_xiw
	add_link "$ns1" "$dev" dummy
	info=$(ip netns exec "$ns1" ibv_devinfo -v -d "$dev")
	for limit in qp=65536 cq=65536 srq=65536 pd=65536 mr=1048576 mw=1048576 \
		qp_wr=32768 srq_wr=32768 cqe=1048576 sge=16 srq_sge=16 sge_rd=1 \
		qp_rd_atom=128 qp_init_rd_atom=128; do
		grep -Eq "^\s+max_${limit%=*}:\s+${limit#*=}\$" <<<"$info" ||
			{ say "not max_$limit:"; grep max_ <<<"$info"; return 1; }
	done
}

add_and_delete_often() {
	local i
	for ((i = 0; i < 30; i++)); do
		rdma_quiet link add "$dev" type "$link_type" netdev dummy
		rdma_quiet link del "$dev"
	done
	has_no_link "$dev"
}
rdma_quiet() { ip netns exec "$ns1" rdma "$@"; }

# reason_given NETDEV: succeeds if the module has logged a line about this netdev.
reason_given() {
	[[ $link_type == xiw ]] || return 0
	dmesg | sed -n "/xiw-test $$ begins/,\$p" | grep -w "$1:.*xiw"
}

second_link_refused() {
	add_link "$ns1" "$dev" dummy
	expect_fail "File exists" n1 rdma link add "${dev}2" type "$link_type" netdev dummy
	has_no_link "${dev}2"
	reason_given dummy
}

used_name_refused() {
	add_link "$ns1" "$dev" dummy
	# ib_core returns ENFILE for a name in use.
	expect_fail "File exists|Too many open files in system" \
		n1 rdma link add "$dev" type "$link_type" netdev lo
	[[ $(rdma -j link show "$dev/1" | jq -r '.[0].netdev') != lo ]]
}

unknown_netdev_refused() {
	expect_fail "No such device" n1 rdma link add "$dev" type "$link_type" netdev nosuch
	has_no_link "$dev"
}

netdev_of_other_namespace_refused() {
	expect_fail "No such device" n2 rdma link add "$dev" type "$link_type" netdev dummy
	has_no_link "$dev"
}

# A netlink monitor has no address and does not carry IP.
unfit_netdev_refused() {
	ip1 link add of_stage type nlmon || skip "cannot make a netdev of type nlmon"
	expect_fail "Invalid argument|not supported" \
		n1 rdma link add "$dev" type "$link_type" netdev of_stage
	has_no_link "$dev"
	reason_given of_stage
}

without_capability_refused() {
	local unprivileged=(setpriv --bounding-set=-net_admin --inh-caps=-net_admin)
	expect_fail "not permitted" n1 "${unprivileged[@]}" \
		rdma link add "$dev" type "$link_type" netdev dummy
	has_no_link "$dev"
	add_link "$ns1" "$dev" dummy
	expect_fail "not permitted" n1 "${unprivileged[@]}" rdma link del "$dev"
	has_link "$dev"
}

unknown_link_not_deleted() {
	expect_fail "No such device|does.*not exist|Wrong device name" rdma link del "x$$nosuch"
}

port_follows_netdev() {
	add_link "$ns1" "$dev" dummy
	wait_until 5 has_state "$dev" ACTIVE
	ip1 link set dummy down
	wait_until 5 has_state "$dev" DOWN
	ip1 link set dummy up
	wait_until 5 has_state "$dev" ACTIVE
}

link_added_while_down() {
	ip1 link set dummy down
	add_link "$ns1" "$dev" dummy
	wait_until 5 has_state "$dev" DOWN
	ip1 link set dummy up
	wait_until 5 has_state "$dev" ACTIVE
}

has_mtu() {
	ip netns exec "$ns1" ibv_devinfo -d "$dev" | grep -E "active_mtu:\s+$1 " >/dev/null
}

mtu_follows_netdev() {
	add_link "$ns1" "$dev" dummy
	wait_until 5 has_mtu 1024
	ip1 link set dummy mtu 9000
	wait_until 5 has_mtu 4096
	ip1 link set dummy mtu 1500
	wait_until 5 has_mtu 1024
}

# The RDMA connection manager finds an iWARP device by the hardware address in its first GID.
gid_is_hardware_address() {
	local mac=${1//:/} gid
	gid=$(<"/sys/class/infiniband/$dev/ports/1/gids/0")
	gid=${gid//:/}
	[[ ${gid:0:12} == "$mac" ]]
}

gid_follows_netdev() {
	only_xiw
	add_link "$ns1" "$dev" dummy
	wait_until 5 gid_is_hardware_address \
		"$(ip -n "$ns1" -j link show dummy | jq -r '.[0].address')"
	ip1 link set dummy address 02:00:00:12:34:56
	wait_until 5 gid_is_hardware_address 02:00:00:12:34:56
	serve "$ns1" 7100 rping -s -p 7100 -a 10.78.0.1 -C 2
	n1 rping -c -p 7100 -a 10.78.0.1 -C 2
	served
}

link_goes_with_netdev() {
	ip1 link add of_stage type dummy
	ip1 link set of_stage up
	add_link "$ns1" "$dev" of_stage
	ip1 link del of_stage
	wait_until 10 has_no_link "$dev"
}

link_goes_when_netdev_moves() {
	ip1 link add of_stage type dummy
	add_link "$ns1" "$dev" of_stage
	ip1 link set of_stage netns "$ns2"
	wait_until 10 has_no_link "$dev"
	add_link "$ns2" "$dev" of_stage
}

link_goes_with_namespace() {
	ip netns add "$ns1-short"
	ip -n "$ns1-short" link add of_stage type dummy
	ip -n "$ns1-short" link set of_stage up
	ip netns exec "$ns1-short" rdma link add "$dev" type "$link_type" netdev of_stage
	has_link "$dev"
	ip netns del "$ns1-short"
	wait_until 20 has_no_link "$dev"
}

# each_cpu_works: the module has a thread for each CPU. No test isolates one.
each_cpu_works() {
	local cpu count=0
	only_xiw
	for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
		[[ ! -e $cpu/online || $(<"$cpu/online") == 1 ]] || continue
		wait_until 5 has_thread "${cpu##*/cpu}" || { say "none for ${cpu##*/}"; return 1; }
		count=$((count + 1))
	done
	say "$count CPUs"
	((count))
}

plan 25
setup make_namespaces
setup make_dummy
setup load "$link_type"
claim "rdma link add loads the module"			link_add_loads_module
setup load "$link_type"
setup make_veth 1500
claim "each CPU has a worker"				each_cpu_works
claim "a link on dummy"					link_on dummy
claim "a link on veth"					link_on veth1
claim "a link on lo"					link_on lo
claim "a link on tun has a GID"				link_on_tun
claim "a link of any name is opened by libibverbs"	any_name
claim "ibv_devinfo shows an active iWARP port"		devinfo_tells_truth
claim "ibv_devinfo tells the limits"			limits_are_told
claim "links come and go 30 times"			add_and_delete_often
claim "a second link on a netdev is refused"		second_link_refused
claim "a name in use is refused"			used_name_refused
claim "an unknown netdev is refused"			unknown_netdev_refused
claim "a netdev of another namespace is refused"	netdev_of_other_namespace_refused
claim "a netdev that carries no IP is refused"		unfit_netdev_refused
claim "a port of a bridge is refused, but not the bridge" port_of_bridge_refused
claim "without CAP_NET_ADMIN nothing changes"		without_capability_refused
claim "an unknown link is not deleted"			unknown_link_not_deleted
claim "the port goes down and up with its netdev"	port_follows_netdev
claim "a link can be added before the netdev is up"	link_added_while_down
claim "the MTU of the port follows the netdev"		mtu_follows_netdev
claim "the GID follows the hardware address"		gid_follows_netdev
claim "a link goes when its netdev is deleted"		link_goes_with_netdev
claim "a link goes when its netdev moves away"		link_goes_when_netdev_moves
claim "a link goes with its namespace"			link_goes_with_namespace
finish
