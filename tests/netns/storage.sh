#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# Storage over RDMA with both ends in the kernel: NVMe-oF, NFS, iSER.
#
# The kernel's storage stacks use the initial network namespace, so both ends share one device on a
# dummy netdev. TCP carries the data unless a claim says otherwise.

# shellcheck source=tests/netns/lib.sh
. "$(dirname "$0")/lib.sh"
need nvme fio exportfs rpc.nfsd iscsid iscsiadm

dev=x$$s
address=10.79.0.1
configfs=/sys/kernel/config
disk=$scratch/disk	# the targets export this file
megabytes=32

run() {
	say "$*"
	timeout -k 5 "$limit" "$@"
}

make_device() {
	load "$link_type"
	ip link add "$dev" type dummy
	ip addr add "$address/24" dev "$dev"
	ip link set "$dev" up
	make_link
	mountpoint -q "$configfs" || mount -t configfs none "$configfs"
	head -c "${megabytes}M" /dev/urandom >"$scratch/data"
}

# end_daemon PID: sends SIGTERM and, after 10 s, SIGKILL. A daemon whose signal handler logs and
# exits may deadlock. It would keep the pipe of the stage's output open, and the stage would wait
# for it.
end_daemon() {
	kill "$1"
	wait_gone "$1" 10 || { say "killing $1, which ignored SIGTERM"; kill -KILL "$1"; }
}

make_link() {
	run rdma link add "$dev" type "$link_type" netdev "$dev"
	set_loopback "$dev" 0
}

# same FILE: the file begins with the data that was written.
same() { run cmp -n "$((megabytes << 20))" "$scratch/data" "$1"; }

# copy_and_compare DEVICE: writes data, reads it back with direct I/O, and compares that and the
# target's file with the original.
copy_and_compare() {
	run dd if="$scratch/data" of="$1" bs=1M oflag=direct status=none
	run dd if="$1" of="$scratch/back" bs=96K oflag=append conv=notrunc iflag=direct,count_bytes \
		count="${megabytes}M" status=none
	same "$scratch/back"
	same "$disk"
	rm "$scratch/back"
}

# verify DEVICE: keeps many requests of all sizes in flight and checks the data by checksums.
verify() {
	run fio --name=verify --filename="$1" --direct=1 --rw=randwrite --bsrange=4k-512k \
		--blockalign=4k --ioengine=libaio --iodepth=32 --size="${megabytes}M" \
		--verify=crc32c --verify_state_save=0 --output="$scratch/fio"
}

# hammer DEVICE: writes and reads in the background until an error or the time limit.
hammer() {
	say "fio on $1 without end &"
	timeout -k 5 "$limit" fio --name=hammer --filename="$1" --direct=1 --rw=randrw \
		--bs=64k --ioengine=libaio --iodepth=16 --size="${megabytes}M" --time_based \
		--runtime="$limit" --output="$scratch/fio" &
	hammer=$!
	wait_moving
}

fpdus() { counter "$dev" rx_fpdus; }
beyond() { (($(fpdus) > $1)); }

# wait_moving: waits until another 500 FPDUs have arrived.
wait_moving() { wait_until 40 beyond $(($(fpdus) + 500)); }

# --- NVMe-oF ---

nvmet=$configfs/nvmet
subsystem=xiw-$$

start_nvme_target() {
	local dir=$nvmet/subsystems/$subsystem port=$nvmet/ports/1
	modprobe -a nvmet-rdma nvme-rdma
	truncate -s 0 "$disk"
	truncate -s "$((2 * megabytes))M" "$disk"
	mkdir "$dir" "$dir/namespaces/1" "$port"
	echo 1 >"$dir/attr_allow_any_host"
	echo 1 >"$dir/namespaces/1/buffered_io"
	echo -n "$disk" >"$dir/namespaces/1/device_path"
	echo 1 >"$dir/namespaces/1/enable"
	echo ipv4 >"$port/addr_adrfam"
	echo rdma >"$port/addr_trtype"
	echo "$address" >"$port/addr_traddr"
	echo 4420 >"$port/addr_trsvcid"
	open_nvme_port
}

open_nvme_port() { ln -s "$nvmet/subsystems/$subsystem" "$nvmet/ports/1/subsystems/"; }
close_nvme_port() { rm "$nvmet/ports/1/subsystems/$subsystem"; }

