# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# shellcheck shell=bash
# Items of the User Mode Linux guest, in addition to those of tools/guest/lib.sh.

vm_dir=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
# shellcheck source=tools/guest/lib.sh
. "$vm_dir/../../tools/guest/lib.sh"

# newest_source: prints name and version of the newest linux-source package. It is looked up again
# when the kernels are.
newest_source() {
	local table=$cache/newest-source.table lock
	kernels >/dev/null
	exec {lock}>"$cache/newest-source.table.lock"
	flock "$lock"
	if [[ ! -s $table || $cache/kernels -nt $table ]]; then
		look_up_newest_source >"$table.new"
		mv "$table.new" "$table"
	fi
	exec {lock}>&-
	cat "$table"
}

look_up_newest_source() {
	local package version
	package=$(guest_apt apt-cache pkgnames linux-source- |
		grep -E '^linux-source-[0-9]+\.[0-9]+$' | sort -V | tail -n 1)
	[[ $package ]] || die "Debian's package lists name no linux-source"
	version=$(guest_apt apt-cache show --no-all-versions "$package" | sed -n 's/^Version: //p')
	[[ $version ]] || die "Debian's package lists have no version of $package"
	echo "$package $version"
}

# newest_source_tree: prints the folder with that package's sources.
newest_source_tree() {
	local package
	package=$(newest_source)
	item newest-source "$package" unpack_source "${package% *}"
}

unpack_source() {
	local tarball
	tarball=$(linux_source "${1#linux-source-}")
	mkdir -p "$2" && tar -x -J -f "$tarball" -C "$2" --strip-components=1
}

# guest_folder: prints the folder with the guest's userland.
guest_folder() {
	local image
	image=$(guest_root)
	item guest-folder "$image" unpack_image "$image"
}

# unpack_image IMAGE OUT: unpacks an image. Fails if other users can write to it: root runs it.
unpack_image() {
	unsquashfs -n -d "$2" "$1" || return
	only_root_writes "$2"
}

# only_root_writes DIR: fails if the folder contains world-writable files or folders, and lists
# them. Sticky folders are allowed: users can only change their own files there.
only_root_writes() {
	local open
	open=$(find "$1" -xdev \( -type f -o -type d \) -perm -002 \
		! \( -type d -perm -1000 \) -printf '%M %p\n') || return
	[[ ! $open ]] || { echo "world-writable: $open"; return 1; }
}

# uml_kernel debug|native|coverage|races: prints the folder with the kernel and its build tree.
uml_kernel() {
	local configs=("$vm_dir/uml.config") compiler files
	[[ $1 = native ]] || configs+=("$vm_dir/uml-$1.config")
	compiler=$(dpkg-query --admindir="$(build_root)/var/lib/dpkg" -W gcc)
	mapfile -t files < <(find "$vm_dir/make-uml" "$vm_dir/arch" -type f | sort)
	item "uml-$1" "$(newest_source; echo "$compiler"; cat "${files[@]}" "${configs[@]}")" \
		"$vm_dir/make-uml" "$(build_root)" "$(newest_source_tree)" "${configs[@]}"
}

# uml_items KIND: prints the items that appear below /opt/xiw in the build root, as words NAME=PATH.
uml_items() {
	local newest
	newest=$(packages "$guest_dir/kernels" | tail -n 1)
	echo "rdma-core=$(rdma_core_source)"
	echo "linux=$(linux_parts "$newest")/linux"
	echo "linux-source=$(newest_source_tree)"
	echo "uml=$(uml_kernel "$1")"
	echo "guest=$(guest_folder)"
}
