#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# A document whose commands do something else than it shows does not pass, nor does one with commands
# that nothing runs. What only a compiler can show of the documents is shown here, too.

# shellcheck source=tests/gates/lib.sh
. "$(dirname "$0")/lib.sh"
dir=$tree/build/gates-docs	# the build root sees it
copy=$dir/xiw
planted=$dir/planted.md
trap 'rm -rf "$scratch" "$dir"' EXIT
rm -rf "$dir"
mkdir -p "$dir"
cd "$tree" || exit

in_root() { tools/guest/in-build-root "$@"; }

# plant LANGUAGE LINE...: makes the document, which has one block.
plant() {
	{
		echo "\`\`\`$1"
		printf '%s\n' "${@:2}"
		echo '```'
	} >"$planted"
}

# played LINE...: runs a session, in which no command may take more than two seconds.
played() {
	plant console "$@"
	in_root env LIMIT=2 python3 -B tests/docs/session.py "${planted#"$tree/"}" build/gates-docs
}

# A server at port 9999 that says what it hears.
listen='import socket; s = socket.create_server(("127.0.0.1", 9999)); print(s.accept()[0].recv(9))'

truth_passes() {
	played "server# python3 -c '$listen'" "b'hello'" \
		'client# echo -n hello >/dev/tcp/127.0.0.1/9999' \
		'client$ id -u; seq 3; false # fails' 65534 ... 3 \
		'# sleep 9 &' '# tail -f /etc/debian_version' '13...' '^C'
}

# found TEXT LINE...: the session fails, and TEXT is told.
found() { fails 1 "$1" played "${@:2}"; }

# unmarked TEXT COMMAND...: "run --check" fails because of what COMMAND plants, and TEXT is told. The
# planted document is not in the tree that is checked, but below a folder that is not looked at.
unmarked() {
	local text=$1
	shift
	make_checked
	"$@"
	mv "$planted" "$dir/checked/planted.md"
	fails 1 "planted.md:$text" in_root build/gates-docs/checked/tests/docs/run --check
}

# make_checked: a tree with a Makefile, the runner, and a test that could run git.
make_checked() {
	mkdir -p "$dir/checked/tests"
	cp Makefile "$dir/checked/"
	cp -r tests/docs "$dir/checked/tests/"
	echo 'git status' >"$dir/checked/tests/a.sh"
}

marked() {
	plant sh "$2"
	sed -i "1i <!-- run by $1 -->" "$planted"
}

no_block_after_mark() { echo '<!-- run by tests/a.sh -->' >"$planted"; echo text >>"$planted"; }
no_end() { plant console '# true'; sed -i '$d' "$planted"; }
indented() { printf 'text\n\n    make\n' >"$planted"; }

truth_is_not_reported() {
	make_checked
	marked tests/a.sh 'git status'
	mv "$planted" "$dir/checked/planted.md"
	in_root build/gates-docs/checked/tests/docs/run --check
}

# packages_exist: apt knows each package of the line "apt install" in README.md.
packages_exist() {
	local line packages known
	line=$(sed -n '/^apt install/,/# 1$/p' README.md | tr -d '\\\n')
	# shellcheck disable=SC2016 # README.md's words
	line=${line/'linux-headers-$(uname -r)'/linux-headers-amd64}
	read -ra packages <<<"${line%#*}"
	packages=("${packages[@]:2}")
	((${#packages[@]} > 5))
	# shellcheck disable=SC2016 # the inner shell's words
	known=$(bash -c '. "$0/tests/vm/uml.sh"; guest_apt apt-cache show --no-all-versions "$@"' \
		"$tree" "${packages[@]}" | grep -c '^Package: ')
	say "$known of ${packages[*]}"
	[[ $known -eq ${#packages[@]} ]]
}

# installs: after "git clone", "make -C xiw install" puts everything in its place.
installs() {
	local file
	make_copy
	# shellcheck disable=SC2016 # the inner shell's words
	in_root bash -c 'make -C build/gates-docs/xiw install DESTDIR=/xiw/build/gates-docs/installed \
		KDIR="/lib/modules/$(tools/guest/release 6.12)/build"'
	for file in '*/lib/modules/*/xiw.ko*' '*/libibverbs/libxiw-rdmav*.so' '*/etc/libibverbs.d/xiw.driver'; do
		[[ $(find "$dir/installed" -path "$file") ]] || { say "there is no $file"; return 1; }
	done
}

# example_compiles: by the command of docs/tutorial.md.
example_compiles() {
	local command
	command=$(grep -m 1 '^g++ ' docs/tutorial.md)
	say "$command"
	in_root bash -c "${command/-o file_by_rdma/-Wall -Wextra -Werror -o /tmp/file_by_rdma}"
}

plan 24
claim "a document that tells the truth passes"		truth_passes
claim "wrong output is found"				found '^# \+b$' '# echo b' a
claim "wrong output around three dots is found"		found 'not ok' '# echo abc' 'a...d'
claim "a line that is missing is found"			found '^# -b$' '# echo a' a b
claim "a line that the document lacks is found"		found '^# \+b$' '# echo a; echo b' a
claim "output where none is shown is found"		found '^# \+a$' '# echo a'
claim "an unexpected exit status is found"		found 'it failed with status 3' '# exit 3'
claim "a command that does not fail is found"		found 'it did not fail' '# true # fails'
claim "a command that hangs is found"			found 'it did not end within 2 s' '# sleep 100'
claim "a server that does not end is found"		found 'it did not end within 2 s' \
	'server# sleep 100' 'client# true'
claim "an interrupt of nothing is found"		found 'nothing runs on server' \
	'server# true' 'client# true' 'server^C'
claim "a later command does not hide a fault"		found '^not ok' '# false' '# true'
claim "blocks that a test runs are not reported"	truth_is_not_reported
claim "a test that does not exist is reported"		unmarked '2: there is no tests/b.sh' \
	marked tests/b.sh 'git status'
claim "a test that does not run the program is reported" unmarked '3: .* does not run jq' \
	marked tests/a.sh 'git status | jq .'
claim "for make, the script of its target counts"	unmarked '3: .* does not run tools/coverage' \
	marked tests/a.sh 'make coverage'
claim "a mark without a block is reported"		unmarked '2: .*here is none' no_block_after_mark
claim "a block without a language is reported"		unmarked '1: ' plant '' '# true'
claim "a block without an end is reported"		unmarked '1: the block has no end' no_end
claim "an indented block is reported"			unmarked '3: an indented block' indented
claim "a session without a prompt is reported"		unmarked '2: a session begins with a prompt' \
	plant console 'echo a'
claim "the packages that README.md names exist"		packages_exist
claim "make install puts everything in its place"	installs
claim "the example compiles by the tutorial's command"	example_compiles
finish
