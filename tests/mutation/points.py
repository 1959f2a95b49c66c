# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
"""Finds the places of the kernel's C code that can be broken, and says how.

The code is cut into tokens, and the bodies of its functions are read statement by statement, as a
compiler reads them. So no place lies in a comment, a string, a preprocessor line, the declaration
of a type or a static assertion. A mutant that makes no sense does not compile, and is drawn anew.
"""

import bisect
import collections
import glob
import hashlib
import os
import re

KINDS = ("off-by-one", "dropped check", "swapped branch", "missing release", "changed constant",
         "removed statement")

# What only older kernels, tests and tracing need.
LEFT_OUT = re.compile(r"kernel/(compat/|trace\.|pause\.)")

# What only checks, reports or hints: a program that works does not notice whether it is there.
NO_EFFECT = re.compile(
    r"lockdep_|static_assert$|BUILD_BUG|WARN_ON|WARN_ONCE|trace_|might_sleep|prefetch|cond_resched$"
    r"|(?:pr|dev|netdev|ibdev)_(?:err|warn|notice|info|dbg)|net_\w*ratelimited|NL_SET_"
    r"|xiw_pause$|xiw_fails$|\w*assert\w*$|xiw_qp_check_locked$|unreachable$")

# Calls that give something back, let somebody go on, or order memory.
RELEASE = re.compile(
    r"(?:^|_)(?:put|unlock\w*|release|free|kfree|kvfree|vfree|destroy|complete|wake|cancel|flush"
    r"|sync|del|delete|deref|dec|drop|leave|end|detach|unpin|unmap|vunmap|mb|wmb|rmb|barrier|abort"
    r"|unref|uncharge|erase|remove|unregister|unaccount|unbind|stop|disarm|unwatch|shutdown|close"
    r"|up)"
    r"(?:_|[0-9]|$)")

TOKEN = re.compile(r"""
    (?P<skip>   \s+ | //[^\n]* | /\*.*?\*/ | ^[ \t]*\#(?:\\\n|[^\n])* )
  | (?P<text>   "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' )
  | (?P<number> (?:0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*\b )
  | (?P<name>   [A-Za-z_]\w* )
  | (?P<mark>   <<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|. )
""", re.VERBOSE | re.DOTALL | re.MULTILINE)

Token = collections.namedtuple("Token", "kind text start end")
Mutant = collections.namedtuple("Mutant", "file line function kind start end new")

LOOPS = ("for", "while", "switch")
JUMPS = ("return", "goto", "break", "continue")
TYPES = ("struct", "union", "enum", "const", "static", "unsigned", "signed", "int", "long", "char",
         "void", "bool", "u8", "u16", "u32", "u64", "s32", "s64", "size_t", "typeof", "__be32")
EDGES = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
PAIRS = {"(": ")", "[": "]", "{": "}"}


def tokens_of(text):
    """The tokens of a file, without comments and preprocessor lines."""
    return [Token(match.lastgroup, match.group(), match.start(), match.end())
            for match in TOKEN.finditer(text) if match.lastgroup != "skip"]


