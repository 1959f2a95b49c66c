# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# shellcheck shell=bash
# Functions for all scripts in tools/guest: messages, the cache with its locks, and a private apt.
#
# $XIW_CACHE (default /var/cache/xiw) holds "items": files or folders named NAME-HASH, where HASH is
# taken over everything that the item is made from. An item gets its name when it is complete and
# does not change afterwards. It is removed when no run has used it for $keep_days days. Package
# versions are looked up again after $fresh_days days; a new kernel makes new items.
#
# Only root may enter the cache, because root runs the files in it. A marker file says that the
# folder was made as a cache. Nothing is ever removed from a folder without the marker.

set -euo pipefail
shopt -s inherit_errexit

export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
guest_dir=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
tree=$(realpath "$guest_dir/../..")
cache=${XIW_CACHE:-/var/cache/xiw}
marker=xiw-cache
keep_days=7
fresh_days=7

say() { printf 'xiw: %s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# need_root: fails unless run by root. All scripts mount, make roots and read root's cache.
need_root() {
	[[ $EUID -eq 0 ]] || die "must run as root"
	check_machine
	open_cache
	mkdir -p "$cache/log"
}

# check_machine: fails, before anything is installed, where the tools cannot work: they install Debian's
# packages, and QEMU and make take some characters of a path for something else.
check_machine() {
	local id version name
	id=$(sed -n 's/^ID=//p' /etc/os-release)
	version=$(sed -n 's/^VERSION_ID="\(.*\)"/\1/p' /etc/os-release)
	name=$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)
	[[ $id == debian && ${version:-99} -ge 12 ]] ||
		die "this is ${name:-no Debian}, but the tools install packages of Debian 12 or newer;" \
			"\"make && make install\" works anywhere (README.md)"
	[[ $(uname -m) == x86_64 ]] ||
		die "this machine is $(uname -m), but the tools emulate guests on x86_64 only"
	[[ $tree != *[[:space:],:\#\$\"\']* ]] ||
		die "the path \"$tree\" has a character that QEMU or make takes for something else;" \
			"move the tree to a path without spaces, quotes and ,:#\$"
}

# open_cache: makes the cache, or checks that the folder is one, and closes it to other users.
open_cache() {
	local foreign
	(mkdir -p "$(dirname "$cache")" && umask 077 && mkdir -p "$cache") ||
		die "cannot make the cache $cache"
	cache=$(realpath "$cache")
	export XIW_CACHE=$cache
	[[ -O $cache ]] || die "$cache is not root's: it cannot be the cache (XIW_CACHE)"
	if [[ ! -f $cache/$marker ]]; then
		foreign=$(foreign_names)
		# Another process may have made the marker meanwhile.
		[[ ! $foreign || -f $cache/$marker ]] ||
			die "$cache is no cache of xiw's, for it holds \"$foreign\":" \
				"set XIW_CACHE to a new folder or an empty one"
		echo "Made by xiw's tools, which remove old files from here." >"$cache/$marker"
	fi
	chmod 0700 "$cache"
}

# foreign_names: prints the first name in the folder that no cache would contain. Caches from before
# the marker existed are recognised by their lock and by having only names that such caches had.
foreign_names() {
	local names known='apt|log|run|kernels(\.new)?|newest-source\.table(\.[a-z0-9]+)?|[a-z0-9.-]+\.lock'
	known+='|[a-z0-9.-]+-[0-9a-f]{12}(\.new)?|accelerator-[0-9a-f-]{36}'
	[[ -e $cache/use.lock ]] || known=
	known+="|$marker"
	names=$(find "$cache" -mindepth 1 -maxdepth 1 -printf '%f\n')
	grep -vxE -m 1 "$known" <<<"$names" || true
}

# packages FILE...: prints the names in package lists, without comments.
packages() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$@"; }

# retry COMMAND...: runs the command up to three times, because downloads may fail.
retry() {
	local i
	for i in 1 2 3; do
		"$@" && return
		say "attempt $i failed: $*"
		sleep $((i * 5))
	done
	return 1
}

# install_host_packages: installs the packages of host.packages that are missing.
install_host_packages() {
	local wanted
	mapfile -t wanted < <(packages "$guest_dir/host.packages")
	[[ -e /usr/share/keyrings/debian-archive-trixie-stable.gpg ]] ||
		install_missing debian-archive-keyring
	install_missing "${wanted[@]}"
}

# install_missing PACKAGE...: installs packages on this machine that are not there.
install_missing() {
	local missing=() package
	for package; do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' ||
			missing+=("$package")
	done
	[[ ${#missing[@]} -gt 0 ]] || return 0
	say "installing on this machine: ${missing[*]}"
	logged host-packages host_apt_install "${missing[@]}"
}

host_apt_install() {
	retry apt-get -q -o DPkg::Lock::Timeout=600 update &&
		retry apt-get -q -y -o DPkg::Lock::Timeout=600 install --no-install-recommends "$@"
}

# logged NAME COMMAND...: sends the output to a log and shows the end of the log if COMMAND fails.
# COMMAND is a program, or a function that checks each step itself: bash's errexit is off here.
logged() {
	local log=$cache/log/$1.log status=0
	shift
	"$@" >"$log" 2>&1 </dev/null || status=$?
	[[ $status -ne 0 ]] || return 0
	tail -n 30 "$log" >&2
	die "failed with status $status: $* (all output: $log)"
}

# item NAME KEY PROGRAM ARG...: prints the path of an item. If it does not exist, runs "PROGRAM
# ARG... PATH.new" to make it. KEY is any text that changes when the item must be made again.
item() {
	local name=$1 path lock start=$SECONDS
	path=$cache/$name-$(sha256sum <<<"$2" | cut -c1-12)
	shift 2
	if [[ ! -e $path ]]; then
		exec {lock}>"$cache/$name.lock"
		flock "$lock"
		if [[ ! -e $path ]]; then
			say "making $name ..."
			remove_items -name "$name-????????????.new"
			logged "$name" "$@" "$path.new"
			mv "$path.new" "$path"
			say "making $name took $((SECONDS - start)) s"
		fi
		exec {lock}>&-
	fi
	touch "$path"
	echo "$path"
}

# hold_items: prevents items from being removed as long as this process and its children live. If no
# other run is active, it first removes old items and the files that killed runs left in $cache/run.
hold_items() {
	mkdir -p "$cache/run"
	exec 9>"$cache/use.lock"
	if flock -n -x 9; then
		remove_items -mtime "+$keep_days"
		find "$cache/run" -xdev -mindepth 1 -delete
	fi
	flock -s 9
}

# remove_items TEST...: removes the items that match find's tests, unfinished ones, too.
remove_items() {
	[[ -f $cache/$marker ]] || die "$cache is no cache: nothing is removed there"
	find "$cache" -mindepth 1 -maxdepth 1 -regextype posix-extended \
		-regex '.*-[0-9a-f]{12}(\.new)?' "$@" -exec rm -rf --one-file-system {} +
}

# debian_mirror: prints the URI of the Debian mirror that this machine's apt uses.
debian_mirror() {
	local uri
	uri=$(apt_mirrors | head -n 1)
	if [[ ! $uri ]]; then	# apt lists no targets before the first update
		retry apt-get -q update >&2
		uri=$(apt_mirrors | head -n 1)
	fi
	[[ $uri ]] || die "apt's sources have no Debian mirror (is this Debian 12 or 13?)"
	echo "$uri"
}

apt_mirrors() {
	local codename
	codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
	# shellcheck disable=SC2016 # the format is apt's own language
	apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(CODENAME)|$(REPO_URI)' |
		sed -n "s/^Debian|Debian|$codename|//p"
}

# architecture SERIES: prints Debian's name of the architecture of a kernel.
architecture() {
	case $1 in
	*-arm64 | *-s390x) echo "${1##*-}" ;;
	*) echo amd64 ;;
	esac
}

# triplet ARCH: prints the name that compilers give to an architecture of kernels.foreign.
triplet() {
	case $1 in
	arm64) echo aarch64-linux-gnu ;;
	amd64) echo x86_64-linux-gnu ;;
	*) echo "$1-linux-gnu" ;;
	esac
}

# suite_of ARCH: prints which suite of Debian the guests of an architecture are. Mirrors exist that
# list trixie's point releases for s390x and do not have their files.
suite_of() {
	case $1 in
	s390x) echo testing ;;
	*) echo trixie ;;
	esac
}

