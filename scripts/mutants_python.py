# SPDX-License-Identifier: Apache-2.0
"""Mutants: small changes of the code that a test should notice, and the choice of some of many.

The operators here change the text of one node of a Python module's syntax tree. They leave out what
no test should notice: annotations, decorators, type aliases, assertions and the text of messages.
"""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["EQUIVALENT", "ROOMS", "Edit", "Mutant", "chosen", "named", "python_edits"]
__all__ += ["python_mutants"]

ROOMS = {
    "decode": "wire/decode",
    "report": "results/report",
    "link": "wire/link",
    "board": "measure/board",
    "measure": "measure/sampling",
    "arguments": "target/arguments",
    "comparison": "results/comparison",
}
"""Folder below ``host/boardprof`` of each room, which is the first word of its mutants' names."""

EQUIVALENT = {  # identity: why no test can notice the mutant
    "arguments.argument_text:read_argument:compare:0": "a lone quote is a text either way",
    "arguments.signature:scalar_packer:integer:3": "the range is empty either way",
    "board.image:<module>:integer:2": "no frame has 4097 bytes: they are multiples of 8",
    "bp_agent.c:bp_progress:plus:0": "exactly 11 bytes are needed, and there are",
    "bp_call.c:bp_ret_joined:lt:0": "the next value or the CRC overwrites the further NUL",
    "bp_channel.c:bp_data_due:lt:0": "the smaller one of two equal values",
    "bp_frame.c:bp_frame_take_some:lt:2": "the smaller one of two equal values",
    "bp_sample.c:bp_possible:lt:0": "the smaller one of two equal values",
    "comparison.difference:_verdict:compare:6": "the step is not 0 there",
    "comparison.profile_difference:AlignedLine:integer:1": "every line's costs are set later",
    "measure.available_metrics:Offer._close:return:0": "the caller treats None like an empty list",
    "measure.measure_function:_notes:compare:3": "a measured time is never exactly 10 s",
    "report.calls:CallsBuilder.add:compare:1": "it decides when rows are put away, not which",
}
_HOST = "host/boardprof"


class Edit(NamedTuple):
    """A replacement of the bytes ``begin`` to ``end`` of a source file."""

    begin: int
    end: int
    kind: str
    new: str
    function: str


@dataclass(frozen=True)
class Mutant:
    """An edit with an identity that stays when lines move: ``module:function:kind:ordinal``.

    The room is a key of `ROOMS`, or ``agent``. The path is relative to the checkout.
    """

    identity: str
    room: str
    path: str
    edit: Edit

    def applied(self, source: bytes) -> bytes:
        """Return the file's content with the replacement."""
        return source[: self.edit.begin] + self.edit.new.encode() + source[self.edit.end :]

    def change(self, source: bytes) -> str:
        """Return the lines before and after, for people, in one line."""
        begin = source.rfind(b"\n", 0, self.edit.begin) + 1
        after = len(source) - (source + b"\n").find(b"\n", self.edit.end)
        texts = (text[begin : len(text) - after] for text in (source, self.applied(source)))
        return "  =>  ".join(" ".join(text.decode().split()) for text in texts)


def named(edits: Iterable[Edit], module: str, room: str, path: str) -> Iterator[Mutant]:
    """Number the edits of a file, in its order, within function and kind."""
    seen: Counter[str] = Counter()
    for edit in edits:
        group = f"{module}:{edit.function}:{edit.kind}"
        yield Mutant(f"{group}:{seen[group]}", room, path, edit)
        seen[group] += 1


def chosen(tree: Path, mutants: Iterable[Mutant], count: int) -> list[Mutant]:
    """Choose the valid mutants whose identities have the lowest SHA-256."""
    ranked = sorted(mutants, key=lambda mutant: hashlib.sha256(mutant.identity.encode()).digest())
    valid = (mutant for mutant in ranked if is_valid((tree / mutant.path).read_bytes(), mutant))
    return list(islice(valid, count))


