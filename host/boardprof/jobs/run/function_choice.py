# SPDX-License-Identifier: Apache-2.0
"""Choose the functions on a board that a plan asks for, and explain why others are missing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from boardprof.base.errors import BuildError, UnknownNameError, UsageError, option
from boardprof.jobs.run.plan import ALL, Plan
from boardprof.measure.board.board import Board
from boardprof.target.arguments.argument_text import read_argument
from boardprof.target.arguments.binding import referred
from boardprof.target.arguments.signature import Signature, in_order, parse_signature
from boardprof.target.build.build_errors import source_hint
from boardprof.target.build.firmware import BuiltFirmware
from boardprof.target.build.sources import find_sources, is_header, language, names_one_of
from boardprof.target.cfunction import (
    CHAR,
    CFunction,
    Pointer,
    Struct,
    signature,
    wrapper_name,
)

Note = Callable[[str], None]
_MOST_LISTED = 8
_REFERENCE = re.compile(r"&(\w+)")
_HOOK = re.compile(rb"\b[A-Za-z]\w*_(?:setup|check)\b")


def check_early(functions: Sequence[CFunction], plan: Plan) -> None:
    """Check the arguments against the function before its firmware is built."""
    for function in functions:
        if function.name == plan.function and function.reason is None:
            check_arguments(function.name, signature(function), plan.arguments)


def with_own_names(
    plan: Plan, functions: Sequence[CFunction], files: Sequence[Path]
) -> tuple[Plan, str]:
    """Return a plan with the names of the function's definition, and a note if it had others.

    ``files``: those that declare the function under other names of its parameters.
    """
    fn = next((each for each in functions if each.name == plan.function), None)
    given = plan.arguments
    own = [] if fn is None or fn.reason is not None else [each.name for each in fn.parameters]
    if not own or parameters_given(own, given) <= {*own}:
        return plan, ""
    from boardprof.target.arguments.declared_names import names_of_definition  # later: few need it

    extras = referred(given.values()) - {*own}
    without = [name for name in given if name not in extras]
    known = names_of_definition(plan.function, own, [*given], files)
    known = known or names_of_definition(plan.function, own, without, files)
    if known is None:
        return plan, ""
    renamed, header = known

    def text_of(text: str) -> str:
        return _REFERENCE.sub(lambda match: f"&{renamed.get(match[1], match[1])}", text)

    def expected(text: str) -> str:
        name, equals, value = text.rpartition("=")
        return f"{renamed.get(name, name)}{equals}{value}"

    values = tuple(f"{renamed.get(n, n)}={text_of(text)}" for n, text in given.items())
    again = replace(plan, values=values, expect=tuple(map(expected, plan.expect)))
    if plan.data.arguments:
        texts = {name: read_argument(name, text) for name, text in again.arguments.items()}
        wanted = [
            each if each.name is None else replace(each, name=renamed.get(each.name, each.name))
            for each in plan.data.expectations
        ]
        again = replace(again, data=replace(plan.data, arguments=texts, expectations=wanted))
    both = ", ".join(f"{name} is {own}" for name, own in renamed.items() if name != own)
    return again, f"{plan.function}: {both}. The first are the names in {header.name}"


def needed_functions(
    functions: Sequence[CFunction], function: str, values: Sequence[str]
) -> tuple[list[str] | None, bool]:
    """Return the functions that a call needs, and whether it needs no others; None: not known."""
    offered = {fn.name: fn for fn in functions if fn.reason is None}
    if function not in offered:
        return None, False
    kinds = [each.type for each in offered[function].parameters if isinstance(each.type, Pointer)]
    given = {value.partition("=")[2] for value in values}
    passed = [name for name in offered if name in given]
    # A static function can be passed, too: it may be in the image because of any other.
    is_all = len(passed) == sum(kind.is_function for kind in kinds)
    return list(dict.fromkeys([function, *passed])), is_all and not any(map(_leads_on, kinds))


def _leads_on(kind: Pointer) -> bool:
    """Tell whether a pointer leads to others that may be those of functions."""
    return isinstance(kind.element, Struct) and any(
        inner.is_function or isinstance(inner.element, Struct) for _, inner in kind.element.pointers
    )


def chosen_functions(
    board: Board, plan: Plan, firmware: BuiltFirmware | None, on_note: Note
) -> list[str]:
    """Return the functions to measure, in the board's order."""
    if plan.function == ALL:
        chosen = _all_callable(board, plan, firmware, on_note)
    else:
        _check_named(board, plan, firmware)
        chosen = [plan.function]
    _note_hooks(chosen, board, plan, firmware, on_note)
    return chosen


