# SPDX-License-Identifier: Apache-2.0
"""Finds phrases that are hard to read, and suggests a plainer form.

Run from the repository: ``python scripts/english.py``. It prints one line for each phrase, and ends
with 1 if there is any. It reads prose only: pages without code and HTML comments, docstrings,
comments and texts of Python, and comments of C.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

__all__ = ["PATHS", "findings", "main", "prose_of_c", "prose_of_python"]

_FOLDERS = ("host", "protocol", "scripts", "device_runtime_c", "boards", "benchmarks", "examples")
PATHS = (
    *("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "docs/*.md"),
    *(f"{folder}/**/*.{suffix}" for folder in _FOLDERS for suffix in ("md", "py", "c", "h", "S")),
)
"""Patterns of the files to check, relative to the repository."""

_LEFT_OUT = ("scripts/english.py",)
"""The list of phrases."""

_ROOT = Path(__file__).resolve().parents[1]

_PLAIN = r"there (?:is|are) no|(?:is|are) no (?:longer|more|less|\w+er than)|(?:is|are) told to"
_PLAIN += r"|so many \w+ that"
_PHRASES = {
    r"\b(?:is|are) no [a-z]\w*": '"is not a", "has no" or "cannot"',
    r": (?-i:none)": '"None", "has no" or "if absent"',
    r"\bof which": '"whose", or two sentences',
    r"\bthat which": '"what", or the noun',
    r"\bstands? (?:behind|before|against)": '"comes after", "overrides" or "contradicts"',
    r"\bcomes? about": '"is computed" or "happens"',
    r"\b(?:is|are) told": '"prints", "reports" or "is shown"',
    r"\bso many": 'the number: "at most N", "as many as"',
}
_GAP = r"(?:[ \t]+|[ \t]*\n[ \t]*)"  # a phrase may continue on the next line
_PATTERNS = {
    # Plain English is matched first, without the group, and is passed over.
    re.compile(rf"\b(?:{_PLAIN})\b|({phrase}\b)".replace(" ", _GAP), re.IGNORECASE): better
    for phrase, better in _PHRASES.items()
}
_IN_C = re.compile(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
_MARKS = re.compile(r"""^\w?["']+|["']+$|^#+|/\*|\*/|//|\n[ \t]*\*""")
"""Quotes and signs of comments; at the beginning of a line a phrase may continue after them."""

_NOT_PROSE = (
    re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"``[^`\n]*``|`[^`\n]*`"),
)


def main() -> int:
    """Print what is found in all files; return the exit status."""
    left_out = {path for pattern in _LEFT_OUT for path in _ROOT.glob(pattern)}
    files = [path for pattern in PATHS for path in sorted(_ROOT.glob(pattern))]
    found = [
        f"{path.relative_to(_ROOT).as_posix()}:{line}: {phrase!r}. Try: {better}."
        for path in files
        if path not in left_out
        for line, phrase, better in findings(_prose(path))
    ]
    print("\n".join(found), end="\n" * bool(found), file=sys.stderr)
    return 1 if found else 0


def _prose(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    return prose_of_python(text) if path.suffix == ".py" else prose_of_c(text)


def prose_of_python(source: str) -> str:
    """Return a module with its docstrings, comments and texts, and ``~`` for all else."""
    begins = [*accumulate(map(len, io.StringIO(source)), initial=0)]
    spans = [
        (begins[token.start[0] - 1] + token.start[1], begins[token.end[0] - 1] + token.end[1])
        for token in _texts(source)
    ]
    return _only(source, spans)


def _texts(source: str) -> Iterator[tokenize.TokenInfo]:
    """Yield comments and strings; Python 3.12 and later have several tokens for an f-string."""
    begins: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "FSTRING_START":
            begins.append(token)
        elif kind == "FSTRING_END":
            begin = begins.pop()
            token = token._replace(start=begin.start)
            kind = "STRING"
        if kind in ("COMMENT", "STRING") and not begins:
            yield token


def prose_of_c(source: str) -> str:
    """Return a C file with its comments, and ``~`` for all else."""
    return _only(source, [found.span() for found in _IN_C.finditer(source) if found[0][0] == "/"])


def _only(source: str, spans: Sequence[tuple[int, int]]) -> str:
    kept, at = [], 0
    for begin, end in spans:
        kept += [re.sub(r"\S", "~", source[at:begin])]
        kept += [_MARKS.sub(_spaces, source[begin:end])]
        at = end
    return "".join([*kept, re.sub(r"\S", "~", source[at:])])


def findings(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, phrase and suggestion for each hard phrase in prose, such as a Markdown page."""
    for pattern in _NOT_PROSE:
        text = pattern.sub(_blank, text)
    found = [(m, better) for p, better in _PATTERNS.items() for m in p.finditer(text) if m[1]]
    for match, better in sorted(found, key=lambda each: each[0].start(1)):
        yield text.count("\n", 0, match.start(1)) + 1, " ".join(match[1].split()), better


def _blank(match: re.Match[str]) -> str:
    """Return as many characters and lines, so that line numbers stay right."""
    return re.sub(".", "~", match[0])


def _spaces(match: re.Match[str]) -> str:
    return re.sub(".", " ", match[0])


if __name__ == "__main__":
    sys.exit(main())
