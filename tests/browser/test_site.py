# SPDX-License-Identifier: Apache-2.0
"""The site of `make docs`: each link leads somewhere, and a browser needs the folder alone."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser.conftest import DEADLINE_S, Page
from tests.support import ROOT

WIDE = [
    "docs/README",
    "docs/firmware",
    "docs/gates",
    "docs/probes",
    "docs/from-tvm",
    "boards/README",
]
"""Pages with wide tables and wide output."""

ASSETS = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built by the command of `make docs`."""
    folder = tmp_path_factory.mktemp("site")
    (line,) = [x for x in (ROOT / "Makefile").read_text().splitlines() if " -m sphinx " in x]
    command = line.replace("@$(PYTHON_BIN)/python", sys.executable)
    command = command.replace("build/site-cache", str(folder / "cache"))
    command = command.replace("build/site", str(folder / "site"))
    assert " -W " in command, "a warning, such as a link that leads nowhere, fails"
    done = subprocess.run(
        shlex.split(command), cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "site"


class Document(HTMLParser):
    """What a page links to, what it loads, and the ids that links may name."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if "id" in values:
            self.ids.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if ASSETS.get(tag, "") in values:
            self.loaded.append(values[ASSETS[tag]])


@pytest.fixture(scope="module")
def documents(site: Path) -> dict[Path, Document]:
    return {file: Document(file) for file in sorted(site.rglob("*.html"))}


def test_every_link_of_the_site_leads_somewhere(documents: dict[Path, Document]) -> None:
    wrong = []
    for file, document in documents.items():
        for link in document.links:
            path, _, fragment = unquote(link).partition("#")
            target = (file.parent / path).resolve() if path else file
            if re.match(r"https?://", link):
                continue
            known = documents[target].ids if target in documents else {fragment}
            if not target.is_file() or (fragment and fragment not in known):
                wrong.append(f"{file.name}: {link}")
    assert wrong == []


def test_every_page_of_the_docs_is_on_the_site_and_in_its_navigation(
    site: Path, documents: dict[Path, Document]
) -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    linked = {path for path in documents[site / "docs" / "README.html"].links if "#" not in path}
    assert pages - {path.removesuffix(".html") for path in linked} == {"README"}


def test_nothing_is_loaded_from_elsewhere(site: Path, documents: dict[Path, Document]) -> None:
    loaded = {path for document in documents.values() for path in document.loaded}
    assert [path for path in loaded if re.match(r"(?:\w+:)?//", path)] == []
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        named = re.findall(r"url\(\s*[\"']?([^\"')]*)", text) + re.findall(r"@import\s+(\S+)", text)
        assert [path for path in named if re.match(r"(?:https?:)?//", path)] == []


@pytest.fixture
def reader(browser: webdriver.Chrome, site: Path) -> Iterator[Page]:
    """The site, opened from its folder; whatever a test does, it asks for nothing else."""
    opened = Page(browser, site)
    opened.width(1280)
    browser.get("about:blank")
    for log in ("performance", "browser"):
        browser.get_log(log)
    yield opened
    assert [url for url in opened.requests() if not url.startswith(site.as_uri())] == []
    assert browser.get_log("browser") == []


def test_its_first_page_is_the_list_of_all(reader: Page) -> None:
    reader.browser.get((reader.folder / "index.html").as_uri())
    WebDriverWait(reader.browser, DEADLINE_S).until(lambda _: reader.texts("h1"))
    assert reader.texts("h1")[0].startswith("The documentation")
    captions = [text.casefold() for text in reader.texts(".sidebar-tree .caption-text")]
    assert captions[:4] == ["first day", "measure", "find where", "find why it changed"]
    assert captions[4:] == ["tune", "running firmware", "ci", "boards", "reference"]


def test_its_search_works_without_a_server(reader: Page) -> None:
    reader.browser.get((reader.folder / "docs" / "README.html").as_uri())
    field = reader.browser.find_element(By.CSS_SELECTOR, ".sidebar-search")
    field.send_keys("Wilcoxon", Keys.ENTER)
    WebDriverWait(reader.browser, DEADLINE_S).until(
        lambda _: "Gates: statistics" in " ".join(reader.texts("#search-results li a"))
    )


@pytest.mark.parametrize("pixels", [390, 1280])
def test_wide_tables_do_not_widen_the_page(reader: Page, pixels: int) -> None:
    reader.width(pixels)
    assert widened(reader, [reader.folder / f"{name}.html" for name in WIDE]) == []


def test_a_table_that_is_wider_than_a_phone_scrolls(reader: Page) -> None:
    reader.width(390)
    reader.browser.get((reader.folder / "docs" / "firmware.html").as_uri())
    wide, stuck = reader.script(
        """
        const wide = [...document.querySelectorAll("article table")].filter(
            (table) => table.getBoundingClientRect().right > innerWidth);
        const scrolls = (table) => {
            for (let box = table; box; box = box.parentElement)
                if (["auto", "scroll"].includes(getComputedStyle(box).overflowX)) {
                    box.scrollLeft = 1e6;
                    return box.scrollLeft > 0 && table.getBoundingClientRect().right <= innerWidth;
                }
            return false;
        };
        return [wide.length, wide.filter((table) => !scrolls(table)).length];
        """
    )
    assert (wide > 0, stuck) == (True, 0)


@pytest.mark.nightly
@pytest.mark.parametrize("pixels", [390, 768, 1280, 1920])
def test_no_page_is_wider_than_the_screen(
    reader: Page, documents: dict[Path, Document], pixels: int
) -> None:
    reader.width(pixels)
    assert widened(reader, [file for file in documents if file.name != "index.html"]) == []


def widened(reader: Page, files: list[Path]) -> list[str]:
    found = []
    for file in files:
        reader.browser.get(file.as_uri())
        if reader.script("return document.documentElement.scrollWidth > innerWidth"):
            found.append(file.name)
    return found
