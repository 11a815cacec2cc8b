# SPDX-License-Identifier: Apache-2.0
"""Nothing that a board or a file says reaches the terminal as a command to it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from boardprof.base.files import runtime_dir
from boardprof.results.report.profile import Frame
from boardprof.ui.cli.commands import cli
from boardprof_protocol.codes import FrameKind
from boardprof_protocol.messages import OWNER_BYTES
from tests.cli.command import BOARDPROF, boardprof
from tests.cli.hostile_board import HOSTILE, hostile_board, obeyed
from tests.cli.terminal import on_terminal
from tests.link.fake_agent import fake_agent
from tests.support import ROOT
from tests.unit.profiles import profile_report, small_profile

PLAIN = "Q" * len(HOSTILE.encode())
ODD, LOST = f"odd_{PLAIN}", f"lost_{PLAIN}"
"""Names in a source, which become hostile in its object."""

OWN_STYLES = re.compile("\x1b\\[([012]m|2K|1A|\\?25[lh]|[0-9;]*m)|\r")
"""What our tables and the bar say to a terminal."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sources, objects and a board with hostile strings, each as far as its language allows."""
    made = tmp_path_factory.mktemp("hostile")
    (made / "plus.c").write_text("int one(int n) { return n + 1; }\nint two(void) { return 2; }\n")
    (made / "odd.c").write_text(
        f'#warning "{HOSTILE.replace(chr(13), "")}"\nint {ODD}(int n) {{ return n; }}\n'
        f"extern int {LOST}(void);\nint loses(void) {{ return {LOST}(); }}\n"
    )
    (made / "glue.c").write_text(
        '#include "boardprof/bp_function.h"\nint one(int n) { return n; }\nBP_FUNCTION(one);\n'
    )
    include = f"-I{runtime_dir() / 'include'}"
    for name in ("odd", "glue"):
        command = ["gcc", "-g", "-w", include, "-c", f"{name}.c", "-o", f"{name}.o"]
        subprocess.run(command, cwd=made, check=True, timeout=60)
    content = (made / "odd.o").read_bytes()
    (made / "odd.o").write_bytes(content.replace(PLAIN.encode(), HOSTILE.encode()))
    shutil.copytree(ROOT / "boards" / "linux", made / "linux")
    board = (made / "linux" / "board.toml").read_text()
    written = json.dumps(HOSTILE).replace("\x7f", "\\u007f")  # TOML has JSON's escapes
    board = board.replace('summary = "', f'summary = "{written[1:-1]}')
    (made / "linux" / "board.toml").write_text(board)
    job = f'files = ["odd.c", "plus.c"]\nfunctions = ["two{written[1:-1]}", "all"]\n'
    (made / "jobs.toml").write_text(f'[[jobs]]\n{job}boards = ["native", "linux"]\n')
    return made


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[str]:
    """Of a board that calls itself linux, and whose other strings are hostile."""
    with hostile_board(folder / "plus.c", is_named=True) as found:
        yield found


@pytest.fixture(scope="module")
def history(folder: Path) -> dict[str, str]:
    file = str(folder / "history.sqlite")
    return {"BOARDPROF_HISTORY": file, "BOARDPROF_WARNINGS": "yes", "BOARDPROF_TABLE": ""}


@pytest.fixture(scope="module")
def report(folder: Path, port: str, history: dict[str, str]) -> Path:
    """The Report of a run on it, which is also the last one of the history."""
    file = folder / "report.json"
    words = ("run", "-b", "linux", "-p", port, f"two{HOSTILE}", "--json", file, "--console", "-v")
    done = boardprof(*words, environment=history)
    assert (done.code, obeyed(done.out + done.err)) == (0, "")
    assert f"  | {HOSTILE.encode('unicode_escape').decode()}\n" in done.err
    assert file.read_text().count("pwned") > 5
    return file


COMMANDS: dict[str, list[str]] = {
    "run": [
        "run -b linux -p PORT two --warnings",
        "run -b linux -p PORT two --table",
        "run -b linux -p PORT all n=3 --stats",
        "run -b DIR/linux DIR/plus.c:two -v",
        "run DIR/odd.o:all",
        "run DIR/odd.o:loses",
        "run -p BUSY two",
    ],
    "check": ["check NAME"],
    "hotspots": ["hotspots -b DIR/linux DIR/plus.c:two", "hotspots -b qemu-rv32 DIR/odd.c:two"],
    "tune": [
        "tune -b DIR/linux DIR/plus.c:two --param N=1,2 --trials 2 --minimise flash --sampler grid",
        "tune -b DIR/linux DIR/odd.c:two --param N=1,2 --trials 2 --minimise flash --sampler grid",
    ],
    "show": [
        "show REPORT --hotspots",
        "show REPORT --configuration",
        "show PROFILE --hotspots",
        "show PROFILE --lines",
        "show PROFILE --asm",
        "show REPORT --table",
        "show REPORT --stats",
        "show last --samples --one-column",
    ],
    "compare": [
        "compare REPORT last --fail-if instructions>0%",
        "compare REPORT last --markdown -",
        "compare REPORT last --junit -",
        "compare PROFILE LONGER",
        "compare PROFILE LONGER --markdown -",
    ],
    "history": ["history", "history show last", "history find last"],
    "trend": ["trend two", "trend NAME"],
    "export": [
        f"export {name} REPORT"
        for name in ("table", "json", "markdown", "html", "chrome", "speedscope", "collapsed")
    ],
    "decode": ["decode REPORT"],
    "trace": ["trace -b DIR/linux DIR/plus.c:two", "trace -p PORT -b linux --time 100ms"],
    "top": ["top -p PORT -b linux --count 1 --interval 100ms", "top -p NAMELESS --count 1"],
    "dump": ["dump -p PORT -b linux", "dump -p NAMELESS"],
    "boards": ["boards"],
    "devices": ["devices PORT", "devices NAMELESS", "devices BUSY"],
    "info": ["info -p PORT -b linux", "info -p NAMELESS", "info -p NAMELESS -b linux --json"],
    "metrics": ["metrics -p PORT", "metrics -p NAMELESS"],
    "doctor": ["doctor -b linux -p PORT", "doctor -b linux -p PORT --link --seconds 0.2"],
    "functions": ["functions DIR/odd.o", "functions DIR/odd.c -v", "functions DIR/odd.c --all"],
    "build": ["build DIR/odd.o -o DIR/odd.elf", "build -b DIR/linux -o DIR/a.elf"],
    "flash": ["flash -b linux -p PORT DIR/plus.c", "flash -b DIR/linux DIR/plus.c"],
    "agent": ["agent serve -b linux DIR/missing.c"],
    "glue": ["glue -b linux DIR/odd.o DIR/glue.o -o DIR/table.c"],
    "runtime": ["runtime path"],
    "new": ["new board NAME DIR", "new collector NAME DIR/linux"],
    "fleet": ["fleet run DIR/missing.toml", "fleet run DIR/jobs.toml", "fleet status"],
    "worker": ["worker DIR/scheduler -b linux", "worker tls://127.0.0.1:1 -b NAME"],
    "completion": ["completion bash"],
}


