# SPDX-License-Identifier: Apache-2.0
"""Writes the table in boards/README.md from the boards' board.toml.

Run from the repository: ``python scripts/boards_readme.py`` writes it, with ``--check`` it ends
with 1 if the table is not current.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from boardprof.base.errors import BoardprofError, UsageError
from boardprof.measure.doctor.check_board import check_proof
from boardprof.measure.doctor.counters import FAILED, OK
from boardprof.target.descriptions.board import BoardSpec, load_board

__all__ = ["main", "table"]

_BOARDS = Path(__file__).resolve().parents[1] / "boards"
_BEGIN = "<!-- This table is generated: make boards-readme -->\n"
_END = "<!-- end of the table -->\n"
_STATUS = {"run": "run in CI", "built": "built in CI, never run", "none": "not yet"}


def main(arguments: list[str]) -> int:
    """Write the table, or check it; return the exit status."""
    readme = _BOARDS / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    old, _, after = rest.partition(_END)
    new = table([load_board(path.parent) for path in sorted(_BOARDS.glob("*/board.toml"))])
    if arguments == ["--check"]:
        if old == new:
            return 0
        print(f"{readme} is not current: run make boards-readme.", file=sys.stderr)
        return 1
    readme.write_text(f"{before}{_BEGIN}{new}{_END}{after}", encoding="utf-8")
    return 0


def table(specs: list[BoardSpec]) -> str:
    """Return the table as Markdown, one row per board."""
    head = ("board", "what it is", "how it runs", "collectors", "not available", "state")
    rows = [head, ("---",) * len(head), *map(_row, specs)]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(spec: BoardSpec) -> tuple[str, ...]:
    default = " (default)" if spec.default else ""
    collectors = ", ".join(f"`{name}`" for name in spec.build.collectors)
    reasons = {
        why: [n for n, w in spec.unsupported.items() if w == why]
        for why in spec.unsupported.values()
    }
    missing = "; ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items())
    return (
        f"`{spec.name}`{default}",
        spec.summary,
        _runs(spec),
        collectors,
        missing or "-",
        _state(spec),
    )


def _state(spec: BoardSpec) -> str:
    state = _STATUS[spec.status]
    proved = _proved(spec.folder)
    if spec.port is not None and spec.status == "run":
        return f"emulator {state}; real board {proved or 'never run'}"
    return f"{state}; {proved}" if proved else state


def _proved(folder: Path) -> str:
    """Say who has proved a real board, and which checks did not pass: ``proofs/WHO.json``."""
    texts = []
    for file in sorted(folder.glob("proofs/*.json")):
        facts = json.loads(file.read_text(encoding="utf-8"))
        check_proof(facts, str(file))
        if facts["kind"] != "real" or facts["board"] != folder.name:
            raise UsageError(f"{file} is not of a real {folder.name}.")
        verdicts = [each["verdict"] for each in facts["findings"]]
        failed = verdicts.count(FAILED)
        passed = f"{verdicts.count(OK)} of {len(verdicts)} checks"
        texts.append(f"{file.stem}, {passed}{f', {failed} failed' if failed else ''}")
    return f"proved by {'; '.join(texts)}" if texts else ""


def _runs(spec: BoardSpec) -> str:
    launch = spec.launch
    if launch.kind == "library":
        return "in the host's process"
    is_linux = spec.build.arch == "posix"
    if launch.kind == "serial":
        return "through ssh or at a TCP port" if is_linux else f"at a port, {launch.baud:,} baud"
    if launch.simulator is not None:
        how = "a simulator that is built at the first start"
    elif launch.listen == "board":
        how = "as its own process"
    else:
        how = f"`{launch.command[0]}`"
    if spec.port is None:
        return how
    if is_linux:
        return f"{how}; real board through ssh or at a TCP port"
    return f"{how}; real board at a port, {spec.port.baud:,} baud"


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BoardprofError as error:  # a board.toml has a mistake
        sys.exit(f"error: {error}")
