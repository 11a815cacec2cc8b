# SPDX-License-Identifier: Apache-2.0
"""Finds phrases in the documentation that are hard to read, and suggests a plainer form.

Run from the repository: ``python scripts/english.py``. It prints one line for each phrase, and ends
with 1 if there is any. It reads prose only: no code and no HTML comments.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PATHS", "findings", "main"]

PATHS = ("README.md", "CONTRIBUTING.md", "docs/*.md")
"""Patterns of the files to check, relative to the repository."""

_GENERATED = "docs/reference-*.md"
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
_NOT_PROSE = (
    re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"`[^`\n]*`"),
)


def main() -> int:
    """Print what is found in all files; return the exit status."""
    generated = set(_ROOT.glob(_GENERATED))
    files = [path for pattern in PATHS for path in sorted(_ROOT.glob(pattern))]
    found = [
        f"{path.relative_to(_ROOT).as_posix()}:{line}: {phrase!r}. Try: {better}."
        for path in files
        if path not in generated
        for line, phrase, better in findings(path.read_text(encoding="utf-8"))
    ]
    print("\n".join(found), end="\n" * bool(found), file=sys.stderr)
    return 1 if found else 0


def findings(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, phrase and suggestion for each hard phrase in the prose of a Markdown page."""
    for pattern in _NOT_PROSE:
        text = pattern.sub(_blank, text)
    found = [(m, better) for p, better in _PATTERNS.items() for m in p.finditer(text) if m[1]]
    for match, better in sorted(found, key=lambda each: each[0].start(1)):
        yield text.count("\n", 0, match.start(1)) + 1, " ".join(match[1].split()), better


def _blank(match: re.Match[str]) -> str:
    """Return as many characters and lines, so that line numbers stay right."""
    return re.sub(".", "~", match[0])


if __name__ == "__main__":
    sys.exit(main())
