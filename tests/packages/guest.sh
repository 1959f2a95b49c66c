# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# shellcheck shell=bash
# The claims of tests/packages/run, as functions that run in the guest. Each ends at the first command
# that fails.

export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
devices=/sys/class/infiniband
nic=$(cd /sys/class/net && echo e*)
cd /root || exit

install() { apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 install "$@"; }

# within SECONDS COMMAND...: polls until COMMAND succeeds.
within() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < end)) || { echo "not within the time: $*"; return 1; }
		sleep 0.2
	done
}

# says TEXT COMMAND...: COMMAND fails, and says this.
says() {
	local text=$1 output status=0
	shift
	output=$("$@" 2>&1) || status=$?
	echo "$output"
	[[ $status -ne 0 ]] && grep -E "$text" <<<"$output"
}

# nothing COMMAND...: COMMAND prints nothing.
nothing() {
	local output
	output=$("$@" 2>&1) || true
	[[ ! $output ]] || { echo "$output"; return 1; }
}

has() { [[ -e $devices/$1 ]]; }
has_not() { ! has "$1"; }

# listens PORT
listens() {
	cat /proc/net/tcp{,6} |
		grep -E "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$1") [0-9A-F]+:0000 0A" >/dev/null
}

log_is_clean() { nothing grep -E 'BUG:|WARNING:|Oops|Call Trace|refcount_t:|blocked for more' <(dmesg); }

apt_installs() {
	cp -r /mnt/debs .
	install ./debs/*.deb
}

# There is no module yet.
old_kernel_is_named() {
	apt_installs | tee said
	grep 'xiw-dkms: Linux 6\.1\..* is running, but xiw needs 6\.12 or newer' said
	says 'no module for Linux 6\.1\.' xiw up "$nic"
}

# newest_kernel: prints the release of the newest kernel that is installed.
newest_kernel() { printf '%s\n' /boot/vmlinuz-* | sed 's|.*/vmlinuz-||' | sort -V | tail -n 1; }

# built_for RELEASE: DKMS has built and installed the module for this kernel.
built_for() {
	dkms status xiw -k "$1" | grep ': installed'
	[[ $(modinfo -k "$1" -F vermagic xiw) == "$1 "* ]]
}

# Both kernels have headers then, so both have the module, each its own one.
kernel_is_upgraded() {
	local codename old
	old=$(newest_kernel)
	codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
	install -t "$codename-backports" linux-image-amd64 linux-headers-amd64
	dkms status
	[[ $(newest_kernel) != "$old" ]]
	built_for "$(newest_kernel)"
	case $old in
	6.1.*) says 'not found' modinfo -k "$old" xiw ;;	# too old
	*) built_for "$old" ;;
	esac
}

module_is_signed() {
	modinfo xiw
	[[ $(modinfo -n xiw) == */updates/dkms/xiw.ko* ]]
	[[ $(modinfo -F signer xiw) == DKMS* ]]
}

device_is_there() {
	within 30 has xiw0
	xiw status
	[[ $(<$devices/xiw0/xiw/crc) == 0 ]]
	rdma link show xiw0/1 | grep "netdev $nic"
	systemctl is-active "xiw@$nic"
	[[ $(systemctl is-active xiw@x0) == inactive ]]
}

# The interface x0 does not exist yet.
unit_makes_device() {
	printf '%s\n' '[Match]' "Name=$nic" '[Network]' Address=10.0.2.15/24 \
		>/etc/systemd/network/10-nic.network
	systemctl enable --now systemd-networkd
	printf '%s\n' name=xiw0 crc=0 >"/etc/xiw/$nic.conf"
	systemctl enable --now "xiw@$nic"
	systemctl enable xiw@x0
	device_is_there
}

settings_are_judged() {
	echo loopback=0 >>"/etc/xiw/$nic.conf"
	systemctl reload "xiw@$nic"
	[[ $(<$devices/xiw0/xiw/loopback) == 0 ]]
	ip link add bad type dummy
	echo crc=2 >/etc/xiw/bad.conf
	says 'bad.conf:1: crc does not take the value "2"' xiw up bad
	has_not xiw-bad
	echo colour=1 >/etc/xiw/bad.conf
	says 'there is no setting colour, but these: .*crc .*loopback' xiw up bad
	has_not xiw-bad
	echo name=xiw0 >/etc/xiw/bad.conf
	says 'there is a device xiw0 already' xiw up bad
	ip link del bad
	rm /etc/xiw/bad.conf
}

# seen_of_x0: shows what systemd, udev and the command know of x0.
seen_of_x0() {
	systemctl status --no-pager --full xiw@x0 sys-subsystem-net-devices-x0.device || true
	systemctl list-jobs --no-pager
	journalctl -b --no-pager -o short-monotonic -u xiw@x0 -t xiw -t systemd-udevd | tail -n 50
	udevadm info /sys/class/net/x0 || true
	xiw status
}

