# SPDX-License-Identifier: Apache-2.0
"""The Python API as Markdown, from signatures and Google's form of docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from types import BuiltinFunctionType, FunctionType, ModuleType

__all__ = ["python_pages"]

_HEAD = """\
# {title}

<!-- This page is generated from the docstrings: make gen -->
<!-- fmt: off -->
"""

_SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields):")
_ITEM = re.compile(r"(\*{0,2}[\w.]+(?:, [\w.]+)*): (.*)")
_DUNDERS = ("__call__",)
_NOT_MADE = (
    *("Block", "Board", "ClockFit", "Column", "Dtypes", "Firmware", "Measured", "Memory"),
    *("ProfiledFunction", "Profiler", "Stream", "TimeEvaluator", "Transport", "Window"),
)
"""Classes whose objects a function or a fixture gives: how they are made is nobody's business."""

_LONGEST_DEFAULT = 60
_FRAGMENT = "<!-- not run: a fragment, whose names stand for your own -->"


def python_pages(
    sections: Sequence[tuple[ModuleType, str, str, Sequence[str]]],
    topics: Mapping[str, tuple[str, str]],
) -> dict[str, str]:
    """Return the pages by the names of their files. The first one also lists what the others have.

    Args:
        sections: module, heading ("" if it has none), text below it, names (() for ``__all__``).
        topics: name and title of the page that begins with a section, by the section's heading.
    """
    pages: dict[str, _Page] = {}
    for module, heading, text, names in sections:
        if heading in topics:
            name, title = topics[heading]
            page = pages[name] = _Page(name, title)
        page.add(module, heading, text, names)
    first, *others = pages.values()
    linked = ["\n\nThe other pages have:", *(page.links() for page in others)]
    return {first.name: first.text(linked), **{page.name: page.text() for page in others}}


class _Page:
    """A page of the reference while it grows."""

    def __init__(self, name: str, title: str) -> None:
        self.name = name
        self.title = title
        self._headings: list[tuple[str, dict[str, object]]] = []
        self._parts: list[str] = []

    def add(self, module: ModuleType, heading: str, text: str, names: Sequence[str]) -> None:
        """Add a section, or more of the one before."""
        if heading:
            self._headings.append((heading, {}))
            self._parts.append(f"\n## {heading}\n")
            doc = inspect.getdoc(module) or ""
            self._parts.append(f"\n{text}\n" if text else _markdown(doc) if not names else "")
        for name in names or [n for n in module.__all__ if n != "__version__"]:
            path = f"{module.__name__}.{name}"
            thing = self._headings[-1][1][path] = getattr(module, name)
            self._parts += _entry(path, thing)

    def contents(self) -> Iterator[str]:
        """Yield links to the page's sections and names, with what each name is."""
        for heading, things in self._headings:
            yield f"\n- {_link(heading, heading)}:"
            for path, thing in things.items():
                yield f"\n  - {_link(path.rpartition('.')[2], path)}{_summary(thing)}"

    def links(self) -> str:
        """Return links to the page and its names, for another page."""
        names = [
            _link(path.rpartition(".")[2], path, self.name)
            for _, things in self._headings
            for path in things
        ]
        return f"\n\n**[{self.title}]({self.name})**: " + ",\n".join(names)

    def text(self, others: Sequence[str] = ()) -> str:
        """Return the page as Markdown."""
        head = _HEAD.format(title=self.title)
        return "".join([head, *self.contents(), *others, "\n", *self._parts])


def _link(text: str, heading: str, page: str = "") -> str:
    """Return a link to a heading of a page; of this page if it is ""."""
    anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    return f"[{text.replace('`', '')}]({page}#{anchor})"


def _summary(thing: object) -> str:
    """Return the first line of the docstring, behind a colon; "" for a constant."""
    is_documented = inspect.isclass(thing) or isinstance(thing, FunctionType)
    doc = inspect.getdoc(thing) if is_documented else ""
    return f": {_markdown(doc.splitlines()[0]).strip()}" if doc else ""


def _entry(path: str, thing: object) -> Iterator[str]:
    """Yield what there is to say of a class, a function or a constant."""
    yield f"\n### {path}\n"
    if inspect.isclass(thing):
        inherited = (Exception.__init__, object.__init__)
        is_made = inspect.getattr_static(thing, "__init__") not in inherited
        is_made &= thing.__name__ not in _NOT_MADE and not _is_enum(thing)
        if is_made:
            yield _signature(thing.__name__, vars(thing).get("__init__", thing))
        yield _markdown(_own_doc(thing))
        if is_made:
            yield from _constructor(thing)
        yield from _members(thing)
    elif isinstance(thing, FunctionType):
        yield _signature(thing.__name__, thing)
        yield _markdown(inspect.getdoc(thing) or "")
    else:
        yield f"\n`{thing!r}`\n"