def _check_named(board: Board, plan: Plan, firmware: BuiltFirmware | None) -> None:
    """Check that the named function can be called with the given arguments."""
    infos = {f.name: f for f in board.dictionary.user_functions if f.measurable}
    reasons = {f.name: f.reason for f in firmware.functions if f.reason} if firmware else {}
    if firmware is not None and plan.function in firmware.missing:
        from boardprof.target.build.build_options import defining_sources

        symbol = firmware.missing[plan.function]
        known = defining_sources(
            find_sources(plan.files[:1]).files, [symbol], plan.code.compile_commands
        )
        raise BuildError(
            f"{plan.function} needs {symbol}, which is not defined.", hint=source_hint(1, known)
        )
    if reason := reasons.get(plan.function):
        raise UsageError(
            f"{plan.function} cannot be called over the wire: {reason}.",
            hint=wrapper_hint(firmware, plan.function),
        )
    hidden = firmware.hidden if firmware else {}
    if plan.function not in infos:
        if plan.function.startswith("bp_"):
            raise UsageError(
                f"{plan.function} cannot be measured: names that begin with bp_ are those of "
                "boardprof's agent.",
                hint=f"call {plan.function} from a function with another name, and measure that",
            )
        _check_mangled(plan.function, reasons)
        _check_hidden(plan, firmware)
        hint = None if infos or plan.path else "give PATH:FUNCTION to build firmware that has it"
        others = [name for name in (*reasons, *hidden) if not name.startswith("_")]
        if firmware is not None and not infos and not others:
            others, _, hint = _why_nothing(plan, firmware)
            hint = None if plan.path and is_header(plan.path) else hint
        where = _where(board, plan)
        if firmware is not None:
            _check_macros(plan, firmware)
            if plan.path is not None:
                _check_elsewhere(plan, plan.path)
            hint = hint or _header_hint(plan)
        raise UnknownNameError("function", plan.function, [*infos, *others], where=where, hint=hint)
    check_arguments(plan.function, board.functions[plan.function].signature.text, plan.arguments)


def _all_callable(
    board: Board, plan: Plan, firmware: BuiltFirmware | None, on_note: Note
) -> list[str]:
    """Return each function that the arguments fit; note why others are left out."""
    infos = [f.name for f in board.dictionary.user_functions if f.measurable]
    reasons = {f.name: f.reason for f in firmware.functions if f.reason} if firmware else {}
    skipped = dict(reasons)
    chosen, hints = [], []
    for name in infos:
        own = board.functions[name].signature
        needed = [parameter for parameter, _ in own.parameters]
        if parameters_given(needed, plan.arguments) == {*needed}:
            try:  # one that does not take these values must not keep the others from being measured
                board.functions[name].bind(
                    (), plan.data.values(board.functions[name], board.memory.size)
                )
            except UsageError as error:
                skipped[name] = error.message.removeprefix(f"{name}: ").rstrip(".")
                hints += [error.hint] if error.hint else []
            else:
                chosen.append(name)
        else:
            missing = ", ".join(name for name in needed if name not in plan.arguments)
            unknown = ", ".join(name for name in plan.arguments if name not in needed)
            lacks = filter(None, (missing and f"needs {missing}", unknown and f"has no {unknown}"))
            skipped[name] = f"it takes {own.text}; it {' and '.join(lacks)}"
            hints.append(_call_of(name, parse_signature(own.text), plan))
    if not chosen:
        why, hint = "", None
        if firmware is not None and not firmware.functions:
            _, why, hint = _why_nothing(plan, firmware)
        elif skipped:
            why = _skipped_text(skipped)
            if firmware is not None and firmware.missing:
                hints.append(source_hint())
            hints += filter(None, (wrapper_hint(firmware, name) for name in reasons))
            hint = next(iter(hints), None)
        raise UsageError(f"There is nothing to measure {_where(board, plan)}{why}.", hint=hint)
    for name, reason in skipped.items():
        on_note(f"{name} is skipped: {reason}")
    return chosen


def _skipped_text(skipped: Mapping[str, str]) -> str:
    """Return the functions that cannot be measured, each with its reason on a line."""
    lines = [f"{name}: {reason}" for name, reason in skipped.items()]
    more = len(lines) - _MOST_LISTED
    return "\n".join([":", *lines[:_MOST_LISTED], *([f"{more} more"] if more > 0 else [])])


def _call_of(name: str, parsed: Signature, plan: Plan) -> str:
    """Return a target and arguments with which a function can be measured."""
    target = f"{plan.path}:{name}" if plan.path else name
    return " ".join([target, *(f"{each}={example(parsed, each)}" for each, _ in parsed.parameters)])


def _is_counted(signature: Signature, name: str) -> bool:
    """Tell whether an integer comes right after a parameter, as the length of an array does."""
    kinds = [*signature.parameters]
    place = [each for each, _ in kinds].index(name) + 1
    return place < len(kinds) and kinds[place][1].lstrip("iu").isdigit()


def wrapper_hint(firmware: BuiltFirmware | None, function: str) -> str | None:
    """Return a hint with the source of a function that can be called; None if there is none."""
    known = firmware.functions if firmware is not None else ()
    fn = next((each for each in known if each.name == function), None)
    reason = "" if fn is None else fn.reason or ""
    if reason.endswith("has no debug information"):
        return "compile it with -g; call a function in assembler from one in C"
    if "interrupt handler" in reason:
        return f"move the body of {function} into a function of its own, and measure that"
    if "no debug information" in reason:
        hints = (
            [] if "ifunc" in reason else ["--cflags -fno-ipa-icf, if the function equals another"]
        )
        if "ifunc" in reason or "alias" in reason:
            hints.append(f"call {function} from a function of your own, and measure that")
        return "; or ".join(hints)
    if fn is None or not fn.wrapper:
        return None
    return f"add this to {fn.source} and measure {wrapper_name(function)}:\n{fn.wrapper}"


def _check_mangled(function: str, reasons: Mapping[str, str]) -> None:
    """Check that a function is not from C++ or Rust, where names in the object are longer."""
    for symbol, reason in reasons.items():
        # Itanium C++ ABI, 5.1.2: <source-name> is the length and the name; the same in Rust.
        if symbol.startswith(("_Z", "_R")) and f"{len(function)}{function}" in symbol:
            raise UsageError(f"{function} cannot be called over the wire: {reason}.")


def _check_hidden(plan: Plan, firmware: BuiltFirmware | None) -> None:
    """Check that a function is not main and can be called from outside its file."""
    if firmware is None:
        return
    from boardprof.target.build.sources import discarded_functions  # later: only errors need it

    found = discarded_functions(firmware.board, plan.files[:1], plan.code, plan.function)
    name, sources = plan.function, [source for _, source, _ in found.static]
    if sources or name in firmware.hidden:
        kept = name if len(sources) == 1 else f"{sources[0]}:{name}" if sources else None
        sources = sources or [firmware.hidden[name]]
        # In C++, or if it is always inlined or compiled elsewhere, --no-inline cannot help.
        own = f"call {name} in {sources[0]} from a function of your own there"
        raise UsageError(
            f"{name} in {' and in '.join(sources)} is static or inlined, so nothing outside its "
            "file can call it.",
            hint=own if kept is None else f"{option('--no-inline', kept)} compiles it out of line",
        )
    if plan.function == "main" and found.mains:
        raise UsageError(
            f"main in {found.mains[0].name} cannot be measured: the firmware's main replaces it.",
            hint="move its code into a function with another name",
        )


def _check_macros(plan: Plan, firmware: BuiltFirmware) -> None:
    """Check that a function does not depend on a macro, as in a header that is a library."""
    from boardprof.target.build.sources import macros_around  # later: only errors need it

    for file in find_sources(plan.files[:1]).files:
        if not names_one_of(file.read_bytes(), [plan.function]):
            continue
        if macros := macros_around(file, plan.function):
            flags = " ".join(f"{option('-D', macro)}" for macro in macros)
            if own := [macro for macro in macros if macro.startswith("__")]:
                flags = f"a board, or an option in {option('--cflags')}, with which the compiler "
                flags += f"defines {' and '.join(own)} itself"
            raise UsageError(
                f"{plan.function} in {file.name} is compiled only if {' and '.join(macros)} "
                f"{'is' if len(macros) == 1 else 'are'} defined.",
                hint=flags,
            )


def _check_elsewhere(plan: Plan, path: Path) -> None:
    """Check that no other source of the project has the function, as for one of a header."""
    from boardprof.target.build.build_options import defining_sources

    files = find_sources(plan.files[:1]).files
    if found := defining_sources(files, [plan.function], plan.code.compile_commands):
        raise UsageError(
            f"{plan.function} is not defined in {path.name}, but in {found[0].name}.",
            hint=f"{os.path.relpath(found[0])}:{plan.function}",
        )


def _header_hint(plan: Plan) -> str | None:
    """Return what makes a function of C++ callable that a header has only inline."""
    if plan.path is None or language(plan.path) != "c++" or not is_header(plan.path):
        return None
    return f"a .cpp file that includes {plan.path.name} and has a function that calls it"


