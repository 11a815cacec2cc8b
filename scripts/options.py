# SPDX-License-Identifier: Apache-2.0
"""Writes what build systems need to know of the agent's options, from one table.

The table is device_runtime_c/options/options.toml. Run from the repository:
``python scripts/options.py`` writes bp_config.h's options, Kconfig, and the files for CMake, make
and PlatformIO. With ``--check`` it ends with 1 if one of them is not current.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Option", "main", "pages", "read_options"]

_ROOT = Path(__file__).resolve().parents[1]
_FOLDER = _ROOT / "device_runtime_c" / "options"
_HEADER = _ROOT / "device_runtime_c" / "include" / "boardprof" / "bp_config.h"
_BEGIN = "/* These options are generated from options/options.toml: make gen */\n"
_END = "/* end of the options */\n"
_MOST_INT = 0x7FFFFFFF

_HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# Generated from options.toml. Do not edit: change that and run `make gen`.
"""


@dataclass(frozen=True)
class Option:
    """One option of the agent; options.toml says what each entry means."""

    name: str
    title: str
    default: int
    range: str
    about: str
    kconfig: int | None = None
    hex: bool = False
    off_without: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    wrap: tuple[str, ...] = ()
    c_library: bool = False
    needs: tuple[tuple[str, str], ...] = ()

    @property
    def macro(self) -> str:
        """The option's name in C."""
        return f"BP_CFG_{self.name.upper()}"


def read_options(text: str) -> list[Option]:
    """Return the options of options.toml, in its order.

    Raises:
        TypeError: an entry is not known, or a required one is missing.
    """
    tables: dict[str, dict[str, Any]] = tomllib.loads(text)
    return [
        Option(name=name, **{key: _frozen(value) for key, value in table.items()})
        for name, table in tables.items()
    ]


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def pages(options: list[Option], header: str) -> dict[Path, str]:
    """Return the text of each generated file.

    Args:
        options: from `read_options`.
        header: the text of bp_config.h, whose generated part is replaced.
    """
    before, _, rest = header.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return {
        _HEADER: f"{before}{_BEGIN}\n{''.join(_in_c(options))}\n{_END}{after}",
        _FOLDER / "Kconfig": _HEAD + "".join(_in_kconfig(options)),
        _FOLDER / "options.cmake": _HEAD + _in_cmake(options),
        _FOLDER / "options.mk": _HEAD + _in_make(options),
        _FOLDER / "options.json": _in_json(options),
    }


def main(arguments: list[str]) -> int:
    """Write the files, or check them; return the exit status."""
    options = read_options((_FOLDER / "options.toml").read_text(encoding="utf-8"))
    status = 0
    for path, text in pages(options, _HEADER.read_text(encoding="utf-8")).items():
        if arguments != ["--check"]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is not current: run make gen.", file=sys.stderr)
            status = 1
    return status


_LONGEST_LINE = 100


def _in_c(options: list[Option]) -> Iterator[str]:
    for option in options:
        yield _comment(option.about)
        yield f"#ifndef {option.macro}\n#define {option.macro} {option.default}\n#endif\n"
        if option.off_without:
            absent = " || ".join(f"BP_CFG_{name.upper()} == 0" for name in option.off_without)
            yield f"#if {option.macro} == 1 && ({absent})\n"
            yield f"#undef {option.macro}\n#define {option.macro} 0\n#endif\n"
        yield "\n"
    for option in options:
        line = f"#if {_out_of_range(option)}"
        if len(line) > _LONGEST_LINE:
            line = line.replace(" && (", " && \\\n    (", 1)
        yield f"{line}\n"
        yield f'#error "{option.macro} is out of range ({option.range})"\n#endif\n'
        for condition, text in option.needs:
            yield f'#if {condition}\n#error "{text}"\n#endif\n'
    yield "\n#ifndef __ASSEMBLER__\n"
    yield _comment("A value that is a word is an error here; above, it counts as 0.")
    yield "enum {\n"
    for option in options:
        yield f"    bp_{option.name}_is_a_number = sizeof({option.macro}),\n"
    yield "};\n#endif\n"