class Source:
    """One file, and the mutants that it can have."""

    def __init__(self, name, text):
        self.name, self.text, self.tokens = name, text, tokens_of(text)
        self.lines = [match.start() for match in re.finditer("^", text, re.MULTILINE)]
        self.mutants, self.function = [], ""
        at = 0
        while at < len(self.tokens):
            if self.begins_body(at):
                self.function = self.name_before(at)
                self.statement(at)
                at = self.closing(at)
            at += 1

    def begins_body(self, at):
        """A function's brace stands alone in column 0, behind the parenthesis of its parameters."""
        token = self.tokens[at]
        return (token.text == "{" and self.text[token.start - 1:token.end + 1] == "\n{\n" and
                at > 0 and self.tokens[at - 1].text == ")")

    def name_before(self, at):
        """The name of the function whose body begins at this token."""
        depth = 0
        for index in range(at - 1, 0, -1):
            depth += {")": 1, "(": -1}.get(self.tokens[index].text, 0)
            if depth == 0:
                return self.tokens[index - 1].text
        return ""

    def closing(self, at):
        """The index of the bracket that closes the one at this index."""
        depth = 0
        for index in range(at, len(self.tokens)):
            depth += self.tokens[index].text in PAIRS
            depth -= self.tokens[index].text in PAIRS.values()
            if depth == 0:
                return index
        raise ValueError(f"{self.name}: a bracket is not closed in {self.function}()")

    def add(self, kind, first, last, new):
        """A mutant in which new stands for the tokens from first to last. Lines keep their numbers,
        because some macros compile them in."""
        start, end = self.tokens[first].start, self.tokens[last].end
        new += "\n" * (self.text.count("\n", start, end) - new.count("\n"))
        self.mutants.append(Mutant(self.name, bisect.bisect_right(self.lines, start), self.function,
                                   kind, start, end, new))

    def between(self, first, last):
        """The text from one token to another."""
        return self.text[self.tokens[first].start:self.tokens[last].end]

    def statement(self, at):
        """Reads the statement at this index. Returns the index behind it."""
        token, after = self.tokens[at], self.tokens[at + 1].text
        if token.text == "{":
            end, at = self.closing(at), at + 1
            while at < end:
                at = self.statement(at)
            return end + 1
        if token.text == "if":
            return self.branch(at)
        if token.text == "do":
            at = self.statement(at + 1)			# now at the "while"
            end = self.closing(at + 1)
            self.expression(at + 2, end - 1)
            return end + 2
        if token.text in ("case", "default") or (token.kind == "name" and after == ":"):
            while self.tokens[at].text != ":":
                at += 1
            return at + 1
        if token.kind == "name" and after == "(" and token.text not in JUMPS:
            end = self.closing(at + 1)
            behind = self.tokens[end + 1]
            if token.text in LOOPS or behind.text == "{" or (
                    behind.kind == "name" and not behind.text.startswith("__")):
                self.expression(at + 2, end - 1)	# a loop, perhaps a macro
                return self.statement(end + 1)
        return self.simple(at)

    def branch(self, at):
        """Reads an if statement."""
        close = self.closing(at + 1)
        end = self.statement(close + 1)
        alone = self.tokens[end].text != "else"
        if not alone:
            end = self.statement(end + 1)
        if not any(NO_EFFECT.match(token.text) for token in self.tokens[at + 2:close]):
            self.expression(at + 2, close - 1)
            condition = self.between(at + 2, close - 1)
            self.add("swapped branch", at + 2, close - 1, f"!({condition})")
            if alone and self.ends_in_jump(close + 1, end - 1):
                self.add("dropped check", close + 1, end - 1, "{ }")
        return end

    def ends_in_jump(self, first, last):
        """Whether the last thing that these statements do is a jump."""
        last -= self.tokens[last].text == "}"
        begin = max(index for index in range(first - 1, last)
                    if index < first or self.tokens[index].text in ";{}") + 1
        return self.tokens[begin].text in JUMPS

    def simple(self, at):
        """Reads a statement that ends with a semicolon."""
        end = at
        while self.tokens[end].text != ";":
            end = self.closing(end) + 1 if self.tokens[end].text in PAIRS else end + 1
        words = self.tokens[at:end]
        if not words or any(NO_EFFECT.match(token.text) for token in words):
            return end + 1
        self.expression(at, end - 1)
        if words[0].text in JUMPS or self.declares(words):
            return end + 1
        call = words[0].kind == "name" and len(words) > 1 and words[1].text == "("
        released = call and RELEASE.search(words[0].text)
        self.add("missing release" if released else "removed statement", at, end, ";")
        return end + 1

    @staticmethod
    def declares(words):
        """Whether these tokens declare a variable."""
        if words[0].text in TYPES or words[0].kind != "name" or len(words) < 2:
            return words[0].text in TYPES
        return words[1].kind == "name" or (words[1].text == "*" and words[-1].text != ")")

    def expression(self, first, last):
        """Mutants of comparisons and numbers."""
        at = first
        while at <= last:
            kind, text = self.tokens[at].kind, self.tokens[at].text
            before = self.tokens[at - 1]
            operand = before.kind in ("name", "number") or before.text in (")", "]")
            if kind == "mark" and text in EDGES and operand:
                self.add("off-by-one", at, at, EDGES[text])
            elif text in ("+", "-") and operand and self.is_one(at + 1):
                self.add("off-by-one", at, at + 1, "")
                at += 1
            elif kind == "number":
                self.add("changed constant", at, at, f"{int(text.rstrip('uUlL'), 0) + 1}")
            elif text in ("true", "false"):
                self.add("changed constant", at, at, "false" if text == "true" else "true")
            at += 1

    def is_one(self, at):
        """Whether this token is a 1 that is added or subtracted as a whole."""
        return (self.tokens[at].text in ("1", "1U") and
                self.tokens[at + 1].text not in ("*", "<<", "%", "/"))


def apply(text, mutant):
    """The text of the mutant's file with the mutant in it."""
    return text[:mutant.start] + mutant.new + text[mutant.end:]


def files_of(tree):
    """The files of kernel/ that mutants are made of: their names and texts."""
    for path in sorted(glob.glob(os.path.join(tree, "kernel/**/*.[ch]"), recursive=True)):
        name = os.path.relpath(path, tree)
        if not LEFT_OUT.match(name):
            with open(path, encoding="utf-8") as file:
                yield name, file.read()


def version_of(tree):
    """A hash of these files."""
    digest = hashlib.sha256()
    for name, text in files_of(tree):
        digest.update(f"{name}\0{text}".encode())
    return digest.hexdigest()[:12]


def mutants_of(tree):
    """All mutants of kernel/, in the order of their places."""
    return [mutant for name, text in files_of(tree) for mutant in Source(name, text).mutants]


def draw(mutants, random):
    """Puts the mutants into a random order, in which each kind is equally frequent."""
    heaps = [[mutant for mutant in mutants if mutant.kind == kind] for kind in KINDS]
    for heap in heaps:
        random.shuffle(heap)
    order = []
    while any(heaps):
        order.append(random.choice([heap for heap in heaps if heap]).pop())
    return order
