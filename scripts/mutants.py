# SPDX-License-Identifier: Apache-2.0
"""Change the code in hundreds of places, one at a time, and check that a test fails each time.

Run from the repository: ``python scripts/mutants.py`` (`make mutants`). Each change (a mutant) is
made in a copy of the checkout below ``build/mutants``. Tests judge it in stages: first the one that
killed it before the tests changed, then the closest, then more. Verdicts are kept there: a run that
was interrupted continues. Exit code: 1 if a mutant survives that was killed in the file of
``--against``, 2 if the tests cannot run, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.mutants_c import c_mutants
from scripts.mutants_python import EQUIVALENT, ROOMS, Mutant, chosen, python_mutants

__all__ = ["Copy", "Judge", "MutantsError", "listed", "lost", "made_copies", "main", "stages"]
__all__ += ["table"]

ROOT = Path(__file__).resolve().parents[1]
_CLOSEST = {  # files of the first stage, by room
    "decode": "unit/decode unit/schemas unit/clock unit/correlate unit/assemble unit/selection"
    " protocol/vectors link/dictionary",
    "report": "unit/report unit/report_columns unit/assemble unit/assemble_outputs unit/history"
    " unit/stats_groups unit/render_json unit/render_table unit/render_aggregate unit/comparison"
    " cli/decode",
    "link": "unit/line unit/codec unit/requests unit/transfer unit/console unit/refusal unit/passes"
    " unit/correlate link/answers link/odd_replies link/overdue link/bad_lines link/locks"
    " link/memory",
    "board": "unit/passes unit/rounds unit/stack_check unit/board_counts unit/torch_profile"
    " link/board link/memory link/guard link/dictionary link/arrays link/hostile_probes"
    " link/stored_constants cli/hotspots cli/trace",
    "measure": "unit/passes unit/rounds unit/selection unit/slots unit/correlate"
    " link/board link/arrays link/stored_constants link/memory link/clock",
    "arguments": "unit/argument_text unit/array_argument unit/signature unit/struct_dtype"
    " unit/struct_text unit/struct_value unit/dwarf_structs protocol/vectors link/arrays",
    "comparison": "unit/comparison unit/comparison_render unit/rules unit/trend unit/events"
    " unit/geometric_mean unit/profile_difference",
    "agent": "protocol/agent_arena protocol/agent_calls protocol/agent_channel protocol/frame"
    " protocol/agent_guard protocol/agent_measure protocol/agent_select protocol/agent_session"
    " protocol/agent_span protocol/agent_stack protocol/agent_windows protocol/c_vectors"
    " protocol/agent_pointers protocol/agent_probes protocol/agent_sampling protocol/agent_tasks"
    " protocol/agent_interrupts protocol/probe_cores protocol/cortex_m_collectors"
    " protocol/esp32c3_collector",
}

_WIDER = ("tests/unit", "tests/link", "tests/protocol", "tests/simulation/test_simulation.py")
_LEFT_OUT = (  # emulators, cross compilers, and what takes minutes
    "qemu or avr or ibex or rv32 or (esp32 and not esp32c3_collector) or"
    " (cortex and not cortex_m_collectors) or a53 or stm32 or mps2 or mps3 or microbit or"
    " soak or fuzz_agent or c_targets or test_build or test_glue or test_size or stack_depth or"
    " test_simulator or test_startup or many_boards"
)
_NATIVE = ("-m", "not slow and not nightly", "-k", f"not ({_LEFT_OUT})")
# Compilers' results by content. The other caches hold what a mutant may have computed.
_KEPT_CACHES = {"compilers", "headers", "libc", "libraries", "linkers", "objects", "units"}
_NOT_COPIED = ("__pycache__", ".*_cache")
_NOT_COPIED_AT_TOP = (".git", ".venv", "build", "dist", ".hypothesis")  # target/build is a package
Row = dict[str, Any]  # a verdict: identity, key, room, verdict, by (a test), stage, change


class MutantsError(Exception):
    """The tool cannot judge mutants here."""


def stages(tree: Path, room: str, module: str) -> list[tuple[str, ...]]:
    """Return pytest's arguments for each stage: a mutant that survives one goes to the next.

    The first stage has the unit tests that import the module, or the agent's tests that are named
    after a C file. The second adds those of its room.
    """
    files = [f"tests/{word.replace('/', '/test_')}.py" for word in _CLOSEST[room].split()]
    place = ROOMS.get(room, room).replace("/", ".") + module.removeprefix(room)
    importing = re.compile(rf"\bboardprof\.{re.escape(place)}\b")
    two = ("-n", "2", "--dist", "loadscope", *_NATIVE)
    found = [(*files, *_NATIVE), (*_WIDER, *two), ("tests/cli", *two)]
    if (source := Path(module)).suffix == ".c":
        near = sorted(
            (tree / "tests/protocol").glob(f"test_*{source.stem.removeprefix('bp_')}*.py")
        )
    else:
        tests = sorted((tree / "tests" / "unit").glob("test_*.py"))
        near = [test for test in tests if importing.search(test.read_text(encoding="utf-8"))]
    names = [test.relative_to(tree).as_posix() for test in near]
    return [(*names, *_NATIVE), *found] if names else found


@dataclass(frozen=True)
class Copy:
    """A folder with a copy of the checkout (``tree``), its own cache and temporary files."""

    folder: Path
    tree: Path
    python: Path

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST"))}
        return kept | {
            "PYTHONPATH": f"{self.tree / 'host'}{os.pathsep}{self.tree / 'protocol'}",
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "TMPDIR": str(self.folder / "tmp"),
            "GIT_CEILING_DIRECTORIES": str(self.folder),  # not the repository around build
            "MUTANTS_COPY": str(self.folder),
        }

    def write(self, path: str, content: bytes) -> None:
        """Put a source file into the copy; old byte code of the same second would hide it."""
        file = self.tree / path
        file.write_bytes(content)
        for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            compiled.unlink()

    def test(self, arguments: Sequence[str], timeout_s: float) -> int | None:
        """Run pytest in the copy; return its exit code, None after ``timeout_s``."""
        caches = (self.folder / "cache", self.tree / "build" / "tests" / "agents")
        kept = [old for cache in caches for old in (cache / "boardprof").glob("*")]
        for old in [self.tree / ".hypothesis", *kept]:
            if old.name not in _KEPT_CACHES:
                shutil.rmtree(old, ignore_errors=True)
        options = ["-q", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
        return self.run(["-m", "pytest", *options, *arguments], timeout_s)

    def run(self, arguments: Sequence[str], timeout_s: float) -> int | None:
        """Run Python in the copy; return its exit code, None after ``timeout_s``."""
        shutil.rmtree(self.folder / "tmp", ignore_errors=True)
        (self.folder / "tmp").mkdir()
        with (self.folder / "output.txt").open("wb") as output, subprocess.Popen(
            [self.python, *arguments], cwd=self.tree, env=self._environment(), stdout=output,
            stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True,
        ) as process:  # fmt: skip
            try:
                return process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return None
            finally:
                self.end()

    def end(self) -> None:
        """Kill what still runs in this copy: agents and emulators have groups of their own."""
        mark = f"MUTANTS_COPY={self.folder}\0".encode()
        for _ in range(250):  # until they are gone, with what they forked meanwhile
            found = False
            for file in Path("/proc").glob("[0-9]*/environ"):
                with suppress(OSError):
                    if mark in file.read_bytes():
                        found = True
                        os.kill(int(file.parent.name), signal.SIGKILL)
            if not found:
                break
            time.sleep(0.02)

    def output(self) -> str:
        """Return what the last run printed."""
        return (self.folder / "output.txt").read_text(encoding="utf-8", errors="replace")

    def failed(self) -> list[str]:
        """Return the tests that failed in the last run."""
        return re.findall(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", self.output(), re.MULTILINE)


def made_copies(tree: Path, work: Path, python: Path, jobs: int) -> list[Copy]:
    """Copy a checkout to ``jobs`` folders below ``work``, and check that they are imported."""
    copies = [Copy(work / str(job), work / str(job) / "tree", python) for job in range(jobs)]
    for copy in copies:
        shutil.rmtree(copy.folder, ignore_errors=True)
        shutil.copytree(tree, copy.tree, symlinks=True, ignore=_left_out)
        if (support := copy.tree / "tests" / "support.py").is_file():
            content = support.read_bytes()  # warnings of gcc are not a test's verdict
            support.write_bytes(content.replace(b'    "-Werror",\n', b""))
        code = "import boardprof as a, boardprof_protocol as b; print(a.__file__, b.__file__)"
        if copy.run(["-c", code], 60.0) or copy.output().count(f"{copy.tree}/") != 2:
            raise MutantsError(f"{python} does not import {copy.tree}:\n{copy.output()}")
        tree = copy.tree  # all are alike, even if the checkout changes meanwhile
    return copies


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Return what a copy of the checkout does not need of a folder."""
    at_top = _NOT_COPIED_AT_TOP if "pyproject.toml" in names else ()
    return shutil.ignore_patterns(*_NOT_COPIED, *at_top)(folder, names)


