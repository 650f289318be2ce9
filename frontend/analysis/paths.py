"""Paths from a value to its parts, as GDB reads them behind an expression."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from pgdb.frontend.analysis.values import Group, Item
from pgdb.patterns import pattern

# Neighbouring elements in memory, which `x[3]@5` shows: an array, or a vector but of truth values.
_VECTOR = pattern(r"std::(?:\w+::)*vector of length [^{]*= \Z")
_WRAPPED = pattern(r"(?:[^{]*: )?std::(?:\w+::)*(?P<kind>optional|variant|any)\b[^{]* containing ")
_CONTENT = "[contained value] = "
_KEY = pattern(r"\[(?:\"(?:[^\"\\]|\\.)*\"|-?[\w.:+-]+)\] = \Z")
_CHARACTER = pattern(r"\[(-?\d+) '(?:[^'\\]|\\.)+'\] = \Z")


class Index(msgspec.Struct, frozen=True):
    """An array index in a path."""

    first: int
    """Number of elements before it."""
    count: int
    is_fortran: bool
    lower: int | None = 1
    """Lower bound in Fortran; None if it is unknown."""


Path = tuple[str | Index, ...]


Key = tuple[str, int]
"""Label of an item, and its number among equal or empty labels."""


class Base(msgspec.Struct, frozen=True):
    """A base class, seen from an object of a derived class."""

    name: str
    hidden: frozenset[str]
    """Members that the object has from elsewhere too: only the name of the class selects them."""


def by_label(group: Group) -> dict[Key, Item]:
    """Return the items of a structure by label and number among equal or empty labels."""
    found: dict[Key, Item] = {}
    for item in group.items:
        number = 0
        while (item.label.text, number) in found:
            number += 1
        found[item.label.text, number] = item
    return found


def into_content(group: Group) -> tuple[str, ...]:
    """Return the step from an optional, a variant or an any to the container in it.

    GDB shows the elements of that container as if they were its own.
    """
    found = _WRAPPED.match(group.head.text)
    if found is None or any(each.label.text == _CONTENT for each in group.items):
        return ()
    return ("[0]",) if found["kind"] == "variant" else (".value()",)


def is_row(group: Group) -> bool:
    """Return whether ``[3]@5`` behind an array shows five elements, as they are neighbours."""
    head = group.head.text
    if not group.opening:
        return False  # of Python
    return not head.endswith(" = ") or _VECTOR.search(head) is not None


def positions_of(groups: Sequence[Group]) -> dict[Key, int] | None:
    """Return the positions of elements whose keys are no expressions, or stand there twice.

    Return None if such an element is at different positions on two ranks: no expression names it.
    """
    found: dict[Key, int] = {}
    for group in groups:
        if not group.head.text.endswith(" = "):
            continue
        for position, key in enumerate(by_label(group)):
            label, number = key
            if not label.startswith("[") or label == _CONTENT:
                continue
            if not number and (_KEY.match(label) or _CHARACTER.match(label)):
                continue
            if found.setdefault(key, position) != position:
                return None
    return found


def bases_of(group: Group) -> dict[Key, Base]:
    """Return the base classes among the items of an object."""
    members = {key: _names(item) for key, item in by_label(group).items()}
    found = {}
    for key in members:
        if key[0].startswith("<"):
            others = (names for other, names in members.items() if other != key)
            hidden = frozenset(name for names in others for name in names)
            found[key] = Base(key[0].removesuffix("> = ")[1:].strip(), hidden)
    return found


def _names(item: Item) -> list[str]:
    """Return the names of members that an item has: its own, or those of a base or a union."""
    label = item.label.text
    if isinstance(item.value, Group) and (not label or label.startswith("<")):
        return [name for each in item.value.items for name in _names(each)]
    return [_name(label)]


def _name(label: str) -> str:
    return label.removesuffix(" = ").removeprefix("static ")


def element_step(position: int) -> tuple[str, ...]:
    """Return the step to an element of a container without indices, by its position."""
    return (f"._element({position})",)


def within(base: Base | None, outer: Base | None) -> Base | None:
    """Return a base class inside *outer*; it hides the names that either of them hides."""
    if base is None or outer is None:
        return base
    return replace(base, hidden=base.hidden | outer.hidden)


def step_to(label: str, is_fortran: bool = False, base: Base | None = None) -> tuple[str, ...]:
    """Return the step to a part with a label; none for a base class and an unnamed union.

    *base* is the base class of which the part is a member.
    """
    if label.endswith(": "):
        return (f"[{label[:-2]}]",)
    if label.endswith("="):
        return (f".{label[:-1]}",)
    name = _name(label)
    # GDB reaches members of a base class and of an unnamed union by their own names.
    if not name or name.startswith("<"):
        return ()
    if label == _CONTENT:
        return (".value()",)
    if name.startswith("["):
        character = _CHARACTER.match(label)
        return (f"[{character[1]}]" if character is not None else name,)
    if base is not None and name in base.hidden:
        return (f".{base.name}::{name}",)
    return (f"%{name}" if is_fortran else f".{name}",)


def path_text(path: Path) -> str:
    """Return a path as text."""
    text = ""
    at = 0
    while at < len(path):
        step = path[at]
        at += 1
        if isinstance(step, str):
            text += step
        elif not step.is_fortran:
            text += f"[{step.first}]" + (f"@{step.count}" if step.count > 1 else "")
        else:
            # In Fortran the first index varies fastest: it belongs to the innermost brackets.
            indexes = [_fortran(step)]
            while at < len(path) and isinstance(inner := path[at], Index) and inner.is_fortran:
                indexes.insert(0, _fortran(inner))
                at += 1
            text += f"({','.join(indexes)})"
    return text


def _fortran(step: Index) -> str:
    if step.lower is None:
        more = step.first + step.count - 1
        return f"lbound+{step.first}" + (f":lbound+{more}" if step.count > 1 else "")
    first = step.first + step.lower
    return f"{first}:{first + step.count - 1}" if step.count > 1 else str(first)


# -- paths behind expressions --------------------------------------------------------------------

# GDB 13.1 fails at an assertion of its own at a qualified member behind the "->" of a class.
_QUALIFIED = pattern(r"\.(?:\w+(?:<[^()]*>)?::)+\w")
_OPTIONS = pattern(r"-\w.*? -- ")
_ATOM = pattern(r"\s*(?:(?:py:|::)?[A-Za-z_$][\w$]*|'[^']*'(?=::))")
_MEMBER = pattern(r"(?:\.|->|%|::)~?[A-Za-z_$][\w$]*")
_TEMPLATE = pattern(r"<[\w\s:,<>*&]*>(?=::)")
_GROUP = pattern(r"\((lbound[^()]*|[^()]*,lbound[^()]*)\)")
_BOUND = pattern(r"lbound\+(\d+)")
_CLOSING = {"(": ")", "[": "]"}


def behind(expression: str, path: str) -> str:
    """Return *path* if it can be appended to *expression*, otherwise the expression of the place.

    >>> behind("s.domain", ".x[1]"), behind("*s->domain", ".x[1]"), behind("*p", "[3]")
    ('.x[1]', 's->domain->x[1]', '(*p)[3]')
    """
    if not path or not expression:
        return path or expression
    return path if _is_open(expression) and "lbound" not in path else place_of(expression, path)


def with_bounds(path: str, array: str, lower: Sequence[int]) -> str:
    """Return the path to an element of *array* with the lower bounds of that array.

    >>> with_bounds("%u%v(lbound+2:lbound+4,lbound+0)%x", "%u%v", (-1, 0))
    '%u%v(1:3,0)%x'
    """
    group = _GROUP.match(path, len(array)) if path.startswith(array) else None
    if group is None or group[1].count(",") != len(lower) - 1:
        return path
    indices = [
        _BOUND.sub(lambda found, first=first: str(int(found[1]) + first), index)  # type: ignore[misc]
        for index, first in zip(group[1].split(","), lower, strict=True)
    ]
    return f"{array}({','.join(indices)}){path[group.end() :]}"


def place_of(expression: str, path: str) -> str:
    """Return the expression of the part of *expression* to which *path* leads.

    >>> place_of("a + b", "[1]"), place_of("p[0]@3", "[1].x"), place_of("u%v", "(lbound+2)")
    ('(a + b)[1]', '(p[0]@3)[1].x', 'u%v(lbound(u%v,1)+2)')
    >>> place_of("*s", ".x"), place_of("*s", ".Base::x")
    ('s->x', '(*s).Base::x')
    """
    options = _OPTIONS.match(expression)
    expression = (expression[options.end() :] if options is not None else expression).strip()
    if not path:
        return expression
    if not _is_open(expression):
        inner = expression[1:].lstrip()
        is_member = path.startswith(".") and _QUALIFIED.match(path) is None
        if expression.startswith("*") and is_member and _is_open(inner):
            expression, path = inner, f"->{path[1:]}"
        else:
            expression = f"({expression})"
    while (group := _GROUP.search(path)) is not None:
        array = expression + path[: group.start()]
        indices = [
            re.sub(r"lbound(?=\+)", f"lbound({array},{number})", index)
            for number, index in enumerate(group[1].split(","), 1)
        ]
        # The search goes on behind this array, whose name stands in its own indices.
        expression = f"{array}({','.join(indices)})"
        path = path[group.end() :]
    return expression + path


def _is_open(expression: str) -> bool:
    """Return whether a path behind an expression belongs to all of it, not to its last operand."""
    atom = _ATOM.match(expression)
    at = atom.end() if atom is not None else 0
    while at < len(expression):
        if expression[at] in _CLOSING:
            end = _end_of_group(expression, at)
            # Something behind a first pair of parentheses makes it a cast, unless it is a step.
            if end is None:
                return False
            at = end
            continue
        step = _MEMBER.match(expression, at) if at else None
        if step is None and at:
            step = _TEMPLATE.match(expression, at)
        if step is None:
            return False
        at = step.end()
    return at > 0


def _end_of_group(text: str, at: int) -> int | None:
    """Return the end of the brackets that open at *at*; None if they do not close."""
    waiting: list[str] = []
    quote = ""
    while at < len(text):
        each = text[at]
        at += 1
        if quote:
            if each == "\\":
                at += 1
            elif each == quote:
                quote = ""
        elif each in "\"'":
            quote = each
        elif each in _CLOSING:
            waiting.append(_CLOSING[each])
        elif waiting and each == waiting[-1]:
            waiting.pop()
            if not waiting:
                return at
        elif each in ")]":
            return None
    return None