def _constructor(cls: type) -> Iterator[str]:
    """Yield the arguments, where the class has a constructor of its own that tells them."""
    doc = inspect.getdoc(vars(cls)["__init__"]) or "" if "__init__" in vars(cls) else ""
    place = _SECTION.search(doc)
    if place is not None:
        yield _markdown(doc[place.start() :])


def _members(cls: type) -> Iterator[str]:
    for name, member in _public(cls):
        if isinstance(member, property | cached_property):
            yield f"\n#### {cls.__name__}.{name}\n{_markdown(inspect.getdoc(member) or '')}"
        else:
            function = member.__func__ if isinstance(member, classmethod) else member
            yield f"\n#### {cls.__name__}.{name.strip('_')}\n"
            yield _signature("" if name == "__call__" else name, function)
            yield _markdown(inspect.getdoc(function) or "")
    if _is_enum(cls):
        for name in cls.__members__:  # type: ignore[attr-defined]
            yield f"\n- `{name}`\n"


def _public(cls: type) -> Iterator[tuple[str, object]]:
    """Yield properties and methods with a docstring, those of our own base classes included."""
    seen: set[str] = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("boardprof"):
            continue
        for name, member in vars(base).items():
            is_ours = not name.startswith("_") or name in _DUNDERS
            kinds = (property, cached_property, FunctionType, classmethod)
            if is_ours and name not in seen and isinstance(member, kinds) and member.__doc__:
                seen.add(name)
                yield name, member


def _signature(name: str, function: object) -> str:
    assert callable(function)
    signature = inspect.signature(function)
    parameters = [*signature.parameters.values()]
    if parameters and parameters[0].name in ("self", "cls"):
        del parameters[0]
    words: list[str] = []
    for parameter in parameters:
        is_keyword = parameter.kind is parameter.KEYWORD_ONLY
        if is_keyword and not any(word.startswith("*") for word in words):
            words.append("*")
        words.append(_parameter(parameter))
    returned = signature.return_annotation
    arrow = f" -> {returned}" if isinstance(returned, str) and name != "__init__" else ""
    arrow = "" if arrow == " -> None" else arrow
    line = f"{name}({', '.join(words)}){arrow}"
    if len(line) > 96:
        line = f"{name}(\n{''.join(f'    {word},' + chr(10) for word in words)}){arrow}"
    return f"\n{_FRAGMENT}\n```python\n{line}\n```\n"


def _parameter(parameter: inspect.Parameter) -> str:
    annotation = parameter.annotation
    text = str(parameter.replace(annotation=parameter.empty, default=parameter.empty))
    if annotation is not parameter.empty:
        text += f": {annotation if isinstance(annotation, str) else annotation.__name__}"
    if parameter.default is not parameter.empty:
        default = parameter.default
        named = isinstance(default, type | FunctionType | BuiltinFunctionType)
        shown = default.__name__ if named else re.sub(r" at 0x[0-9a-f]+", "", repr(default))
        text += f" = {shown if len(shown) <= _LONGEST_DEFAULT else '...'}"
    return text


def _own_doc(cls: type) -> str:
    doc = cls.__dict__.get("__doc__")
    return inspect.cleandoc(doc) if doc else ""


def _is_enum(cls: type) -> bool:
    return hasattr(cls, "__members__")


def _markdown(doc: str) -> str:
    """Return a docstring as Markdown: sections as lists, literal blocks as fences."""
    out: list[str] = []
    lines = doc.splitlines()
    i = 0
    while i < len(lines):
        line = lines[i]
        if found := _SECTION.fullmatch(line):
            end = _end_of_block(lines, i + 1)
            out += ["", f"*{found[1]}*", "", *_items(lines[i + 1 : end])]
            i = end
        elif line.endswith("::"):
            end = _end_of_block(lines, i + 1)
            code = inspect.cleandoc("\n" + "\n".join(lines[i + 1 : end])).rstrip()
            text = line.removesuffix("::").rstrip()
            out += [f"{text}:"] if text else []
            out += ["", _FRAGMENT, "```python", code, "```"]
            i = end
        else:
            out.append(line)
            i += 1
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(out)).replace("``", "`").replace("```", "``")
    return f"\n{_fences(text).strip()}\n" if text.strip() else ""


def _fences(text: str) -> str:
    """Return text whose fences have their three ticks again, which became two with the others."""
    return re.sub(r"^``(python)?$", r"```\1", text, flags=re.MULTILINE)


def _end_of_block(lines: Sequence[str], start: int) -> int:
    """Return the index behind the indented lines from ``start`` on."""
    i = start
    while i < len(lines) and (not lines[i] or lines[i].startswith(" ")):
        i += 1
    return i


def _items(lines: Sequence[str]) -> Iterator[str]:
    """Yield list items; lines that are indented further belong to the item before."""
    for line in inspect.cleandoc("\n" + "\n".join(lines)).splitlines():
        found = _ITEM.fullmatch(line)
        if found:
            yield f"- `{found[1]}`: {found[2]}"
        elif line:
            yield f"  {line.strip()}" if line.startswith(" ") else f"- {line}"