def python_mutants(tree: Path, room: str) -> list[Mutant]:
    """Return all mutants of a room of `ROOMS` in a checkout."""
    found: list[Mutant] = []
    folder = tree / _HOST / ROOMS[room]
    for file in sorted(folder.rglob("*.py")):
        module = ".".join([room, *file.relative_to(folder).with_suffix("").parts])
        edits = python_edits(file.read_bytes())
        found += named(edits, module, room, file.relative_to(tree).as_posix())
    return found


def is_valid(source: bytes, mutant: Mutant) -> bool:
    """Tell whether a mutant compiles, if it is in Python, and is another program."""
    if mutant.path.endswith(".c"):
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            compile(mutated := mutant.applied(source), mutant.path, "exec")
    except SyntaxError:
        return False
    return ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(source))


def python_edits(source: bytes) -> list[Edit]:
    """Return all edits of a module, in the order of its text."""
    edits = _walk(_Text(source), ast.parse(source), "<module>", has_value=False)
    return sorted(edits, key=lambda edit: edit[:3])


class _Text:
    """A source file, by the positions of syntax nodes: columns are UTF-8 bytes."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._lines = [0, *accumulate(map(len, source.splitlines(keepends=True)))]

    def span(self, node: Any) -> tuple[int, int]:
        begin = self._lines[node.lineno - 1] + node.col_offset
        return begin, self._lines[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: ast.AST) -> str:
        return self.source[slice(*self.span(node))].decode()

    def find(self, word: str, left: ast.AST, right: ast.AST) -> tuple[int, int]:
        """Return begin and end of an operator between two operands, not in a comment."""
        begin, end = self.span(left)[1], self.span(right)[0]
        between = re.sub(rb"#[^\n]*", lambda m: b" " * len(m[0]), self.source[begin:end])
        match = re.search(rb"\s+".join(re.escape(w) for w in word.encode().split()), between)
        assert match is not None, (word, between)
        return begin + match.start(), begin + match.end()


def _walk(text: _Text, node: ast.AST, function: str, has_value: bool) -> Iterator[Edit]:
    """Yield the edits of a node in a function that returns a value, or does not."""
    if _is_for_types(node, function):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        function = node.name if function == "<module>" else f"{function}.{node.name}"
        returns = getattr(node, "returns", None)
        has_value = returns is not None and ast.unparse(returns) != "None"
    for found in (_in_expression(text, node), _in_statement(text, node, has_value)):
        for kind, (begin, end), new in found:
            yield Edit(begin, end, kind, new, function)
    for child in _children(node):
        yield from _walk(text, child, function, has_value)


def _is_for_types(node: ast.AST, function: str) -> bool:
    """Tell whether nothing within a node does anything that a test should notice."""
    match node:
        case ast.Assert() | ast.Raise() | ast.JoinedStr():  # f-strings have positions from 3.12
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in {"TypeVar", "NewType", "ParamSpec", "NamedTuple", "TypedDict"}
        case ast.AnnAssign(annotation=annotation):
            return "TypeAlias" in ast.unparse(annotation)
        case ast.Assign(targets=[ast.Name(id=name), *_]):
            bare = name.lstrip("_")  # a module's name that is spelled like a class is an alias
            is_class = bare[:1].isupper() and not bare.isupper()
            return name == "__all__" or (is_class and function == "<module>")
    return False


_VALUES = {"isinstance": slice(1), "issubclass": slice(1), "cast": slice(1, 9), "zip": slice(9)}


def _children(node: ast.AST) -> Iterable[ast.AST]:
    """Return the nodes within a node that may be changed."""
    match node:
        case ast.FunctionDef(args=args, body=body) | ast.AsyncFunctionDef(args=args, body=body):
            return filter(None, [*args.defaults, *args.kw_defaults, *body])
        case ast.ClassDef(body=body):
            return body
        case ast.AnnAssign(value=value):
            return [] if value is None else [value]
        case ast.If(test=test, orelse=rest) if ast.unparse(test).endswith("TYPE_CHECKING"):
            return rest
        case ast.Call(func=ast.Name(id=name), args=values) if name in _VALUES:
            return values[_VALUES[name]]
    return ast.iter_child_nodes(node)


_Found = Iterator[tuple[str, tuple[int, int], str]]  # kind, span, new text

_OPERATORS: dict[type[ast.AST], tuple[str, str, str]] = {  # kind, text before and after
    ast.Lt: ("compare", "<", "<="), ast.LtE: ("compare", "<=", "<"),
    ast.Gt: ("compare", ">", ">="), ast.GtE: ("compare", ">=", ">"),
    ast.Eq: ("compare", "==", "!="), ast.NotEq: ("compare", "!=", "=="),
    ast.In: ("compare", "in", "not in"), ast.NotIn: ("compare", "not in", "in"),
    ast.Is: ("compare", "is", "is not"), ast.IsNot: ("compare", "is not", "is"),
    ast.Add: ("arithmetic", "+", "-"), ast.Sub: ("arithmetic", "-", "+"),
    ast.Mult: ("arithmetic", "*", "//"), ast.FloorDiv: ("arithmetic", "//", "*"),
    ast.Div: ("arithmetic", "/", "*"), ast.BitAnd: ("bits", "&", "|"),
    ast.BitOr: ("bits", "|", "&"), ast.LShift: ("bits", "<<", ">>"),
    ast.RShift: ("bits", ">>", "<<"), ast.And: ("logic", "and", "or"),
    ast.Or: ("logic", "or", "and"),
}  # fmt: skip


def _in_expression(text: _Text, node: ast.AST) -> _Found:
    for op, left, right in _operations(node):
        if type(op) in _OPERATORS:
            kind, old, new = _OPERATORS[type(op)]
            yield kind, text.find(old, left, right), new
    match node:
        case ast.UnaryOp(op=ast.Not()):
            (begin, end), operand = text.span(node), text.of(node)[3:].lstrip()
            yield "not", (begin, end - len(operand.encode())), ""
        case ast.Constant(value=bool(value)):
            yield "bool", text.span(node), str(not value)
        case ast.Constant(value=int(value)):
            is_hex = text.of(node).lower().startswith("0x")
            yield "integer", text.span(node), hex(value + 1) if is_hex else str(value + 1)


def _operations(node: ast.AST) -> list[tuple[ast.AST, ast.expr, ast.expr]]:
    """Return operators with their operands."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            return list(zip(ops, [left, *others[:-1]], others, strict=True))
        case ast.BoolOp(op=op, values=values):
            return [(op, left, right) for left, right in pairwise(values)]
        case ast.BinOp(left, op, right) | ast.AugAssign(left, op, right):
            return [] if _is_text(left) or _is_text(right) else [(op, left, right)]
    return []


def _is_text(node: ast.AST) -> bool:
    """Tell whether an operand is surely text, which has no other operator than ``+``."""
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", 0), str | bytes)


def _in_statement(text: _Text, node: ast.AST, has_value: bool) -> _Found:
    match node:
        case ast.Return(value=ast.expr() as value) if has_value:
            if getattr(value, "value", True):  # callers rarely tell None from False, and need not
                yield "return", text.span(value), "None"
        case ast.Break() | ast.Continue():
            yield "jump", text.span(node), "continue" if isinstance(node, ast.Break) else "break"
        case ast.If(test=test) | ast.IfExp(test=test) if not _is_negated(test):
            yield "if", text.span(test), f"not ({text.of(test)})"
    if isinstance(node, ast.If) and [type(child) for child in node.body] == [ast.Raise]:
        yield "guard", text.span(node.body[0]), "pass"


def _is_negated(test: ast.expr) -> bool:
    """Tell whether another operator negates a condition, or it is for the type checker."""
    match test:
        case ast.Compare(ops=[op]):
            return not isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
        case ast.UnaryOp(op=op):
            return isinstance(op, ast.Not)
    return ast.unparse(test).endswith("TYPE_CHECKING")