# guest_sources: prints the sources.list of the guests' Debian. For other architectures it is one suite
# only, so that what else a mirror has of them does not matter.
guest_sources() {
	local arch=${XIW_ARCH:-amd64} suites
	suites=("$(suite_of "$arch")")
	[[ $arch != amd64 ]] || suites+=(trixie-backports)
	sources_of "${suites[@]}"
}

# sources_of SUITE...: prints a sources.list for these suites.
sources_of() {
	local mirror type suite
	mirror=$(debian_mirror)
	for suite; do
		for type in deb deb-src; do
			echo "$type [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
				"$mirror $suite main"
		done
	done
}

# guest_apt PROGRAM ARG...: runs an apt program on the guest's package lists instead of the host's. With
# XIW_ARCH, they are those of another architecture.
guest_apt() { APT_CONFIG=$(apt_folder)/apt.conf "$@"; }

apt_folder() {
	if [[ ${XIW_ARCH:-amd64} == amd64 ]]; then
		echo "$cache/apt"
	else
		echo "$cache/apt/$XIW_ARCH"
	fi
}

# fetch_deb DIR PACKAGE...: downloads packages of the guest's Debian into DIR.
fetch_deb() {
	local dir=$1
	shift
	mkdir -p "$dir"
	(cd "$dir" && retry guest_apt apt-get download "$@")
}

