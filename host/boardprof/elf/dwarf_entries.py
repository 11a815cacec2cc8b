# SPDX-License-Identifier: Apache-2.0
"""Attributes of DWARF's entries, and types without their typedefs and qualifiers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from elftools.dwarf.die import DIE

_WRAPPERS = {
    "DW_TAG_atomic_type",
    "DW_TAG_const_type",
    "DW_TAG_restrict_type",
    "DW_TAG_typedef",
    "DW_TAG_volatile_type",
}

_DEEPEST = 1000  # typedefs of typedefs; only damaged files have more


@dataclass(frozen=True)
class Resolved:
    """A type without its typedefs and qualifiers.

    Attributes:
        die: the type itself. None for void.
        const: whether it was const, at any depth of typedefs.
        alias: the innermost typedef's name, "" if there was none.
    """

    die: DIE | None
    const: bool = False
    alias: str = ""


def resolved(die: DIE) -> Resolved:
    """Return the type of a parameter, function, pointer, array or member."""
    const, alias = False, ""
    owner = _owner(die, "DW_AT_type")
    for _ in range(_DEEPEST):
        if owner is None:
            return Resolved(None, const, alias)
        found = _referred(owner, "DW_AT_type")
        if found.tag not in _WRAPPERS:
            return Resolved(_complete(found), const, alias)
        const = const or found.tag == "DW_TAG_const_type"
        alias = text(found, "DW_AT_name") if found.tag == "DW_TAG_typedef" else alias
        owner = _owner(found, "DW_AT_type")
    raise ValueError("a type is defined by itself")


def type_chain(die: DIE) -> Iterator[DIE]:
    """Yield the types of an entry: typedefs, qualifiers, arrays, and their element types."""
    owner = _owner(die, "DW_AT_type")
    for _ in range(_DEEPEST):
        if owner is None:
            return
        found = _complete(_referred(owner, "DW_AT_type"))
        yield found
        inside = found.tag in _WRAPPERS or found.tag == "DW_TAG_array_type"
        owner = _owner(found, "DW_AT_type") if inside else None


def has(die: DIE, attribute: str) -> bool:
    """Tell whether an entry, or the declaration that it completes, has an attribute."""
    return _owner(die, attribute) is not None


def text(die: DIE, attribute: str) -> str:
    """Return an attribute that is a string, "" if absent."""
    owner = _owner(die, attribute)
    value = None if owner is None else owner.attributes[attribute].value
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def number(die: DIE, attribute: str) -> int | None:
    """Return an attribute that is a constant, None if absent or computed."""
    owner = _owner(die, attribute)
    if owner is None or "ref" in owner.attributes[attribute].form:
        return None
    value = owner.attributes[attribute].value
    return value if isinstance(value, int) else None


def _complete(die: DIE) -> DIE:
    """Return the type that an entry refers to if it is only the signature of another unit."""
    return _referred(die, "DW_AT_signature") if "DW_AT_signature" in die.attributes else die


def _referred(die: DIE, attribute: str) -> DIE:
    """Return the entry that an attribute refers to.

    pyelftools looks for type units where DWARF 4 has them; since DWARF 5 they are among the others.
    """
    reference = die.attributes[attribute]
    if reference.form == "DW_FORM_ref_sig8" and die.cu["version"] >= 5:
        for unit in die.dwarfinfo.iter_CUs():
            if unit.header.get("type_signature") == reference.value:
                return unit.get_DIE_from_refaddr(unit.cu_offset + unit["type_offset"])
    return die.get_DIE_from_attribute(attribute)


def _owner(die: DIE, attribute: str) -> DIE | None:
    """Return the entry that has an attribute: this one or the declaration that it completes."""
    return next((each for each in _completed(die) if attribute in each.attributes), None)


def _completed(die: DIE) -> Iterator[DIE]:
    yield die
    for _ in range(_DEEPEST):
        if "DW_AT_specification" not in die.attributes:
            return
        die = die.get_DIE_from_attribute("DW_AT_specification")
        yield die
