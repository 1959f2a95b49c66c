# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Runs the commands of a document, and compares what they print with what the document shows.

    session.py --count DOCUMENT
    session.py DOCUMENT FOLDER [server=NAMESPACE client=NAMESPACE]

Prints "ok CLAIM" or "not ok CLAIM" for each command, and other lines that begin with "# ". Without
namespaces all commands run where this program does. LIMIT is how many seconds a command may take.

A command ends before the next one on its machine begins. If the next command is on another machine, it
need not end: then it goes on as soon as it listens at a TCP port, or has been quiet for a second. What
it prints is compared when it has ended.
"""

import glob
import os
import re
import signal
import subprocess
import sys
import time

import document

LIMIT = float(os.environ.get("LIMIT", 60))
QUIET_SECONDS = 1
BACKGROUND_SECONDS = 3	# time for a command in the background to begin, if it is never quiet
TRIES = 3
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

# Faults of the programs themselves: what they print then, and why both ends are run again.
KNOWN_FAULTS = (
    (r"RDMA_CM_EVENT_REJECTED; error: -111|^ERRNO: Connection refused",
     "perftest was refused between its server's two listeners"),
    (r"^rdma_get_cm_event: Bad file descriptor\n\Z",
     "rping failed when it closed its own event channel"),
)


def pattern_of(expected):
    """The regular expression for what a document shows: "..." stands for any text, or any lines."""
    pattern = ""
    for line in expected:
        if line == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += r"[^\n]*".join(map(re.escape, line.split("..."))) + r"\n"
    return re.compile(pattern)


def without_blanks(lines):
    """The lines without those that are blank, without blanks at the end, and without tabs."""
    return [line.expandtabs().rstrip() for line in lines if line.strip()]


def difference(expected, printed):
    """How the lines that were printed differ from what the document shows, or None.

    The first line that is not there is told ("-"), and what was printed in its place ("+")."""
    expected, printed = without_blanks(expected), without_blanks(printed)
    text = "".join(line + "\n" for line in printed)
    if pattern_of(expected).fullmatch(text):
        return None
    count = len(expected)
    while not (found := pattern_of(expected[:count]).match(text)):
        count -= 1
    return (["the output is not what the document shows:"] +
            [" " + line for line in expected[max(count - 3, 0):count]] +
            ["-" + line for line in expected[count:count + 1]] +
            ["+" + line for line in text[found.end():].splitlines()[:8]])


class Run:
    """A command that was started, with all the processes of its session."""

    all = []

    def __init__(self, step, words, folder):
        self.step = step
        self.path = os.path.join(folder, f".output-{len(Run.all)}")
        Run.all.append(self)
        with open(self.path, "wb") as output:
            self.process = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=output,
                                            stderr=subprocess.STDOUT, start_new_session=True)

    def has_ended(self):
        return self.process.poll() is not None

    def output(self):
        with open(self.path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def activity(self):
        """What changes as long as the command does something: its output, and its use of the CPU."""
        ticks = [0]
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    words = file.read().rpartition(")")[2].split()
            except OSError:
                continue	# it has just ended
            if int(words[3]) == self.process.pid:
                ticks.append(int(words[11]) + int(words[12]))
        return os.path.getsize(self.path), len(ticks), sum(ticks)

    def wait(self, seconds):
        """Waits for the end. Returns the exit status, or None if there is no end."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass	# it has just ended