# kernels: prints a table with a line for each kernel: series, release, package version.
kernels() { kernels_of amd64; }

# kernels_of ARCH: prints that table for an architecture. It is looked up again after $fresh_days days.
# If that fails, the old table is used.
kernels_of() {
	local arch=$1 table=$cache/kernels list=kernels lock
	if [[ $arch != amd64 ]]; then
		mkdir -p "$cache/apt/$arch"
		table=$cache/apt/$arch/kernels list=kernels.foreign
	fi
	exec {lock}>"$table.lock"
	flock "$lock"
	if [[ ! -e $table || $guest_dir/$list -nt $table ||
		$(find "$table" -mtime "+$fresh_days") ]]; then
		say "looking up Debian's kernels ..."
		if (logged kernels "$guest_dir/look-up-kernels" "$arch" "$table.new"); then
			mv "$table.new" "$table"
		elif [[ -e $table ]]; then
			say "warning: could not look up the kernels, using the cached table"
		else
			exit 1
		fi
	fi
	exec {lock}>&-
	cat "$table"
}

# kernel_release SERIES prints for example 6.12.107+deb13-amd64, kernel_version SERIES 6.12.107-1.
kernel_release() { kernels_of "$(architecture "$1")" | awk -v series="$1" '$1 == series { print $2 }'; }
kernel_version() { kernels_of "$(architecture "$1")" | awk -v series="$1" '$1 == series { print $3 }'; }

# The items. Each function prints the path of its item.

# guest_root: squashfs image of the guest's userland.
guest_root() { guest_root_of amd64; }

guest_root_of() {
	local table arch=$1 name=guest-root.squashfs
	table=$(kernels_of "$arch")
	[[ $arch == amd64 ]] || name=guest-root-$arch.squashfs
	item "$name" "$table$(cat "$guest_dir"/{guest.packages,make-root})" \
		"$guest_dir/make-root" "$arch" "$guest_dir/guest.packages" ""
}

# build_root: folder to chroot into, with compilers and both kernels' headers.
build_root() {
	local table headers
	table=$(kernels)
	headers=$(awk '{ print "linux-headers-" $2 }' <<<"$table" | paste -sd,)
	item build-root "$table$(cat "$guest_dir"/{build.packages,make-root})" \
		"$guest_dir/make-root" amd64 "$guest_dir/build.packages" "$headers"
}

# cross_root ARCH: folder to chroot into, with compilers for another architecture, its libraries, and
# the headers of its kernels.
cross_root() {
	local release
	release=$(kernels_of "$1" | awk '{ print $2 }')
	item "cross-root-$1" "$release$(cat "$guest_dir"/{cross.packages,make-root})" \
		env "XIW_UNPACK=linux-headers-$release:$1" "$guest_dir/make-root" "amd64,$1" \
		"$guest_dir/cross.packages" \
		"linux-kbuild-${release%-*},linux-headers-${release%-*}-common"
}