def test_every_command_is_among_these() -> None:
    assert list(COMMANDS) == list(cli.list_commands(cli.make_context("boardprof", ["boards"])))


@pytest.fixture(scope="module")
def nameless(folder: Path) -> Iterator[str]:
    with hostile_board(folder / "plus.c") as found:
        yield found


@pytest.fixture(scope="module")
def profiles(folder: Path) -> dict[str, str]:
    """Two Reports with a profile whose texts are hostile; the second call took longer."""
    profile = small_profile()
    hostile = replace(
        profile,
        state=f"incomplete {HOSTILE}",
        failure=HOSTILE,
        symbols=tuple(s._replace(name=f"{s.name}{HOSTILE}", file=HOSTILE) for s in profile.symbols),
        instructions=tuple(
            replace(each, text=f"add\ta0{HOSTILE}", frames=(Frame(HOSTILE, HOSTILE, 1),))
            for each in profile.instructions
        ),
        sources={HOSTILE: f"int f(void); // {HOSTILE}"},
    )
    longer = [(node, number, (7 * cost,)) for node, number, (cost,) in profile.counts]
    sums = {"total": (175,), "totals": ((175,), (0,), (84,))}
    found = {"PROFILE": hostile, "LONGER": replace(hostile, counts=tuple(longer), **sums)}
    for name, each in found.items():
        (folder / f"{name}.json").write_text(profile_report(each).json())
    return {name: str(folder / f"{name}.json") for name in found}


@pytest.fixture(scope="module")
def busy() -> Iterator[str]:
    """Of a board that another host has, of a hostile name."""
    owner = HOSTILE.encode()[:OWNER_BYTES].ljust(OWNER_BYTES, b"\0")
    with fake_agent(lambda body: [], owner, FrameKind.BUSY) as found:
        yield found


@pytest.mark.parametrize("line", [line for lines in COMMANDS.values() for line in lines])
def test_a_command_prints_nothing_that_a_terminal_obeys(
    folder: Path,
    port: str,
    nameless: str,
    busy: str,
    report: Path,
    profiles: dict[str, str],
    history: dict[str, str],
    line: str,
) -> None:
    places = profiles | {"PORT": port, "NAMELESS": nameless, "BUSY": busy, "REPORT": str(report)}
    places |= {"NAME": f"x{HOSTILE}", "DIR": str(folder)}
    words = re.sub("|".join(places), lambda found: f"\0{found[0]}\0", line).split()
    words = [re.sub("\0(.*?)\0", lambda found: places[found[1]], word) for word in words]
    done = boardprof(*words, environment=history)
    assert obeyed(done.out + done.err) == ""
    assert done.code not in (1, 70)


def test_data_for_a_program_are_as_they_are_and_printable_on_a_terminal(
    report: Path, history: dict[str, str]
) -> None:
    command = [*BOARDPROF, "show", report, "--csv"]
    printed = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60).stdout
    assert f'"two{HOSTILE}"'.encode() in printed
    code, text = on_terminal("show", report, "--csv", environment=history)
    assert (code, obeyed(text)) == (0, "")
    assert "two\\x1b]0;pwned\\x07\\x1b[2J" in text


@pytest.mark.parametrize("name", ["callgrind", "collapsed", "pprof", "speedscope"])
def test_a_profile_for_a_program_is_printable_on_a_terminal(
    profiles: dict[str, str], history: dict[str, str], name: str
) -> None:
    code, text = on_terminal("export", name, profiles["PROFILE"], environment=history)
    assert (code, obeyed(text)) == (0, "")
    assert len(text) > 100


@pytest.mark.parametrize(
    "words", [["info"], ["metrics"], ["run", "all", "n=3", "--repeat", "3000"]]
)
def test_a_terminal_gets_our_own_styles_alone(
    port: str, words: list[str], history: dict[str, str]
) -> None:
    environment = {**history, "TERM": "xterm"}
    where = ("-b", "linux", "-p", port)
    code, text = on_terminal(*words, *where, environment=environment, both=True)
    assert code in (0, 2, 4)  # 4: `info` refuses a unit of the trace clock that does not exist
    assert "pwned" in text
    assert obeyed(OWN_STYLES.sub("", text)) == ""
