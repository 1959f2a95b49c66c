# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Reads the commands of a Markdown document, and finds blocks that no test runs.

A block of the language "console" is a session. A line with a prompt is a command, and the lines below
it are what it prints. The prompt says who types it, and where: "server# " and "client# " are root on
one of two machines, "# " is root on the machine that runs the tests, and with "$" in place of "#" it is
an ordinary user. "server^C" interrupts what runs on the server. A command that ends in a backslash goes
on in the next line, and "# fails" at its end says that it has to fail.

A block of the language "sh" holds commands without their output. If the line above a block is
"<!-- run by FILE... -->", these files run its commands, and the document's own test does not.
"""

import collections
import os
import re
import shlex
import sys

PROMPT = re.compile(r"(server|client|)([#$]) (.*)")
INTERRUPT = re.compile(r"(server|client|)\^C")
FENCE = re.compile(r"( *)```(.*)")
MARK = re.compile(r"<!-- run by (.*) -->")
LIST_ITEM = re.compile(r" {0,3}([-*+]|[0-9]+[.)]) ")
FAILS = re.compile(r"\s+# fails$")
COMMANDS = ("console", "sh")
OTHER_NAMES = ("", "bash", "shell", "shell-session", "terminal")

Block = collections.namedtuple("Block", "language line lines mark")


class Step:
    """A command, or an interrupt, with what the document shows below it."""

    def __init__(self, line, machine, root, command):
        self.line = line
        self.machine = machine
        self.root = root
        self.fails = bool(FAILS.search(command))
        self.command = FAILS.sub("", command)
        self.expected = []

    def __str__(self):
        return self.machine + ("#" if self.root else "$") + " " + self.command

    @property
    def interrupts(self):
        return self.command == "^C"


class Document:
    """The blocks of a document, and what is wrong with them as (line, text)."""

    def __init__(self, path):
        self.path = path
        self.blocks = []
        self.faults = []
        with open(path, encoding="utf-8") as file:
            self.read(file.read().splitlines())

    def fault(self, line, text):
        self.faults.append((line, text))

    def read(self, lines):
        block = mark = None
        blank, in_list = True, False
        for number, line in enumerate(lines, 1):
            fence = FENCE.fullmatch(line)
            if block and fence and not fence[2].strip():
                block = None
            elif block:
                block.lines.append(line.removeprefix(indent))
            elif fence:
                indent = fence[1]
                block = Block(fence[2].strip(), number, [], mark)
                self.blocks.append(block)
                mark = None
            else:
                if mark:
                    self.fault(number, "the line above says who runs a block, but here is none")
                mark = MARK.fullmatch(line.strip())
                if re.match(r"( {4}|\t)\s*\S", line):
                    if blank and not in_list:
                        self.fault(number, "an indented block: use a fence with a language")
                elif line.strip() and (blank or LIST_ITEM.match(line)):
                    in_list = bool(LIST_ITEM.match(line)) or (in_list and line.startswith(" "))
                blank = not line.strip()
        if block:
            self.fault(block.line, "the block has no end")

    def steps(self):
        """The steps that this document's own test runs."""
        steps = []
        for block in self.blocks:
            if not block.mark:
                steps += self.steps_of(block)
        return steps

    def steps_of(self, block):
        if block.language == "console":
            return self.session(block)
        if block.language == "sh":
            return self.script(block)
        return []

    def session(self, block):
        steps, continued = [], False
        for number, line in enumerate(block.lines, block.line + 1):
            prompt, interrupt = PROMPT.fullmatch(line), INTERRUPT.fullmatch(line)
            if continued:
                step = Step(steps[-1].line, steps[-1].machine, steps[-1].root,
                            steps[-1].command[:-1] + line.strip())
                steps[-1] = step
            elif prompt:
                steps.append(Step(number, prompt[1], prompt[2] == "#", prompt[3]))
            elif interrupt:
                steps.append(Step(number, interrupt[1], True, "^C"))
            elif steps:
                steps[-1].expected.append(line)
            elif line.strip():
                self.fault(number, "a session begins with a prompt")
                return steps
            continued = (continued or bool(prompt)) and steps[-1].command.endswith("\\")
            if steps and not steps[-1].command.strip():
                self.fault(number, "a prompt without a command")
        if continued:
            self.fault(block.line + len(block.lines), "the last command goes on nowhere")
        if not steps:
            self.fault(block.line, "a session without a command")
        return steps

    def script(self, block):
        """The commands of a block of the language sh. What they print is not looked at."""
        steps, command = [], ""
        for number, line in enumerate(block.lines, block.line + 1):
            command += line.strip()
            if command.endswith("\\"):
                command = command[:-1]
                continue
            if command and not command.startswith("#"):
                steps.append(Step(number, "", True, command))
                steps[-1].expected.append("...")
            command = ""
        return steps

    def check(self):
        """Returns what is wrong with the document, as lines."""
        for block in self.blocks:
            if block.language in OTHER_NAMES:
                self.fault(block.line, "a block is of the language console, sh, text or another")
            if block.mark and block.language not in COMMANDS:
                self.fault(block.line, "a block without commands needs no test")
            steps = self.steps_of(block)
            if block.mark:
                self.check_mark(block, steps)
        return [f"{self.path}:{line}: {text}" for line, text in sorted(set(self.faults))]

    def check_mark(self, block, steps):
        texts = []
        for name in block.mark[1].split():
            if os.path.isfile(name):
                with open(name, encoding="utf-8") as file:
                    texts.append(file.read())
            else:
                self.fault(block.line, f"there is no {name} that could run this block")
        for step in steps:
            for program in programs(step.command):
                if not any(mentions(text, program) for text in texts):
                    self.fault(step.line, f"{block.mark[1]} does not run {program}")


def mentions(text, program):
    """Whether a script has the program, by the path that the document uses or below a variable."""
    below = r"(?:" + re.escape(program) + r"|\$\w+/" + re.escape(os.path.basename(program)) + ")"
    return re.search(r"(?<![\w-])" + below + r"(?![\w-])", text)


def programs(command):
    """The programs that a command line starts; for a target of the Makefile, the script behind it."""
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return []
    found, first = [], True
    for place, word in enumerate(words):
        if re.fullmatch(r"[;&|()]+", word):
            first = not word.endswith(")") and not words[place - 1].endswith("$")
        elif first and not re.match(r"\w+=", word):
            first = False
            if word == "make":
                word = script_of(words[place + 1:]) or word
            if not re.match(r"[$<>\[]|cd$|!$", word):
                found.append(word)
    return found


def script_of(words):
    """The script that the top Makefile runs for the first target among these words."""
    targets = [word for word in words if "=" not in word]
    if not targets or targets[0].startswith("-"):
        return None
    with open("Makefile", encoding="utf-8") as file:
        rule = re.search(r"^" + re.escape(targets[0]) + r":.*\n\t@?(\S+/\S+)", file.read(), re.M)
    return rule and rule[1]


def documents():
    """All documents below this folder."""
    for folder, folders, files in os.walk("."):
        folders[:] = sorted(name for name in folders if name not in (".git", "build"))
        for name in sorted(files):
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name))


def main():
    what = sys.argv[1:]
    if what == ["--check"]:
        wrong = [line for path in documents() for line in Document(path).check()]
        print("\n".join(wrong), end="\n" if wrong else "")
        sys.exit(bool(wrong))
    elif what == ["--list"]:
        for path in documents():
            if Document(path).steps():
                print(path)
    else:
        sys.exit("usage: document.py --check | --list")


if __name__ == "__main__":
    main()
