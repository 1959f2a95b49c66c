#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The packages are built, the same twice, and what is in them is right. Runs in the build root; what
# needs a machine that boots is in tests/packages/run.

if [[ ! -d /opt/xiw/rdma-core ]]; then
	exec "$(dirname "$(realpath "$0")")/../../tools/guest/in-build-root" tests/packages/build.sh
fi

# shellcheck source=tests/gates/lib.sh
. "$(dirname "$0")/../gates/lib.sh"
again=$scratch/again		# the tree once more, elsewhere
debs=$copy/build/deb
installed=$scratch/installed	# where the packages are unpacked, all into one folder
kdir=/lib/modules/$("$tree/tools/guest/release" 6.12)/build

# commit_copy: makes the tree as it is now the last commit of $copy, because packages have no other
# files.
commit_copy() {
	make_copy
	git -C "$copy" add -A
	git -C "$copy" -c user.name=test -c user.email=test commit -q --allow-empty -m test
	git clone -q "$copy" "$again"
}

packages_are_built() {
	local package
	make -C "$copy" deb
	for package in xiw-dkms xiw-tools ibverbs-provider-xiw; do
		dpkg-deb -x "$debs/${package}"_*.deb "$installed"
	done
}

# The second time everything else is different: folder, time zone, language, permissions.
built_twice_alike() {
	local deb
	(umask 027 && TZ=Asia/Kathmandu LANG=C make -C "$again" deb)
	cmp "$copy"/build/xiw-*.tar.gz "$again"/build/xiw-*.tar.gz
	for deb in "$debs"/*.deb; do
		cmp "$deb" "$again/build/deb/${deb##*/}"
	done
}

lintian_is_content() {
	lintian -E --pedantic --allow-root --fail-on error,warning "$debs"/*.changes
}

# The sources that DKMS gets are enough to build the module.
dkms_sources_build() {
	cp -r "$installed"/usr/src/xiw-* "$scratch/dkms"
	make -s -j "$(nproc)" -C "$kdir" M="$scratch/dkms" modules
	[[ -s $scratch/dkms/kernel/xiw.ko ]]
}

# is_version TEXT WHERE
is_version() { [[ $1 == "$version" ]] || { say "\"$1\", not $version: $2"; return 1; }; }

versions_agree() {
	local version
	version=$(sed -n 's/^#define XIW_VERSION "\(.*\)"/\1/p' "$copy/kernel/version.h")
	is_version "$(modinfo -F version "$scratch/dkms/kernel/xiw.ko")" "the module"
	is_version "$("$installed/usr/bin/xiw" --version | sed -n 's/^xiw //p')" "xiw --version"
	is_version "$(dpkg-parsechangelog -l "$copy/debian/changelog" -S Version)" debian/changelog
	is_version "$(sed -n 's/^## \([^ ]*\).*/\1/p' "$copy/CHANGELOG.md" | head -n 1)" CHANGELOG.md
	is_version "$(rpmspec -q --srpm --qf '%{version}' "$copy/rpm/xiw.spec")" rpm/xiw.spec
	is_version "$(sed -n 's/^PACKAGE_VERSION="\(.*\)"/\1/p' "$installed"/usr/src/xiw-*/dkms.conf)" dkms.conf
	[[ -d $installed/usr/src/xiw-$version ]]
}

# matches RELEASE: DKMS would build for a kernel of this release.
matches() {
	local BUILD_EXCLUSIVE_KERNEL=
	eval "$(grep '^BUILD_EXCLUSIVE_KERNEL=' "$tree/dkms.conf")"
	[[ $1 =~ $BUILD_EXCLUSIVE_KERNEL ]]
}

only_new_kernels() {
	local release
	for release in 6.12.0 6.12.117+deb13-amd64 6.13.0-rc1 6.20.1 7.2.12+deb13-rt-amd64 10.0; do
		matches "$release" || { say "$release does not match"; return 1; }
	done
	for release in 5.15.0-100-generic 6.1.0-44-amd64 6.2.16 6.11.9; do
		! matches "$release" || { say "$release matches"; return 1; }
	done
}

