#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# First steps that go wrong say what to do, and nothing is installed.

# shellcheck source=tests/gates/lib.sh
. "$(dirname "$0")/lib.sh"
export XIW_CACHE=$scratch/cache

# on_system TEXT COMMAND...: runs the command on a machine whose /etc/os-release has this text.
on_system() {
	printf '%s\n' "$1" >"$scratch/os-release"
	shift
	# shellcheck disable=SC2016 # for the inner shell
	unshare --mount bash -c 'mount --bind "$0" /etc/os-release && exec "$@"' "$scratch/os-release" "$@"
}

nothing_was_made() { [[ ! -e $XIW_CACHE ]]; }

headers_are_named() {
	fails 2 'install linux-headers-.*KDIR=' make -C "$tree" module KDIR="$scratch/none"
}

clean_needs_no_headers() {
	mkdir "$copy/build"
	make -C "$copy" clean KDIR="$scratch/none"
	[[ ! -e $copy/build ]]
}

# Makefile and Kbuild of a kernel's headers, as far as a module's build gets there.
old_kernel_is_named() {
	mkdir "$scratch/headers"
	# shellcheck disable=SC2016 # for make
	printf '%s\n' 'export VERSION = 6' 'export PATCHLEVEL = 1' 'export KERNELVERSION = 6.1.99' \
		'modules: ; $(MAKE) -f $(M)/Kbuild' >"$scratch/headers/Makefile"
	fails 2 'needs Linux 6.12 or newer, but these are the headers of 6.1.99' \
		make -C "$tree" module KDIR="$scratch/headers"
}

# The tree may lie where another user cannot read it.
other_user_is_told() {
	chmod 0711 "$scratch"
	chmod -R a+rX "$copy"
	fails 1 'must run as root' setpriv --reuid 65534 --clear-groups "$copy/tools/vm" -- true
	nothing_was_made
}

other_system_is_named() {
	fails 1 'this is Fedora Linux 42.*packages of Debian 12' on_system \
		$'ID=fedora\nVERSION_ID=42\nPRETTY_NAME="Fedora Linux 42"' "$tree/tools/vm" -- true
	fails 1 'this is Debian GNU/Linux 11.*packages of Debian 12' on_system \
		$'ID=debian\nVERSION_ID="11"\nPRETTY_NAME="Debian GNU/Linux 11"' "$tree/tools/vm" -- true
	nothing_was_made
}

path_is_named() {
	local odd="$scratch/a tree, with a comma"
	mv "$copy" "$odd"
	fails 1 'move the tree to a path without spaces' "$odd/tools/vm" -- true
	nothing_was_made
}

make_copy
plan 6
claim "a build without kernel headers names the package"	headers_are_named
claim "make clean needs no kernel headers"		clean_needs_no_headers
claim "a kernel that is too old is named"		old_kernel_is_named
claim "tools say that they must run as root"		other_user_is_told
claim "tools name a system that is not theirs"		other_system_is_named
claim "tools name a path that they cannot use"		path_is_named
finish