class Machine:
    """One of the two machines, or this one."""

    def __init__(self, name, namespace, folder):
        self.name = name
        self.enter = ["ip", "netns", "exec", namespace] if namespace else []
        self.folder = os.path.join(folder, name or "here")
        os.makedirs(self.folder, exist_ok=True)
        self.run = None

    def start(self, step):
        self.before = self.listeners()
        user = [] if step.root else NOBODY
        self.run = Run(step, self.enter + user + ["stdbuf", "-oL", "bash", "-c", step.command], self.folder)

    def listeners(self):
        """The TCP sockets that listen in the machine's namespace, by address and port."""
        words = self.enter + ["cat", "/proc/net/tcp", "/proc/net/tcp6"]
        table = subprocess.run(words, capture_output=True, text=True, check=False).stdout
        return set(re.findall(r"^ *\d+: (\S+) \S+ 0A ", table, re.M))

    def settle(self):
        """Waits until the command has ended, listens, or waits for something."""
        in_background = self.run.step.command.endswith("&")
        end = time.monotonic() + (BACKGROUND_SECONDS if in_background else LIMIT)
        activity, since = None, 0
        while time.monotonic() < end and (in_background or not self.run.has_ended()):
            if self.listeners() - self.before:
                return
            if self.run.activity() != activity:
                activity, since = self.run.activity(), time.monotonic()
            elif time.monotonic() - since > QUIET_SECONDS:
                return
            time.sleep(0.05)

    def interrupt(self, more):
        """Sends SIGINT as soon as all is printed that the document shows before that."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end and difference(self.run.step.expected, self.run.output().splitlines()):
            time.sleep(0.1)
        self.run.signal(signal.SIGINT)
        self.run.step.expected = self.run.step.expected + more


class Session:
    """The commands of one document on their machines."""

    def __init__(self, path, folder, namespaces):
        self.path = path
        self.machines = {name: Machine(name, namespaces.get(name), folder)
                         for name in ("", "server", "client")}
        self.failed = False

    def execute(self, steps):
        try:
            self.execute_all(steps)
        finally:
            for run in Run.all:
                run.signal(signal.SIGKILL)	# and what it has left in the background

    def execute_all(self, steps):
        for step, after in zip(steps, steps[1:] + [None]):
            machine = self.machines[step.machine]
            if step.interrupts:
                self.interrupt(machine, step)
                continue
            self.finish(machine)
            machine.start(step)
            goes_on = after and (after.machine != step.machine or after.interrupts)
            if goes_on or step.command.endswith("&"):
                machine.settle()
            if not goes_on or machine.run.has_ended():
                self.finish(machine)
        for machine in self.machines.values():
            self.finish(machine)

    def interrupt(self, machine, step):
        """Before a server is stopped, what runs on other machines has to end."""
        for other in self.machines.values():
            if other is not machine:
                self.finish(other)
        if machine.run:
            machine.interrupt(step.expected)
            self.finish(machine, interrupted=True)
        else:
            self.tell(step, [f"nothing runs on {machine.name or 'this machine'} any more"])

    def finish(self, machine, interrupted=False):
        """Waits for the end of a machine's command, if one runs, and judges it."""
        if not machine.run:
            return
        for attempt in range(TRIES):
            status = machine.run.wait(LIMIT)
            wrong = self.judge(machine.run, status, interrupted)
            if not wrong or attempt == TRIES - 1 or not self.again(machine):
                break
        step, output = machine.run.step, machine.run.output()
        if status is None:
            machine.run.signal(signal.SIGKILL)
            machine.run.wait(None)
        machine.run = None
        print(f"# {step}", *output.splitlines(), sep="\n# ")
        self.tell(step, wrong)

    @staticmethod
    def judge(run, status, interrupted):
        """What is wrong with a command that has ended, as lines."""
        wrong = difference(run.step.expected, run.output().splitlines()) or []
        if status is None:
            wrong.append(f"it did not end within {LIMIT:g} s")
        elif run.step.fails and not status:
            wrong.append("it did not fail")
        elif status and not (run.step.fails or interrupted):
            wrong.append(f"it failed with status {status}")
        return wrong

    def again(self, machine):
        """If a known fault of a program made it fail, starts it again, and the other end before it."""
        output = machine.run.output()
        reason = next((text for pattern, text in KNOWN_FAULTS if re.search(pattern, output, re.M)), None)
        if not reason:
            return False
        print(f"# {machine.run.step}", *output.splitlines(), f"running again: {reason}", sep="\n# ")
        for other in self.machines.values():
            if other.run and other is not machine:
                other.run.signal(signal.SIGKILL)
                other.run.wait(None)
                other.start(other.run.step)
                other.settle()
        machine.start(machine.run.step)
        return True

    def tell(self, step, wrong):
        for line in wrong:
            print("#", line)
        print("not ok" if wrong else "ok", f"{self.path}:{step.line}: {step}", flush=True)
        self.failed = self.failed or bool(wrong)


def main():
    if sys.argv[1] == "--count":
        print(sum(not step.interrupts for step in document.Document(sys.argv[2]).steps()))
        return
    path, folder = sys.argv[1:3]
    session = Session(path, folder, dict(word.split("=") for word in sys.argv[3:]))
    session.execute(document.Document(path).steps())
    sys.exit(session.failed)


if __name__ == "__main__":
    main()