# The structs of rdma-core's private interface are those of one release.
provider_names_rdma_core() {
	local release depends
	# shellcheck disable=SC2016 # the format is dpkg's own language
	release=$(dpkg-query -W -f '${source:Upstream-Version}' libibverbs-dev)
	release=${release%%.*}
	depends=$(dpkg-deb -f "$debs"/ibverbs-provider-xiw_*.deb Depends)
	say "$depends"
	[[ $depends == *"libibverbs1 (>= $release~)"* ]]
	[[ $depends == *"libibverbs1 (<< $((release + 1))~)"* ]]
}

# Other packages have some of the manual pages that are referred to.
manual_is_well_formed() {
	! mandoc -T lint "$tree"/docs/man/* | grep -v 'referenced manual not found'
}

# xiw(4) tells each counter.
manual_is_complete() {
	local name missing=0
	for name in $(sed -n 's/.*\.name[[:space:]]*= "\(.*\)",/\1/p' "$tree/kernel/stats.c") \
		$(sed -n 's/.*= { "\([a-z_]*\)", [A-Z].*/err_\1/p' "$tree/kernel/wire/terminate.c") \
		$(sed -nE 's/^(TRACE|DEFINE)_EVENT\((xiw_[a-z]+, )?(xiw_[a-z_]+),$/\3/p' "$tree/kernel/trace.h"); do
		[[ $name != err_ok ]] || continue
		grep -qE "^\.(It |Pq )?Cm .*\b$name\b" "$tree/docs/man/xiw.4" ||
			{ say "xiw(4) does not tell $name"; missing=1; }
	done
	return "$missing"
}

# xiw(4) tells each setting as the module has it: name, smallest and largest value, default.
settings_agree() {
	sed -nE 's/.*SETTING\(([a-z_]+), ([0-9]+), ([0-9]+), ([0-9]+)\),/\1 \2 \3 \4/p' \
		"$tree/kernel/setting.c" | sort >"$scratch/settings"
	sed -nE 's/^\.It Cm ([a-z_]+) No \(([0-9]+) to ([0-9]+); ([0-9]+) by default\)$/\1 \2 \3 \4/p' \
		"$tree/docs/man/xiw.4" | sort >"$scratch/told"
	[[ $(wc -l <"$scratch/settings") -gt 10 ]]
	diff "$scratch/settings" "$scratch/told"
	grep -q '^\.It Cm congestion No (a name; empty by default)$' "$tree/docs/man/xiw.4"
}

rpms_are_built() {
	local top=$scratch/rpm core package
	core=$(pkg-config --modversion libibverbs | cut -d. -f3-)
	mkdir -p "$top/SOURCES"
	make -C "$copy" dist
	cp "$copy"/build/xiw-*.tar.gz "$top/SOURCES"
	tar -C /opt/xiw/rdma-core --transform "s|^\.|rdma-core-$core|S" -cf - . |
		gzip -1 >"$top/SOURCES/rdma-core-$core.tar.gz"
	# Debian's database of RPM packages is empty, and nothing here extracts debugging symbols.
	rpmbuild -bb --nodeps --define "_topdir $top" --define '_tmppath /tmp' \
		--define '_unitdir /usr/lib/systemd/system' \
		--define '_udevrulesdir /usr/lib/udev/rules.d' --define 'debug_package %{nil}' \
		"$copy/rpm/xiw.spec"
	for package in ibverbs-provider-xiw xiw-dkms xiw-tools; do
		ls "$top"/RPMS/*/"$package"-[0-9]*.rpm
	done
	rpm -qp --requires "$top"/RPMS/*/ibverbs-provider-xiw-[0-9]*.rpm | grep "^libibverbs < "
	rpmlint -r "$tree/rpm/xiw.rpmlintrc" "$copy/rpm/xiw.spec" "$top"/RPMS/*/*.rpm
}

# What "make install" puts into a folder is gone after "make uninstall".
uninstalled() {
	local dir=$scratch/root
	make -s -j "$(nproc)" -C "$copy" install DESTDIR="$dir" KDIR="$kdir"
	[[ -x $dir/usr/bin/xiw && $(find "$dir" -name 'xiw.ko*') ]]
	make -s -C "$copy" uninstall DESTDIR="$dir" KDIR="$kdir"
	! find "$dir" ! -type d ! -name 'modules.*' | grep .
}

# xiw ARG...: calls the command as it is installed. The root is read-only, so it gets a /run of its own.
xiw() {
	PATH=$scratch/bin:$PATH unshare --mount sh -c 'mount -t tmpfs tmpfs /run && exec "$@"' - \
		"$installed/usr/bin/xiw" "$@"
}

misunderstood() {
	fails 2 '^usage: xiw up' xiw
	fails 2 '^usage: xiw up' xiw up
	fails 2 '^usage: xiw up' xiw add lo
	fails 1 'no interface nosuch, but these: .*lo' xiw up nosuch
	fails 1 'no interface is called br/lan.*systemd-escape' xiw up br/lan
	fails 1 'no interface is called ' xiw down ../../etc
	prints '^usage: xiw up' xiw --help
}

not_root() {
	chmod 0711 "$scratch"
	fails 1 'only root.*sudo xiw up lo' setpriv --reuid 65534 --clear-groups "$installed/usr/bin/xiw" up lo
}

# stand_in NAME [ANSWER]: puts a command there, for the build root has few. With ANSWER it fails.
stand_in() {
	mkdir -p "$scratch/bin"
	printf '#!/bin/sh\n%s\n' "${2:+echo \"$2\" >&2; exit 1}" >"$scratch/bin/$1"
	chmod +x "$scratch/bin/$1"
}

# with_settings FILE TEXT: calls "xiw up lo" where /etc/xiw/FILE has this text. The rest of /etc is not there.
with_settings() {
	# shellcheck disable=SC2016 # for the inner shell
	PATH=$scratch/bin:$PATH unshare --mount bash -c 'mount -t tmpfs tmpfs /run &&
		mount -t tmpfs tmpfs /etc && mkdir /etc/xiw && printf "%s\n" "$1" >"/etc/xiw/$0" &&
		exec "$2" up lo' "$1" "$2" "$installed/usr/bin/xiw"
}

settings_are_read() {
	local line
	stand_in rdma
	stand_in modprobe "FATAL: Module xiw not found in directory /lib"
	# shellcheck disable=SC2016 # nobody is to expand it
	for line in crc "crc = 1" =1 name= crc=1=2 'name=a/b' 'name=$(id)' 'crc=1 # off'; do
		fails 1 '/etc/xiw/lo.conf:2: ".*" is not of the form NAME=VALUE' \
			with_settings lo.conf $'# a comment\n'"$line"
	done
	fails 1 '/etc/xiw/default.conf:1: a name is for one device' with_settings default.conf name=x
	fails 1 'no module for Linux' with_settings lo.conf $'# fine\n\n  crc=0\nname=x-1.y_z'
}

# refused ANSWER: calls "xiw up lo" where modprobe fails with this answer.
refused() {
	stand_in modprobe "$1"
	xiw up lo
}

cure_is_named() {
	stand_in rdma
	stand_in dkms
	fails 1 'Install linux-headers-.*dkms autoinstall' refused 'FATAL: Module xiw not found in directory /lib'
	fails 1 'mokutil --import' refused "ERROR: could not insert 'xiw': Key was rejected by service"
	fails 1 'mokutil --import' refused "ERROR: could not insert 'xiw': Required key not available"
	fails 1 'Exec format error.*dmesg' refused "ERROR: could not insert 'xiw': Exec format error"
}

plan 17
claim "a copy of the tree is committed"			commit_copy
claim "the Debian packages are built"			packages_are_built
claim "they are the same when they are built again"	built_twice_alike
claim "lintian finds no fault"				lintian_is_content
claim "DKMS has all sources of the module"		dkms_sources_build
claim "DKMS builds for Linux 6.12 and newer"		only_new_kernels
claim "all versions agree"				versions_agree
claim "the provider depends on its rdma-core"		provider_names_rdma_core
claim "the manual pages are well-formed"		manual_is_well_formed
claim "the manual tells all counters and tracepoints"	manual_is_complete
claim "the manual tells all settings, and their ranges"	settings_agree
claim "the RPM packages are built"			rpms_are_built
claim "make uninstall removes what was installed"	uninstalled
claim "xiw says what it did not understand"		misunderstood
claim "xiw says that it must run as root"		not_root
claim "xiw says which line of its settings is wrong"	settings_are_read
claim "xiw says what to do if there is no module"	cure_is_named
finish