def _comment(about: str) -> str:
    text = " ".join(about.split())
    return (
        textwrap.fill(
            f"{text} */", 100, initial_indent="/* ", subsequent_indent=" * ", break_on_hyphens=False
        ).replace("\n * */", "\n */")
        + "\n"
    )


def _out_of_range(option: Option) -> str:
    """Return the C condition of a value that is not allowed."""
    # 0 passes the test of a power of two, too.
    text = option.range.replace("0, powers", "powers")
    parts = [_not_in(option.macro, part) for part in text.split(", ")]
    if len(parts) > 1:
        parts = [f"({part})" if " || " in part else part for part in parts]
    return " && ".join(parts)


def _not_in(name: str, part: str) -> str:
    if found := re.fullmatch(r"(\w+)\.\.(\w+)", part):
        return f"{name} < {found[1]} || {name} > {found[2]}"
    if found := re.fullmatch(r"(\w+) or more", part):
        return f"{name} < {found[1]}"
    if found := re.fullmatch(r"multiples of (\w+) from (\w+) to (\w+)", part):
        return f"{name} < {found[2]} || {name} > {found[3]} || {name} % {found[1]} != 0"
    if found := re.fullmatch(r"powers of two up to (\w+)", part):
        return f"{name} < 0 || {name} > {found[1]} || ({name} & ({name} - 1)) != 0"
    if re.fullmatch(r"\d+", part):
        return f"{name} != {part}"
    raise ValueError(f"{name}: range {part!r} is not of a known form")


def _in_kconfig(options: list[Option]) -> Iterator[str]:
    """Yield the entries. Kconfig knows only one range; bp_config.h checks what is in it."""
    for option in options:
        default = option.default if option.kconfig is None else option.kconfig
        kind = "hex" if option.hex else "int"
        yield f'\nconfig BOARDPROF_{option.name.upper()}\n\t{kind} "{option.title}"\n'
        yield f"\tdefault {hex(default) if option.hex else default}\n"
        if not option.hex:
            first, last = _ends(option.range)
            yield f"\trange {first} {last}\n"
        text = " ".join(option.about.split()).replace("BP_CFG_", "BOARDPROF_")
        yield "\thelp\n" + textwrap.indent(textwrap.fill(text, 72), "\t  ") + "\n"


def _ends(text: str) -> tuple[str, str]:
    """Return the least and the largest value of a range as Kconfig writes them."""
    numbers = re.findall(r"BP_CFG_\w+|0x[0-9a-f]+|\d+", re.sub(r"multiples of \d+", "", text))
    ends = [_in_kconfig_range(number) for number in (numbers[0], numbers[-1])]
    return (ends[0], str(_MOST_INT) if text.endswith("or more") else ends[1])


def _in_kconfig_range(number: str) -> str:
    is_name = number.startswith("BP_CFG_")
    return number.replace("BP_CFG_", "BOARDPROF_") if is_name else str(int(number, 0))


def _in_cmake(options: list[Option]) -> str:
    return "".join(
        f"set({name}\n" + textwrap.indent(_filled(words), "    ") + ")\n"
        for name, words in _lists(options).items()
    )


def _in_make(options: list[Option]) -> str:
    return "".join(
        f"{name} := \\\n    " + _filled(words).replace("\n", " \\\n    ") + "\n"
        for name, words in _lists(options).items()
    )


def _lists(options: list[Option]) -> dict[str, list[str]]:
    """Return the options, what each brings, and those that need a C library; for CMake and make."""
    lists = {"boardprof_options": [option.name.upper() for option in options]}
    for option in options:
        for what, values in (("sources", option.sources), ("wrap", option.wrap)):
            if values:
                lists[f"boardprof_{what}_{option.name.upper()}"] = list(values)
    with_library = [option.name.upper() for option in options if option.c_library]
    return {**lists, "boardprof_with_c_library": with_library}


def _filled(words: list[str]) -> str:
    return textwrap.fill(" ".join(words), 90, break_on_hyphens=False)


def _in_json(options: list[Option]) -> str:
    """Return what an option brings, by macro; PlatformIO's Python may be too old for TOML."""
    data = {
        option.macro: {"sources": option.sources, "wrap": option.wrap}
        for option in options
        if option.sources or option.wrap
    }
    return json.dumps(data, indent=4) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
