# SPDX-License-Identifier: Apache-2.0
"""The conformance table: groups of tests down, back ends across, made from the very results that are counted.

A test of the conformance suite is called `BACK END: GROUP: NAME`. What was not run is below the table with its reason, and so
is why tests were skipped, mostly a capability that the back end lacks: no hole in it is silent."""

import re
from collections import Counter
from pathlib import Path

from tap import FAIL, PASS, SKIP

TEST = re.compile(r"^([\w ,:.-]+?): (\w+): (\w+)$")
LEFT_OUT = re.compile(r"^# ([\w ,:.-]+?): left out: (.*)$")
NO_PROMISE = re.compile(r"^the back end does not promise (\S+)$")
WIDTH = 150


class Table:
    """What came of each group on each back end."""

    def __init__(self):
        self.counts = {}  # (back end, group) -> Counter of PASS, FAIL, SKIP
        self.reasons = {}  # (back end, group) -> Counter of reasons of skips
        self.backends, self.left_out = [], {}

    def take(self, program):
        """The results of a program; False when it is none of the conformance suite."""
        if not any(Path(word).name == "conformance" for word in map(str, program.command)):
            return False
        for r in program.results:
            if found := TEST.match(r.name):
                self.add(found[1], found[2], r)
            elif r.status != PASS:  # all of it was skipped, or it ended early: what did not run is no success
                label = label_of(program)
                self.left_out[f"the rest of {label}" if label in self.backends else label] = r.reason or "; ".join(r.detail[:1])
        for line in program.notes:
            if found := LEFT_OUT.match(line):
                self.left_out.setdefault(found[1], found[2])
        return True

    def add(self, backend, group, result):
        if backend not in self.backends:
            self.backends.append(backend)
        key = backend, group
        self.counts.setdefault(key, Counter())[result.status] += 1
        if result.status == SKIP:
            promise = NO_PROMISE.match(result.reason)
            self.reasons.setdefault(key, Counter())[f"lacks {promise[1]}" if promise else result.reason] += 1

    def groups(self):
        return sorted({group for _, group in self.counts})

    def marks(self):
        """A letter for each reason of a skip, the most frequent first."""
        total = sum(self.reasons.values(), Counter())
        return {why: letter(i) for i, (why, _) in enumerate(sorted(total.items(), key=lambda item: (-item[1], item[0])))}

    def field(self, backend, group, name_of_reason):
        counts = self.counts.get((backend, group))
        if not counts:
            return "not run"
        said = [str(counts[PASS])]
        if counts[FAIL]:
            said.append(f"{counts[FAIL]} FAILED")
        if counts[SKIP]:
            said.append(f"{counts[SKIP]}-{','.join(sorted(name_of_reason[why] for why in self.reasons[backend, group]))}")
        return " ".join(said)

    def missing(self):
        """What was nowhere run, and why."""
        return {name: why for name, why in self.left_out.items() if name not in self.backends}

    def missing_by_reason(self):
        """The same, those of one reason together."""
        together = {}
        for name, why in self.missing().items():
            together.setdefault(why, []).append(name)
        return {", ".join(names): why for why, names in together.items()}

    def lines(self):
        """For a terminal: as many tables below each other as it takes."""
        marks, groups = self.marks(), self.groups()
        first = max((len(g) for g in groups), default=0) + 1
        out, rest = ["", "Conformance: tests passed; n-x: n more skipped, why is below at x"], list(self.backends)
        while rest:
            columns = []
            while rest:
                fields = [self.field(rest[0], g, marks) for g in groups] + [self.sum_of(rest[0])]
                words = wrapped(rest[0])
                width = max(map(len, [*fields, *words])) + 2
                if columns and first + sum(w for w, _, _ in columns) + width > WIDTH:
                    break
                columns.append((width, words, fields))
                rest.pop(0)
            height = max(len(words) for _, words, _ in columns)
            for i in range(height):
                out.append(" " * first + "".join(f"{w[i] if i < len(w) else '':>{width}}" for width, w, _ in columns))
            for i, name in enumerate([*groups, "all"]):
                out.append(f"{name:<{first}}" + "".join(f"{fields[i]:>{width}}" for width, _, fields in columns))
            out.append("")
        out += [f"  {mark}: {why}" for why, mark in marks.items()]
        out += [f"  not run: {name}: {why}" for name, why in self.missing_by_reason().items()]
        return out

    def sum_of(self, backend):
        total = sum((c for (b, _), c in self.counts.items() if b == backend), Counter())
        return f"{total[PASS]}/{total[FAIL]}/{total[SKIP]}"

    def markdown(self):
        marks = self.marks()
        out = ["# Conformance", "", "Tests passed; `n-x`: n more skipped, why is below at x. The last line: passed/failed/skipped.", "",
            "| group | " + " | ".join(self.backends) + " |", "|---" * (1 + len(self.backends)) + "|"]
        out += [f"| {g} | " + " | ".join(self.field(b, g, marks) for b in self.backends) + " |" for g in self.groups()]
        out += ["| all | " + " | ".join(map(self.sum_of, self.backends)) + " |", "", "| skipped | why |", "|---|---|"]
        out += [f"| {mark} | {why} |" for why, mark in marks.items()]
        if self.missing():
            out += ["", "| not run | why |", "|---|---|", *(f"| {name} | {why} |" for name, why in self.missing_by_reason().items())]
        return "\n".join(out) + "\n"


def label_of(program):
    """What its back end is called, as it was told."""
    words = list(map(str, program.command))
    for option in ("--label", "--backend"):
        if option in words[:-1]:
            return words[words.index(option) + 1]
    return program.name


def letter(i):
    return chr(ord("a") + i) if i < 26 else letter(i // 26 - 1) + letter(i % 26)


def wrapped(name, width=9):
    """The words of a heading, below each other."""
    lines = []
    for word in name.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines
