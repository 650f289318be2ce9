"""Parts of a value of which GDB has cut the text, and where they are in the tree of the text."""

from __future__ import annotations

import re

from msgspec.structs import replace

from pgdb.frontend.analysis.paths import (
    Base,
    Index,
    Path,
    bases_of,
    by_label,
    element_step,
    into_content,
    path_text,
    positions_of,
    step_to,
    within,
)
from pgdb.frontend.analysis.set_differences import has_no_order
from pgdb.frontend.analysis.values import Group, Leaf, Node, scalar_of
from pgdb.patterns import pattern

_COUNT = pattern(r"\b(?:with|of length) (\d+)(?: elements?)?\b")
_SHORT_STRING = pattern(r"\A(?:[^\"]* )?\"((?:[^\"\\]|\\.)*)\"\.\.\.\Z")
_CHARACTER = pattern(r"\\(?:[0-7]{1,3}|.)|.", re.S)

Trail = tuple[int, ...]
"""Numbers of the items that lead from a tree to a part of it."""


def cut_parts(tree: Node) -> dict[str, Trail]:
    """Return the path to each part of which the text is cut, with its place in the tree.

    The rows of an array are no parts of their own. Elements of containers without an order are
    named by no expression: such a container is one part.

    >>> from pgdb.frontend.analysis.values import parse
    >>> cut_parts(parse('{n = 3, x = {1, 2...}, name = "abc"..., p = {{v = {1...}}}}'))
    {'.x': (1,), '.name': (2,), '.p[0].v': (3, 0, 0)}
    """
    found: dict[str, Trail] = {}

    def visit(node: Node, path: Path, trail: Trail, base: Base | None) -> None:
        if isinstance(node, Leaf):
            if node.text.endswith("..."):  # a string
                found[path_text(path)] = trail
            return
        if _is_cut(node):
            found[path_text(path)] = trail
            return
        if has_no_order(node):
            return
        path = (*path, *into_content(node))
        is_fortran = node.opening.startswith("(")
        if node.is_array:
            at = 0
            for number, item in enumerate(node.items):
                index = Index(at, 1, is_fortran, node.lower)
                visit(item.value, (*path, index), (*trail, number), None)
                at += item.count
            return
        positions = positions_of([node]) or {}
        bases = bases_of(node)
        for number, (key, item) in enumerate(by_label(node).items()):
            element = positions.get(key)
            steps = step_to(key[0], is_fortran, base) if element is None else element_step(element)
            inner = within(bases.get(key), base)
            visit(item.value, (*path, *steps), (*trail, number), inner)

    visit(tree, (), (), None)
    return found


def _is_cut(group: Group) -> bool:
    """Return whether elements of a container, or of a row of an array, are left out."""
    if group.is_cut or _is_cut_behind_a_string(group):
        return True
    rows = [item.value for item in group.items] if group.is_array else []
    return any(
        isinstance(row, Group) and not row.head.text and row.is_array and _is_cut(row)
        for row in rows
    )


def _is_cut_behind_a_string(group: Group) -> bool:
    """Return whether dots behind the last string of a container stand for further elements.

    GDB writes ``{"abc", "abc"...}`` for a cut container and for a cut string. A string is cut at
    the number of elements at which its container is cut: it is not shorter than the container.
    """
    last = group.items[-1].value if group.items else None
    if not isinstance(last, Leaf) or not last.text.endswith("..."):
        return False
    shown = sum(item.count for item in group.items)
    if count := count_of(group):
        return count > shown
    match = _SHORT_STRING.search(last.text) if group.is_array else None
    return match is not None and len(_CHARACTER.findall(match[1])) < shown


def count_of(part: Node) -> int:
    """Return the number of elements that a container says it has, 0 if it says none.

    >>> from pgdb.frontend.analysis.values import parse
    >>> count_of(parse('std::map with 3000 elements = {[0] = 1...}'))
    3000
    """
    match = _COUNT.search(part.head.text) if isinstance(part, Group) else None
    return int(match[1]) if match is not None else 0


def part_at(node: Node, trail: Trail) -> Node:
    """Return the part of a tree at *trail*."""
    for number in trail:
        assert isinstance(node, Group)
        node = node.items[number].value
    return node


def with_part(node: Node, trail: Trail, part: Node) -> Node:
    """Return a tree with *part* in place of the one at *trail*."""
    if not trail:
        if isinstance(node, Group) and isinstance(part, Group) and not part.head.text:
            return replace(part, head=node.head)
        return part
    assert isinstance(node, Group)
    items = list(node.items)
    item = items[trail[0]]
    items[trail[0]] = replace(item, value=with_part(item.value, trail[1:], part))
    return replace(node, items=tuple(items))


def is_of_numbers(part: Node) -> bool:
    """Return whether a part is an array of numbers, which is read from memory.

    >>> from pgdb.frontend.analysis.values import parse
    >>> [is_of_numbers(parse(each)) for each in ("{1.5, 2...}", "{[0] = 1...}", '"ab"...')]
    [True, False, False]
    """
    first = part
    while isinstance(first, Group) and first.items and not first.items[0].label.text:
        first = first.items[0].value
    return isinstance(part, Group) and isinstance(first, Leaf) and scalar_of(first.text) is not None