# Some devices go before the unit has seen them. The unit must miss none of those that stay.
device_follows_interface() {
	trap 'seen_of_x0' ERR
	for _ in {1..10}; do
		ip link add x0 type dummy
		within 60 has xiw-x0
		ip link del x0
	done
	for _ in {1..10}; do
		ip link add x0 type dummy
		ip link del x0
	done
	within 60 has_not xiw-x0
	ip link add x0 type dummy
	within 60 has xiw-x0
	within 60 systemctl is-active xiw@x0
	same_device_after xiw-x0 udevadm trigger --settle --action=add /sys/class/net/x0
	systemctl stop xiw@x0
	has_not xiw-x0
	ip link del x0
	ip link add x0 type dummy
	within 60 has xiw-x0
	systemctl stop xiw@x0
	ip link del x0
	[[ ! -e /run/xiw/x0 ]]
	trap - ERR
}

# same_device_after DEVICE COMMAND...: the command leaves the device, and so its connections, alone.
same_device_after() {
	local device=$1 before
	shift
	before=$(stat -L -c %i "$devices/$device")
	"$@"
	[[ $(stat -L -c %i "$devices/$device") == "$before" ]]
}

# The name of a unit has such names escaped.
names_are_escaped() {
	local name unit
	for name in br-x0 x0.5 'x@0'; do
		unit=$(systemd-escape --template=xiw@.service "$name")
		systemctl enable "$unit"
		ip link add name "$name" type dummy
		within 60 has "xiw-$name"
		ip link del "$name"
		ip link add name "$name" type dummy
		within 60 has "xiw-$name"
		systemctl disable --now "$unit"
		has_not "xiw-$name"
		ip link del "$name"
	done
}

# udevadm of Debian 12 cannot verify.
files_are_right() {
	nothing grep xiw <(systemd-analyze verify --man=no xiw@lo.service xiw@none.service 2>&1)
	! udevadm verify --help >/dev/null 2>&1 || udevadm verify /usr/lib/udev/rules.d/90-xiw.rules
}

lo_has_a_unit() {
	systemctl start xiw@lo
	has xiw-lo
	systemctl stop xiw@lo
	has_not xiw-lo
}

has_address() { ip -4 addr show "$nic" | grep -F "$1/" >/dev/null; }

programs_talk() {
	within 30 has_address 10.0.2.15
	rping -s -a 10.0.2.15 -C 10 -V &
	within 30 listens 7174
	rping -c -a 10.0.2.15 -C 10 -V -v
	wait $!
	ib_write_bw -R -F -n 200 &
	within 60 listens 18515
	ib_write_bw -R -F -n 200 10.0.2.15
	wait $!
}

# The second machine has this one, which is for the next boots as well.
has_other_address() {
	sed -i 's/10\.0\.2\.15/10.0.2.16/' /etc/systemd/network/10-nic.network
	systemctl restart systemd-networkd
	within 30 has_address 10.0.2.16
	device_is_there
}

programs_listen() {
	timeout 120 rping -s -a 10.0.2.16 -C 10 -V
	timeout 120 ib_write_bw -R -F -n 200
	timeout 120 ib_read_lat -R -F -n 200
}

# called_by PROGRAM...: calls the second machine, which may not listen yet.
called_by() { within 60 timeout 60 "$@"; }

programs_call() {
	called_by rping -c -a 10.0.2.16 -C 10 -V -v
	called_by ib_write_bw -R -F -n 200 10.0.2.16
	called_by ib_read_lat -R -F -n 200 10.0.2.16
	(($(cat $devices/xiw0/ports/1/hw_counters/tx_fpdus) > 0))
}

larger_than() { (($(stat -c %s conversation) > $1)); }

# A connection is there before and after. Meanwhile it does not take the CPU from the compiler.
upgraded_while_in_use() {
	local before client
	before=$(</sys/module/xiw/version)
	cp -r /mnt/next .
	rping -s -a 10.0.2.15 &
	within 30 listens 7174
	rping -c -a 10.0.2.15 -v >conversation &
	client=$!
	within 30 larger_than 1000
	kill -STOP "$client"
	install ./next/*.deb | tee said
	kill -CONT "$client"
	grep 'xiw-dkms: The module that is loaded stays in use' said
	[[ $(</sys/module/xiw/version) == "$before" && $(modinfo -F version xiw) == 9.9 ]]
	within 30 larger_than $(($(stat -c %s conversation) + 1000))
	rmmod xiw
	systemctl reload 'xiw@*.service'
	[[ $(</sys/module/xiw/version) == 9.9 ]]
	kill %1 %2 || true
	device_is_there
}

# xiw_files: prints the files on disk and in /run that have its name.
xiw_files() {
	find / /run -xdev \( -path /root -o -path /tmp -o -path /var/log -o -path /mnt \) -prune \
		-o -name '*xiw*' -print
}

# "remove" leaves what the administrator has written, and "purge" nothing.
purged_without_trace() {
	systemctl enable xiw@lo
	apt-get -q -y remove xiw-dkms xiw-tools ibverbs-provider-xiw
	[[ ! -e /sys/module/xiw && -e /etc/xiw/$nic.conf ]]
	apt-get -q -y purge xiw-dkms xiw-tools ibverbs-provider-xiw
	nothing systemctl list-units --all --no-legend 'xiw*'
	nothing systemctl list-unit-files --no-legend 'xiw*'
	nothing grep xiw <(dpkg -l)
	nothing xiw_files
	nothing grep -rl xiw /etc /var/lib/dkms /var/lib/systemd
	nothing find /etc/systemd/system -name 'sys-subsystem-net-devices-*'
}
