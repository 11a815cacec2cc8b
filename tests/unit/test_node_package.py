# SPDX-License-Identifier: Apache-2.0
"""An emulator in Node.js is found in its exact version, or the error says how to get it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from boardprof.base.errors import MissingToolError, UsageError
from boardprof.target.descriptions.board import load_board
from boardprof.target.toolchain.tools import (
    install_command,
    missing_text,
    missing_tools,
    node_package_folder,
)
from tests.unit.test_board_keys import BOARD, folder_of

ROOT = Path(__file__).parents[2]
PICO = ROOT / "boards" / "rpi-pico"


def install(place: Path, version: str) -> Path:
    folder = place / "lab-core"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(json.dumps({"name": "lab-core", "version": version}))
    return folder


def test_a_package_is_found_beside_this_python_and_on_node_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    monkeypatch.setenv("NODE_PATH", f"{tmp_path / 'nowhere'}:{tmp_path / 'more'}")
    second = install(tmp_path / "more", "1.2.3")
    assert node_package_folder("lab-core@1.2.3") == second
    first = install(tmp_path / "venv" / "lib" / "node_modules", "1.2.3")
    assert node_package_folder("lab-core@1.2.3") == first


def test_a_missing_package_or_another_version_is_an_error_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.delenv("NODE_PATH", raising=False)
    place = tmp_path / "lib" / "node_modules"
    with pytest.raises(MissingToolError) as caught:
        node_package_folder("lab-core@1.2.3")
    assert caught.value.message == (
        f"The Node.js package lab-core@1.2.3 is not installed in {place}."
    )
    assert f"Try: npm install --prefix {tmp_path}/lib lab-core@1.2.3 " in str(caught.value)
    install(place, "1.3.0")
    with pytest.raises(MissingToolError, match=r"in .*node_modules\. 1\.3\.0 is in "):
        node_package_folder("lab-core@1.2.3")


def test_a_board_lists_it_among_what_is_missing(tmp_path: Path) -> None:
    text = BOARD.replace('"emulator"', '"sh", "{folder}/run", "{node_package}"')
    text = text.replace("[clock]", 'node_package = "no-such-core@1.0.0"\n[clock]')
    spec = load_board(folder_of(tmp_path, text, "port.c"))
    assert spec.launch.node_package == "no-such-core@1.0.0"
    (missing,) = [each for each in missing_tools(spec) if "node_package" in each]
    assert missing == {"tool": "no-such-core", "node_package": "no-such-core@1.0.0"}
    assert missing_text(missing) == "no-such-core@1.0.0 (Node.js package)"
    assert install_command("a@1.0.0", "b@2.0.0").endswith("/lib a@1.0.0 b@2.0.0")


@pytest.mark.parametrize("package", ["no-such-core", "no-such-core@^1.0.0", "../core@1.0.0"])
def test_a_package_without_its_exact_version_is_refused(tmp_path: Path, package: str) -> None:
    text = BOARD.replace('"emulator"', '"sh", "{node_package}"')
    text = text.replace("[clock]", f'node_package = "{package}"\n[clock]')
    with pytest.raises(UsageError, match=r"\[launch\] node_package: must be \"NAME@VERSION\""):
        load_board(folder_of(tmp_path, text, "port.c"))


def test_the_locked_version_is_the_one_that_the_board_wants_and_names_no_registry() -> None:
    lock = (PICO / "package-lock.json").read_text()
    version = json.loads(lock)["packages"]["node_modules/rp2040js"]["version"]
    assert load_board(PICO).launch.node_package == f"rp2040js@{version}"
    assert "resolved" not in lock
    assert "sha512-" in lock
