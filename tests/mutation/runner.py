# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Builds a copy of the tree, and runs suites in it until one of them fails.

A suite is "unit", "litmus", or a theme in a guest: VEHICLE/THEME, or VEHICLE/THEME:REGEX for the
claims that match. The guests mount the copy as /xiw, so nothing of the tree itself is built or run.
"""

import collections
import hashlib
import itertools
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import time

COPY = "build/mutate/tree"
LOG = "build/mutate/suites.log"
XIW_O = "build/uml/native/module/kernel/xiw.o"
CODE = "build/mutant.o"		# the module without what only a debugger reads

Vehicle = collections.namedtuple("Vehicle", "kind options words quiet seconds")

# What the guests are, what run-themes tells make there, and how many seconds they may print nothing,
# or run. As in run-debug, the theme faults has a guest of its own that does not look for leaks.
VEHICLES = {
    "native": Vehicle("native", ["--no-build"], "native", 90, 3400),
    "debug": Vehicle("debug", ["--leaks"], "leaks", 300, 3400),
    "faults": Vehicle("debug", [], "debug", 300, 3400),
}
BUILD_SECONDS = 1800
PAUSE_SECONDS = 8
UNIT_SECONDS = 300
LITMUS_SECONDS = 600
UNIT_BUILD = """[[ -e build/unit-kernel/build.ninja ]] ||
    cmake -S tests/unit -B build/unit-kernel -G Ninja >build/unit-kernel.log || exit
cmake --build build/unit-kernel >build/unit-kernel.log"""
UNIT = "ctest --test-dir build/unit-kernel --stop-on-failure -j 2"

# The claims of finish() in tests/netns/lib.sh.
AT_THE_END = ("no object is left of programs that ended", "links go and the module unloads",
              "the kernel's log is clean")

# Which suite failed, and what failed in it: the name of a claim, if claim is true.
Verdict = collections.namedtuple("Verdict", "suite how claim", defaults=[False])


class BuildError(Exception):
    """The copy does not compile."""


class Paused(Exception):
    """This process was stopped for a while, and perhaps the guest, so time limits say nothing."""


class Fault(Exception):
    """Something failed that has nothing to do with a mutant."""


def reap(process):
    """Kills a process in the build root, and with it all that it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


class Copy:
    """The copy of the tree."""

    def __init__(self, tree):
        self.tree, self.path = tree, os.path.join(tree, COPY)
        self.log = os.path.join(tree, LOG)
        self.items = {}

    def file(self, name):
        """The path of a file of the copy."""
        return os.path.join(self.path, name)

    def create(self):
        """Begins the copy with what the tree has built for its guests already. The sources keep
        their times until they change, so nothing is built again."""
        os.makedirs(self.file("build"))
        built = os.path.join(self.tree, "build/guests")
        if os.path.exists(os.path.join(built, "lock")):
            subprocess.run(["flock", os.path.join(built, "lock"), "cp", "-a", built,
                            self.file("build")], check=True)

    def update(self):
        """Makes the copy like the tree. A file that is the same keeps its time, so that only what
        differs is built again."""
        new = not os.path.isdir(self.path)
        if new:
            self.create()
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], check=True,
                                cwd=self.tree, stdout=subprocess.PIPE).stdout.decode()
        names = {name for name in listed.split("\0")
                 if name and os.path.isfile(os.path.join(self.tree, name))}
        for name in names:
            with open(os.path.join(self.tree, name), "rb") as source:
                self.write(name, source.read())
            copy_status = shutil.copystat if new else shutil.copymode
            copy_status(os.path.join(self.tree, name), self.file(name))
        for folder, folders, files in os.walk(self.path):
            if folder == self.path and "build" in folders:
                folders.remove("build")
            for file in files:
                path = os.path.join(folder, file)
                if os.path.relpath(path, self.path) not in names:
                    os.remove(path)

    def write(self, name, data):
        """Writes a file of the copy if that changes it."""
        path = self.file(name)
        if os.path.isfile(path):
            with open(path, "rb") as old:
                if old.read() == data:
                    return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as new:
            new.write(data)

    def digest(self, *folders):
        """A hash of all files in these folders."""
        digest = hashlib.sha256()
        for folder in folders:
            for place, _, files in sorted(os.walk(self.file(folder))):
                for file in sorted(files):
                    path = os.path.join(place, file)
                    digest.update(os.path.relpath(path, self.path).encode() + b"\0")
                    with open(path, "rb") as source:
                        digest.update(source.read())
        return digest.hexdigest()[:12]

    def start(self, kind, *command):
        """Starts a command in the build root, with what the guests of this kind need."""
        if kind not in self.items:
            self.items[kind] = subprocess.run(
                ["bash", "-c", ". tests/vm/uml.sh; need_root; install_host_packages; hold_items;"
                 f" uml_items {kind}"],
                cwd=self.path, stdout=subprocess.PIPE, check=True, text=True).stdout
        return subprocess.Popen(
            [self.file("tools/guest/in-build-root"), *command], cwd=self.path,
            env={**os.environ, "XIW_ITEMS": self.items[kind]}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)

    def run(self, seconds, *command):
        """Runs a command in the build root. Returns its status, None if it had to be killed, and
        what it printed."""
        process, printed = self.start("native", *command), []
        try:
            for line in lines_of(process, seconds, time.monotonic() + seconds):
                printed.append(line)
            return process.wait(), printed
        except Paused:
            return self.run(seconds, *command)
        except TimeoutError:
            return None, printed
        finally:
            reap(process)
            self.note(printed)

    def note(self, lines):
        """Adds lines to the log."""
        with open(self.log, "a", encoding="utf-8") as log:
            log.writelines(line + "\n" for line in lines)

    def build(self):
        """Builds all that a native guest needs. Returns a hash of the module's code."""
        status, printed = self.run(
            BUILD_SECONDS, "bash", "-c", "tests/vm/uml-boot --build-only native 1 &&"
            f" objcopy --strip-debug {XIW_O} {CODE}")
        if status != 0:
            if not any(re.search(r"kernel/.*error:|ERROR: modpost", line) for line in printed):
                raise Fault("the copy cannot be built:\n" + "\n".join(printed))
            raise BuildError()
        with open(self.file(CODE), "rb") as module:
            return hashlib.sha256(module.read()).hexdigest()

    def run_unit(self):
        """Runs the unit tests. Returns what they found. A mutant that the unit tests' stricter
        compiler refuses is not caught by that."""
        status, printed = self.run(BUILD_SECONDS, "bash", "-c", UNIT_BUILD)
        if status != 0:
            return None
        status, printed = self.run(UNIT_SECONDS, "bash", "-c", UNIT)
        if status is None:
            return Verdict("unit", f"no end after {UNIT_SECONDS} s")
        failed = [line for line in printed if re.search(r"\*\*\*|\(Failed\)", line)]
        if status != 0:
            return Verdict("unit", failed[0].strip() if failed else f"status {status}")
        return None

    def run_litmus(self):
        """Judges the litmus tests. Returns what they found. They name each function that has a
        barrier, and notice one whose barriers are gone."""
        done = subprocess.run([self.file("tools/litmus")], stdout=subprocess.PIPE, check=False,
                              stdin=subprocess.DEVNULL, text=True, timeout=LITMUS_SECONDS)
        self.note(done.stdout.splitlines())
        if not done.stdout.startswith("TAP"):
            raise Fault("tools/litmus does not run:\n" + done.stdout)
        failed = [line for line in done.stdout.splitlines() if line.startswith("not ok")]
        return Verdict("litmus", failed[0]) if failed else None


def lines_of(process, quiet, deadline):
    """The lines that a process prints. Raises TimeoutError if it prints nothing for too long."""
    rest, looked, heard = b"", time.monotonic(), time.monotonic()
    while True:
        readable = select.select([process.stdout], [], [], 1)[0]
        now = time.monotonic()
        if now > looked + PAUSE_SECONDS:
            raise Paused
        looked = now
        heard = now if readable else heard
        if now > min(heard + quiet, deadline):
            raise TimeoutError
        if not readable:
            continue
        data = os.read(process.stdout.fileno(), 65536)
        *lines, rest = (rest + data).split(b"\n")
        if not data and rest:
            lines.append(rest)
        for line in lines:
            yield line.decode(errors="replace")
        if not data:
            return


