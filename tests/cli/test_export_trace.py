# SPDX-License-Identifier: Apache-2.0
"""`boardprof export` of a recording of probes: each form, in a file, a folder or on stdout."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from boardprof.results.probes.events import read_names
from boardprof.results.probes.run import Slot, read_run, write_run
from boardprof.ui.cli import main
from tests.cli.command import FIXTURES, Outcome, boardprof
from tests.unit.recordings import CONTROL, NAMES, block, event, recording, two_tasks
from tests.unit.test_heap import leaking

Run = Callable[..., Outcome]


@pytest.fixture
def command(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """The command in this process: a tenth of the time of a process of its own."""

    def run(*arguments: str | Path) -> Outcome:
        code = main([str(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        return Outcome(code, out.decode("latin-1"), err.decode())

    return run


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "two.trace"
    write_run(two_tasks(), str(file))
    return file


FORMS: dict[str, Callable[[str], bool]] = {
    "perfetto": lambda text: text.startswith("\n") and "task 0x20000100" in text,
    "chrome": lambda text: len(json.loads(text)["traceEvents"]) == 21,
    "speedscope": lambda text: {p["type"] for p in json.loads(text)["profiles"]} == {"evented"},
    "collapsed": lambda text: "core 0;task 0x20000100;control 30\n" in text,
    "html": lambda text: "<h1><bdi>bench</bdi></h1>" in text,
}


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_printed_and_written_alike(
    trace: Path, name: str, tmp_path: Path, command: Run
) -> None:
    done = command("export", name, trace)
    assert (done.code, done.err) == (0, "")
    assert FORMS[name](done.out)
    file = tmp_path / "out"
    silent = command("export", name, trace, "-o", file)
    assert (silent.code, silent.out, silent.err) == (0, "", f"Trace written to {file}\n")
    assert file.read_bytes() == done.out.encode("latin-1")


@pytest.mark.parametrize("name", [*FORMS, "ctf"])
def test_each_form_has_names_beyond_ascii(name: str, tmp_path: Path) -> None:
    names = read_names(NAMES.replace(b"control", "größe\a".encode()))
    file, made = tmp_path / "two.trace", tmp_path / "out"
    write_run(replace(two_tasks(), names=names), str(file))
    done = boardprof("export", name, file, "-o", made)
    assert (done.code, done.err) == (0, f"Trace written to {made}\n")
    content = (made / "metadata" if name == "ctf" else made).read_bytes()
    assert any(form in content for form in ("größe".encode(), b"gr\\u00f6\\u00dfe"))
    if name == "ctf":
        read = subprocess.run(["babeltrace2", made], capture_output=True, text=True, check=True)
        assert "größe" in read.stdout


def test_a_quiet_command_does_not_quiet_the_next_one_of_its_process(
    trace: Path, tmp_path: Path, command: Run
) -> None:
    file = tmp_path / "out"
    assert command("export", "chrome", trace, "-o", file, "--quiet").err == ""
    assert command("export", "chrome", trace, "-o", file).err == f"Trace written to {file}\n"


@pytest.fixture
def statistics(tmp_path: Path) -> Path:
    """A recording of statistics alone: 20 passes of 5 cycles."""
    slot = Slot(CONTROL, count=20, lost=0, least=5, most=5, sum=100, squares=500)
    file = tmp_path / "days.trace"
    write_run(replace(recording(), slots=(slot,)), str(file))
    return file


@pytest.mark.parametrize("name", ["perfetto", "chrome", "speedscope", "collapsed", "ctf"])
def test_statistics_without_events_cannot_be_drawn(
    statistics: Path, name: str, tmp_path: Path, command: Run
) -> None:
    done = command("export", name, statistics, "-o", tmp_path / "out")
    assert (done.code, done.out) == (2, "")
    assert "The recording of bench has statistics and no events: there is nothing to" in done.err
    assert not (tmp_path / "out").exists()


def test_the_page_has_statistics_without_events_and_memory_is_not_known(
    statistics: Path, command: Run
) -> None:
    page = command("export", "html", statistics)
    assert page.code == 0, page.err
    assert re.search(r"control.*?<td[^>]*>(<bdi>)?20\b", page.out, re.DOTALL)
    memory = command("export", "memory", statistics)
    assert memory.code == 2
    assert "says nothing of memory" in memory.err


def test_a_form_of_reports_only_gets_the_ranges_as_rows(trace: Path, command: Run) -> None:
    done = command("export", "csv", trace)
    assert done.code == 0, done.err
    head, *rows = [line.split(",") for line in done.out.splitlines()]
    names = [row[head.index("Name")] for row in rows]
    assert names == ['"control"', '"filter"']
    assert [row[head.index("cycles")] for row in rows] == ["30", "20"]


def test_ctf_is_a_folder_that_is_written_again_and_never_over_others_files(
    trace: Path, tmp_path: Path, command: Run
) -> None:
    folder = tmp_path / "ctf"
    for _ in range(2):
        done = command("export", "ctf", trace, "-o", folder)
        assert (done.code, done.err) == (0, f"Trace written to {folder}\n")
        assert sorted(each.name for each in folder.iterdir()) == ["core0", "metadata"]
    (folder / "thesis.txt").write_text("mine")
    refused = command("export", "ctf", trace, "-o", folder)
    assert refused.code == 2
    assert "the folder has other files, such as thesis.txt" in refused.err
    nameless = command("export", "ctf", trace)
    assert (nameless.code, nameless.out) == (2, "")
    assert "The exporter ctf writes a folder.\nTry: name it: -o FOLDER" in nameless.err


def test_the_image_must_be_the_one_that_ran_for_lines_of_call_sites(
    tmp_path: Path, command: Run
) -> None:
    file = tmp_path / "memory.trace"
    write_run(leaking(), str(file))
    done = command("export", "memory", file)
    assert done.code == 0
    assert "0x80000250" in done.out
    assert "no image is known, so call sites are shown by their addresses" in done.err


def test_a_page_of_too_many_events_is_refused_and_perfetto_offered(
    tmp_path: Path, command: Run
) -> None:
    records = [event(1, CONTROL), event(1, CONTROL + 1)] * 30_000
    parts = [block(records, 60_000 * (i + 1), before=60_000 * i) for i in range(4)]
    file = tmp_path / "many.trace"
    write_run(recording(*parts), str(file))
    refused = command("export", "html", file)
    assert (refused.code, refused.out) == (2, "")
    assert "The recording has 240,000 events. A page can have 200,000." in refused.err
    assert "Try: boardprof export perfetto" in refused.err


def test_forms_of_recordings_refuse_reports_and_options_of_reports(
    trace: Path, tmp_path: Path, command: Run
) -> None:
    report = tmp_path / "report.json"
    assert command("export", "json", trace, "-o", report).code == 0
    refused = command("export", "perfetto", report)
    assert refused.code == 2
    assert "The exporter perfetto is for recordings of probes, not for Reports." in refused.err
    odd = command("export", "perfetto", trace, "--metric", "cycles")
    assert odd.code == 2
    assert "is for recordings" not in odd.err
    assert "--metric is for collapsed, not for perfetto." in odd.err


@pytest.mark.parametrize("name", ["perfetto", "ctf", "memory"])
def test_a_trace_that_does_not_exist_is_missed(command: Run, tmp_path: Path, name: str) -> None:
    refused = command("export", name, tmp_path / "none.trace", "-o", tmp_path / "out")
    assert refused.code == 2
    assert refused.err.startswith(
        f"error: The exporter {name} is for recordings of probes, and there is no file "
        f"{tmp_path / 'none.trace'}.\nTry: record one with `boardprof trace -o FILE`"
    )


@pytest.mark.slow
def test_memory_of_a_board_has_its_call_sites_by_file_and_line(tmp_path: Path) -> None:
    source, file = FIXTURES / "memory.c", str(tmp_path / "memory.trace")
    done = boardprof("trace", "-b", "qemu-rv32", f"{source}:memory", "-o", file)
    assert done.code == 0, done.err
    lines = source.read_text().splitlines()
    in_loop, after = (
        next(i for i, line in enumerate(lines, 1) if text in line)
        for text in ("block = take(100)", "kept = take(24)")
    )
    table = boardprof("export", "memory", file).out
    assert re.search(rf"^memory\.c:{in_loop} \(memory\) +100 +0 +0 +200 +2$", table, re.MULTILINE)
    assert re.search(rf"^memory\.c:{after} \(memory\) +0 +24 +1 +24 +1$", table, re.MULTILINE)
    assert "Peak 100 bytes; 24 bytes live at the end. 3 blocks taken, 2 given back." in table
    page = boardprof("export", "html", file).out
    assert f"memory.c:{after} (memory)" in page
    other = read_run(file)
    write_run(replace(other, facts=replace(other.facts, build_id="00" * 8)), file)
    unknown = boardprof("export", "memory", file)
    assert "memory.c" not in unknown.out
    assert "is not the image that ran, so call sites are shown by their addres" in unknown.err


def test_a_trace_is_written_through_a_link_and_into_a_pipe(tmp_path: Path) -> None:
    link, target, pipe = tmp_path / "link", tmp_path / "target", tmp_path / "pipe"
    link.symlink_to(target)
    write_run(two_tasks(), str(link))
    assert link.is_symlink()
    assert read_run(str(target)).content == two_tasks().content
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(pipe.read_bytes)
        write_run(two_tasks(), str(pipe))
        assert pipe.is_fifo()
        assert zipfile.is_zipfile(io.BytesIO(reader.result(10)))
    assert sorted(tmp_path.iterdir()) == [link, pipe, target]
