# SPDX-License-Identifier: Apache-2.0
"""Just enough Markdown for the checks: fenced blocks, headings, links."""

import re
from dataclasses import dataclass

FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})[ \t]*([^`\n]*)$")
HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$")
LINKS = [
    re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)"),
    re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)"),
    re.compile(r"(?:href|src)=\"([^\"]+)\""),
]


@dataclass
class Block:
    info: list  # the words behind the fence
    text: str
    line: int  # of the opening fence, from 1
    end: int  # of the closing one


@dataclass
class Document:
    blocks: list
    prose: list  # (line number, text) outside fenced blocks, code spans blanked
    unclosed: int  # line of a fence that is never closed, 0 if none

    def anchors(self):
        """What GitHub makes of the headings, and ids given in HTML."""
        found = set()
        for _, line in self.prose:
            found |= set(re.findall(r"(?:id|name)=\"([^\"]+)\"", line))
            if heading := HEADING.match(line):
                slug = re.sub(r"[^\w\- ]", "", heading[1].strip().lower()).replace(" ", "-")
                n, unique = 0, slug
                while unique in found:
                    n += 1
                    unique = f"{slug}-{n}"
                found.add(unique)
        return found

    def links(self):
        """(line number, target)."""
        for number, line in self.prose:
            bare = re.sub(r"`[^`]*`", "", line)
            for pattern in LINKS:
                for found in pattern.finditer(bare):
                    yield number, found[1]


def parse(text):
    blocks, prose, opened, body = [], [], None, []
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None:
            if fence:
                opened, body = (fence[2], fence[3].split(), number, len(fence[1])), []
            else:
                prose.append((number, line))
        elif fence and not fence[3].strip() and fence[2].startswith(opened[0]):
            blocks.append(Block(opened[1], "".join(l + "\n" for l in body), opened[2], number))
            opened = None
        else:
            body.append(line[min(opened[3], len(line) - len(line.lstrip(" "))):])
    return Document(blocks, prose, opened[2] if opened else 0)