stop_nvme_target() {
	run nvme disconnect -n "$subsystem" || true
	rm -f "$nvmet/ports/1/subsystems/$subsystem"
	rmdir "$nvmet/ports/1" "$nvmet/subsystems/$subsystem/namespaces/1" \
		"$nvmet/subsystems/$subsystem"
}

# nvme_connect: sets $block to the device file.
nvme_connect() {
	run nvme connect -t rdma -a "$address" -s 4420 -n "$subsystem"
	wait_until 20 find_nvme
}

find_nvme() {
	local dir
	for dir in /sys/class/nvme-subsystem/*; do
		[[ $(cat "$dir/subsysnqn" 2>/dev/null) == "$subsystem" ]] || continue
		block=/dev/$(basename "$(find "$dir/" -maxdepth 1 -name 'nvme*n*' -print -quit)")
		[[ -b $block ]] && return
	done
	return 1
}

# nvme_round [COMMAND...]: connects, runs the command, then transfers and compares data.
nvme_round() {
	trap stop_nvme_target EXIT
	start_nvme_target
	nvme_connect
	"$@"
	copy_and_compare "$block"
	verify "$block"
}

nvme_without_tcp() {
	local before
	trap 'set_loopback "$dev" 0' EXIT
	set_loopback "$dev" 1
	before=$(fpdus)
	(nvme_round)
	expect_equal "$(fpdus)" "$before" "FPDUs"
}

shows_srq() { rdma resource show srq | grep -w "$dev" | grep nvmet; }

# With use_srq the target's queue pairs share one receive queue.
nvme_with_srq() {
	rmmod nvmet-rdma 2>/dev/null || skip "the target is built in"
	modprobe nvmet-rdma use_srq=1
	(nvme_round shows_srq)
	rmmod nvmet-rdma
}

no_nvme() { ! find_nvme; }

# Deleting the link also removes the target. If the initiator notices that first, it tries to
# reconnect until it is told to disconnect.
nvme_link_deleted() {
	trap 'stop_nvme_target; has_link "$dev" || make_link' EXIT
	start_nvme_target
	nvme_connect
	hammer "$block"
	run rdma link del "$dev"
	has_no_link "$dev"
	run nvme disconnect -n "$subsystem" || true
	wait_gone "$hammer"
	wait_until 20 no_nvme
	make_link
	close_nvme_port
	open_nvme_port
	nvme_connect
	copy_and_compare "$block"
}

# --- NFS ---

start_nfs_server() {
	modprobe -a nfsd nfs rpcrdma
	mountpoint -q /proc/fs/nfsd || mount -t nfsd none /proc/fs/nfsd
	mkdir -p "$scratch/export" "$scratch/mnt"
	run exportfs -i -o rw,insecure,no_root_squash,no_subtree_check,fsid=0 "*:$scratch/export"
	start_mountd
	run rpc.nfsd --lease-time 10 --grace-time 10 -N 3 --rdma=20049 2
	# Newer kernels refuse this, because there are no old clients to wait for.
	echo Y >/proc/fs/nfsd/v4_end_grace || true
}

start_mountd() {
	rpc.mountd -F -N 3 >"$scratch/mountd" 2>&1 &
	mountd=$!
}

stop_nfs() {
	if mountpoint -q "$scratch/mnt"; then
		run umount -f "$scratch/mnt"
	fi
	run rpc.nfsd 0
	run exportfs -ua
	end_daemon "$mountd"
}

nfs_mount() {
	run mount -t nfs4 -o "vers=4.2,proto=rdma,port=20049" "$address:/" "$scratch/mnt"
}

nfs_round() {
	trap stop_nfs EXIT
	start_nfs_server
	nfs_mount
	run dd if="$scratch/data" of="$scratch/mnt/file" bs=1M conv=fsync status=none
	same "$scratch/export/file"
	run umount "$scratch/mnt"	# this empties the page cache
	nfs_mount
	same "$scratch/mnt/file"
}

nfs_write() {
	timeout -k 5 "$limit" dd if="$scratch/data" of="$scratch/mnt/file" bs=64K oflag=sync \
		status=none
}

# The kernel tells its NFS client that a device goes before it tells rdma_cm. The client calls again
# at once, and when rdma_cm takes the device away between two of its steps, rdma_resolve_route()
# says EINVAL and the client gives that to the program. No call reaches the driver then.
nfs_write_twice() {
	if nfs_write 2>"$scratch/writer"; then
		return
	fi
	if ! grep "Invalid argument" "$scratch/writer"; then
		cat "$scratch/writer"
		return 1
	fi
	say "rdma_cm took the device away while the NFS client called; write again"
	nfs_write
}

# The mount is hard: writes that wait when the link goes are done when the link is back.
nfs_outlives_link() {
	trap stop_nfs EXIT
	start_nfs_server
	nfs_mount
	say "dd to NFS &"
	nfs_write_twice &
	local writer=$!
	wait_moving
	run rdma link del "$dev"
	has_no_link "$dev"
	make_link
	wait "$writer"
	same "$scratch/export/file"
}

# --- iSER ---

target=iqn.2003-01.org.linux-iscsi.xiw:$$
portal=$configfs/target/iscsi/$target/tpgt_1/np/$address:3260
core=$configfs/target/core/fileio_0/xiw

# For each iSER portal the target also opens a TCP portal on the same port, which an iWARP listener
# cannot share. Creating the portal from another namespace puts the TCP portal there.
start_iser_target() {
	local group=$configfs/target/iscsi/$target/tpgt_1
	modprobe -a target_core_file iscsi_target_mod ib_isert ib_iser sd_mod
	make_namespaces
	truncate -s 0 "$disk"
	truncate -s "$((2 * megabytes))M" "$disk"
	mkdir -p "$core" "$group/lun/lun_0" "$group/np"
	echo "fd_dev_name=$disk,fd_dev_size=$((megabytes << 21)),fd_buffered_io=1" >"$core/control"
	echo 1 >"$core/enable"
	ln -s "$core" "$group/lun/lun_0/"
	echo 0 >"$group/attrib/authentication"
	echo 0 >"$group/attrib/demo_mode_write_protect"
	echo 1 >"$group/attrib/generate_node_acls"
	run nsenter --net="/run/netns/$ns1" mkdir "$portal"
	echo 1 >"$portal/iser"
	echo 1 >"$group/enable"
}

# When a disk goes, the kernel asks its SCSI target to suspend, by a work item of the queue "pm". If
# that item still waits when the target goes as well, Linux 6.12 warns, because iSCSI's own queue is
# for reclaiming memory and "pm" is not. Nobody asks a target that has to stay on.
keep_target_on() {
	local control
	for control in /sys/class/iscsi_session/session*/device/target*/power/control; do
		[[ ! -e $control ]] || echo on >"$control"
	done
}

stop_iser_target() {
	local group=$configfs/target/iscsi/$target/tpgt_1
	if [[ ${iscsid:-} ]]; then
		keep_target_on
		iscsi --logout || true
		end_daemon "$iscsid"
	fi
	rmdir "$portal"
	rm "$group/lun/lun_0/xiw"
	rmdir "$group/lun/lun_0" "$group" "${group%/*}" "$core" "${core%/*}"
	ip netns del "$ns1"
	ip netns del "$ns2"
}

iscsi() { run iscsiadm -m node -T "$target" -p "$address:3260" -I iser "$@"; }

start_initiator() {
	mkdir -p /run/lock
	setsid iscsid -f &	# when it ends it kills its process group
	iscsid=$!
	wait_until 20 iscsi -o new
}

find_disk() {
	block=$(echo /sys/class/iscsi_session/session*/device/target*/*/block/sd*)
	block=/dev/${block##*/}
	[[ -b $block ]]
}

iser_round() {
	trap stop_iser_target EXIT
	start_iser_target
	start_initiator
	iscsi --login
	wait_until 20 find_disk
	copy_and_compare "$block"
	verify "$block"
}

remove_device() {
	run rdma link del "$dev"
	ip link del "$dev"
}

plan 7
setup make_device
stage "NVMe-oF: what was written is read back"			nvme_round
stage "NVMe-oF: ... and TCP does not carry it"			nvme_without_tcp
stage "NVMe-oF: ... with a shared receive queue"		nvme_with_srq
stage "NVMe-oF: the link goes under load, and works again"	nvme_link_deleted
stage "NFS: what was written is read back"			nfs_round
stage "NFS: a write goes on when the link is back"		nfs_outlives_link
stage "iSER: what was written is read back"			iser_round
setup remove_device
finish
