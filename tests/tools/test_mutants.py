# SPDX-License-Identifier: Apache-2.0
"""Mutants: what each operator writes, that identities last, which are chosen, what is compared."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.mutants import Judge, MutantsError, lost, made_copies, stages, table
from scripts.mutants_c import c_edits, c_mutants
from scripts.mutants_python import (
    EQUIVALENT,
    ROOMS,
    Mutant,
    chosen,
    named,
    python_edits,
    python_mutants,
)
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


def test_the_closest_tests_are_files_that_exist() -> None:
    rooms = (*ROOMS, "agent")
    files = [word for room in rooms for word in stages(ROOT, room, "?")[0] if "tests/" in word]
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_the_first_stage_has_the_unit_tests_that_import_the_module() -> None:
    first, second, *_ = stages(ROOT, "report", "report.report_file")
    names = ("baseline", "comparison", "events", "history", "report_file")
    assert first[:6] == (*(f"tests/unit/test_{name}.py" for name in names), "-m")
    assert second[0] == "tests/unit/test_report.py"


def test_the_first_stage_of_a_c_file_has_the_tests_that_are_named_after_it() -> None:
    first, second, *_ = stages(ROOT, "agent", "bp_call.c")
    assert first[:2] == ("tests/protocol/test_agent_calls.py", "-m")
    assert second[0] == "tests/protocol/test_agent_arena.py"


def test_only_what_was_killed_before_and_survives_now_is_lost() -> None:
    mutant = {"identity": "a", "room": "link"}
    killed, survived = mutant | {"verdict": "killed"}, mutant | {"verdict": "survived"}
    assert lost([killed], [survived]) == [survived]
    assert lost([survived], [survived, killed]) == []
    assert lost([mutant | {"verdict": "equivalent"}], [survived]) == []
    row = "link               2       1          0         1           0    50 %"
    assert table([killed, survived]).splitlines()[1] == row


def test_equivalent_mutants_are_counted_apart_and_exist() -> None:
    rows = [{"room": "link", "verdict": verdict} for verdict in ("killed", "equivalent")]
    row = "link               2       1          0         0           1   100 %"
    assert table(rows).splitlines()[1] == row
    mutants = [each for room in ROOMS for each in python_mutants(ROOT, room)]
    known = {each.identity for each in (*mutants, *c_mutants(ROOT))}
    assert set(EQUIVALENT) <= known


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """One module and one test, with the packages' names; pytest loads the plugin."""
    tree = tmp_path / "project"
    (tree / "build").mkdir(parents=True)
    (tree / "pyproject.toml").touch()
    modules = ("__init__", "ui/pytest_plugin/__init__", "target/build/__init__")
    for name in (f"boardprof/{module}" for module in modules):
        (tree / "host" / name).parent.mkdir(parents=True)
        (tree / "host" / f"{name}.py").write_text("LIMIT = 4\n")
    (tree / "host/boardprof/ui/pytest_plugin/plugin.py").touch()
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
    assert not (copy.tree / "build").exists()
    assert (copy.tree / "host/boardprof/target/build/__init__.py").is_file()
    shutil.rmtree(project / "host")
    with pytest.raises(MutantsError, match="does not import"):
        made_copies(project, tmp_path / "work", Path(sys.executable), 1)


def test_after_the_deadline_no_session_is_left(project: Path, tmp_path: Path) -> None:
    (copy,) = made_copies(project, tmp_path / "work", Path(sys.executable), 1)
    code = "import subprocess as s; p = s.Popen(['sleep', '60'], start_new_session=True)"
    assert copy.run(["-c", f"{code}; print(p.pid, flush=True); p.wait()"], 5.0) is None
    process = Path("/proc", copy.output().strip(), "cmdline")
    assert not process.exists() or process.read_bytes() == b""  # a zombie has none


def test_what_a_stage_leaves_goes_to_the_next_and_no_verdict_is_found_twice(
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    module = project / "host/boardprof/__init__.py"
    module.write_text("LIMIT = 4\nWIDTH = 2\n")
    (project / "tests/test_nothing.py").write_text("def test_nothing():\n    pass\n")
    files = [("tests/test_limit.py",), ("tests/test_nothing.py",)]
    monkeypatch.setattr("scripts.mutants.stages", lambda *_: files)
    changes = python_edits(module.read_bytes())
    both = list(named(changes, "boardprof", "report", "host/boardprof/__init__.py"))
    copies = made_copies(project, tmp_path / "work", Path(sys.executable), 1)
    found = []
    for _ in range(2):
        rows = list(Judge(copies, tmp_path / "work").verdicts(both))
        found.append({row["change"]: (row["stage"], row["verdict"], row["by"]) for row in rows})
    assert found[0] == {
        "LIMIT = 4  =>  LIMIT = 5": (1, "killed", "tests/test_limit.py::test_limit"),
        "WIDTH = 2  =>  WIDTH = 3": (2, "survived", ""),
    }
    assert found[1] == found[0]
    monkeypatch.setattr("scripts.mutants.EQUIVALENT", {"boardprof:<module>:integer:1": "why"})
    rows = list(Judge(copies, tmp_path / "work").verdicts(both))
    assert [(row["stage"], row["verdict"]) for row in rows] == [(1, "killed"), (1, "equivalent")]
    assert capsys.readouterr().out.splitlines() == [
        "Running once without a mutant: tests/test_limit.py",
        "left for stage 2: boardprof:<module>:integer:1",
        "Running once without a mutant: tests/test_nothing.py",
    ]


def test_what_killed_a_mutant_goes_first_when_tests_have_changed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scripts.mutants.stages", lambda *_: [("tests",)])
    module = project / "host/boardprof/__init__.py"
    (limit,) = named(python_edits(module.read_bytes()), "b", "report", "host/boardprof/__init__.py")
    other, test = project / "tests/test_a.py", "tests/test_limit.py::test_limit"
    other.write_text("def test_a():\n    pass\n")
    failing = other.read_text().replace("pass", "import boardprof as b; assert b.LIMIT == 4")
    found = []
    for text in (other.read_text(), failing, failing.replace("test_a", "test_b")):
        other.write_text(text)
        copies = made_copies(project, tmp_path / "work", Path(sys.executable), 1)
        (row,) = Judge(copies, tmp_path / "work").verdicts([limit])
        found.append((row["stage"], row["verdict"], row["by"]))
        if text == failing:
            (project / "tests/test_limit.py").write_text("def test_other():\n    pass\n")
    assert found == [
        (1, "killed", test),
        (1, "killed", test),  # not by the test that comes first
        (2, "killed", "tests/test_a.py::test_b"),
    ]
