# SPDX-License-Identifier: Apache-2.0
"""Entry points are found wherever Python finds packages, and cost nothing where there are none."""

from __future__ import annotations

import importlib.metadata
import sys
import zipfile
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from boardprof.base.packages import entries
from boardprof.wire.decode.schemas import packages_collectors

TEXT = "[console_scripts]\nlab = lab:main\n\n[boardprof.exporters]\nplot = lab:plot\n"
METADATA = "Metadata-Version: 2.1\nName: lab\nVersion: 1.0\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of sys.path."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def found() -> list[tuple[str, str]]:
    return [(entry.name, entry.value) for entry in entries("exporters")]


def test_without_such_packages_no_metadata_is_read(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site / "lab-1.0.dist-info").mkdir()
    text = "[console_scripts]\nboardprof = boardprof.ui.cli:main\n"
    (site / "lab-1.0.dist-info" / "entry_points.txt").write_text(text)
    (site / "bare-1.0.dist-info").mkdir()
    sys.path.append("/nowhere")
    monkeypatch.setattr(sys, "meta_path", [PathFinder])  # other tests may have brought finders
    monkeypatch.setattr(importlib.metadata, "entry_points", pytest.fail)
    assert found() == []


@pytest.mark.parametrize("folder", ["lab-1.0.dist-info", "lab.egg-info", "EGG-INFO"])
def test_an_installed_packages_entry_is_found(site: Path, folder: str) -> None:
    place = site / "lab.egg" if folder == "EGG-INFO" else site
    sys.path.append(str(place))
    (place / folder).mkdir(parents=True)
    (place / folder / "entry_points.txt").write_text(TEXT)
    (place / folder / "METADATA").write_text(METADATA)
    (place / folder / "PKG-INFO").write_text(METADATA)
    assert found() == [("plot", "lab:plot")]


def test_an_entry_of_a_package_in_a_zip_file_is_found(site: Path) -> None:
    with zipfile.ZipFile(site / "lab.zip", "w") as file:
        file.writestr("lab-1.0.dist-info/METADATA", METADATA)
        file.writestr("lab-1.0.dist-info/entry_points.txt", TEXT)
    sys.path.append(str(site / "lab.zip"))
    assert found() == [("plot", "lab:plot")]


def test_an_entry_of_a_finder_that_is_not_pythons_is_found(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Distribution(importlib.metadata.Distribution):
        def read_text(self, filename: str) -> str | None:
            return {"METADATA": METADATA, "entry_points.txt": TEXT}.get(filename)

        def locate_file(self, path: object) -> Path:
            raise NotImplementedError

    class Finder(importlib.metadata.DistributionFinder):
        def find_distributions(self, context: object = None) -> Iterator[Distribution]:
            yield Distribution()

        def find_spec(self, *_: object) -> None:
            return None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    assert found() == [("plot", "lab:plot")]


def test_a_collectors_source_is_beside_its_module_and_a_package_without_it_is_passed_over(
    site: Path,
) -> None:
    (site / "lab-1.0.dist-info").mkdir()
    (site / "lab-1.0.dist-info" / "METADATA").write_text(METADATA)
    (site / "lab-1.0.dist-info" / "entry_points.txt").write_text(
        "[boardprof.collectors]\n"
        "gone = a_module_that_is_not_there:LAYOUT\n"
        "bare = a_folder_without_a_module:LAYOUT\n"
        "inner = a_module_that_is_not_there.inner:LAYOUT\n"
        "weight = lab_scales:LAYOUT\n"
        "other = lab_scales:OTHER\n"
    )
    (site / "a_folder_without_a_module").mkdir()
    (site / "lab_scales.py").touch()
    (site / "bp_weight.c").touch()
    assert packages_collectors() == {"weight": site / "bp_weight.c"}