class Guest:
    """One run of themes in one guest."""

    RESULT = re.compile(r"# (not ok|ok) \d+ (.*?) *(# SKIP.*)?$")
    END = re.compile(r"(not ok|ok) \d+ selftests: ")

    def __init__(self, copy, vehicle, suites, known, only):
        self.copy, self.vehicle, self.suites = copy, VEHICLES[vehicle], suites
        self.only = only		# for some suites: the claims of it that run
        self.known = known		# for each suite: the claims that hold without a mutant
        self.suite, self.last = suites[0], "nothing"
        self.held = set()		# claims of the suite that runs
        self.ended = []			# suites
        self.lines = []

    def command(self):
        """The shell text that the guest runs."""
        text = []
        words = subprocess.run([self.copy.file("tests/vm/run-themes"), self.vehicle.words, "--words"],
                               check=True, text=True, stdout=subprocess.PIPE).stdout.split()
        for suite in self.suites:
            theme, _, only = suite.partition("/")[2].partition(":")
            only = self.only.get(suite, only)
            text.append(" ".join([
                "echo", shlex.quote("=== " + suite), ";", "make -s -C tests",
                "OUTPUT=/xiw/build/guests/tests", *words, "LOOPS=1",
                f"TEST_PROGS=netns/{theme}.sh", shlex.quote(f"ONLY={only}"), "run_tests"]))
        return "\n".join(text)

    def run(self, passed):
        """Runs the suites. Calls passed(suite, claims that held, seconds) for each that passes.
        Returns the verdict of the first that does not."""
        vehicle = self.vehicle
        process = self.copy.start(vehicle.kind, "tests/vm/uml-boot", *vehicle.options, vehicle.kind,
                                  str(vehicle.seconds), self.command())
        begin = time.monotonic()
        try:
            for line in lines_of(process, vehicle.quiet, begin + vehicle.seconds):
                self.lines.append(line)
                if line.startswith("=== "):
                    self.suite, self.held, begin = line[4:], set(), time.monotonic()
                verdict = self.judge(line)
                if verdict:
                    return verdict
                if self.END.match(line):
                    self.ended.append(self.suite)
                    passed(self.suite, self.held, time.monotonic() - begin)
            status = process.wait()
        except TimeoutError:
            return Verdict(self.suite, f"the guest hung after: {self.last}")
        finally:
            reap(process)
            self.copy.note(self.lines)
        if status != 0:
            return Verdict(self.suite, self.lines[-1] if self.lines else f"status {status}")
        silent = [suite for suite in self.suites if suite not in self.ended]
        return Verdict(silent[0], "it printed no result") if silent else None

    def judge(self, line):
        """The verdict if this line is a failure, or if it ends a theme in which a claim is gone."""
        match = self.RESULT.match(line)
        if match:
            result, claim, skipped = match.groups()
            self.last = claim
            if result != "ok":
                return Verdict(self.suite, claim, True)
            if not skipped:
                self.held.add(claim)
            return None
        match = self.END.match(line)
        if not match:
            return None
        if match.group(1) != "ok":
            return Verdict(self.suite, f"the theme failed after: {self.last}")
        missing = set(self.known.get(self.suite, ())) - self.held
        return Verdict(self.suite, f"no result: {min(missing)}") if missing else None


def exactly(claims):
    """A regular expression for these claims."""
    return "^(" + "|".join(re.sub(r"([][.*+?(){}|^$\\])", r"\\\1", claim) for claim in claims) + ")$"


def run_suites(copy, suites, known, passed, only=()):
    """Runs suites in this order, consecutive ones of one vehicle in one guest. Of the suites in
    only, just those claims run. Returns the verdict of the first that fails, or None."""
    left = list(suites)

    def done(suite, *result):
        left.remove(suite)
        passed(suite, *result)

    while left:
        vehicle = left[0].partition("/")[0]
        begin = time.monotonic()
        try:
            if vehicle in ("unit", "litmus"):
                verdict = copy.run_unit() if vehicle == "unit" else copy.run_litmus()
                if not verdict:
                    done(vehicle, set(), time.monotonic() - begin)
            else:
                batch = itertools.takewhile(lambda suite: suite.partition("/")[0] == vehicle, left)
                verdict = Guest(copy, vehicle, list(batch), known, dict(only)).run(done)
        except Paused:
            continue
        if verdict:
            return verdict
    return None


def run_again(copy, verdict, only):
    """Runs the claim that failed once more, alone. A claim about all that the theme has done needs
    the others, too. Returns whether it fails again."""
    theme, _, _ = verdict.suite.partition(":")
    if verdict.how in AT_THE_END:
        suite = verdict.suite
    else:
        suite = f"{theme}:{exactly([verdict.how])}"
    return bool(run_suites(copy, [suite], {}, lambda *_: None, only))
