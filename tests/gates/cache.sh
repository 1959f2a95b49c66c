#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# Only root may enter the tools' cache, and nothing is removed from a folder that is not a cache.

# shellcheck source=tests/gates/lib.sh
. "$(dirname "$0")/lib.sh"

# with_cache DIR COMMAND...: runs COMMAND with the functions of tools/guest and this cache.
with_cache() {
	# shellcheck disable=SC2016 # the inner shell's words
	XIW_CACHE=$1 bash -c '. "$0/tests/vm/uml.sh"; need_root; "$@"' "$tree" "${@:2}"
}

# old FILE...: makes the files look unused for 30 days.
old() { touch -h -d '30 days ago' "$@"; }

mode_is() { [[ $(stat -c %a "$1") == "$2" ]] || { stat "$1"; return 1; }; }

new_folder_is_closed() {
	with_cache "$scratch/new" hold_items
	mode_is "$scratch/new" 700
	[[ -f $scratch/new/xiw-cache ]]
}

empty_folder_is_closed() {
	mkdir -m 0777 "$scratch/empty"
	with_cache "$scratch/empty" hold_items
	mode_is "$scratch/empty" 700
	[[ -f $scratch/empty/xiw-cache ]]
}

# The names in the folder look like old items.
folder_of_others_is_refused() {
	local dir=$scratch/others
	mkdir -p "$dir"/holiday-0123456789ab "$dir"/log "$dir"/run
	echo precious | tee "$dir/holiday-0123456789ab/photo" "$dir/data-aaaaaaaaaaaa" >"$dir/run/file"
	old "$dir"/* "$dir"/*/*
	chmod 0755 "$dir"
	find "$dir" -printf '%p %m %T@\n' >"$scratch/before"
	fails 1 'is no cache of xiw.s, for it holds' with_cache "$dir" hold_items
	find "$dir" -printf '%p %m %T@\n' | diff "$scratch/before" -
}

# All names but one are those of a cache.
half_a_cache_is_refused() {
	local dir=$scratch/half
	mkdir -p "$dir"/{log,run,letters}
	touch "$dir"/{use.lock,photo-0123456789ab}
	old "$dir"/*
	fails 1 'for it holds "letters"' with_cache "$dir" hold_items
	[[ -e $dir/photo-0123456789ab ]]
}

folder_of_another_user_is_refused() {
	mkdir "$scratch/nobody"
	chown nobody "$scratch/nobody"
	fails 1 "is not root's" with_cache "$scratch/nobody" hold_items
}

earlier_cache_is_taken_over() {
	local dir=$scratch/earlier
	mkdir -p "$dir"/{apt,log,run,build-root-0123456789ab,uml-native-0123456789ab.new}
	touch "$dir"/{kernels,kernels.lock,use.lock,newest-source.table}
	with_cache "$dir" hold_items
	mode_is "$dir" 700
	[[ -f $dir/xiw-cache && -d $dir/build-root-0123456789ab ]]
}

# Old items and links are removed, but never the target of a link.
only_old_items_go() {
	local dir=$scratch/cache
	mkdir -p "$scratch/outside" && echo precious >"$scratch/outside/file"
	with_cache "$dir" hold_items
	mkdir "$dir"/{old-0123456789ab,young-0123456789ab,"a folder-of 12 letters",notes-of-12-letters}
	ln -s "$scratch/outside" "$dir/link-0123456789ab"
	ln -s "$scratch/outside" "$dir/run/link"
	old "$dir"/{old,link}-0123456789ab "$dir"/*letters "$scratch/outside" "$scratch/outside/file"
	with_cache "$dir" hold_items
	[[ ! -e $dir/old-0123456789ab && ! -L $dir/link-0123456789ab && ! -L $dir/run/link ]]
	[[ -d $dir/young-0123456789ab && -d "$dir/a folder-of 12 letters" ]]
	[[ -d $dir/notes-of-12-letters && -s $scratch/outside/file ]]
}

nothing_is_removed_without_the_marker() {
	local dir=$scratch/unmarked
	mkdir -p "$dir/old-0123456789ab"
	old "$dir/old-0123456789ab"
	# shellcheck disable=SC2016 # the inner shell's words
	fails 1 'nothing is removed there' \
		env XIW_CACHE="$dir" bash -c '. "$0/tools/guest/lib.sh"; hold_items' "$tree"
	[[ -d $dir/old-0123456789ab ]]
}

# A regression test: a run of another tree took an item that tools/guest/item was making for an old one,
# because a root that is unpacked has the age of its archive.
item_in_the_making_stays() {
	# shellcheck disable=SC2016 # the inner shell's words
	XIW_CACHE=$scratch/making "$tree/tools/guest/item" item slow key bash -c '
		mkdir "$1" && touch -d "30 days ago" "$1"
		. "$0/tools/guest/lib.sh" && hold_items && [[ -d $1 ]]' "$tree"
}

# A regression test: sqfstar does not take the mode of the root folder from the archive, which made
# the guest's root world-writable.
open_root_is_found() {
	mkdir -m 0755 "$scratch/root"
	touch "$scratch/root/file"
	tar -C "$scratch/root" -c . | sqfstar -quiet -no-progress "$scratch/image" >/dev/null
	fails 1 'world-writable: drwxrwxrwx' \
		with_cache "$scratch/unpacking" unpack_image "$scratch/image" "$scratch/unpacked"
}

guests_root_is_closed() {
	local root
	# shellcheck disable=SC2016 # the inner shell's words
	root=$(bash -c '. "$0/tests/vm/uml.sh"; need_root; hold_items; guest_folder' "$tree")
	mode_is "$root" 755
	with_cache "$scratch/looking" only_root_writes "$root"
	mode_is "$(dirname "$root")" 700
}

cache_is_removed() {
	local dir=$scratch/removed
	with_cache "$dir" hold_items
	mkdir "$dir/item-0123456789ab"
	# shellcheck disable=SC2016 # the inner shell's words
	fails 1 'a run is using the cache' \
		with_cache "$dir" eval 'hold_items; "$tree/tools/guest/remove-cache"'
	[[ -d $dir/item-0123456789ab ]]
	touch "$dir/precious"
	fails 1 'holds "precious"' env XIW_CACHE="$dir" "$tree/tools/guest/remove-cache"
	rm "$dir/precious" && [[ -d $dir/item-0123456789ab ]]
	XIW_CACHE=$dir "$tree/tools/guest/remove-cache"
	[[ ! -e $dir ]]
	XIW_CACHE=$dir "$tree/tools/guest/remove-cache"
	mkdir "$dir" && touch "$dir/precious"
	fails 1 'is no cache of xiw.s' env XIW_CACHE="$dir" "$tree/tools/guest/remove-cache"
	[[ -e $dir/precious ]]
}

plan 12
claim "only root may enter a new cache"			new_folder_is_closed
claim "an empty folder becomes a cache"			empty_folder_is_closed
claim "a folder with others' files is refused and left as it is" folder_of_others_is_refused
claim "... also if most of it looks like a cache"	half_a_cache_is_refused
claim "a folder of another user is refused"		folder_of_another_user_is_refused
claim "a cache from before the marker is taken over"	earlier_cache_is_taken_over
claim "only old items are removed, and nothing outside"	only_old_items_go
claim "an item in the making is not taken for an old one" item_in_the_making_stays
claim "nothing is removed without the marker"		nothing_is_removed_without_the_marker
claim "the whole cache is removed, but not while it is used" cache_is_removed
claim "a world-writable image is found"			open_root_is_found
claim "only root may write to the guest's root folder"	guests_root_is_closed
finish
