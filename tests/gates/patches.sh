#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# The patches for Linux and rdma-core (tools/export-patches) apply to Debian's newest sources, build there
# without a warning, and work together. A patch that does not apply or build is found.
#
# It runs in the build root. The two trees are overlays, so their sources stay as they are. Only those of
# their files that patches change are in the git repository that a tree gets.

if [[ ! -d /opt/xiw/newest-rdma-core ]]; then
	# shellcheck source=tests/vm/uml.sh
	. "$(dirname "$(realpath "$0")")/../vm/uml.sh"
	need_root
	install_host_packages
	hold_items
	XIW_ITEMS="$(uml_items native) newest-rdma-core=$(newest_rdma_core)"
	export XIW_ITEMS
	exec "$guest_dir/in-build-root" tests/gates/patches.sh
fi

# shellcheck source=tests/gates/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$tree" || exit
built=$tree/build/gates-patches	# a guest sees it, by the same path
trap 'umount "$scratch"/tree-of-* 2>/dev/null; rm -rf "$scratch" "$built"' EXIT
rm -rf "$built"
mkdir -p "$built"
export GIT_AUTHOR_NAME="An author" GIT_AUTHOR_EMAIL=author@example.org
export GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL
patches=$scratch/patches
linux=$scratch/tree-of-kernel
rdma_core=$scratch/tree-of-rdma-core
objects=$scratch/objects	# of the kernel
driver=drivers/infiniband/sw/xiw

# export_from TREE OUT
export_from() {
	"$1/tools/export-patches" --kernel /opt/xiw/linux-source --rdma-core /opt/xiw/newest-rdma-core "$2"
}

usage_is_told() {
	fails 2 '^usage:' tools/export-patches
	fails 2 '^usage:' tools/export-patches --kernel
	fails 2 '^usage:' tools/export-patches --kernel /opt/xiw/linux-source
	fails 2 '^usage:' tools/export-patches --nosuch /opt "$scratch/none"
	fails 2 '^usage:' tools/export-patches "$scratch/none" more
	[[ ! -e $scratch/none ]]
}

wrong_source_is_refused() {
	fails 1 'is no source for kernel: it has no MAINTAINERS' \
		tools/export-patches --kernel "$tree" --rdma-core "$tree" "$scratch/none"
}

# Patches of an earlier run, which may have had more of them, go.
written_twice_the_same() {
	mkdir -p "$scratch/again/kernel"
	touch "$scratch/again/kernel/0099-old.patch"
	export_from "$tree" "$patches"
	export_from "$tree" "$scratch/again"
	diff -r "$patches" "$scratch/again"
}

# make_tree SET SOURCE: makes the tree of a set.
make_tree() {
	local dir=$scratch/tree-of-$1
	mkdir -p "$scratch/$1"/{upper,work} "$dir"
	mount -t overlay -o "lowerdir=$2,upperdir=$scratch/$1/upper,workdir=$scratch/$1/work" overlay "$dir"
	git init -q -b base "$dir"
	sed -n 's|^--- a/||p' "$patches/$1"/*.patch | sort -u |
		git -C "$dir" add -f --pathspec-from-file=-
	git -C "$dir" commit -q -m "$1"
}

# files_of SET DIR: prints the patches of a set in DIR. The first file is the cover letter.
files_of() { printf '%s\n' "$2/$1"/*.patch | tail -n +2; }

# apply SET DIR [BRANCH]: applies these patches to the set's tree, and nothing if one does not apply.
apply() {
	local dir=$scratch/tree-of-$1 files
	mapfile -t files < <(files_of "$1" "$2")
	git -C "$dir" checkout -q -f --detach "${3:-base}"
	git -C "$dir" am -q "${files[@]}" || { git -C "$dir" am --abort; return 1; }
}

kernel_set_applies() {
	make_tree kernel /opt/xiw/linux-source
	apply kernel "$patches"
}

# checkpatch DIR: as tools/style runs it. In a tree it would run other programs for each file, which
# takes minutes.
checkpatch() {
	local ignored
	ignored=$(sed -n 's/^\([A-Z_]\+\)[[:space:]].*/\1/p' tools/checkpatch.exceptions | paste -sd,)
	files_of kernel "$1" | xargs -P 2 -n 1 "$linux/scripts/checkpatch.pl" --no-tree --strict \
		--terse --quiet --show-types --no-summary --ignore="$ignored"
}

kbuild() { make -C "$linux" O="$objects" ARCH=um LOCALVERSION= -s -j 2 "$@"; }

# driver_builds OPTION...: configures the kernel of the guests with the driver and the options, and builds
# the driver. A warning is printed or is an error, so nothing may be printed.
driver_builds() {
	{ cat tests/vm/uml.config; printf '%s\n' CONFIG_RDMA_XIW=m "$@"; } >"$scratch/config"
	mkdir -p "$objects"
	kbuild KCONFIG_ALLCONFIG="$scratch/config" allnoconfig modules_prepare
	printf '%s\n' CONFIG_RDMA_XIW=m "$@" | grep -vxF -f "$objects/.config" && return 1
	kbuild W=1 KCFLAGS=-Werror "$driver/" 2>&1 | tee "$scratch/warnings"
	[[ ! -s $scratch/warnings ]]
}

# The guests' kernel has the same options, and all of it was built. modpost makes __this_module.
driver_calls_what_is_exported() {
	nm -u "$objects/$driver/xiw.o" | awk '
		NR == FNR { exported[$2]; next }
		$2 == "__this_module" { next }
		{ count++ }
		!($2 in exported) { print "nobody exports " $2; bad = 1 }
		END { print count " names"; exit bad || !count }' /opt/xiw/uml/Module.symvers -
}

