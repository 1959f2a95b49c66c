#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# A static check that cannot run fails and says why.

# shellcheck source=tests/gates/lib.sh
. "$(dirname "$0")/lib.sh"

style() { "$copy/tools/style" "$@"; }

# without TOOL CHECK: runs the check after hiding the tool behind a file that cannot be executed.
without() {
	# shellcheck disable=SC2016 # the inner shell's words
	"$copy/tools/guest/in-build-root" bash -c '
		mount --bind /dev/null "$(command -v "$0")"
		tools/style "$1"' "$1" "$2"
}

no_copy_of_git() {
	mv "$copy/.git" "$scratch/git"
	trap 'mv "$scratch/git" "$copy/.git"' EXIT
	fails 1 'git does not list the files' style codespell
}

others_folder() {
	chown nobody "$copy"
	trap 'chown root "$copy"' EXIT
	fails 1 'git does not list the files' style codespell
}

nothing_to_look_at() {
	mv "$copy/include" "$scratch/include"
	trap 'mv "$scratch/include" "$copy/include"' EXIT
	fails 1 'there is no file like' style uapi
}

finds_misspelling() {
	echo 'It is seperate.' >"$copy/tests/planted.md"	# codespell:ignore
	trap 'rm "$copy/tests/planted.md"' EXIT
	fails 1 'tests/planted.md:1' style codespell
}

finds_command_without_test() {
	printf '%s\n' '<!-- run by tests/nosuch.sh -->' '```sh' make '```' >"$copy/planted.md"
	trap 'rm "$copy/planted.md"' EXIT
	fails 1 'planted.md:2: there is no tests/nosuch.sh' style documents
}

finds_upward_call() {
	local file=$copy/kernel/mem/bind.c
	cp "$file" "$scratch/bind.c"
	trap 'mv "$scratch/bind.c" "$copy/kernel/mem/bind.c"' EXIT
	cat >>"$file" <<-'EOT'

		#include "conn/ep.h"

		void xiw_planted(struct xiw_ep *ep);
		void xiw_planted(struct xiw_ep *ep)
		{
			xiw_ep_end(ep, XIW_OK);
		}
	EOT
	fails 1 'bind.c calls upwards: xiw_ep_end' style floors
}

# What a drawing shows: calls between floors, and moves between states. Each SVG is of its .dot file.
finds_old_drawings() {
	local text
	cp "$copy"/{kernel/conn/ep.c,tools/drawings/queue_pair.svg} "$scratch"
	trap 'mv "$scratch/ep.c" "$copy/kernel/conn/"
		mv "$scratch/queue_pair.svg" "$copy/tools/drawings/"' EXIT
	sed -i -e '1a #include "mem/mem.h"' -e '/^static void ep_alone/,/^{/s/^{/{\
	xiw_mem_retire(NULL);\
	xiw_ep_move(ep, XIW_EP_CLOSED);/' "$copy/kernel/conn/ep.c"
	sed -i 's/sha256 ./sha256 x/' "$copy/tools/drawings/queue_pair.svg"
	fails 1 'not ok 1 drawings' style drawings | tee "$scratch/style"
	for text in 'floors.dot is not what the code calls' 'ep_alone\(\) to CLOSED' \
		'queue_pair.svg was not made from its .dot file'; do
		grep -E "$text" "$scratch/style"
	done
}

# Removes most scripts first, because shellcheck takes a minute for all of them.
finds_shell_fault() {
	rm -r "$copy"/tests/{netns,vm,gates}
	printf '#!/bin/bash\n# SPDX\ncd nosuch\nrm *\n' >"$copy/tests/planted.sh"
	fails 1 'SC2164' style shellcheck
}

plan 13
claim "a copy of the tree passes"			eval 'make_copy; style spdx codespell'
claim "style fails without git's folder"		no_copy_of_git
claim "style fails if git refuses the folder's owner"	others_folder
claim "style fails without shellcheck"			fails 1 'Permission denied|status 12' without shellcheck shellcheck
claim "style fails without codespell"			fails 1 'Permission denied|status 12' without codespell codespell
claim "style fails without clang-format"		fails 1 'Permission denied|status 12' without clang-format clang-format
claim "style fails without perl for checkpatch"		fails 1 'Permission denied|status 12' without perl checkpatch
claim "style fails if a check has no file to look at"	nothing_to_look_at
claim "style finds a misspelt word"			finds_misspelling
claim "style finds a command that no test runs"		finds_command_without_test
claim "style finds a call from a floor to one above"	finds_upward_call
claim "style finds drawings that are out of date"	finds_old_drawings
claim "style finds a fault in a script"			finds_shell_fault
finish
