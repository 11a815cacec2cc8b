# SPDX-License-Identifier: Apache-2.0
"""Mutants: what each operator writes, that identities last, which are chosen, what is compared."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.mutants import MutantsError, lost, made_copies, stages, table
from scripts.mutants_c import c_edits
from scripts.mutants_python import ROOMS, Mutant, chosen, named, python_edits
from tests.support import ROOT


def mutants(source: str) -> list[Mutant]:
    return list(named(python_edits(source.encode()), "room.module", "room", "module.py"))


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("compare", "x = a < b < c", ["x = a <= b < c", "x = a < b <= c"]),
        ("compare", "x = (a  # < b\n     < b)", ["x = (a  # < b\n     <= b)"]),
        ("arithmetic", "x = 'a' + b", []),
        ("logic", "x = a and b and c", ["x = a or b and c", "x = a and b or c"]),
        ("not", "x = not (a or b)", ["x = (a or b)"]),
        ("integer", "x = 0xFF", ["x = 0x100"]),
        ("return", "def f() -> int:\n    return g()", ["def f() -> int:\n    return None"]),
        ("if", "if (a and\n    b): c()", ["if (not (a and\n    b)): c()"]),
        ("guard", "if a:\n    raise E(f'{a + 1}')", ["if a:\n    pass"]),
        ("jump", "for a in b:\n    break", ["for a in b:\n    continue"]),
    ],
)
def test_an_operator_changes_one_node(kind: str, source: str, expected: list[str]) -> None:
    found = [mutant for mutant in mutants(source) if mutant.edit.kind == kind]
    assert [mutant.applied(source.encode()).decode() for mutant in found] == expected


def test_types_assertions_and_messages_are_left_out() -> None:
    source = "T = TypeVar('T', bound=int | str)\nKey = int | str\nassert a < 1\nx = f'{a + 1}'\n"
    source += "def f(a: int | str) -> int: ...\ny = cast(int | None, a)\nraise E('a' * 2)\n"
    assert mutants(source) == []


FUNCTION = "def f(a: int) -> bool:\n    return a < 1 or a < 2\n"


def test_identities_stay_when_lines_are_inserted_above() -> None:
    above = mutants("def other(a: int) -> bool:\n    return a < 1\n" + FUNCTION)
    names = [mutant.identity for mutant in mutants(FUNCTION)]
    assert [mutant.identity for mutant in above[3:]] == names
    assert names[:2] == ["room.module:f:return:0", "room.module:f:compare:0"]


def test_an_invalid_mutant_gives_its_place_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(FUNCTION)
    first, second = chosen(tmp_path, mutants(FUNCTION), 2)
    assert chosen(tmp_path, [second, first], 1) == [first]
    invalid = replace(first, edit=first.edit._replace(new="("))
    assert chosen(tmp_path, [invalid, second], 1) == [second]


def test_c_mutants_are_in_code_about_lengths_and_not_in_comments_or_strings() -> None:
    text = 'bool f(void) {\n    // length > 2\n    if (a == 1 && *"<" && length + 1 <= 3) {\n'
    text += "        return false;\n    }\n    color = a < b;\n}\n"
    kinds = [edit.kind for edit in c_edits(text.encode())]
    assert kinds == ["eq", "and", "and", "plus_one", "le", "return_false"]


def test_the_first_stage_names_files_that_exist() -> None:
    files = [word for room in (*ROOMS, "agent") for word in stages(room)[0] if "tests/" in word]
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_only_what_was_killed_before_and_survives_now_is_lost() -> None:
    mutant = {"identity": "a", "room": "link"}
    killed, survived = mutant | {"verdict": "killed"}, mutant | {"verdict": "survived"}
    assert lost([killed], [survived]) == [survived]
    assert lost([survived], [survived, killed]) == []
    row = "link               2       1          0         1    50 %"
    assert table([killed, survived]).splitlines()[1] == row


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """One module and one test, with the packages' names; pytest loads the plugin."""
    tree = tmp_path / "project"
    for name in ("boardprof/__init__", "boardprof/pytest_plugin/__init__"):
        (tree / "host" / name).parent.mkdir(parents=True)
        (tree / "host" / f"{name}.py").write_text("LIMIT = 4\n")
    (tree / "host/boardprof/pytest_plugin/plugin.py").touch()
    shutil.copytree(tree / "host/boardprof", tree / "protocol/boardprof_protocol")
    (tree / "tests").mkdir()
    test = "import boardprof as b\n\ndef test_limit():\n    assert b.LIMIT == 4\n"
    (tree / "tests/test_limit.py").write_text(test)
    return tree


def test_a_mutant_is_judged_in_a_copy_that_is_imported(project: Path, tmp_path: Path) -> None:
    (copy,), codes = made_copies(project, tmp_path / "work", Path(sys.executable), 1), []
    for limit in (4, 5):  # of one size, and perhaps within a second
        copy.write("host/boardprof/__init__.py", f"LIMIT = {limit}\n".encode())
        codes.append(copy.test(["tests"], 60.0))
    assert (codes, copy.failed()) == ([0, 1], ["tests/test_limit.py::test_limit"])
    assert (project / "host/boardprof/__init__.py").read_text() == "LIMIT = 4\n"
    shutil.rmtree(project / "host")
    with pytest.raises(MutantsError, match="does not import"):
        made_copies(project, tmp_path / "work", Path(sys.executable), 1)


def test_after_the_deadline_no_session_is_left(project: Path, tmp_path: Path) -> None:
    (copy,) = made_copies(project, tmp_path / "work", Path(sys.executable), 1)
    code = "import subprocess as s; p = s.Popen(['sleep', '60'], start_new_session=True)"
    assert copy.run(["-c", f"{code}; print(p.pid, flush=True); p.wait()"], 5.0) is None
    process = Path("/proc", copy.output().strip(), "cmdline")
    assert not process.exists() or process.read_bytes() == b""  # a zombie has none
