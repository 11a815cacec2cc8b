# SPDX-License-Identifier: Apache-2.0
"""TVM's C, made into plain functions that need neither TVM's headers nor its runtime."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from boardprof.base.errors import UsageError

_PROLOGUE = "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <string.h>\n"

# C11, 6.4.1, and GNU C's own; names of the file itself; functions of 7.12 and 7.24, for floats of
# each size, and what <math.h> and <string.h> of glibc, newlib and picolibc declare besides.
_WORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void
volatile while asm typeof bool true false main workspace NULL NAN INFINITY
"""
_OF_MATH = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2
expm1 fabs fdim finite floor fma fmax fmin fmod frexp gamma hypot ilogb infinity isinf isnan j0 j1
jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter
nexttoward pow pow10 remainder remquo rint round roundeven scalb scalbln scalbn signbit significand
sin sincos sinh sqrt tan tanh tgamma trunc y0 y1 yn
"""
_OF_OTHERS = """
fpclassify index isfinite isgreater isless islessgreater isnormal isunordered rindex signgam
bcmp bcopy bzero ffs memccpy memchr memcmp memcpy memmem memmove mempcpy memset stpcpy strcasecmp
strcat strchr strcmp strcoll strcpy strcspn strdup strerror strlen strncat strncmp strncpy strnlen
strpbrk strrchr strsep strsignal strspn strstr strtok strxfrm swab
"""
_TAKEN = frozenset((*_WORDS.split(), *_OF_OTHERS.split())) | {
    f"{name}{size}" for name in _OF_MATH.split() for size in ("", "f", "l")
}

_FUNCTION = re.compile(r"^TVM_DLL int32_t (\w+)\(([^)]*)\) \{\n(.*?)^\}\n", re.M | re.S)
_ALLOCATED = re.compile(r"TVMBackendAllocWorkspace\(\d+, \d+, \(uint64_t\)(\d+)ULL, -?\d+, -?\d+\)")
_CHECK = re.compile(r"^ *if \((?:\w+ == NULL|TVMBackendFreeWorkspace\([^;{]*)\) \{[^}]*\}\n", re.M)
_RETURN = re.compile(r"\breturn (?:0|-1);")
_FOREIGN = re.compile(r"\bTVM\w+")
_ALIGNMENT = 16
OPERAND = re.compile(r"\bv_(?:_\d+)?\b")
"""The variables in which TVM keeps operands of max and min."""

_OPERAND_SET = re.compile(r"(\s*)\w+ (v_(?:_\d+)?) = (.*);")


def c_name(name: str) -> str:
    """Return a name of TVM or of a network as an identifier that a C file may define.

    ``/model/x`` is ``_model_x``, and ``erf``, which <math.h> declares, is ``erf_``.
    """
    plain = re.sub(r"\W", "_", name, flags=re.ASCII) or "_"
    plain = f"_{plain}" if plain[0].isdigit() else plain
    if plain.startswith("bp_"):  # of the agent
        return f"_{plain}"
    return f"{plain}_" if plain in _TAKEN else plain


def c_names(names: Iterable[str]) -> list[str]:
    """Return different identifiers for the parameters of one function, in their order."""
    found: list[str] = []
    for name in map(c_name, names):
        free = name
        while free in found:
            free += "_"
        found.append(free)
    return found


@dataclass(frozen=True)
class CFunctionText:
    """A plain C function."""

    name: str
    parameters: tuple[str, ...]  # as in C; pointers to what it only reads are const
    body: str  # between the braces
    workspace: int  # bytes of temporary buffers, which it takes from `workspace`

    @property
    def outputs(self) -> list[str]:
        """Names of the pointers through which it writes."""
        pointers = [each for each in self.parameters if "*" in each]
        return [each.split()[-1] for each in pointers if not each.startswith("const ")]

    @property
    def text(self) -> str:
        """The whole function."""
        return f"void {self.name}({', '.join(self.parameters) or 'void'}) {{\n{self.body}}}\n"


def plain_functions(source: str, distinct: Collection[str] = ()) -> list[CFunctionText]:
    """Take the functions out of C that TVM's target ``c`` has made."""
    # The buffers of ``distinct`` functions do not overlap: their pointers are restrict.
    return [
        _plain(*found.groups(), is_distinct=found[1] in distinct)
        for found in _FUNCTION.finditer(source)
    ]


def c_file(functions: list[CFunctionText]) -> str:
    """Return a C file of functions. They share one static workspace, since one runs at a time."""
    size = max((function.workspace for function in functions), default=0)
    parts = [_PROLOGUE]
    if size:
        parts.append(f"static _Alignas({_ALIGNMENT}) uint8_t workspace[{size}];\n")
    return "\n".join([*parts, *(function.text for function in functions)])


def _plain(name: str, parameters: str, body: str, *, is_distinct: bool) -> CFunctionText:
    used = 0

    def place(found: re.Match[str]) -> str:
        nonlocal used
        offset, used = used, used + -(-int(found[1]) // _ALIGNMENT) * _ALIGNMENT
        return f"(void*)(workspace + {offset})"

    body = _ALLOCATED.sub(place, body)
    body = _RETURN.sub("return;", _CHECK.sub("", body))
    foreign = _FOREIGN.search(body)
    if foreign is not None:
        raise UsageError(
            f"{name} calls {foreign[0]} of TVM's runtime, which is not on a board.",
            hint="use operators that TVM compiles to loops, of shapes that do not change",
        )
    body = "".join(_with_fresh_operands(body))
    split = [each.strip() for each in parameters.split(",") if each.strip()]
    qualified = tuple(_qualified(each, body, is_distinct=is_distinct) for each in split)
    return CFunctionText(c_name(name), qualified, body, used)


def _with_fresh_operands(body: str) -> Iterator[str]:
    """Yield the lines of a body in which no operand is older than the statement that uses it.

    TVM sets a variable where an operand of max or min comes first, and uses it wherever the same
    text comes again, even if what it reads was written in between.
    """
    values: dict[str, str] = {}
    fresh: set[str] = set()

    def stale(text: str) -> Iterator[str]:
        for name in OPERAND.findall(text):
            if name in values and name not in fresh:
                yield from stale(values[name])
                fresh.add(name)
                yield name

    for line in body.splitlines(keepends=True):
        found = _OPERAND_SET.match(line)
        used = line if found is None else found[3]
        indent = line[: len(line) - len(line.lstrip())]
        yield from (f"{indent}{name} = {values[name]};\n" for name in stale(used))
        yield line
        if found is None:
            fresh.clear()
        else:
            values[found[2]] = found[3]
            fresh.add(found[2])


def _qualified(parameter: str, body: str, *, is_distinct: bool) -> str:
    """Add ``const`` to a pointer through which nothing is written, and ``restrict``."""
    type_, _, name = parameter.rpartition(" ")
    if not type_.endswith("*"):
        return parameter
    is_written = re.search(rf"^\s*{name}\[[^=;]*\] = |(?<!\w){name}(?![\w\[])", body, re.M)
    return f"{'' if is_written else 'const '}{type_} {'restrict ' * is_distinct}{name}"