# suite_root SUITE: folder to chroot into, with what that suite has newer or older than the build
# root. It is made again every $fresh_days days.
suite_root() {
	local week=$(($(date +%s) / (86400 * fresh_days))) wanted lists=("$guest_dir/suite.packages")
	[[ ! -e $guest_dir/$1.packages ]] || lists+=("$guest_dir/$1.packages")
	mapfile -t wanted < <(packages "${lists[@]}")
	item "suite-root-$1" "$week${wanted[*]}$(cat "$tree/tools/rdma-core-source" \
		"$guest_dir/make-suite-root")" \
		"$guest_dir/make-suite-root" "$1" "${wanted[@]}"
}

# disk_files SUITE: folder with the files of a disk from which that suite boots with systemd. It is made
# again every $fresh_days days.
disk_files() {
	local week=$(($(date +%s) / (86400 * fresh_days)))
	item "disk-files-$1" "$week$(cat "$guest_dir"/{disk.packages,disk-runner,make-disk-files})" \
		"$guest_dir/make-disk-files" "$1"
}

# kernel_image SERIES: folder with vmlinuz, initramfs, modules.squashfs and modules/.
kernel_image() {
	local release
	release=$(kernel_release "$1")
	item "kernel-$1" "$release$(cd "$guest_dir" &&
		cat guest.modules make-kernel initramfs-init)" \
		env "XIW_ARCH=$(architecture "$1")" "$guest_dir/make-kernel" "$release"
}

# linux_source SERIES: the tarball of Debian's linux-source, in the version that the guest boots.
# For a series that the guest does not boot it is the newest version. Realtime kernels have the same
# source.
linux_source() {
	local package=linux-source-${1%-rt} version path
	version=$(kernel_version "$1")
	path=$(item "$package" "$version" \
		"$guest_dir/make-linux-source" "$package${version:+=$version}")
	echo "$path/$package.tar.xz"
}

# linux_parts SERIES: folder with parts of linux-source, among them a built siw.
linux_parts() {
	local source
	source=$(linux_source "$1")
	item "linux-parts-$1" "$source$(cat "$guest_dir"/{linux.parts,make-linux-parts})" \
		"$guest_dir/make-linux-parts" "$1" "$source"
}

# rdma_core_source [ARCH]: folder with the rdma-core source of the libibverbs that is linked to.
rdma_core_source() {
	local arch=${1:-amd64} root version
	if [[ $arch == amd64 ]]; then
		root=$(build_root)
	else
		root=$(cross_root "$arch")
	fi
	# shellcheck disable=SC2016 # the format is dpkg's own language
	version=$(dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${source:Version}' libibverbs-dev)
	XIW_ARCH=$arch item rdma-core "$version$(cat "$tree/tools/rdma-core-source")" \
		guest_apt "$tree/tools/rdma-core-source" --version "$version"
}

# newest_rdma_core: folder with the newest rdma-core source that Debian has. A mirror may lack it; then it
# is that of the guests.
newest_rdma_core() {
	local source
	source=$(suite_root testing)/usr/src/rdma-core
	[[ -e $source/CMakeLists.txt ]] || source=$(rdma_core_source)
	echo "$source"
}

# cross_items SERIES: prints the items that appear below /opt/xiw in a cross root.
cross_items() {
	local newest
	newest=$(packages "$guest_dir/kernels" | tail -n 1)
	echo "rdma-core=$(rdma_core_source "$(architecture "$1")")"
	echo "kernel-$1=$(kernel_image "$1")/modules"
	echo "linux=$(linux_parts "$newest")/linux"
}

# build_items: prints the items that appear below /opt/xiw in the build root, as words NAME=PATH. If
# XIW_BARE names a kernel series, only the items needed to build for that series; else also those
# that the tests and the style checks need.
build_items() {
	local series path
	path=$(rdma_core_source)
	echo "rdma-core=$path"
	for series in ${XIW_BARE:-$(packages "$guest_dir/kernels")}; do
		path=$(kernel_image "$series")
		echo "kernel-$series=$path/modules"
		[[ -z ${XIW_BARE:-} ]] || continue
		path=$(linux_parts "$series")
		echo "peers-$series=$path/peers"
	done
	[[ ${XIW_BARE:-} ]] || echo "linux=$path/linux"
}