def _hash(tree: Path, *folders: str) -> str:
    """Return a hash of all sources below some folders."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in (tree / folder).rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            digest.update(f"{path.relative_to(tree)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


class Judge:
    """Lets the tests judge mutants, in one copy of the checkout for each job."""

    def __init__(self, copies: Sequence[Copy], work: Path) -> None:
        """Take all copies as idle, and what earlier runs found from ``work``."""
        self._copies, self._idle, self._work = copies, list(copies), work
        self._lock, self._file = threading.Lock(), work / "verdicts.jsonl"
        self._tests = _hash(copies[0].tree, "tests")
        self._state = _hash(copies[0].tree, "host", "protocol", "device_runtime_c", "tests")
        self._known: dict[str, Row] = {}
        for line in self._file.read_text("utf-8").splitlines() if self._file.is_file() else []:
            with suppress(ValueError):  # it may be cut off
                self._known[json.loads(line)["key"]] = json.loads(line)
        self._killers: dict[str, str] = {
            row["identity"]: row["by"]
            for key, row in self._known.items()
            if self._tests not in key and (copies[0].tree / row["by"].partition("::")[0]).is_file()
        }

    def verdicts(self, mutants: Iterable[Mutant]) -> Iterator[Row]:
        """Yield the verdicts as they come; end all that runs if the caller is interrupted.

        Each stage judges what is left of all mutants: most are killed by the closest tests, so
        that a run that is cut short has judged most of them.
        """
        left = list(mutants)
        with ThreadPoolExecutor(len(self._copies)) as pool:
            try:
                for number in itertools.count(1):
                    futures = {pool.submit(self._judge, mutant, number): mutant for mutant in left}
                    left = []
                    for future in as_completed(futures):
                        row = self._kept(future.result())
                        if row["verdict"] == "left":
                            left.append(futures[future])
                        elif row["verdict"] == "survived" and row["identity"] in EQUIVALENT:
                            yield row | {"verdict": "equivalent"}
                        else:
                            yield row
                    if not left:
                        return
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                for copy in self._copies:
                    copy.end()

    def _kept(self, row: Row) -> Row:
        """Write down a verdict unless an earlier run has."""
        if row["key"] not in self._known:
            with self._file.open("a", encoding="utf-8") as file:
                print(f"\n{json.dumps(row)}", end="", file=file)
            if row["verdict"] == "left":
                print(f"left for stage {row['stage'] + 1}: {row['identity']}", flush=True)
        return row

    def _stages(self, mutant: Mutant, copy: Copy) -> list[tuple[str, ...]]:
        """Return all stages, first the test that killed the mutant when the tests were others.

        What no test can notice has one stage: the wider ones would take hours to say nothing.
        """
        module = mutant.identity.partition(":")[0]
        killer = self._killers.get(mutant.identity)
        first = [(killer,)] if killer else []
        found = [*first, *stages(copy.tree, mutant.room, module)]
        return found[:1] if mutant.identity in EQUIVALENT else found

    def _judge(self, mutant: Mutant, number: int) -> Row:
        copy = self._idle.pop()  # there are as many as threads
        stage, *further = self._stages(mutant, copy)[number - 1 :]
        source = (copy.tree / mutant.path).read_bytes()
        hashes = [hashlib.sha256(mutant.applied(source)), hashlib.sha256(repr(stage).encode())]
        key = " ".join([mutant.identity, self._tests, *(each.hexdigest()[:16] for each in hashes)])
        row = {"key": key, "identity": mutant.identity, "room": mutant.room, "stage": number}
        row |= self._known.get(key) or self._found(mutant, source, copy, stage)
        if row["verdict"] == "left" and not further:
            row["verdict"] = "survived"
        self._idle.append(copy)
        return row

    def _found(self, mutant: Mutant, source: bytes, copy: Copy, stage: Sequence[str]) -> Row:
        """Return the verdict of a stage, and the test that decided."""
        killer = self._killers.get(mutant.identity, "")
        is_one_test = stage == (killer,)
        file = (killer.partition("::")[0], *_NATIVE)
        known = self._without_mutant(copy, file if is_one_test else stage)
        options = [f"--deselect={test}" for test in known["failing"]]
        copy.write(mutant.path, mutant.applied(source))
        status = copy.test(["-x", *stage, *options], 120.0 + 4.0 * known["seconds"])
        copy.write(mutant.path, source)
        row = {"change": mutant.change(source), "by": (copy.failed() or [""])[0]}
        is_gone = is_one_test and not row["by"]  # the test has another name by now, or is slow
        if status in (0, 5) or is_gone:  # 5: all tests are deselected
            return {**row, "verdict": "left"}
        if not row["by"] and status is not None and copy.test(["--collect-only", *stage], 600.0):
            raise MutantsError(f"Tests no longer run, without a mutant:\n{copy.output()[-2000:]}")
        return {**row, "verdict": "timed out" if status is None else "killed"}

    def _without_mutant(self, copy: Copy, stage: Sequence[str]) -> Row:
        """Return the failing tests and the seconds of a stage; run it unless both are known."""
        name = hashlib.sha256(f"{self._state}{stage}".encode()).hexdigest()[:16]
        with self._lock:
            if not (file := self._work / f"stage-{name}.json").is_file():
                print(f"Running once without a mutant: {' '.join(stage)}", flush=True)
                begin = time.monotonic()
                if copy.test(stage, 7200.0) not in (0, 1, 5):
                    raise MutantsError(f"These tests do not run:\n{copy.output()[-2000:]}")
                found = {"failing": copy.failed(), "seconds": time.monotonic() - begin}
                file.write_text(json.dumps(found), encoding="utf-8")
            return dict(json.loads(file.read_text("utf-8")))


def lost(earlier: Iterable[Row], now: Iterable[Row]) -> list[Row]:
    """Return the verdicts of mutants that survive now and did not before."""
    killed = {row["identity"] for row in earlier if row["verdict"] in ("killed", "timed out")}
    return [row for row in now if row["verdict"] == "survived" and row["identity"] in killed]


def table(verdicts: Iterable[Row]) -> str:
    """Return counts and score by room: the score is the share that tests killed.

    Equivalent mutants, which no test can notice, do not count for the score.
    """
    rows, words = list(verdicts), ("killed", "timed out", "survived", "equivalent")
    lines = ["Room         Mutants  Killed  Timed out  Survived  Equivalent   Score"]
    for room in (*_CLOSEST, "All"):
        if found := [row["verdict"] for row in rows if room in (row["room"], "All")]:
            killed, slow, alive, same = map(found.count, words)
            score = f"{100 * (killed + slow) / max(1, len(found) - same):.0f} %"
            counts = f"{len(found):>8}{killed:>8}{slow:>11}{alive:>10}{same:>12}"
            lines.append(f"{room:<12}{counts}{score:>8}")
    return "\n".join(lines)


def listed(tree: Path, words: Sequence[str], earlier: Iterable[Row]) -> list[Mutant]:
    """Return the mutants to judge: the fixed list, with those that an earlier run judged.

    ``words`` are rooms, and identities that need not be in the list; empty: all of the list.
    """
    rooms = {room: python_mutants(tree, room) for room in ROOMS}
    total = sum(map(len, rooms.values()))
    counts = {room: max(30, -(-300 * len(found) // total)) for room, found in rooms.items()}
    rooms["agent"], counts["agent"] = c_mutants(tree), 60
    names = {row["identity"] for row in earlier}
    for room, mutants in rooms.items():
        names |= {mutant.identity for mutant in chosen(tree, mutants, counts[room])}
    every = [mutant for mutants in rooms.values() for mutant in mutants]
    names = {m.identity for m in every if m.identity in names and (not words or m.room in words)}
    if not (found := [m for m in every if m.identity in {*names, *words}]):
        raise MutantsError(f"No mutant is named {' or '.join(words)}. Try: --list")
    return found


def _run(options: argparse.Namespace, tree: Path, earlier: Sequence[Row]) -> int:
    own, work = tree / ".venv" / "bin" / "python", ROOT / "build" / "mutants"
    python = options.python or (own if own.exists() else Path(sys.executable))
    copies = made_copies(tree, work, python.absolute(), max(1, options.jobs))
    mutants, found = listed(copies[0].tree, options.only, earlier), list[Row]()
    status = 0
    try:
        for row in Judge(copies, work).verdicts(mutants):
            found.append(row)
            what = f"{row['verdict'].upper()} {row['by']}  {row['identity']}  {row['change']}"
            print(f"{len(found)}/{len(mutants)} stage {row['stage']}: {what}", flush=True)
    except KeyboardInterrupt:
        status = 130
    print(table(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for row in (gone := lost(earlier, found)):
        print(f"NO LONGER KILLED  {row['identity']}  {row['change']}")
    for row in found:
        if row["identity"] in EQUIVALENT and row["verdict"] != "equivalent":
            print(f"NOT EQUIVALENT  {row['identity']}  {row['change']}")
    return status or bool(gone)


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the mutants; return the exit code."""
    parser = argparse.ArgumentParser(description="Check that tests notice changes of the code.")
    add = parser.add_argument
    add("--tree", type=Path, default=ROOT, help="Checkout to test [default: this one]")
    add("--python", type=Path, help="Interpreter [default: .venv/bin/python of the checkout]")
    add("--jobs", type=int, default=os.cpu_count(), help="Mutants at a time [default: all cores]")
    add("--json", type=Path, metavar="FILE", help="Write all verdicts to FILE")
    add("--against", type=Path, metavar="FILE", help="Compare with the --json FILE of another run")
    add("--only", action="append", default=[], metavar="ROOM|IDENTITY", help="May be repeated")
    add("--list", action="store_true", help="Print the mutants and run nothing")
    options = parser.parse_args(arguments)
    tree = options.tree.resolve()
    earlier = json.loads(options.against.read_text("utf-8")) if options.against else []
    try:
        if not options.list:
            return _run(options, tree, earlier)
        for mutant in listed(tree, options.only, earlier):
            print(f"{mutant.identity}  {mutant.change((tree / mutant.path).read_bytes())}")
        return 0
    except MutantsError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # before the first mutant
        return 130


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