def _why_nothing(plan: Plan, firmware: BuiltFirmware) -> tuple[list[str], str, str | None]:
    """Explain why sources offer no function: their static ones, the reason if known, a hint."""
    from boardprof.target.build.sources import (
        discarded_functions,
        implementation_macros,
    )  # later: only errors need it

    found = discarded_functions(firmware.board, plan.files[:1], plan.code)
    static = sorted({*firmware.hidden, *(name for name, _, _ in found.static)})
    if static:
        more = f" and {len(static) - _MOST_LISTED} more" if len(static) > _MOST_LISTED else ""
        verb = "is" if len(static) == 1 else "are"
        why = f": {', '.join(static[:_MOST_LISTED])}{more} {verb} static or inlined"
        # Others, such as those of C++, may not be possible to keep.
        if not found.static:
            return static, why, None
        return static, why, f"{option('--no-inline', found.static[0][0])} compiles it out of line"
    if found.mains:
        why = ": the firmware's main replaces main, and no other function can be called"
        return [], why, "move the code of main into a function with another name"
    macros = implementation_macros(plan.path) if plan.path else []
    hint = " ".join(option("-D", macro) for macro in macros) or None
    return [], ": it has its functions only with a macro" if macros else "", hint


def _note_hooks(
    names: Sequence[str], board: Board, plan: Plan, firmware: BuiltFirmware | None, on_note: Note
) -> None:
    """Note functions that have the name of a set-up or a check, but cannot be one."""
    others = {f.name for f in board.dictionary.user_functions}
    mentioned: set[str] = set()
    if firmware is not None:
        others |= {f.name for f in firmware.functions}
        found = (_HOOK.findall(file.read_bytes()) for file in firmware.sources)
        mentioned = {each.decode() for names_of_file in found for each in names_of_file}
        mentioned -= {hook for f in firmware.functions for hook in (f.setup, f.check) if hook}
    roles = (
        ("setup", "void {}(void)", "prepare it"),
        ("check", "int {}(void)", "check its results"),
    )
    for name in names:
        for hook, form, role in roles:
            other = f"{name}_{hook}"
            wanted = form.format(other)
            if other in others:
                why = f"it is not `{wanted}`"
            elif firmware is not None and other in mentioned and _is_static(other, plan, firmware):
                why = f"it is static; to {role}, it must be a global `{wanted}`"
            else:
                continue
            on_note(f"{other} is not run for {name}: {why}")


def _is_static(name: str, plan: Plan, firmware: BuiltFirmware) -> bool:
    """Tell whether a function exists only as a static one, which compilers discard if unused."""
    if name in firmware.hidden:
        return True
    from boardprof.target.build.sources import discarded_functions  # later: it may compile

    return bool(discarded_functions(firmware.board, plan.files[:1], plan.code, name).static)


def _where(board: Board, plan: Plan) -> str:
    return f"in {plan.path}" if plan.path else f"on {board.device.name}"


_LENGTH = 64
"""Length of arrays and value of numbers in examples, so that they fit together."""

_MOST = 100_000
"""A larger number is hardly the length of an array."""


def parameters_given(parameters: Collection[str], arguments: Mapping[str, str]) -> set[str]:
    """Return the names of arguments, without the arrays that pointers in structs lead to."""
    others = referred(arguments.values()) - {*parameters}
    return arguments.keys() - others


def check_arguments(function: str, signature: str, arguments: Mapping[str, str]) -> None:
    """Check that each parameter has an argument; the error shows examples for missing ones."""
    parsed = parse_signature(signature)
    given = parameters_given([name for name, _ in parsed.parameters], arguments)
    missing = [name for name, _ in parsed.parameters if name not in given]
    if missing and given <= {name for name, _ in parsed.parameters}:
        lengths = [text for name, text in arguments.items() if name in given and text.isdecimal()]
        length = int(lengths[0]) if len(lengths) == 1 and 0 < int(lengths[0]) <= _MOST else _LENGTH
        examples = " ".join(f"{name}={example(parsed, name, length)}" for name in missing)
        raise UsageError(
            f"{function} was called without {', '.join(missing)}.",
            hint=f"{function}{signature}; e.g. {examples}",
        )
    in_order(function, parsed, (), dict.fromkeys(given))


def example(signature: Signature, name: str, length: int = _LENGTH) -> str:
    """Return a value for a parameter, in quotes if a shell needs them."""
    pointer = signature.pointers.get(name)
    if pointer is None:
        kind = dict(signature.parameters)[name]
        return {"bool": "true", "f32": "1.5", "f64": "1.5"}.get(kind, f"{length}")
    if pointer.is_function:
        return "FUNCTION"
    if isinstance(pointer.element, Struct):
        return f"'[{length}]:zeros'" if _is_counted(signature, name) else "zeros"
    if pointer.element is CHAR:
        return f"'[{length}]:zeros'"
    return f"'{'uint8' if pointer.element is None else ''}[{length}]:random(7)'"