rdma_core_set_applies() {
	make_tree rdma-core /opt/xiw/newest-rdma-core
	apply rdma-core "$patches"
	cmp {"$linux/include/uapi","$rdma_core/kernel-headers"}/rdma/xiw-abi.h
	cmp {"$linux/include/uapi","$rdma_core/kernel-headers"}/rdma/ib_user_ioctl_verbs.h
}

# provider_builds: builds the provider, libibverbs, and those programs of rdma-core that the selftests run.
provider_builds() {
	local abi
	abi=$(sed -n 's/^set(IBVERBS_PABI_VERSION "\(.*\)")/\1/p' "$rdma_core/CMakeLists.txt")
	[[ -e $built/rdma-core/build.ninja ]] ||
		cmake -S "$rdma_core" -B "$built/rdma-core" -G Ninja -DIN_PLACE=1 -DNO_MAN_PAGES=1 \
			-DNO_PYVERBS=1 -DENABLE_WERROR=1
	cmake --build "$built/rdma-core" --target "xiw-rdmav$abi" ibv_devices ibv_devinfo rping ucmatose \
		rdma_{,x}{server,client} rstream riostream rcopy
}

# work_together: the driver, the provider and the selftests, all three from the patched trees, in a guest.
# Debian's perftest needs other providers of its own rdma-core, so its test is left out.
work_together() {
	kbuild W=1 KCFLAGS=-Werror KBUILD_MODPOST_WARN=1 "$driver/xiw.ko"
	cp "$objects/$driver/xiw.ko" "$built/"
	make -s -C "$linux/tools/testing/selftests" TARGETS=rdma/xiw INSTALL_PATH="$built/selftests" install
	# shellcheck disable=SC2016 # the guest's words
	tests/vm/uml-boot --name patches native 300 '
		set -ex
		cd build/gates-patches
		mount --bind xiw.ko "/usr/lib/modules/$(uname -r)/updates/xiw.ko"
		[ "$(modinfo -F intree xiw)" = Y ]
		export PATH=$PWD/rdma-core/bin:$PATH LD_LIBRARY_PATH=$PWD/rdma-core/lib SAMPLE=1/8
		selftests/run_kselftest.sh -t rdma/xiw:link.sh -t rdma/xiw:rdmacm.sh' |
		tee "$scratch/selftests"
	grep -E '^# Totals: pass:2 fail:0 xfail:0 xpass:0 skip:0 error:0' "$scratch/selftests"
}

# with_fault FILE SED COMMAND...: runs COMMAND when sed has changed a file of the copy.
with_fault() {
	local file=$copy/$1
	cp "$file" "$scratch/unchanged"
	# shellcheck disable=SC2064 # the name is of this function only
	trap "mv '$scratch/unchanged' '$file'" EXIT
	sed -i "$2" "$file"
	if cmp -s "$file" "$scratch/unchanged"; then return 1; fi
	"${@:3}"
}

# exported COMMAND...: exports the copy to $scratch/faulty, and runs COMMAND.
exported() {
	rm -rf "$scratch/faulty"
	export_from "$copy" "$scratch/faulty"
	"$@"
}

style_fault() { fails '' 'RDMA-xiw-Add-the-device.*SPACING' checkpatch "$scratch/faulty"; }

# The tree has changed since the patches were made.
changed_tree() {
	git -C "$linux" checkout -q -f --detach base
	sed -i '/RDMA_SIW/d' "$linux/drivers/infiniband/sw/Makefile"
	git -C "$linux" commit -q -a -m "less"
	git -C "$linux" branch changed
	fails 1 'patch failed: drivers/infiniband/sw/Makefile' apply kernel "$patches" changed
}

driver_fault() {
	apply kernel "$scratch/faulty"
	fails '' 'main.c:.*error:.*unused variable' driver_builds
}

provider_fault() {
	apply rdma-core "$scratch/faulty"
	fails '' 'provider.cpp:.*error:.*unused variable' provider_builds
}

# refused TEXT: the export of the copy fails, and TEXT is told.
refused() { fails 1 "$1" export_from "$copy" "$scratch/none"; }

plan 17
claim "wrong options print the usage"			usage_is_told
claim "a folder with other sources is refused"		wrong_source_is_refused
claim "both sets are written, and twice the same"	written_twice_the_same
claim "the set for the kernel applies"			kernel_set_applies
claim "checkpatch --strict finds nothing in it"		checkpatch "$patches"
claim "the kernel builds the driver without a warning"	driver_builds
claim "the driver calls only what the kernel exports"	driver_calls_what_is_exported
claim "the set for rdma-core applies, with the kernel's headers" rdma_core_set_applies
claim "rdma-core builds the provider without a warning"	provider_builds
claim "driver, provider and selftests work together in a guest" work_together
claim "the driver builds for tests, too"		driver_builds CONFIG_RDMA_XIW_TEST=y
make_copy
claim "a patch that does not apply is found"		changed_tree
claim "a fault of style is found"	with_fault kernel/main.c 's/if (ret)/if(ret)/' exported style_fault
claim "a driver that does not build is found" with_fault kernel/main.c \
	'/^static int __init main_init/,/^{/s/^{/&\n\tint planted;\n/' exported driver_fault
claim "a provider that does not build is found" with_fault provider/provider.cpp \
	'/^static verbs_device \*alloc_device(/,/^{/s/^{/&\n\tint planted;\n/' exported provider_fault
claim "a name that only this tree knows is found" with_fault kernel/main.c '2a /* See USING.md. */' \
	refused 'main.c: tools/export/in-tree.sed does not say what replaces'
claim "a file that is in no patch is found" with_fault tools/export-patches '/^\tpatch selftests /d' \
	refused 'kernel: no patch takes .*selftests'
finish
