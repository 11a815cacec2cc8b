# SPDX-License-Identifier: Apache-2.0
"""Does what a page tells its reader to do, and compares what comes with what is shown.

In what is shown, a line of ``...`` stands for any lines, and ``...`` within one for any text.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.docs.page import Block, Command, commands_of
from tests.support import ROOT

__all__ = ["Reader", "is_shown"]

_DEADLINE_S = 120.0
_MARK = "@@boardprof-docs@@"
_SHOWN_WITH = "12.2.0"
"""The compiler for qemu-rv32 that the pages' counts are of; another one makes others."""

_ANY = "..."

_NOT_SHOWN = re.compile(r"note: building the |.+: ([\d,]+ of [\d,]+, about .+ left|.+ so far)$")
"""Lines that only the first run on a machine prints, or a slow one, so that no page shows them."""


_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3}(?!\d))+|\d+)(?:\.\d+)?")
"""Also two of a CSV's line are two."""


class Reader:
    """Somebody who reads a page and does it all."""

    def __init__(self, folder: Path) -> None:
        """Begin in an empty folder, with the examples and boards beside, as in the checkout.

        The reader sits at a desk, also where these tests are a CI job.
        A project of the reader's has the checkout in third_party: its tests are not theirs.
        """
        self.folder = folder
        for name in ("examples", "boards"):
            (folder / name).symlink_to(ROOT / name)
        others = folder / "third_party" / "boardprof" / "tests"
        others.mkdir(parents=True)
        (others / "test_others.py").write_text("raise AssertionError('not your tests')\n")
        self._environment = {
            **{n: text for n, text in os.environ.items() if n not in ("BOARDPROF_HISTORY", "CI")},
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "XDG_DATA_HOME": str(folder / "data"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{who}_EMAIL": "ada@example.org" for who in ("AUTHOR", "COMMITTER")},
            "NO_COLOR": "1",
            "PYTEST_ADDOPTS": "-p no:cacheprovider -p no:hypothesispytest -p no:anyio",
            # `pip install .` goes into the folder, and asks no network.
            **{f"PIP_{name}": "1" for name in ("NO_INDEX", "NO_DEPS", "DISABLE_PIP_VERSION_CHECK")},
            "PIP_NO_BUILD_ISOLATION": "0",  # in the environment, that is: no isolation
            "PIP_TARGET": str(folder / "site"),
            "PYTHONPATH": str(folder / "site"),
        }
        self._printed = ""
        self._is_exact = _SHOWN_WITH in _compiler()

    def do(self, block: Block) -> None:
        """Do what one block says.

        Raises:
            AssertionError: it fails, or comes out as it is not shown.
        """
        if block.reason is not None:
            return
        if block.file is not None:
            path = self.folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        if block.language in ("console", "sh"):
            self._run(commands_of(block))
        elif block.language == "python" and block.file is None:
            self._printed = self._python(block.text)
        elif block.language == "text":
            self._compare(block)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "c":
            self._compile(block)

    def _run(self, commands: list[Command]) -> None:
        lines = [
            "_mark() { local code=$?; printf '\\n%s %s\\n' '" + _MARK + "' $code; return $code; }"
        ]
        for command in commands:
            lines += [command.text, "_mark"]
        done = self._process(["bash", "-c", "\n".join(lines)])
        parts = re.split(rf"\n{_MARK} (\d+)\n", done.stdout)
        for i, command in enumerate(commands):
            printed, code = parts[2 * i], int(parts[2 * i + 1])
            asks = i + 1 < len(commands) and commands[i + 1].text == "echo $?"
            assert code == 0 or asks, f"$ {command.text}\nended with {code}:\n{printed}"
            if command.shown:
                self._expect(printed, command.shown, f"$ {command.text}")

    def _python(self, program: str) -> str:
        done = self._process([sys.executable, "-W", "error", "-c", program])
        assert done.returncode == 0, f"{program}\nfailed:\n{done.stdout}"
        return done.stdout

    def _compare(self, block: Block) -> None:
        assert block.follows, f"line {block.line}: what printed this text?"
        self._expect(
            self._printed, tuple(block.text.splitlines()), f"the program, line {block.line}"
        )

    def _compile(self, block: Block) -> None:
        file = self.folder / (block.file or "snippet.c")
        file.write_text(block.text, encoding="utf-8")
        include = f"-I{ROOT / 'device_runtime_c' / 'include'}"
        done = self._process(["gcc", "-std=gnu11", "-Wall", "-fsyntax-only", include, str(file)])
        assert done.returncode == 0, done.stdout

    def _expect(self, printed: str, shown: tuple[str, ...], what: str) -> None:
        lines = [line for line in printed.splitlines() if not _NOT_SHOWN.match(line)]
        is_right = is_shown(lines, shown, exactly=self._is_exact)
        assert is_right, "\n".join([what, "printed", printed, "and the page shows", *shown])

    def _process(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a program; what it has left behind ends with it."""
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                printed, _ = process.communicate(timeout=_DEADLINE_S)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return subprocess.CompletedProcess(command, process.returncode, printed)


def is_shown(
    printed: list[str] | tuple[str, ...], shown: list[str] | tuple[str, ...], *, exactly: bool
) -> bool:
    """Tell whether what was printed is what is shown; empty lines and spaces' numbers do not count.

    Args:
        printed: lines.
        shown: lines, with ``...``.
        exactly: the digits count as well.
    """
    pattern = "".join(
        r"(?:[^\n]*\n)*?" if line.strip() == _ANY else _line(line, exactly=exactly)
        for line in shown
        if line.strip()
    )
    text = "".join(f"{_plain(line, exactly=exactly)}\n" for line in printed if line.strip())
    return re.fullmatch(pattern, text) is not None


def _line(line: str, *, exactly: bool) -> str:
    plain = _plain(line, exactly=exactly)
    words = re.split(r"( ?\.\.\. ?)", plain)
    gaps = {" ... ": r" (?:[^\n]* )?"}
    texts = (gaps.get(w, r"[^\n]*") if _ANY in w else re.escape(w) for w in words)
    return "".join(texts) + "\n"


def _plain(line: str, *, exactly: bool) -> str:
    if not exactly:
        line = re.sub(_NUMBER, "0", line.replace(_ANY, "\0")).replace("\0", _ANY)
        line = line.replace(" best", "")  # another compiler may have another best
        line = re.sub(r": \S+ takes 0 (times fewer .*) than \S+\.$", r": \1", line)
    return " ".join(line.split())


def _compiler() -> str:
    try:
        command = ["riscv64-unknown-elf-gcc", "--version"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""
