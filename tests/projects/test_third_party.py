# SPDX-License-Identifier: Apache-2.0
"""A package of somebody else's brings a board, a collector, a transport and an exporter."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.command import Outcome, boardprof, rows
from tests.support import requires_compiler

PACKAGE = Path(__file__).parent / "fixtures" / "lab_package"
SQUARE = "unsigned square(unsigned x);\nunsigned square(unsigned x) { return x * x; }\n"
ONCE = ("x=12", "--repeat", "1", "--warmup", "0")

pytestmark = pytest.mark.timeout(300)  # pip, on a busy machine


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package as pip does, in a folder of its own."""
    folder = tmp_path_factory.mktemp("lab")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--disable-pip-version-check", "--target"]
    subprocess.run([*command, str(folder / "site"), str(PACKAGE)], check=True, timeout=200)
    (folder / "square.c").write_text(SQUARE)
    return folder / "site"


def with_package(site: Path, *arguments: str | Path, **variables: str) -> Outcome:
    requires_compiler("gcc")
    return boardprof(*arguments, environment={"PYTHONPATH": str(site), **variables})


@contextmanager
def serving(image: Path) -> Iterator[list[object]]:
    """Run the board's program by itself; yields its host and port."""
    with subprocess.Popen([image], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            host, _, port = process.stdout.readline().split()[-1].rpartition(":")
            yield [host, int(port)]
        finally:
            process.kill()


def test_its_board_is_listed_with_the_others(site: Path) -> None:
    done = with_package(site, "boards", "--json")
    boards = {board["name"]: board for board in json.loads(done.out)["boards"]}
    assert boards["lab-board"]["summary"] == "a process of this machine that counts spins"
    assert boards["lab-board"]["status"] == "none"
    assert "native" in boards


def test_its_board_is_built_and_measured_with_its_own_collector(site: Path) -> None:
    square = f"{site.parent / 'square.c'}:square"
    done = with_package(site, "run", "-b", "lab-board", square, *ONCE, "--json", "-")
    assert done.code == 0, done.err
    (measured,) = json.loads(done.out)["boardprof"]["measurements"]
    assert measured["samples"][0]["raw"]["lab_spins"] == 10
    assert measured["calibration"]["lab_spins"] == 10
    table = with_package(site, "run", "-b", "lab-board", square, *ONCE)
    assert rows(table.out) == ["square"]


def test_its_exporter_writes_the_report(site: Path, tmp_path: Path) -> None:
    square = f"{site.parent / 'square.c'}:square"
    file, table = tmp_path / "listing.txt", tmp_path / "table.txt"
    done = with_package(
        site,
        *("run", "-b", "lab-board", square, *ONCE),
        *("--export", f"lab={file}", "--export", f"table={table}"),
    )
    assert done.code == 0, done.err
    assert file.read_text() == "square spun 0 times\n"
    assert rows(table.read_text()) == ["square"]


def test_its_exporter_writes_a_comparison(site: Path, tmp_path: Path) -> None:
    square = f"{site.parent / 'square.c'}:square"
    report, file = tmp_path / "report.json", tmp_path / "verdict.txt"
    done = with_package(site, "run", "-b", "lab-board", square, *ONCE, "--json", report)
    assert done.code == 0, done.err
    done = with_package(site, "compare", report, report, "--export", f"lab-verdict={file}")
    assert done.code == 0, done.err
    assert file.read_text().endswith(" rows, failed: False\n")


def test_its_transport_reaches_a_board_by_the_scheme_of_the_port(
    site: Path, tmp_path: Path
) -> None:
    image = tmp_path / "lab.elf"
    square = site.parent / "square.c"
    done = with_package(site, "build", "-b", "lab-board", square, "-o", image)
    assert done.code == 0, done.err
    image.chmod(0o755)
    benches = tmp_path / "benches.json"
    with serving(image) as address:
        benches.write_text(json.dumps({"bench-3": address}))
        where = {"LAB_BENCHES": str(benches)}
        named = with_package(
            site, "run", "-b", "lab-board", "-p", "lab://bench-3", "square", *ONCE, **where
        )
        unnamed = with_package(site, "info", "-p", "lab://bench-3", **where)
    assert (named.code, rows(named.out)) == (0, ["square"])
    assert unnamed.code == 0, unnamed.err
    assert "lab-board: a process of this machine" in unnamed.out
    assert re.search(r"port +lab://bench-3\n", unnamed.out)


def test_what_its_transport_raises_is_told_as_the_ports_fault(site: Path, tmp_path: Path) -> None:
    benches = tmp_path / "benches.json"
    benches.write_text("{}")
    done = with_package(site, "info", "-p", "lab://bench-4", LAB_BENCHES=str(benches))
    assert (done.code, done.err) == (
        3,
        "error: No board at lab://bench-4: lab_package.bench:connect says KeyError('bench-4').\n",
    )


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--baud", "9600"], "lab://bench-3 has no baud rate."),
        (["--key-file", "key"], "lab://bench-3 has no key."),
    ],
)
def test_its_ports_have_no_rate_and_no_key(site: Path, option: list[str], message: str) -> None:
    done = with_package(site, "info", "-p", "lab://bench-3", *option)
    assert done.code == 2
    assert message in done.err


def test_without_the_package_nothing_of_it_is_known(tmp_path: Path) -> None:
    (tmp_path / "square.c").write_text(SQUARE)
    square = f"{tmp_path / 'square.c'}:square"
    assert "There is no board 'lab-board'" in boardprof("info", "-b", "lab-board").err
    assert "'lab://bench-3' is not a port" in boardprof("info", "-p", "lab://bench-3").err
    done = boardprof("run", square, *ONCE, "--export", f"lab={tmp_path / 'x'}")
    assert done.code == 2
    assert "There is no exporter 'lab'" in done.err
    assert (
        "Known: baseline, bencher, benchmark-action, callgrind, chrome, collapsed, csv, html, "
        "hyperfine, json, markdown, medians, openmetrics, pprof, speedscope, table" in done.err
    )


@pytest.mark.parametrize(
    ("export", "message"),
    [
        ("csv", "'csv' is not a valid --export."),
        ("=file", "'=file' is not a valid --export."),
        ("csv=no/such/file", "no/such/file cannot be written: there is no folder no/such."),
    ],
)
def test_a_wrong_export_is_told_before_anything_is_measured(export: str, message: str) -> None:
    done = boardprof("run", "nothing.c:square", "--export", export)
    assert (done.code, message in done.err) == (2, True)
